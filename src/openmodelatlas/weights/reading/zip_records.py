"""Where each record of a zip archive stands, if the archive says so twice and both times the same.

Only stored records (not compressed), as `torch.save` writes them. The directory at the end is what is read; the header
before every record must agree with it, and no two records may share bytes."""

import itertools
import struct
from dataclasses import dataclass
from typing import NoReturn

from openmodelatlas.records.findings import refusal
from openmodelatlas.records.shown import shown
from openmodelatlas.weights.reading.source import Source

LARGEST_DIRECTORY = 8 << 20  # of 100,000 records and more; a share of the largest model has about 1,100
FARTHEST_END = 65_535 + 22  # the end record with the longest comment

_END, _END_64, _LOCATOR = struct.Struct("<4s4H2IH"), struct.Struct("<4sQ2H2I4Q"), struct.Struct("<4sIQI")
_ENTRY, _LOCAL = struct.Struct("<4s6H3I5H2I"), struct.Struct("<4s5H3I2H")
_UNKNOWN_16, _UNKNOWN_32 = 0xFFFF, 0xFFFF_FFFF  # the true number stands in a field of 64 bits
_ENCRYPTED, _SIZES_BEHIND = 1, 8


@dataclass(frozen=True, kw_only=True)
class Record:
    """`start`: the place of its first byte in the file; `crc` the checksum that the directory states."""

    name: str
    start: int
    size: int
    crc: int


@dataclass(frozen=True, kw_only=True)
class _Entry:
    name: str
    size: int
    crc: int
    header: int


def read_records(source: Source) -> dict[str, Record]:
    """Every record by its name; NotACheckpoint for an archive that lies, hides or compresses."""
    start, length, count = _directory(source)
    if length > LARGEST_DIRECTORY:
        expected = f"a directory of at most {LARGEST_DIRECTORY:,} bytes"
        raise refusal("files.zip-damaged", source.where, expected=expected, found=f"{length:,}")
    found: dict[str, Record] = {}
    for entry in _entries(source.read(start, length), count, source):
        if entry.name in found:
            raise refusal("files.duplicate", f"{source.where}: record {shown(entry.name)}")
        found[entry.name] = _record(entry, start, source)
    _apart(list(found.values()), source)
    return found


def _damaged(source: Source, expected: str, found: object = None) -> NoReturn:
    raise refusal("files.zip-damaged", source.where, expected=expected, found=found)


def _directory(source: Source) -> tuple[int, int, int]:
    """Start, length and number of entries of the directory."""
    tail_start = max(0, source.size - FARTHEST_END)
    tail = source.read(tail_start, FARTHEST_END)
    at = tail.rfind(b"PK\5\6")
    if at < 0 or at + _END.size > len(tail):
        raise refusal("files.truncated", source.where, expected="the directory that ends a zip archive", found="none")
    _, disk, first_disk, here, count, length, start, comment = _END.unpack_from(tail, at)
    if at + _END.size + comment != len(tail):
        _damaged(source, "nothing behind the end record", f"{len(tail) - at - _END.size - comment} bytes")
    end = tail_start + at
    short = (here, count, length, start)
    if wide := _directory_64(source, end):
        disk, first_disk, here, count, length, start, end = wide
        unknown = (_UNKNOWN_16, _UNKNOWN_16, _UNKNOWN_32, _UNKNOWN_32)
        for one, other, most in zip(short, (here, count, length, start), unknown, strict=True):
            if one not in (other, most):
                _damaged(source, "two end records that agree", f"{one:,} and {other:,}")
    if disk or first_disk or here != count:
        _damaged(source, "an archive in one file", "one of several")
    if start + length != end:
        _damaged(source, f"a directory that ends at byte {end:,}", f"{start + length:,}")
    return start, length, count


def _directory_64(source: Source, end: int) -> tuple[int, int, int, int, int, int, int] | None:
    """The end record of 64 bits before the one of 32, if there is one."""
    raw = source.read(end - _LOCATOR.size, _LOCATOR.size) if end >= _LOCATOR.size else b""
    if not raw.startswith(b"PK\6\7"):
        return None
    _, disk, at, _ = _LOCATOR.unpack(raw)
    raw = source.read(at, _END_64.size) if at + _END_64.size <= end else b""
    if len(raw) < _END_64.size or not raw.startswith(b"PK\6\6"):
        _damaged(source, "the end record's 64-bit form", f"none at byte {at:,}")
    _, _, _, _, own, first_disk, here, count, length, start = _END_64.unpack(raw)
    return disk or own, first_disk, here, count, length, start, at


