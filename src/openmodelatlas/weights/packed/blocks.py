"""bitsandbytes' four bits, a code of sixteen numbers and a largest one for each block; MLX's groups with a bias."""

import json
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from openmodelatlas.errors import CheckpointError
from openmodelatlas.records.findings import finding
from openmodelatlas.records.report import Finding, StoredTensor
from openmodelatlas.records.shown import shown
from openmodelatlas.weights.opened import Opened
from openmodelatlas.weights.packed.parts import Layout, Packed, Parts, missing_parts
from openmodelatlas.weights.packed.words import WORD, in_pieces, repeated, unpacked
from openmodelatlas.weights.view import Shown, whole

STATES = ("weight.quant_state.bitsandbytes__nf4", "weight.quant_state.bitsandbytes__fp4")
LARGEST_STATE = 1 << 12
CODE = 16
LARGEST_SIZE = 1 << 31


def four_bits(opened: Opened, settings: Mapping[str, Any]) -> Layout:
    """Two numbers a byte, the upper half first, in blocks that go on from row to row. The shape of the matrix stands in
    a small record beside it."""
    found = Layout()
    besides = ("weight.absmax", "weight.quant_map", "weight.nested_absmax", "weight.nested_quant_map", *STATES)
    for base, parts in Packed(opened, ".weight.absmax").groups(("weight",), besides):
        state = next((parts[name] for name in STATES if name in parts), None)
        if state is None or not {"weight", "weight.quant_map"} <= set(parts):
            where = shown(f"{base}.weight.quant_state.*")
            found.findings.append(finding("tensors.packed-part", where, expected="parts of a matrix", found="not all"))
            continue
        try:
            read = _FourBits(opened, parts, json.loads(bytes(_state(opened, state).tolist())))
        except (CheckpointError, ValueError, TypeError, KeyError, RecursionError) as error:
            where, reason = shown(state.name), getattr(error, "what", None) or "not as bitsandbytes writes it"
            found.findings.append(finding("tensors.packed-state", where, found=reason))
            continue
        kind = f"bitsandbytes {state.name.rpartition('__')[2].upper()}"
        tensor = whole(f"{base}.weight", read.shape, kind, parts.values())
        found.findings += _double(settings, base, parts)
        found.shown.append(Shown(tensor=tensor, read=in_pieces(read.rows, read.shape)))
    return found


def _state(opened: Opened, state: StoredTensor) -> Tensor:
    if state.bytes > LARGEST_STATE or state.type != "U8":
        raise ValueError(state.bytes)
    return opened.values(state.name)


def _double(settings: Mapping[str, Any], base: str, parts: Parts) -> list[Finding]:
    stated, nested = settings.get("bnb_4bit_use_double_quant"), "weight.nested_absmax" in parts
    if not isinstance(stated, bool) or stated == nested:
        return []
    key = "quantization_config.bnb_4bit_use_double_quant"
    found = f"{'nested' if nested else 'plain'} scales at {shown(base)}"
    return [finding("configuration.quantization", key, expected=str(stated).lower(), found=found)]


class _FourBits:
    """The numbers of one matrix. ValueError for a record that does not go with the parts."""

    def __init__(self, opened: Opened, parts: Parts, state: Mapping[str, Any]) -> None:
        self._opened, self._parts = opened, parts
        self.shape = tuple(_size(size) for size in state["shape"])
        self._block = _size(state["blocksize"])
        count, blocks = math.prod(self.shape), math.prod(parts["weight.absmax"].shape)
        stored = math.prod(parts["weight"].shape)
        if len(self.shape) != 2 or stored != -(-count // 2) or blocks != -(-count // self._block):
            raise ValueError(count)
        self._nested: tuple[int, float] | None = None
        if "weight.nested_absmax" in parts:
            self._nested = _size(state["nested_blocksize"]), float(state["nested_offset"])
        if math.prod(parts["weight.quant_map"].shape) != CODE or parts["weight"].type != "U8":
            raise ValueError(CODE)

    def rows(self, start: int, end: int) -> Tensor:
        """Numbers of some rows: the code's number for each half byte, times its block's largest."""
        width = self.shape[1]
        first, last = start * width, end * width
        low, high = first // 2, -(-last // 2)
        parts, values = self._parts, self._opened.values
        raw = (
            values(parts["weight"].name, low, high).reshape(-1)
            if parts["weight"].shape[1:] in ((), (1,))
            else (values(parts["weight"].name).reshape(-1)[low:high])
        )
        halves = torch.stack((raw >> 4, raw & 15), 1).reshape(-1)[first - 2 * low : last - 2 * low]
        code = values(parts["weight.quant_map"].name).reshape(-1).to(torch.float32)
        block = torch.arange(first, last) // self._block
        return (code[halves.to(torch.int64)] * self._largest()[block]).reshape(end - start, width)

    def _largest(self) -> Tensor:
        parts, values = self._parts, self._opened.values
        stored = values(parts["weight.absmax"].name).reshape(-1)
        if self._nested is None:
            return stored.to(torch.float32)
        size, offset = self._nested
        code = values(parts["weight.nested_quant_map"].name).reshape(-1).to(torch.float32)
        outer = values(parts["weight.nested_absmax"].name).reshape(-1).to(torch.float32)
        return code[stored.to(torch.int64)] * repeated(outer, size, stored.numel(), 0) + offset


def _size(value: Any) -> int:
    if type(value) is not int or not 0 < value < LARGEST_SIZE:
        raise ValueError(value)
    return value


def mlx(opened: Opened, settings: Mapping[str, Any]) -> Layout:
    """Words along the rows, a scale and a bias for each group. How many bits a number has follows from the shapes."""
    found = Layout()
    size = settings.get("group_size")
    for base, parts in Packed(opened, ".scales").groups(("weight", "scales", "biases"), ()):
        if missing_parts(found, base, parts, ("weight", "scales", "biases")):
            continue
        words, scales = parts["weight"], parts["scales"]
        group = _own(settings, base, "group_size", size)
        inputs = scales.shape[1] * group
        bits, rest = divmod(words.shape[1] * WORD, inputs) if inputs else (0, 1)
        if rest or bits not in (2, 3, 4, 5, 6, 8) or words.type != "U32" or scales.shape != parts["biases"].shape:
            found.bad_shape(base, parts)
            continue
        stated = _own(settings, base, "bits", bits)
        if stated != bits:
            what = f"{bits} in the shapes of {shown(base)}"
            found.findings.append(
                finding("configuration.quantization", "quantization.bits", expected=stated, found=what)
            )

        def rows(start: int, end: int, parts: Parts = parts, bits: int = bits, group: int = group) -> Tensor:
            count = parts["scales"].shape[1] * group
            numbers = unpacked(opened.values(parts["weight"].name, start, end), bits, count, 1).to(torch.float32)
            scale = repeated(opened.values(parts["scales"].name, start, end).to(torch.float32), group, count, 1)
            bias = repeated(opened.values(parts["biases"].name, start, end).to(torch.float32), group, count, 1)
            return numbers * scale + bias

        tensor = whole(f"{base}.weight", (words.shape[0], inputs), f"MLX {bits}-bit", parts.values())
        found.shown.append(Shown(tensor=tensor, read=in_pieces(rows, tensor.shape)))
    return found


def _own(settings: Mapping[str, Any], base: str, key: str, usual: Any) -> int:
    """A module's own setting, or that of all."""
    value = settings.get(f"{base}.{key}", usual)
    return value if type(value) is int and 0 < value < LARGEST_SIZE else 0
