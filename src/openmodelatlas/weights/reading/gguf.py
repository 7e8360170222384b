"""GGUF files, versions 2 and 3: the header and the place of every tensor, read without trusting one number in it.

Every count, length and offset is held against the bytes that are really there before it is used, so a damaged or
hostile file ends in `NotACheckpoint` and never in a huge allocation, an endless loop or a read outside the file.
"""

import dataclasses
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from openmodelatlas.errors import NotACheckpoint
from openmodelatlas.records.findings import finding, refusal
from openmodelatlas.records.report import Header, StoredTensor
from openmodelatlas.records.shown import shown
from openmodelatlas.weights.opened import Opened
from openmodelatlas.weights.reading import causes
from openmodelatlas.weights.reading.ggml import TYPES
from openmodelatlas.weights.reading.source import LocalFile, Source

if TYPE_CHECKING:  # headers are read without torch
    from torch import Tensor

MAGIC = b"GGUF"
VERSIONS = (2, 3)
DEFAULT_ALIGNMENT = 32
SHORT_ARRAY = 64  # arrays up to this length are decoded at once; longer ones stay in the file until asked for
LONGEST_NAME = 65535  # the format's own limit for keys
LONGEST_TEXT = 1 << 24  # far more than any template; a sparse file costs its writer nothing
MOST_ELEMENTS = 1 << 24
FIRST = 1 << 20  # bytes that are read at first; headers with a vocabulary are a few times as long
LARGEST_HEADER = 1 << 28
MOST_DIMENSIONS = 4
LARGEST_ALIGNMENT = 1 << 20

_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")
_BOOL, _STRING, _ARRAY = 7, 8, 9
_SCALARS: dict[int, struct.Struct] = {
    0: struct.Struct("<B"),
    1: struct.Struct("<b"),
    2: struct.Struct("<H"),
    3: struct.Struct("<h"),
    4: _U32,
    5: struct.Struct("<i"),
    6: struct.Struct("<f"),
    _BOOL: struct.Struct("<B"),
    10: _U64,
    11: struct.Struct("<q"),
    12: struct.Struct("<d"),
}
_TYPE_NAMES = (
    "uint8",
    "int8",
    "uint16",
    "int16",
    "uint32",
    "int32",
    "float32",
    "bool",
    "string",
    "array",
    "uint64",
    "int64",
    "float64",
)
_SMALLEST_PAIR = 8 + 4 + 1  # an empty key, a type, one byte
_SMALLEST_TENSOR = 8 + 4 + 8 + 4 + 8  # an empty name, one dimension, a type, an offset


class LazyArray(NamedTuple):
    """A metadata array that is still in the file."""

    kind: int
    length: int
    start: int


class GGUFFile(Opened):
    """An open GGUF file: its header is kept, tensors are read from the file."""

    scheme = "gguf"

    def __init__(
        self, source: Source, start: bytes, header: Header, arrays: Mapping[str, LazyArray], used: int
    ) -> None:
        self.path, self.header = Path(source.where), header
        self.accounted_bytes = used
        if used != header.file_bytes:
            expected, there = f"{used:,} bytes", f"{header.file_bytes:,} bytes"
            self.findings = (finding("files.surplus-bytes", header.path, expected=expected, found=there),)
        self._source, self._start, self._arrays = source, start, arrays
        self._tensors = {t.name: t for t in header.tensors}

    def tensor_bytes(self, name: str, start: int = 0, end: int | None = None) -> memoryview:
        """The stored bytes of a tensor, or of its rows from `start` to `end`. KeyError if there is no such tensor."""
        tensor = self._tensors[name]
        each = tensor.bytes // tensor.shape[0]  # blocks of a storage type never run over the end of a row
        end = tensor.shape[0] if end is None else min(end, tensor.shape[0])
        found = memoryview(bytearray(max(0, end - start) * each))
        if found:
            self._source.read_into(tensor.offset + start * each, found)
        return found

    def values(self, name: str, start: int = 0, end: int | None = None) -> "Tensor":
        """Dequantised, where it is not stored as plain numbers."""
        from openmodelatlas.weights.reading.dequantise import dequantise

        tensor = self._tensors[name]
        found = self.tensor_bytes(name, start, end)
        rows = len(found) // (tensor.bytes // tensor.shape[0])
        part = dataclasses.replace(tensor, shape=(rows, *tensor.shape[1:]), bytes=len(found))
        return dequantise(found, part)

    def value(self, key: str) -> Any:
        """A metadata value, arrays decoded in full; KeyError if there is no such key."""
        if key not in self._arrays:
            return self.header.metadata[key]
        lazy = self._arrays[key]
        return _Cursor(self._start, self._source, lazy.start).elements(lazy.kind, lazy.length, key)

    def section(self, prefix: str) -> dict[str, Any]:
        """Every metadata pair whose key starts with `prefix`, arrays decoded in full."""
        return {key: self.value(key) for key in self.header.metadata if key.startswith(prefix)}

    def close(self) -> None:
        """Nothing is held open between reads."""


