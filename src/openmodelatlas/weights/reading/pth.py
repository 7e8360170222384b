"""Files of `torch.save`: a zip archive with a pickle that describes tensors, and one record of bytes for each storage.

The pickle is read by `tensor_pickle`, which runs nothing; what it claims of sizes is held against the records."""

import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from openmodelatlas.records.findings import finding, refusal
from openmodelatlas.records.report import Finding, StoredTensor
from openmodelatlas.records.shown import shown
from openmodelatlas.weights.reading import causes
from openmodelatlas.weights.reading.safetensors import BITS
from openmodelatlas.weights.reading.source import Source
from openmodelatlas.weights.reading.tensor_pickle import TensorRecord, read_pickle
from openmodelatlas.weights.reading.zip_records import Record, read_records

if TYPE_CHECKING:
    from torch import Tensor

LARGEST_PICKLE = 64 << 20
AT_ONCE = 4 << 20
OLD_PICKLE = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."
"""How the files begin that PyTorch wrote before 1.6."""
SMALL = {"data.pkl", "version", "byteorder", ".format_version", ".storage_alignment", ".data/serialization_id"}


@dataclass(frozen=True, kw_only=True)
class PthHeader:
    """`tensors` in the order of the pickle; `strides` of those that are not stored row after row; `storages`: the
    records that they stand in."""

    source: Source
    tensors: tuple[StoredTensor, ...]
    strides: Mapping[str, tuple[int, ...]]
    storages: tuple[Record, ...]
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()

    def read(self, tensor: StoredTensor, start: int = 0, end: int | None = None) -> "Tensor":
        """A tensor, or some rows of it, in memory of its own."""
        from openmodelatlas.weights.reading import plain

        if tensor.name not in self.strides:
            return plain.read(self.source, tensor, start, end)
        return plain.read_strided(self.source, tensor, self.strides[tensor.name], start, end)

    def damaged(self) -> list[Finding]:
        """The records that their checksums speak against."""
        return [flaw for record in self.storages for flaw in _checksum(record, self.source)]


def _checksum(record: Record, source: Source) -> list[Finding]:
    found, at, end = 0, record.start, record.start + record.size
    if not record.crc:  # torch can be told to leave checksums out
        return []
    while at < end:
        piece = source.read(at, min(AT_ONCE, end - at))
        found, at = zlib.crc32(piece, found), at + len(piece)
    if found == record.crc:
        return []
    where = f"{source.where}: record {shown(record.name)}"
    return [finding("files.checksum", where, expected=f"{record.crc:08x}", found=f"{found:08x}")]


def read_header(source: Source) -> PthHeader:
    """The tensors of a file that `torch.save` wrote. NotACheckpoint names what is wrong, or what it is instead."""
    head = source.read(0, causes.HEAD)
    if head.startswith(OLD_PICKLE):
        raise refusal("files.old-pickle", source.where)
    if causes.format_of(head, source.size) != causes.ZIP:
        causes.refuse(source, "a zip archive of torch.save")
    records = read_records(source)
    root = _root(records, source)
    raw = _small(f"{root}data.pkl", records, source)
    if f"{root}byteorder" in records and _small(f"{root}byteorder", records, source) != b"little":
        raise refusal("files.big-endian", source.where)
    content = read_pickle(raw, f"{source.where}: data.pkl")
    tensors, strides, used = _tensors(content, records, root, source)
    idle = sorted(set(records) - used - {root + name for name in SMALL})
    findings = []
    if idle:
        where = f"{source.where}: record {shown(idle[0])}"
        findings.append(finding("files.idle-record", where, found=f"{len(idle)} of {len(records)} records"))
    notes = [f"{len(strides)} tensors are not stored row after row, such as {shown(name)}" for name in [*strides][:1]]
    return PthHeader(
        source=source,
        tensors=tensors,
        strides=strides,
        storages=tuple(records[name] for name in sorted(used)),
        findings=tuple(findings),
        notes=tuple(notes),
    )


