"""Layouts that keep narrow numbers in the matrix's own shape, with scales beside it: FP8, int8, compressed-tensors."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from openmodelatlas.records.findings import finding
from openmodelatlas.records.report import StoredTensor
from openmodelatlas.records.shown import shown
from openmodelatlas.weights.opened import Opened
from openmodelatlas.weights.packed.parts import Layout, Packed, Parts
from openmodelatlas.weights.packed.words import WORD, in_pieces, repeated, unpacked
from openmodelatlas.weights.view import Shown, whole

NARROW = {"F8_E4M3": "FP8 E4M3", "F8_E5M2": "FP8 E5M2", "I8": "int8"}
ACTIVATIONS = ("input_scale", "activation_scale", "input_zero_point", "output_scale")
"""Scales of what flows through a matrix: another way to compute, and no part of its numbers."""

PACKED, SCALE, ZERO, SHAPE, GROUPS = (
    "weight_packed",
    "weight_scale",
    "weight_zero_point",
    "weight_shape",
    "weight_g_idx",
)
OF_BITSANDBYTES = 127.0


def fp8(opened: Opened, settings: Mapping[str, Any]) -> Layout:
    """Matrices in eight bits with a scale for each block of rows and columns, or one for all. The size of the blocks is
    stated: shapes alone do not tell it."""
    found = Layout()
    block = settings.get("weight_block_size")
    sizes = _two(block)
    for base, parts in Packed(opened, ".weight").groups(("weight",), ("weight_scale_inv", SCALE, *ACTIVATIONS)):
        matrix = parts["weight"]
        if matrix.type not in NARROW:
            _plain(found, base, parts)
            continue
        scale = parts.get("weight_scale_inv") or parts.get(SCALE)
        if scale is None:
            found.findings.append(
                finding("tensors.packed-part", shown(f"{base}.weight_scale_inv"), expected="scales", found="none")
            )
        elif len(matrix.shape) == 2:
            _scaled(found, opened, base, parts, scale, sizes, NARROW[matrix.type])
    return found


def int8(opened: Opened, _settings: Mapping[str, Any]) -> Layout:
    """bitsandbytes' matrices of 8 bits: the largest number of each row, which 127 stands for."""
    found = Layout()
    for base, parts in Packed(opened, ".weight").groups(("weight",), ("SCB", "weight_format")):
        matrix, largest = parts["weight"], parts.get("SCB")
        if matrix.type != "I8":
            continue
        if largest is None or len(matrix.shape) != 2 or largest.shape != matrix.shape[:1]:
            found.bad_shape(base, parts)
            continue

        def rows(start: int, end: int, matrix: StoredTensor = matrix, largest: StoredTensor = largest) -> Tensor:
            scale = opened.values(largest.name, start, end).to(torch.float32) / OF_BITSANDBYTES
            return opened.values(matrix.name, start, end).to(torch.float32) * scale[:, None]

        tensor = whole(matrix.name, matrix.shape, "bitsandbytes int8", parts.values())
        found.shown.append(Shown(tensor=tensor, read=in_pieces(rows, matrix.shape)))
    return found


def compressed(opened: Opened, settings: Mapping[str, Any]) -> Layout:
    """compressed-tensors: whole numbers in words, or narrow numbers, by groups of modules that have one kind each."""
    found = Layout()
    kinds = _kinds(settings)
    blocks = (_two(kind.get("block_structure")) for kind in kinds)
    block = next((sizes for sizes in blocks if sizes is not None), None)
    for base, parts in Packed(opened, f".{PACKED}").groups((PACKED,), (SCALE, ZERO, SHAPE, GROUPS, *ACTIVATIONS)):
        _words(found, opened, base, parts, kinds)
    for base, parts in Packed(opened, ".weight").groups(("weight",), (SCALE, ZERO, *ACTIVATIONS)):
        matrix = parts["weight"]
        if SCALE not in parts:
            _plain(found, base, parts)
            continue
        if matrix.type not in NARROW or len(matrix.shape) != 2:
            found.bad_shape(base, parts)
            continue
        _scaled(found, opened, base, parts, parts[SCALE], block, f"compressed-tensors {NARROW[matrix.type]}")
    return found


def _two(block: Any) -> tuple[int, int] | None:
    """Rows and columns of a block, if that is what it says."""
    if not isinstance(block, list) or len(block) != 2 or not all(type(size) is int and size > 0 for size in block):
        return None
    return block[0], block[1]


def _plain(found: Layout, base: str, parts: Parts) -> None:
    """A matrix that is not packed, and has parts of one that is."""
    if extra := [name for name in parts if name not in ("weight", *ACTIVATIONS)]:
        where, stored = shown(f"{base}.{extra[0]}"), f"a matrix in {parts['weight'].type}"
        found.findings.append(finding("tensors.packed-part", where, expected="a matrix that it scales", found=stored))