def open_gguf(path: str | os.PathLike[str]) -> GGUFFile:
    """Open a GGUF file and read its header. NotACheckpoint says what is wrong with a file that is not one."""
    return read_gguf(LocalFile(Path(path)))


def read_gguf(source: Source) -> GGUFFile:
    """The same of a file anywhere. As much of its start is read as the header takes, which is not said beforehand."""
    if source.read(0, len(MAGIC)) != MAGIC:
        causes.refuse(source, causes.GGUF)
    count = FIRST
    while True:
        try:
            return _parse(source, source.read(0, count))
        except MoreNeeded:
            if count >= LARGEST_HEADER:
                expected, found = f"at most {LARGEST_HEADER:,} bytes", f"more than {count:,}"
                raise refusal("files.header-too-large", source.where, expected=expected, found=found) from None
            count *= 4


class MoreNeeded(Exception):
    """The header goes on beyond the bytes that were read."""


class _Cursor:
    """A position in a file's start `data` that cannot pass its end. `total`: the size of the whole file."""

    def __init__(self, data: bytes, source: Source, at: int = 0) -> None:
        self.data, self.source, self.at, self.size, self.total = data, source, at, len(data), source.size

    def fail(self, kind: str, what: str, **facts: Any) -> NotACheckpoint:
        return refusal(f"files.{kind}", f"{self.source.where}: {what}", **facts)

    def short(self, what: str, **facts: Any) -> Exception:
        """Bytes that are needed and not there; `MoreNeeded` if the file goes on."""
        return MoreNeeded() if self.size < self.total else self.fail("truncated", what, **facts)

    def need(self, count: int, what: str) -> int:
        """Where the next `count` bytes start; moves past them."""
        start = self.at
        if count > self.size - start:
            raise self.short(f"{what} at byte {start}", expected=f"{start + count} bytes", found=f"{self.size}")
        self.at = start + count
        return start

    def number(self, form: struct.Struct, what: str) -> Any:
        return form.unpack_from(self.data, self.need(form.size, what))[0]

    def text(self, what: str, longest: int | None = None) -> str:
        length = self.number(_U64, f"the length of {what}")
        if longest is not None and length > longest:
            raise self.fail("absurd-size", f"the length of {what}", expected=f"at most {longest} bytes", found=length)
        start = self.need(length, what)
        if length > LONGEST_TEXT:
            raise self.fail("absurd-size", f"the length of {what}", expected=f"at most {LONGEST_TEXT}", found=length)
        try:
            return self.data[start : self.at].decode()
        except UnicodeDecodeError:
            raise self.fail("text-encoding", f"{what} at byte {start}", expected="UTF-8") from None

    def value(self, kind: int, key: str) -> Any:
        what = f"the value of {shown(key)}"
        if kind == _STRING:
            return self.text(what)
        if kind == _ARRAY:
            return self.array(key)
        if kind not in _SCALARS:
            raise self.fail("unknown-type", what, expected="0 to 12", found=kind)
        number = self.number(_SCALARS[kind], what)
        if kind != _BOOL:
            return number
        if number > 1:
            raise self.fail("header-entry", what, expected="a bool, 0 or 1", found=number)
        return bool(number)

    def array(self, key: str) -> Any:
        """A short array as a list; a long one as a LazyArray, its bytes walked over and its lengths checked."""
        what = f"the array {shown(key)}"
        kind, length = self.number(_U32, f"the type of {what}"), self.number(_U64, f"the length of {what}")
        if kind == _ARRAY:
            raise self.fail("header-entry", what, expected="plain elements", found="nested arrays, which are not read")
        if kind != _STRING and kind not in _SCALARS:
            raise self.fail("unknown-type", f"elements of {what}", expected="0 to 12", found=kind)
        smallest = 8 if kind == _STRING else _SCALARS[kind].size
        if length > (self.total - self.at) // smallest:
            raise self.fail(
                "truncated",
                f"{what} claims {length} elements",
                expected=f"at least {length * smallest} bytes",
                found=f"{self.total - self.at} left",
            )
        if length > MOST_ELEMENTS:
            raise self.fail("absurd-size", what, expected=f"at most {MOST_ELEMENTS} elements", found=length)
        start = self.at
        if length <= SHORT_ARRAY:
            return self.elements(kind, length, key)
        if kind == _STRING:
            self.skip_strings(length, what)
        else:
            self.need(length * smallest, what)
        return LazyArray(kind, length, start)

    def skip_strings(self, count: int, what: str) -> None:
        # Bare local names: this loop runs once per vocabulary entry and per merge.
        data, at, last, unpack = self.data, self.at, self.size - 8, _U64.unpack_from
        for _ in range(count):
            if at > last:
                break
            at += 8 + unpack(data, at)[0]
        else:
            if at <= self.size:
                self.at = at
                return
        raise self.short(
            f"the strings of {what} run past the end",
            expected=f"{count} strings",
            found=f"{self.size} bytes in the file",
        )

    def elements(self, kind: int, length: int, key: str) -> list[Any]:
        what = f"the array {shown(key)}"
        if kind == _STRING:
            return [self.text(f"an element of {what}") for _ in range(length)]
        form = _SCALARS[kind]
        start = self.need(length * form.size, what)
        values: list[Any] = list(struct.unpack_from(f"<{length}{form.format[-1]}", self.data, start))
        if kind == _BOOL and any(v > 1 for v in values):
            raise self.fail("header-entry", what, expected="bools, 0 or 1", found=max(values))
        return [bool(v) for v in values] if kind == _BOOL else values


