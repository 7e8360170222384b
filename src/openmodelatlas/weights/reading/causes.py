"""What a file that is not the expected one really is: the cause, told from its first bytes."""

import re
from typing import NoReturn

from openmodelatlas.errors import NotACheckpoint
from openmodelatlas.records.findings import refusal
from openmodelatlas.records.shown import shown
from openmodelatlas.weights.reading.source import Source

HEAD = 1024
SAFETENSORS, GGUF, ZIP, PICKLE = "safetensors", "GGUF", "a zip archive", "a pickle"
UNFINISHED = (".incomplete", ".part", ".partial", ".crdownload", ".download", ".aria2", ".tmp")

_MAGIC = {
    b"GGUF": GGUF,
    b"PK\x03\x04": ZIP,
    b"PK\x05\x06": ZIP,
    b"ggml": "GGML, the format before GGUF",
    b"lmgg": "GGML, the format before GGUF",
    b"tjgg": "GGJT, a format before GGUF",
    b"\x89HDF": "HDF5",
    b"\x93NUMPY": "a NumPy array",
    b"%PDF": "a PDF document",
}
_PACKED = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "Zstandard",
    b"\xfd7zXZ\x00": "xz",
    b"BZh": "bzip2",
    b"7z\xbc\xaf\x27\x1c": "7-Zip",
    b"Rar!": "RAR",
    b"\x04\x22\x4d\x18": "LZ4",
}
_POINTER = re.compile(rb"version https://(?:git-lfs\.github\.com|hawser\.github\.com)/spec/")
_OID, _SIZE = re.compile(rb"^oid (sha256:[0-9a-f]{64})\s*$", re.M), re.compile(rb"^size (\d{1,19})\s*$", re.M)
_HTML = re.compile(rb"\s*(?:<!--.{0,200}?-->\s*)?<(?:!doctype\s+html|html|head|body|title)\b", re.I | re.S)


def format_of(head: bytes, size: int) -> str | None:
    """SAFETENSORS, GGUF, ZIP or PICKLE if these first bytes open such a file, of that size in all; else None, or the
    name of another format."""
    length = int.from_bytes(head[:8], "little")
    if len(head) > 8 and 2 <= length <= size - 8 and head[8:].lstrip(b" \t\r\n")[:1] == b"{":
        return SAFETENSORS  # first of all: a length can look like the magic of something else
    for magic, name in _MAGIC.items():
        if head.startswith(magic):
            return name
    if head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return PICKLE
    return "a tar archive" if head[257:262] == b"ustar" else None


def refuse(source: Source, expected: str) -> NoReturn:
    """NotACheckpoint for a file that is not `expected`, naming what it is as far as its first bytes tell."""
    head, where = source.read(0, HEAD), source.where
    if source.name.endswith(".json") and head.lstrip()[:1] in (b"{", b"["):  # what it is said to be
        raise refusal("files.other-format", where, expected=expected, found="a JSON text")
    raise (
        _stand_in(head, where)
        or _unfinished(source, head, expected)
        or _other(head, source.size, where, expected)
        or refusal("files.unknown-format", where, expected=expected, found=f"the first bytes {head[:8]!r}")
    )


def _stand_in(head: bytes, where: str) -> NotACheckpoint | None:
    """What servers and tools leave in place of a file."""
    if _POINTER.match(head):
        oid, size = _OID.search(head), _SIZE.search(head)
        digest = "no digest" if oid is None else oid[1].decode()
        length = "no size" if size is None else f"{int(size[1]):,} bytes"
        return refusal("files.lfs-pointer", where, found=f"a pointer to {digest}, {length}")
    if _HTML.match(head):
        title = re.search(rb"<title[^>]*>([^<]{1,80})", head, re.I)
        found = None if title is None else f"a page named {shown(_text(title[1]))}"
        return refusal("files.html-page", where, found=found)
    start = head.lstrip()
    if start.startswith((b"<?xml", b"<Error>")):
        code = re.search(rb"<Code>([^<]{1,60})", head)
        found = shown(_text((code[1] if code else start)[:60]))
        return refusal("files.error-body", where, found=found)
    if start[:1] in (b"{", b"[") or start.startswith((b"Entry not found", b"Invalid ", b"Access to ", b"404", b"403")):
        return refusal("files.error-body", where, found=shown(_text(start[:60])))
    return None


def _unfinished(source: Source, head: bytes, expected: str) -> NotACheckpoint | None:
    if source.name.endswith(UNFINISHED):
        return refusal("files.unfinished", source.where, found=f"{source.size:,} bytes so far")
    if head and not head.strip(b"\0"):
        return refusal("files.zeros", source.where, expected=expected, found=f"the first {len(head)} bytes are zero")
    return None


def _other(head: bytes, size: int, where: str, expected: str) -> NotACheckpoint | None:
    for magic, name in _PACKED.items():
        if head.startswith(magic):
            return refusal("files.packed", where, expected=expected, found=name)
    found = format_of(head, size)
    if found == PICKLE:
        return refusal("files.pickle", where, expected=expected)
    return (
        None
        if found is None or found == expected
        else refusal("files.other-format", where, expected=expected, found=found)
    )


def _text(raw: bytes) -> str:
    return " ".join(raw.decode("utf-8", "replace").split())
