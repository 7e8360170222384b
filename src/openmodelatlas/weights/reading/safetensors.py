"""The header of a safetensors file, believed only where it agrees with itself and with the bytes that are there.

It takes what the format's own library takes, but for two things that the library reads without need: an entry that
stands twice in the same words, and one whose fields are given as a list. Nothing is allocated on the header's word."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from openmodelatlas.records import strict_json
from openmodelatlas.records.findings import refusal
from openmodelatlas.records.report import Finding, StoredTensor
from openmodelatlas.records.shown import shown
from openmodelatlas.weights.reading import causes
from openmodelatlas.weights.reading.source import Source

if TYPE_CHECKING:
    from torch import Tensor

LARGEST_HEADER = 100_000_000  # the library's own limit
LABELS = "__metadata__"
COUNTABLE = 1 << 64
BITS = {
    "BOOL": 8,
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "U8": 8,
    "I8": 8,
    "F8_E5M2": 8,
    "F8_E4M3": 8,
    "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "C64": 64,
    "F64": 64,
    "I64": 64,
    "U64": 64,
}


@dataclass(frozen=True, kw_only=True)
class SafetensorsHeader:
    """`tensors` in the order of their bytes, offsets from the start of the file; `labels`: the free texts that the
    file carries."""

    source: Source
    tensors: tuple[StoredTensor, ...]
    labels: Mapping[str, str]
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()

    def read(self, tensor: StoredTensor, start: int = 0, end: int | None = None) -> "Tensor":
        """A tensor, or some rows of it, in memory of its own."""
        from openmodelatlas.weights.reading import plain

        return plain.read(self.source, tensor, start, end)

    def damaged(self) -> list[Finding]:
        """Nothing: the format has no checksums."""
        return []


def read_header(source: Source) -> SafetensorsHeader:
    """The header of a safetensors file; NotACheckpoint names the first thing that is wrong with it, or what the file is
    instead."""
    raw = _header_bytes(source)
    content = strict_json.parse(raw, f"{source.where}: header")
    labels = content.pop(LABELS, None)
    base = 8 + len(raw)
    tensors = [_tensor(name, entry, base, source) for name, entry in content.items()]
    tensors.sort(key=lambda tensor: (tensor.offset, tensor.bytes))
    _laid_out(tensors, base, source)
    return SafetensorsHeader(source=source, tensors=tuple(tensors), labels=_labels(labels, source))


def _header_bytes(source: Source) -> bytes:
    head = source.read(0, causes.HEAD)
    length, where = int.from_bytes(head[:8], "little"), source.where
    if causes.format_of(head, source.size) != causes.SAFETENSORS:
        if head[8:].lstrip(b" \t\r\n")[:1] != b"{" or length <= source.size - 8:
            causes.refuse(source, causes.SAFETENSORS)
        found = f"a file of {source.size:,} bytes and a header length of {length:,}"
        raise refusal("files.truncated", where, expected=f"{length + 8:,} bytes or more", found=found)
    if length > LARGEST_HEADER:
        expected, found = f"at most {LARGEST_HEADER:,} bytes", f"{length:,} bytes"
        raise refusal("files.header-too-large", where, expected=expected, found=found)
    return source.read(8, length)


def _tensor(name: str, entry: Any, base: int, source: Source) -> StoredTensor:
    where = f"{source.where}: tensor {shown(name)}"
    if not isinstance(entry, dict):
        raise refusal("files.header-entry", where, expected="an object", found=_kind(entry))
    kind, shape, offsets = (entry.get(field) for field in ("dtype", "shape", "data_offsets"))
    if not isinstance(kind, str) or kind not in BITS:
        raise refusal("files.unknown-type", where, expected=", ".join(BITS), found=shown(str(kind)))
    if not isinstance(shape, list) or not all(map(_count, shape)):
        raise refusal("files.header-entry", where, expected="a shape of whole numbers", found=shown(str(shape)))
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_count, offsets)) or offsets[0] > offsets[1]:
        raise refusal("files.header-entry", where, expected="two offsets in order", found=shown(str(offsets)))
    elements = 1
    for size in shape:
        elements *= size
        if elements >= COUNTABLE:
            raise refusal("files.absurd-size", where, found=f"shape {shown(str(shape))}")
    bits = elements * BITS[kind]
    if bits >= COUNTABLE:
        raise refusal("files.absurd-size", where, found=f"shape {shown(str(shape))}")
    if bits % 8:
        raise refusal("files.part-of-a-byte", where, expected="whole bytes", found=f"{bits} bits")
    start, end = offsets
    if end - start != bits // 8:
        expected = f"{bits // 8:,} bytes for {kind} {shape}"
        raise refusal("files.size-differs", where, expected=expected, found=f"{end - start:,} bytes")
    return StoredTensor(
        name=name, shape=tuple(shape), type=kind, bytes=bits // 8, offset=base + start, shard=source.name
    )


def _laid_out(tensors: list[StoredTensor], base: int, source: Source) -> None:
    """Every byte behind the header must belong to one tensor."""
    at, before = base, ""
    for tensor in tensors:
        where = f"{source.where}: tensor {shown(tensor.name)}"
        if tensor.offset != at:
            code = "files.overlap" if tensor.offset < at else "files.hole"
            found = f"byte {tensor.offset:,}" + (f", inside {shown(before)}" if tensor.offset < at else "")
            raise refusal(code, where, expected=f"byte {at:,}", found=found)
        at, before = tensor.offset + tensor.bytes, tensor.name
    if at > source.size:
        raise refusal("files.truncated", source.where, expected=f"{at:,} bytes", found=f"{source.size:,}")
    if at < source.size:
        raise refusal("files.surplus-bytes", source.where, expected=f"{at:,} bytes", found=f"{source.size:,}")


def _labels(labels: Any, source: Source) -> dict[str, str]:
    if labels is None:
        return {}
    where = f"{source.where}: {LABELS}"
    if not isinstance(labels, dict):
        raise refusal("files.header-entry", where, expected="an object", found=_kind(labels))
    for key, text in labels.items():
        if not isinstance(text, str):
            raise refusal("files.header-entry", where, expected=f"a text for {shown(key)}", found=_kind(text))
    return labels


def _count(number: Any) -> bool:
    return type(number) is int and 0 <= number < COUNTABLE


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
