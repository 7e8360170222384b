"""What a verification run leaves behind: one record a model and check, small enough to commit."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Tier = Literal["tiny random weights", "full-size on the meta device", "header match", "real weights"]
"""What a run ran on; the four are never shown alike."""

Outcome = Literal["passed", "failed", "not applicable"]


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One measured distance or count. `where`: a node id or stage; `what`: what was measured, with its unit;
    `bound` is the largest value that passes, None where the value is shown only."""

    where: str
    what: str
    value: float
    bound: float | None


@dataclass(frozen=True, kw_only=True)
class Yardstick:
    """A reference that ran beside ours: name, version or revision, hash of what was run, and every shim it needed."""

    name: str
    version: str
    sha256: str
    shims: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Proof:
    """A verification run as one node shows it: what was measured at the node, and where the reference computes it.

    `stale`: the definition or the catalogue's entry has changed since. `located` are lines of `references[0]`.
    """

    check: str
    title: str
    tier: Tier
    outcome: Outcome
    stale: bool
    references: tuple[str, ...]
    measured: tuple[Measurement, ...]
    located: tuple[int, ...]
    date: str


@dataclass(frozen=True, kw_only=True)
class VerificationRecord:
    """The outcome of one check of one model.

    `definition` is the hash of the family's and its parts' syntax trees without docstrings, `entry` that of the
    catalogue's entry: when either changes the record is stale. `nodes` are the node ids that the check proves, `claims`
    the claim ids; `located` the reference lines that were found by running, by node id.
    """

    model: str
    check: str
    title: str
    tier: Tier
    outcome: Outcome
    definition: str
    entry: str
    references: tuple[Yardstick, ...]
    dtype: str
    positions: int
    nodes: tuple[str, ...]
    claims: tuple[str, ...]
    located: Mapping[str, tuple[int, ...]]
    measurements: tuple[Measurement, ...]
    mutants: Mapping[str, int]
    detail: str
    date: str
    environment: Mapping[str, str]
