"""Lines of a file, the hash of a range of them, and where a pinned range stands in a given file."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from openmodelatlas.records.evidence import Pin, PinStatus, Range


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a file says to a pin: where its ranges stand there, and their text (one string a range)."""

    status: PinStatus
    found: tuple[tuple[int, int], ...]
    text: tuple[str, ...]


def lines_of(data: bytes) -> list[str]:
    """Lines as git counts them (only a line feed ends one), without trailing white space."""
    return [line.rstrip() for line in data.decode("utf-8", errors="replace").split("\n")]


def excerpt_hash(lines: Sequence[str]) -> str:
    """The sha256 by which a range is pinned."""
    return hashlib.sha256("\n".join(line.rstrip() for line in lines).encode()).hexdigest()


def read(pin: Pin, data: bytes) -> Reading:
    """Hold a pin against a file: every range at its lines, every range somewhere, or not all of them."""
    lines = lines_of(data)
    found = [locate(part, lines) for part in pin.ranges]
    ends = tuple(place for place in found if place is not None)
    if len(ends) < len(found):
        return Reading(status="CHANGED", found=(), text=())
    text = tuple("\n".join(lines[first - 1 : last]) for first, last in ends)
    pinned = tuple((part.first, part.last) for part in pin.ranges)
    return Reading(status="same" if ends == pinned else "moved", found=ends, text=text)


def locate(part: Range, lines: Sequence[str]) -> tuple[int, int] | None:
    """Where a range's text stands; of several places the one nearest to the pinned lines."""
    length = part.last - part.first + 1
    starts = sorted(range(1, len(lines) - length + 2), key=lambda start: abs(start - part.first))
    for start in starts:
        if excerpt_hash(lines[start - 1 : start - 1 + length]) == part.sha256:
            return start, start + length - 1
    return None
