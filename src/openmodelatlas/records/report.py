"""What a check says: checks, findings, the ledger of a checkpoint, recorded values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Check:
    """One thing that was held against another. `failed` comes with at least one finding that is not waived; `not run`
    says why in `detail`. `notes` are what a reader should know though it is no fault."""

    name: str
    state: Literal["ok", "failed", "not run"]
    detail: str
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether it was run and holds."""
        return self.state == "ok"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that is not as it must be. `code` (`files.truncated`), `title` and `fix` are those of its kind in
    `records/findings`, from which `findings.finding` makes it; the part of the code before the dot is its check."""

    code: str
    title: str
    where: str
    expected: str
    found: str
    fix: str

    @property
    def check(self) -> str:
        """The name of the check that found it."""
        return self.code.partition(".")[0]


@dataclass(frozen=True, kw_only=True)
class Waived:
    """A finding that somebody accepts, for a `reason`, until `expires` (ISO date)."""

    finding: Finding
    reason: str
    expires: str


@dataclass(frozen=True, kw_only=True)
class Report:
    """The outcome of `oma verify`. `ok` holds only if no check failed; one that was not run is not a failure.

    `model`: the catalogue model that it is, None if it is none; `nearest` the one that it was held against. `counts`
    by their names: parameters `total`, `without embeddings`, `active per token`, `stored` elements, and so on."""

    target: str
    ok: bool
    model: str | None
    nearest: str | None
    format: str
    counts: Mapping[str, int]
    checks: tuple[Check, ...]
    findings: tuple[Finding, ...]
    waived: tuple[Waived, ...]


@dataclass(frozen=True, kw_only=True)
class StoredTensor:
    """One tensor as a checkpoint stores it. `shape` is row-major (rows first), whatever the file's own order;
    `type` is the file's own name of the storage type (`F32`, `Q4_1`, `BF16`); `bytes` its length in the file.

    A tensor that is put together from several stored ones (packed words with their scales, the shares of a split) has
    the shape of the whole, the sum of their bytes, and their names in `parts`."""

    name: str
    shape: tuple[int, ...]
    type: str
    bytes: int
    offset: int
    shard: str
    parts: tuple[str, ...] = ()


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
