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
    """One node id. `side` names the model that has it when only one does, else is empty."""

    id: str
    region: str
    title: str
    status: DiffStatus
    side: str
    changes: tuple[Change, ...]


@dataclass(frozen=True, kw_only=True)
class GraphDiff:
    """Two maps aligned by node id, and their configurations by key."""

    left: str
    right: str
    status: DiffStatus
    config: tuple[Change, ...]
    regions: tuple[Change, ...]
    nodes: tuple[NodeDiff, ...]