def _root(records: Mapping[str, Record], source: Source) -> str:
    """The folder in the archive that everything stands in."""
    roots = [name.removesuffix("data.pkl") for name in records if name.count("/") == 1 and name.endswith("/data.pkl")]
    if len(roots) != 1:
        found = f"{len(roots)} of them" if roots else ", ".join(map(shown, sorted(records)[:3])) or "nothing"
        raise refusal("files.not-torch", source.where, expected="one record data.pkl", found=found)
    if any(name.startswith(f"{roots[0]}code/") for name in records):
        raise refusal("files.script-archive", source.where)
    if stray := next((name for name in records if not name.startswith(roots[0])), None):
        raise refusal("files.not-torch", source.where, expected=f"records in {shown(roots[0])}", found=shown(stray))
    return roots[0]


def _small(name: str, records: Mapping[str, Record], source: Source) -> bytes:
    record, where = records[name], f"{source.where}: record {shown(name)}"
    if record.size > LARGEST_PICKLE:
        raise refusal(
            "files.absurd-size", where, expected=f"at most {LARGEST_PICKLE:,} bytes", found=f"{record.size:,}"
        )
    raw = source.read(record.start, record.size)
    if record.crc and zlib.crc32(raw) != record.crc:  # torch can be told to leave checksums out
        raise refusal("files.checksum", where, expected=f"{record.crc:08x}", found=f"{zlib.crc32(raw):08x}")
    return raw


def _tensors(
    content: Any, records: Mapping[str, Record], root: str, source: Source
) -> tuple[tuple[StoredTensor, ...], dict[str, tuple[int, ...]], set[str]]:
    """Every entry as a tensor, the strides that are not plain, and the records that are used."""
    if type(content) is not dict:
        raise refusal(
            "files.not-tensors", source.where, expected="tensors by name", found=f"a {type(content).__name__}"
        )
    tensors, strides, used = [], {}, set()
    for name, entry in content.items():
        if not isinstance(entry, TensorRecord):
            found = f"a {type(entry).__name__}"
            raise refusal("files.not-tensors", f"{source.where}: {shown(name)}", expected="a tensor", found=found)
        record = f"{root}data/{entry.key}"
        tensors.append(_stored(name, entry, records.get(record), source))
        used.add(record)
        if not _row_after_row(entry):
            strides[name] = entry.strides
    return tuple(tensors), strides, used


def _stored(name: str, entry: TensorRecord, record: Record | None, source: Source) -> StoredTensor:
    where = f"{source.where}: tensor {shown(name)}"
    if record is None:
        raise refusal("files.storage", where, expected=f"a record {shown(f'data/{entry.key}')}", found="none")
    each = BITS[entry.type] // 8
    stored = entry.elements * (1 if entry.untyped else each)
    if record.size != stored:
        raise refusal("files.storage", where, expected=f"{stored:,} bytes in its record", found=f"{record.size:,}")
    elements = math.prod(entry.shape)
    reach = 1 + sum((size - 1) * stride for size, stride in zip(entry.shape, entry.strides, strict=True))
    if elements and (entry.offset + reach) * each > stored:
        expected = f"numbers {entry.offset:,} to {entry.offset + reach - 1:,} in its record"
        raise refusal("files.storage", where, expected=expected, found=f"{stored // each:,} numbers")
    if elements > reach:  # rows that are the same bytes: so a few bytes could claim any size
        raise refusal("files.storage", where, expected="a place for every number", found=f"strides {entry.strides}")
    return StoredTensor(
        name=name,
        shape=entry.shape,
        type=entry.type,
        bytes=elements * each,
        offset=record.start + entry.offset * each,
        shard=source.name,
    )


def _row_after_row(entry: TensorRecord) -> bool:
    step = 1
    for size, stride in zip(reversed(entry.shape), reversed(entry.strides), strict=True):
        if size != 1 and stride != step:
            return math.prod(entry.shape) == 0
        step *= size
    return True
