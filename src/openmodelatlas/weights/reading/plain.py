"""Tensors of plain numbers, read from a file into memory of their own."""

import dataclasses
from collections.abc import Callable

import torch
from torch import Tensor

from openmodelatlas.errors import CheckpointError
from openmodelatlas.records.report import StoredTensor
from openmodelatlas.records.shown import shown
from openmodelatlas.weights.reading.source import Source

TYPES = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "F8_E5M2": torch.float8_e5m2,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E8M0": torch.float8_e8m0fnu,
    "F8_E4M3FNUZ": torch.float8_e4m3fnuz,
    "F8_E5M2FNUZ": torch.float8_e5m2fnuz,
    "I16": torch.int16,
    "U16": torch.uint16,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I32": torch.int32,
    "U32": torch.uint32,
    "F32": torch.float32,
    "C64": torch.complex64,
    "F64": torch.float64,
    "I64": torch.int64,
    "U64": torch.uint64,
}
"""By the names that safetensors has for them. Numbers of four or six bits have no such type."""


def rows(tensor: StoredTensor, start: int, end: int | None) -> tuple[int, int]:
    """From which row to which; the whole of a single number."""
    count = tensor.shape[0] if tensor.shape else 1
    return start, count if end is None else min(end, count)


def read(source: Source, tensor: StoredTensor, start: int = 0, end: int | None = None) -> Tensor:
    """A tensor stored row after row, or some rows of it. CheckpointError for a type that torch has no numbers of."""
    if tensor.type not in TYPES:
        where = f"{source.where}: tensor {shown(tensor.name)}"
        raise CheckpointError(f"no way to read the storage type {tensor.type}", where=where, code="values.unreadable")
    first, last = rows(tensor, start, end)
    shape = (last - first, *tensor.shape[1:]) if tensor.shape else ()
    each = tensor.bytes // tensor.shape[0] if tensor.shape and tensor.shape[0] else tensor.bytes
    raw = filled(lambda buffer: source.read_into(tensor.offset + first * each, buffer), (last - first) * each)
    # Any byte may stand in the file for a bool; torch's own are 0 and 1.
    numbers = raw.ne(0) if tensor.type == "BOOL" else raw.view(TYPES[tensor.type])
    try:
        return numbers.reshape(shape)
    except (RuntimeError, TypeError, OverflowError):  # no elements, and other sizes beyond what torch counts with
        where = f"{source.where}: tensor {shown(tensor.name)}"
        raise CheckpointError(f"no tensor has the shape {list(shape)}", where=where, code="values.unreadable") from None


def read_strided(
    source: Source, tensor: StoredTensor, strides: tuple[int, ...], start: int = 0, end: int | None = None
) -> Tensor:
    """The same where neighbours of an axis stand `strides` numbers apart in the file, as in a transposed tensor."""
    reach = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, strides, strict=True))
    each = TYPES[tensor.type].itemsize
    flat = dataclasses.replace(tensor, shape=(reach,), bytes=reach * each)
    whole = read(source, flat).as_strided(tensor.shape, strides)
    first, last = rows(tensor, start, end)
    return whole[first:last].contiguous().clone()


def filled(fill: Callable[[memoryview], None], count: int) -> Tensor:
    """So many bytes, filled in place."""
    raw = torch.empty(count, dtype=torch.uint8)
    if count:
        fill(raw.numpy().data)
    return raw
