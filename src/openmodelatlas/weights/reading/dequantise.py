"""Stored bytes of GGUF tensors to float32: the common types in torch, every other by the `gguf` package."""

from collections.abc import Callable

import gguf
import numpy as np
import torch
from torch import Tensor

from openmodelatlas.errors import CheckpointError
from openmodelatlas.records.report import StoredTensor
from openmodelatlas.weights.reading.ggml import BY_NAME, NUMBERS

PLAIN = {
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F64": torch.float64,
    "I8": torch.int8,
    "I16": torch.int16,
    "I32": torch.int32,
    "I64": torch.int64,
}
AT_ONCE = 1 << 22  # elements: what is needed besides the result stays small, however large the tensor is


def dequantise(data: memoryview, tensor: StoredTensor) -> Tensor:
    """The values of a stored tensor in its row-major shape: in its own type where it has a plain one, else in float32.
    Memory of its own."""
    if tensor.type in PLAIN:
        return torch.frombuffer(data, dtype=PLAIN[tensor.type]).clone().reshape(tensor.shape)
    storage = BY_NAME[tensor.type]
    blocks = torch.frombuffer(data, dtype=torch.uint8).reshape(-1, storage.bytes)
    values = torch.empty(blocks.shape[0], storage.elements, dtype=torch.float32)
    step = AT_ONCE // storage.elements
    try:
        for start in range(0, blocks.shape[0], step):
            values[start : start + step] = _dequantised(blocks[start : start + step], tensor.type)
    except NotImplementedError:
        message = f"no way to read the storage type {tensor.type}"
        raise CheckpointError(message, where=tensor.name, code="values.unreadable") from None
    return values.reshape(tensor.shape)


def _dequantised(blocks: Tensor, kind: str) -> Tensor:
    """A row for each block."""
    if kind in _BLOCKS:
        return _BLOCKS[kind](blocks)
    with np.errstate(over="ignore", invalid="ignore"):  # damaged scales give infinities, which are looked for elsewhere
        return torch.from_numpy(gguf.dequantize(blocks.numpy(), gguf.GGMLQuantizationType(NUMBERS[kind])))


def _half(blocks: Tensor, at: int) -> Tensor:
    """The float16 at byte `at` of every block, as a float32 column."""
    return blocks[:, at : at + 2].contiguous().view(torch.float16).to(torch.float32)


def _nibbles(packed: Tensor) -> Tensor:
    """Sixteen bytes to 32 values: all low halves first, then all high halves."""
    return torch.cat((packed & 15, packed >> 4), dim=1)


def _fifth_bits(packed: Tensor) -> Tensor:
    """Four bytes to the 32 bits that they hold, lowest first, each as the value 16 or 0."""
    shifts = torch.arange(8, dtype=torch.uint8)
    return ((packed[:, :, None] >> shifts & 1) << 4).flatten(1)


def _q4_0(blocks: Tensor) -> Tensor:
    return _half(blocks, 0) * (_nibbles(blocks[:, 2:]).to(torch.float32) - 8)


def _q4_1(blocks: Tensor) -> Tensor:
    return _half(blocks, 0) * _nibbles(blocks[:, 4:]) + _half(blocks, 2)


def _q5_0(blocks: Tensor) -> Tensor:
    values = _nibbles(blocks[:, 6:]) | _fifth_bits(blocks[:, 2:6])
    return _half(blocks, 0) * (values.to(torch.float32) - 16)


def _q5_1(blocks: Tensor) -> Tensor:
    values = _nibbles(blocks[:, 8:]) | _fifth_bits(blocks[:, 4:8])
    return _half(blocks, 0) * values + _half(blocks, 2)


def _q8_0(blocks: Tensor) -> Tensor:
    return _half(blocks, 0) * blocks[:, 2:].view(torch.int8)


_BLOCKS: dict[str, Callable[[Tensor], Tensor]] = {
    "Q4_0": _q4_0,
    "Q4_1": _q4_1,
    "Q5_0": _q5_0,
    "Q5_1": _q5_1,
    "Q8_0": _q8_0,
}