def _parse(source: Source, start: bytes) -> GGUFFile:
    """A file by its first bytes; `MoreNeeded` if these are too few for the header."""
    cursor = _Cursor(start, source)
    version = _version(cursor)
    tensor_count = cursor.number(_U64, "the tensor count")
    pair_count = cursor.number(_U64, "the metadata count")
    for count, smallest, what in (
        (pair_count, _SMALLEST_PAIR, "metadata pairs"),
        (tensor_count, _SMALLEST_TENSOR, "tensors"),
    ):
        if count > (cursor.total - cursor.at) // smallest:
            raise cursor.fail(
                "truncated",
                f"the header claims {count} {what}",
                expected=f"at least {count * smallest} bytes",
                found=f"{cursor.total - cursor.at} left",
            )
    metadata, arrays = _metadata(cursor, pair_count)
    tensors, used = _tensors(cursor, tensor_count, _alignment(cursor, metadata))
    form = f"GGUF v{version}"
    header = Header(format=form, path=source.where, file_bytes=cursor.total, metadata=metadata, tensors=tensors)
    return GGUFFile(source, start, header, arrays, used)


def _version(cursor: _Cursor) -> int:
    cursor.need(len(MAGIC), "the magic")
    version: int = cursor.number(_U32, "the version")
    if version in VERSIONS:
        return version
    if version & 0xFFFF == 0:
        raise refusal("files.big-endian", cursor.source.where)
    raise refusal("files.version", cursor.source.where, expected="2 or 3", found=version)


