"""What differs between two maps."""

from dataclasses import dataclass
from typing import Literal

DiffStatus = Literal["equal", "same structure, other sizes", "changed", "only here"]


@dataclass(frozen=True, kw_only=True)
class Change:
    """One property with its value on either side; an absent value is an empty string."""

    what: str
    left: str
    right: str


@dataclass(frozen=True, kw_only=True)
class NodeDiff:
    """One node id. `side` names the model that has it when only one does, else is empty; `changes` are of what it
    computes, `sizes` of numbers that are sizes only."""

    id: str
    region: str
    title: str
    status: DiffStatus
    side: str
    changes: tuple[Change, ...]
    sizes: tuple[Change, ...]


@dataclass(frozen=True, kw_only=True)
class GraphDiff:
    """Two maps aligned by node id, and their configurations by key. `regions` give the number of blocks of each kind,
    or of all kinds in one entry without a name, where the two maps have kinds of other names."""

    left: str
    right: str
    status: DiffStatus
    config: tuple[Change, ...]
    regions: tuple[Change, ...]
    nodes: tuple[NodeDiff, ...]
