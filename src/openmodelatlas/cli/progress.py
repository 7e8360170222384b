"""Progress on stderr: a bar on a terminal, a few lines elsewhere."""

import sys
import time

BAR = 30
LINE_SECONDS = 10.0
MIB = 2**20


class Show:
    """A `progress(what, done, total)` callback. `close` ends the line of a bar."""

    def __init__(self) -> None:
        self.tty = sys.stderr.isatty()
        self.what, self.last, self.open = "", 0.0, False

    def __call__(self, what: str, done: int, total: int) -> None:
        if self.tty:
            self._bar(what, done, total)
        else:
            self._line(what, done, total)

    def _bar(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if what == self.what and now - self.last < 0.1 and done < total:
            return
        if self.open and what != self.what:
            self.close()
        self.what, self.last, self.open = what, now, True
        amount = f"{done / MIB:.1f} MiB" if not total else f"{done / MIB:.1f} of {total / MIB:.1f} MiB"
        filled = round(BAR * min(1.0, done / total)) if total else 0
        bar = f"[{'#' * filled}{' ' * (BAR - filled)}] " if total else ""
        print(f"\r{what} {bar}{amount}\033[K", end="", file=sys.stderr, flush=True)

    def _line(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if what != self.what:
            size = f" ({total / MIB:.1f} MiB)" if total else ""
            print(f"{what}{size}", file=sys.stderr, flush=True)
        elif now - self.last < LINE_SECONDS:
            return
        else:
            of = f" of {total / MIB:.1f}" if total else ""
            print(f"{what}: {done / MIB:.1f}{of} MiB", file=sys.stderr, flush=True)
        self.what, self.last = what, now

    def close(self) -> None:
        """End the bar, if one is open."""
        if self.open:
            print(file=sys.stderr)
            self.open = False