def _metadata(cursor: _Cursor, count: int) -> tuple[dict[str, object], dict[str, LazyArray]]:
    metadata: dict[str, object] = {}
    arrays: dict[str, LazyArray] = {}
    for number in range(count):
        key = cursor.text(f"metadata key {number}", LONGEST_NAME)
        if not key:
            raise cursor.fail("header-entry", f"metadata key {number}", expected="a name", found="an empty one")
        if key in metadata:
            raise cursor.fail("duplicate", f"metadata key {shown(key)}")
        value = cursor.value(cursor.number(_U32, f"the type of {shown(key)}"), key)
        if isinstance(value, LazyArray):
            arrays[key] = value
            value = {"array": _TYPE_NAMES[value.kind], "length": value.length}
        metadata[key] = value
    return metadata, arrays


def _alignment(cursor: _Cursor, metadata: Mapping[str, object]) -> int:
    alignment = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    if type(alignment) is int and 1 <= alignment <= LARGEST_ALIGNMENT and alignment & (alignment - 1) == 0:
        return alignment
    expected = f"a power of two up to {LARGEST_ALIGNMENT}"
    raise cursor.fail("alignment", "general.alignment", expected=expected, found=shown(str(alignment)))


def _tensors(cursor: _Cursor, count: int, alignment: int) -> tuple[tuple[StoredTensor, ...], int]:
    """The tensors with offsets from the start of the file, and the bytes that header and tensors take up together."""
    relative = [_tensor(cursor, number) for number in range(count)]
    base = -(-cursor.at // alignment) * alignment
    names: set[str] = set()
    tensors = []
    for tensor in relative:
        what = f"tensor {shown(tensor.name)}"
        if tensor.name in names:
            raise cursor.fail("duplicate", what)
        names.add(tensor.name)
        if tensor.offset % alignment:
            raise cursor.fail("alignment", what, expected=f"a multiple of {alignment}", found=tensor.offset)
        start = base + tensor.offset
        if start + tensor.bytes > cursor.total:
            raise cursor.fail(
                "truncated",
                f"{what} ends beyond the file",
                expected=f"{start + tensor.bytes} bytes",
                found=f"{cursor.total}",
            )
        tensors.append(
            StoredTensor(
                name=tensor.name,
                shape=tensor.shape,
                type=tensor.type,
                bytes=tensor.bytes,
                offset=start,
                shard=cursor.source.name,
            )
        )
    end, before = cursor.at, None
    used = cursor.at
    for tensor in sorted(tensors, key=lambda t: t.offset):
        if before is not None and tensor.offset < end:
            raise cursor.fail(
                "overlap",
                f"tensors {shown(before)} and {shown(tensor.name)}",
                expected=f"byte {end} or later",
                found=tensor.offset,
            )
        # Padding goes up to the next aligned byte; what stands beyond it belongs to nothing.
        used += tensor.bytes + min(tensor.offset - end, -end % alignment)
        end, before = tensor.offset + tensor.bytes, tensor.name
    return tuple(tensors), used + min(cursor.total - end, -end % alignment)


def _tensor(cursor: _Cursor, number: int) -> StoredTensor:
    name = cursor.text(f"the name of tensor {number}", LONGEST_NAME)
    what = f"tensor {shown(name)}"
    rank = cursor.number(_U32, f"the rank of {what}")
    if not 1 <= rank <= MOST_DIMENSIONS:
        raise cursor.fail("header-entry", f"the rank of {what}", expected=f"1 to {MOST_DIMENSIONS}", found=rank)
    sizes = [cursor.number(_U64, f"the shape of {what}") for _ in range(rank)]
    kind, offset = cursor.number(_U32, f"the type of {what}"), cursor.number(_U64, f"the offset of {what}")
    if kind not in TYPES:
        raise cursor.fail("unknown-type", what, expected="a ggml type number", found=kind)
    storage = TYPES[kind]
    elements = 1
    for size in sizes:
        elements *= size
    if elements == 0:
        raise cursor.fail("header-entry", what, expected="elements", found=f"shape {sizes}")
    if sizes[0] % storage.elements:
        raise cursor.fail(
            "part-of-a-block",
            f"rows of {what} in {storage.name}",
            expected=f"a multiple of {storage.elements}",
            found=sizes[0],
        )
    return StoredTensor(
        name=name,
        shape=tuple(reversed(sizes)),
        type=storage.name,
        offset=offset,
        shard="",
        bytes=elements // storage.elements * storage.bytes,
    )
