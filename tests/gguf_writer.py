"""A small GGUF writer for tests: honest files of a tiny model, and pieces to make dishonest ones of."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
_FORMS = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "B", U64: "Q", I64: "q", F64: "d"}


def string(text: str | bytes) -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(raw)) + raw


def value(content: Any, kind: int | None = None) -> bytes:
    """Type number and bytes of a metadata value, the type guessed from Python's if it is not given."""
    if kind is None:
        kind = {bool: BOOL, int: U32, float: F32, str: STRING, list: ARRAY}[type(content)]
    if kind == ARRAY:
        inner = {bool: BOOL, int: I32, float: F32, str: STRING}[type(content[0])]
        return struct.pack("<IIQ", ARRAY, inner, len(content)) + b"".join(value(c, inner)[4:] for c in content)
    return struct.pack("<I", kind) + (string(content) if kind == STRING else struct.pack("<" + _FORMS[kind], content))


@dataclass
class Tensor:
    """A tensor record; `shape` row-major, `offset` None for the next free place."""

    name: str | bytes
    shape: Sequence[int]
    data: bytes
    kind: int = 0
    offset: int | None = None
    rank: int | None = None


def f32(name: str, array: np.ndarray) -> Tensor:
    return Tensor(name, array.shape, np.ascontiguousarray(array, dtype="<f4").tobytes())


@dataclass
class File:
    """Everything that is written; each field can be made a lie."""

    metadata: Mapping[str, Any] = field(default_factory=dict)
    tensors: Sequence[Tensor] = ()
    magic: bytes = b"GGUF"
    version: int = 3
    pairs: Sequence[bytes] | None = None
    tensor_count: int | None = None
    pair_count: int | None = None
    alignment: int = 32

    def bytes(self) -> bytes:
        pairs = self.pairs
        if pairs is None:
            pairs = [string(k) + (v if isinstance(v, bytes) else value(v)) for k, v in self.metadata.items()]
        counts = (
            len(self.tensors) if self.tensor_count is None else self.tensor_count,
            len(pairs) if self.pair_count is None else self.pair_count,
        )
        head = self.magic + struct.pack("<IQQ", self.version, *counts) + b"".join(pairs)
        body, at = b"", 0
        for tensor in self.tensors:
            sizes = struct.pack(f"<{len(tensor.shape)}Q", *reversed(tensor.shape))
            rank = len(tensor.shape) if tensor.rank is None else tensor.rank
            offset = at if tensor.offset is None else tensor.offset
            head += string(tensor.name) + struct.pack("<I", rank) + sizes + struct.pack("<IQ", tensor.kind, offset)
            body += tensor.data + b"\0" * (-len(tensor.data) % self.alignment)
            at = len(body)
        return head + b"\0" * (-len(head) % self.alignment) + body