def _scaled(
    found: Layout,
    opened: Opened,
    base: str,
    parts: Parts,
    scale: StoredTensor,
    block: tuple[int, int] | None,
    kind: str,
) -> None:
    matrix, zero = parts["weight"], parts.get(ZERO)
    outputs, inputs = matrix.shape
    grid = _grid(scale.shape, matrix.shape, block)
    if grid is None or (zero is not None and zero.shape != scale.shape):
        found.bad_shape(base, parts)
        return

    def rows(start: int, end: int) -> Tensor:
        values = opened.values(matrix.name, start, end).to(torch.float32)
        if zero is not None:
            values = values - spread(opened, zero, grid, (start, end), inputs)
        return values * spread(opened, scale, grid, (start, end), inputs)

    tensor = whole(matrix.name, matrix.shape, kind, parts.values())
    found.shown.append(Shown(tensor=tensor, read=in_pieces(rows, (outputs, inputs))))


def _grid(scale: tuple[int, ...], shape: tuple[int, ...], block: tuple[int, int] | None) -> tuple[int, int] | None:
    """For how many rows and columns a scale holds; None if their number fits no such rule. The last block of an axis
    may be smaller, so that sizes alone do not tell."""
    outputs, inputs = shape
    count = 1
    for size in scale:
        count *= size
    if count == 1:
        return outputs, inputs
    if block is not None:
        return block if scale == (-(-outputs // block[0]), -(-inputs // block[1])) else None
    if scale in ((outputs,), (outputs, 1)):
        return 1, inputs
    if len(scale) == 2 and scale[0] == outputs and inputs % scale[1] == 0:
        return 1, inputs // scale[1]
    return None


def spread(opened: Opened, scale: StoredTensor, grid: tuple[int, int], span: tuple[int, int], inputs: int) -> Tensor:
    """The scale of every number of some rows."""
    start, end = span
    values = opened.values(scale.name).to(torch.float32)
    if values.numel() == 1:
        return values.reshape(1, 1)
    values = values.reshape(values.shape[0], -1)
    first, last = start // grid[0], -(-end // grid[0])
    by_rows = repeated(values[first:last], grid[0], (last - first) * grid[0], 0)
    by_rows = by_rows[start - first * grid[0] : end - first * grid[0]]
    return repeated(by_rows, grid[1], inputs, 1)


def _kinds(settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the settings say of the weights in each group."""
    found: dict[str, dict[str, Any]] = {}
    for key, value in settings.items():
        sections = key.split(".")
        if len(sections) == 4 and sections[0] == "config_groups" and sections[2] == "weights":
            found.setdefault(sections[1], {})[sections[3]] = value
    return list(found.values())


def _words(found: Layout, opened: Opened, base: str, parts: Parts, kinds: list[dict[str, Any]]) -> None:
    packed, scale, zero = parts[PACKED], parts.get(SCALE), parts.get(ZERO)
    if scale is None or len(packed.shape) != 2 or len(scale.shape) != 2 or packed.type != "I32":
        found.bad_shape(base, parts)
        return
    fitting = [(bits, size) for bits, size in map(_bits_and_group, kinds) if _fits(packed, scale, bits, size)]
    if not fitting:
        stated = ", ".join(f"{bits} bits in groups of {size}" for bits, size in map(_bits_and_group, kinds)) or "none"
        sizes = f"words {list(packed.shape)}, scales {list(scale.shape)} of {shown(base)}"
        key = "quantization_config.config_groups"
        found.findings.append(finding("configuration.quantization", key, expected=stated, found=sizes))
        return
    bits, size = fitting[0]
    each = WORD // bits
    outputs, inputs = packed.shape[0], _inputs(packed, scale, bits, size)
    middle = 1 << (bits - 1)

    def rows(start: int, end: int) -> Tensor:
        words = opened.values(packed.name, start, end)
        numbers = unpacked(words, bits, words.shape[1] * each, 1)[:, :inputs] - middle
        scales = opened.values(scale.name, start, end).to(torch.float32)
        group = torch.arange(inputs) // size
        if GROUPS in parts:
            group = opened.values(parts[GROUPS].name).to(torch.int64)
        group = group.clamp(0, scales.shape[1] - 1)
        if zero is not None:
            points = unpacked(opened.values(zero.name), bits, outputs, 0)[start:end] - middle
            numbers = numbers - points[:, group]
        return numbers.to(torch.float32) * scales[:, group]

    tensor = whole(f"{base}.weight", (outputs, inputs), f"compressed-tensors {bits}-bit", parts.values())
    found.shown.append(Shown(tensor=tensor, read=in_pieces(rows, tensor.shape)))


def _bits_and_group(kind: Mapping[str, Any]) -> tuple[int, int]:
    """The group is as large as can be where one scale holds for a whole row."""
    bits, size = kind.get("num_bits"), kind.get("group_size")
    return (bits if type(bits) is int else 0), (size if type(size) is int and size > 0 else 1 << 40)


def _fits(packed: StoredTensor, scale: StoredTensor, bits: int, size: int) -> bool:
    """Words are filled up at the end of a row, so that sizes fit more than one width: those with a scale for each
    group and no word too many."""
    if bits not in (2, 4, 8) or scale.shape[0] != packed.shape[0]:
        return False
    numbers = packed.shape[1] * (WORD // bits)
    return scale.shape[1] == (1 if size > numbers else -(-numbers // size))


def _inputs(packed: StoredTensor, scale: StoredTensor, bits: int, size: int) -> int:
    numbers = packed.shape[1] * (WORD // bits)
    return min(numbers, scale.shape[1] * size)
