"""What a check says: checks, findings, the ledger of a checkpoint, recorded values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Check:
    """One thing that was held against another. `ok` False comes with at least one finding."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that is not as it must be."""

    check: str
    where: str
    expected: str
    found: str


@dataclass(frozen=True, kw_only=True)
class Report:
    """The outcome of `oma verify`. `ok` holds only if every check does."""

    target: str
    ok: bool
    model: str | None
    format: str
    checks: tuple[Check, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, kw_only=True)
class StoredTensor:
    """One tensor as a checkpoint stores it. `shape` is row-major (rows first), whatever the file's own order;
    `type` is the file's own name of the storage type (`F32`, `Q4_1`, `BF16`); `bytes` its length in the file."""

    name: str
    shape: tuple[int, ...]
    type: str
    bytes: int
    offset: int
    shard: str


@dataclass(frozen=True, kw_only=True)
class Header:
    """What a checkpoint says of itself, before any tensor is read. `metadata` keeps long arrays as their length only
    where the reader left them in the file."""

    format: str
    path: str
    file_bytes: int
    metadata: Mapping[str, object]
    tensors: tuple[StoredTensor, ...]


@dataclass(frozen=True, kw_only=True)
class TensorRow:
    """One line of the ledger. `parameter`: the definition's name; `owners`: every module path that uses it; `steps`:
    the named layout conversions between file and definition. `status` is `matched`, `missing` (no stored tensor),
    `surplus` (no owner) or `shape` (both exist, sizes differ)."""

    parameter: str | None
    owners: tuple[str, ...]
    stored: StoredTensor | None
    shape: tuple[int, ...] | None
    steps: tuple[str, ...]
    status: Literal["matched", "missing", "surplus", "shape"]


@dataclass(frozen=True, kw_only=True)
class MetadataRow:
    """One metadata key: `read` (into what), `must equal`, `ignored` (why), or `unaccounted`."""

    key: str
    value: str
    column: Literal["read", "must equal", "ignored", "unaccounted"]
    reason: str
    ok: bool


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """A checkpoint accounted for, both ways."""

    model: str
    rows: tuple[TensorRow, ...]
    metadata: tuple[MetadataRow, ...]
    parameters: int
    stored_bytes: int


@dataclass(frozen=True, kw_only=True)
class ValueSummary:
    """A recorded value at one block index: mean, spread (standard deviation), norm (root of the sum of squares)."""

    tensor: str
    index: int | None
    shape: tuple[int, ...]
    dtype: str
    mean: float
    spread: float
    norm: float
    minimum: float
    maximum: float


@dataclass(frozen=True, kw_only=True)
class CheckpointRecord:
    """All that the site needs of one verified checkpoint."""

    name: str
    title: str
    source: str
    sha256: str
    model: str
    header: Header
    ledger: Ledger
    report: Report
    prompt: str
    completion: str
    dtype: str
    values: tuple[ValueSummary, ...]


@dataclass(frozen=True, kw_only=True)
class OwnRecord:
    """A user's own checkpoint all of whose checks held: which file, by its name alone, and what the checks said.

    `definition` is the hash of the definition that it was held against; where that has changed the record is stale."""

    model: str
    file: str
    bytes: int
    sha256: str
    definition: str
    report: Report
    date: str
    environment: Mapping[str, str]
