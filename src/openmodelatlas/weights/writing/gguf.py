"""Tensors and settings as a GGUF file: the header by the `gguf` package, then every tensor in turn."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gguf
import numpy as np
import torch
from torch import Tensor

from openmodelatlas.errors import UsageError
from openmodelatlas.weights.reading.ggml import BY_NAME, NUMBERS
from openmodelatlas.weights.writing.outgoing import ALWAYS_WIDE, KEPT, Outgoing
from openmodelatlas.weights.writing.written import raw

QUANTISED = ("Q8_0", "Q5_1", "Q5_0", "Q4_1", "Q4_0", "MXFP4", "TQ2_0", "TQ1_0")
"""What the `gguf` package can quantise to."""
LARGEST_U32 = (1 << 32) - 1
FILE_TYPES = {"F32": 0, "F16": 1, "BF16": 32, "Q4_0": 2, "Q4_1": 3, "Q8_0": 7, "Q5_0": 8, "Q5_1": 9}
"""Of the type of most matrices, as `general.file_type` numbers them."""


class Typed(NamedTuple):
    """A tensor and the storage type that it gets."""

    tensor: Outgoing
    type: str

    @property
    def bytes(self) -> int:
        """Its length in the file."""
        kind = BY_NAME[self.type]
        return math.prod(self.tensor.shape) // kind.elements * kind.bytes


def typed(tensors: Sequence[Outgoing], quantised: str | None) -> list[Typed]:
    """Each tensor with its type: quantised where it is a matrix whose rows are whole blocks, else as it comes."""
    if quantised is not None and quantised not in QUANTISED:
        raise UsageError("no such type to quantise to", expected=", ".join(QUANTISED), found=quantised)
    found = []
    for tensor in tensors:
        whole = quantised is not None and len(tensor.shape) > 1 and not tensor.shape[-1] % BY_NAME[quantised].elements
        narrow = whole and not any(word in tensor.name for word in ALWAYS_WIDE)
        found.append(Typed(tensor, quantised if narrow and quantised is not None else KEPT[tensor.dtype]))
    return found


def labels(most: str) -> dict[str, Any]:
    """What a file says of the type that most of its bytes are of."""
    found = {"general.type": "model"} | ({"general.file_type": FILE_TYPES[most]} if most in FILE_TYPES else {})
    return found | ({"general.quantization_version": gguf.GGML_QUANT_VERSION} if most in QUANTISED else {})


def write(path: Path, tensors: Sequence[Typed], settings: Mapping[str, Any], wrote: Callable[[int], None]) -> None:
    """The whole file. `settings` holds `general.architecture`."""
    writer = gguf.GGUFWriter(path, settings["general.architecture"])
    for key, value in settings.items():
        if key != "general.architecture" and not (isinstance(value, (list, str)) and not value):
            writer.add_key_value(key, value, *_kind(value))
    for tensor, kind in tensors:
        number = gguf.GGMLQuantizationType(NUMBERS[kind])
        size = Typed(tensor, kind).bytes
        writer.add_tensor_info(tensor.name, tensor.shape, np.dtype(np.float32), size, number)
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        assert writer.fout is not None
        file = writer.fout[0]
        writer.write_padding(file, file.tell())
        for entry in tensors:
            for data in _stored(entry):
                file.write(data)
                wrote(len(data))
            writer.write_padding(file, entry.bytes)
    finally:
        writer.close()


def _stored(entry: Typed) -> Iterator[bytes | memoryview]:
    for piece in entry.tensor.pieces():
        if entry.type in KEPT.values():
            yield raw(piece)
        else:
            yield _quantised(piece, entry.type)


def _quantised(piece: Tensor, kind: str) -> bytes:
    values = piece.to(torch.float32).reshape(-1, piece.shape[-1]).numpy()
    stored: bytes = gguf.quantize(values, gguf.GGMLQuantizationType(NUMBERS[kind])).tobytes()
    return stored


def _kind(value: Any) -> tuple[gguf.GGUFValueType, gguf.GGUFValueType | None]:
    """The type that readers of the format expect of such a value: unsigned for a number, signed in an array."""
    types = gguf.GGUFValueType
    if isinstance(value, list):
        inner = {bool: types.BOOL, int: types.INT32, float: types.FLOAT32, str: types.STRING}
        return types.ARRAY, inner[type(value[0])]
    if isinstance(value, bool):
        return types.BOOL, None
    if isinstance(value, int):
        return (types.INT32 if value < 0 else types.UINT32 if value <= LARGEST_U32 else types.UINT64), None
    return (types.FLOAT32 if isinstance(value, float) else types.STRING), None
