"""How a command that writes is ended from outside."""

import signal
from contextlib import suppress
from types import FrameType


def end_like_interrupt() -> None:
    """Let a polite kill clean up as Ctrl-C does."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    with suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGTERM, stop)
