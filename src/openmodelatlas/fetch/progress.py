"""Progress of a long step, as data: what is being done, how far, of how much."""

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Called as `progress(what, done, total)` in bytes; `total` 0 when unknown. Called often: the callee thins it out."""


def silent(what: str, done: int, total: int) -> None:
    """Show nothing."""
