"""Claims, the lines they are pinned to, and what is known of both."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

State = Literal["verified", "derived", "read", "stated", "conflict", "not verified"]
Grade = Literal["direct", "contextual"]
PinStatus = Literal["same", "moved", "CHANGED", "not available"]


@dataclass(frozen=True, kw_only=True)
class Range:
    """Lines `first`..`last` (1-based, inclusive) and the sha256 of their text: each line's trailing white space
    stripped, joined by newlines."""

    first: int
    last: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where text stands: a file of a repository at a revision, or a member of a wheel (NAME==VERSION).

    `blob` is the git blob id of the whole file, which names the file in a clone, a wheel and a raw download alike.
    """

    kind: Literal["git", "wheel"]
    source: str
    revision: str
    path: str
    blob: str
    license: str
    wheel_sha256: str | None


@dataclass(frozen=True, kw_only=True)
class Pin:
    """Lines of one place. `same_text` is False where another place makes the same statement in other text."""

    place: Place
    ranges: tuple[Range, ...]
    same_text: bool


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A sentence about nodes of a map, with the pin that it stands on and the other places that say the same.

    `direct`: nodes whose op is computed in the pinned lines; `contextual`: nodes whose standing the lines show.
    `lacks`: results of nodes (`node:port`) that this code never has as a value. `expressions`: by node id, the
    reference's own line, shortened with an ellipsis. Ids that start with `block` stand for blocks of every kind, in a
    model that has several kinds. A `caveat` says nothing of a map:
    it tells how far the file is to be trusted, and `conflict` is what speaks against it.
    """

    id: str
    reference: str
    statement: str
    pin: Pin
    also: tuple[Pin, ...]
    direct: tuple[str, ...]
    contextual: tuple[str, ...]
    expressions: Mapping[str, str]
    conflict: str | None
    caveat: bool = False
    lacks: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PinReport:
    """What was found where a pin points. `via`: cache, mirror, wheel or download; `found` the lines where each range
    stands now (moved) and `text` its lines, both empty when not available."""

    claim: str
    pin: Pin
    status: PinStatus
    via: str | None
    found: tuple[tuple[int, int], ...]
    text: tuple[str, ...]
    detail: str


@dataclass(frozen=True, kw_only=True)
class CodePin:
    """The code of a node: every pinned line range of one file. `envelope` spans them; `omitted` are the gaps inside."""

    repo: str
    revision: str
    path: str
    lines: tuple[tuple[int, int], ...]
    envelope: tuple[int, int]
    omitted: tuple[tuple[int, int], ...]
    state: State
    url: str


@dataclass(frozen=True, kw_only=True)
class NodeClaim:
    """A claim as one node shows it: its grade there, its state, and a pin report for each place."""

    id: str
    statement: str
    grade: Grade
    state: State
    pin: PinReport
    also: tuple[PinReport, ...]
    conflict: str | None