def _entries(raw: bytes, count: int, source: Source) -> list[_Entry]:
    found, at = [], 0
    while at < len(raw):
        if at + _ENTRY.size > len(raw) or raw[at : at + 4] != b"PK\1\2":
            _damaged(source, f"an entry at byte {at:,} of the directory", repr(raw[at : at + 4]))
        fields = _ENTRY.unpack_from(raw, at)
        flags, method, crc, packed, size = fields[3], fields[4], *fields[7:10]
        name_length, extra_length, comment, disk, header = *fields[10:14], fields[16]
        name_at = at + _ENTRY.size
        at = name_at + name_length + extra_length + comment
        if at > len(raw):
            _damaged(source, "entries that end with the directory", f"one that ends {at - len(raw):,} bytes behind it")
        name = _name(raw[name_at : name_at + name_length], source)
        extra = raw[name_at + name_length : name_at + name_length + extra_length]
        size, packed, header = _wide(extra, (size, packed, header), name, source)
        where = f"{source.where}: record {shown(name)}"
        if flags & _ENCRYPTED:
            raise refusal("files.zip-packed", where, found="an encrypted record")
        if method or packed != size:
            raise refusal("files.zip-packed", where, found=f"method {method}, {packed:,} of {size:,} bytes")
        if disk not in (0, _UNKNOWN_16):
            _damaged(source, "an archive in one file", f"a record on disk {disk}")
        found.append(_Entry(name=name, size=size, crc=crc, header=header))
    if len(found) != count:
        _damaged(source, f"{count:,} records", f"{len(found):,}")
    return found


def _name(raw: bytes, source: Source) -> str:
    try:
        name = raw.decode()
    except UnicodeDecodeError:
        _damaged(source, "names in UTF-8", repr(raw[:40]))
    if name.startswith("/") or "\\" in name or "\0" in name or ".." in name.split("/"):
        raise refusal("files.zip-path", source.where, found=shown(name))
    return name


def _wide(extra: bytes, numbers: tuple[int, int, int], name: str, source: Source) -> tuple[int, int, int]:
    """Size, packed size and place, each from the 64-bit field where 32 bits could not hold it."""
    if _UNKNOWN_32 not in numbers:
        return numbers
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        if kind == 1:
            wide = [extra[p : p + 8] for p in range(at + 4, min(at + 4 + length, len(extra)), 8)]
            given = iter([int.from_bytes(part, "little") for part in wide if len(part) == 8])
            found = [next(given, None) if number == _UNKNOWN_32 else number for number in numbers]
            if None not in found:
                size, packed, header = (number or 0 for number in found)
                return size, packed, header
        at += 4 + length
    _damaged(source, f"64-bit sizes of the record {shown(name)}", "none")


def _record(entry: _Entry, directory: int, source: Source) -> Record:
    """The place of an entry's bytes, by the header that stands before them."""
    where = f"{source.where}: record {shown(entry.name)}"
    raw_name = entry.name.encode()
    raw = source.read(entry.header, _LOCAL.size + len(raw_name))
    if len(raw) < _LOCAL.size + len(raw_name) or not raw.startswith(b"PK\3\4"):
        raise refusal("files.zip-lies", where, expected=f"its header at byte {entry.header:,}", found=repr(raw[:4]))
    _, _, flags, method, _, _, crc, packed, size, name_length, extra = _LOCAL.unpack_from(raw)
    if method or name_length != len(raw_name) or raw[_LOCAL.size :] != raw_name:
        raise refusal("files.zip-lies", where, expected="the same name and method before the record", found="others")
    stated = {(packed, size, crc)} if not flags & _SIZES_BEHIND else {(packed, size, crc)} - {(0, 0, 0)}
    for one_packed, one_size, one_crc in stated:
        wide = _UNKNOWN_32 in (one_packed, one_size)
        if one_crc != entry.crc or not (wide or one_packed == one_size == entry.size):
            raise refusal("files.zip-lies", where, expected=f"{entry.size:,} bytes", found=f"{one_size:,}")
    start = entry.header + _LOCAL.size + name_length + extra
    if start + entry.size > directory:
        end = f"{start + entry.size:,}"
        raise refusal("files.zip-lies", where, expected=f"bytes before the directory at {directory:,}", found=end)
    return Record(name=entry.name, start=start, size=entry.size, crc=entry.crc)


def _apart(records: list[Record], source: Source) -> None:
    records.sort(key=lambda record: record.start)
    for before, record in itertools.pairwise(records):
        if record.start < before.start + before.size:
            where = f"{source.where}: record {shown(record.name)}"
            raise refusal("files.overlap", where, found=f"bytes of {shown(before.name)}")
