"""The layouts of GPTQ and AWQ: words of whole numbers, a zero point and a scale for each group of inputs."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from openmodelatlas.errors import CheckpointError
from openmodelatlas.records.findings import finding
from openmodelatlas.records.report import Finding, StoredTensor
from openmodelatlas.weights.opened import Opened
from openmodelatlas.weights.packed.parts import Layout, Packed, disagreement, missing_parts
from openmodelatlas.weights.packed.words import WORD, Kept, in_pieces, unpacked
from openmodelatlas.weights.view import Shown, whole

WORDS, ZEROS, SCALES, GROUPS = "qweight", "qzeros", "scales", "g_idx"
AWQ_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)
"""In which eighth of a word each of eight neighbours stands."""


def gptq(opened: Opened, settings: Mapping[str, Any]) -> Layout:
    """Inputs packed along the first axis. Stored zero points are one too small in the first version of the layout and
    exact in the second; where a symmetric file's values tell which it is, they count."""
    found = Layout()
    zeros, orders = _Zeros(opened, settings), _Orders(opened, settings)
    for base, parts in Packed(opened, ".qweight").groups((WORDS, ZEROS, SCALES), (GROUPS,)):
        if missing_parts(found, base, parts, (WORDS, ZEROS, SCALES)):
            continue
        outputs, bits = parts[SCALES].shape[-1], _bits(parts)
        if bits is None or outputs != parts[WORDS].shape[-1]:
            found.bad_shape(base, parts)
            continue
        inputs = parts[WORDS].shape[0] * WORD // bits
        found.findings += _agrees(base, settings, bits, inputs, parts)
        tensor = whole(f"{base}.weight", (outputs, inputs), f"GPTQ {bits}-bit", parts.values())
        read = _Gptq(opened, parts, bits, inputs, zeros)
        found.shown.append(Shown(tensor=tensor, read=in_pieces(read.rows, tensor.shape)))
        zeros.packed.append((base, parts[ZEROS], bits, outputs))
        if GROUPS in parts:
            orders.packed.append((base, parts[GROUPS], inputs, parts[SCALES].shape[0]))
    found.by_values = lambda: [*zeros.findings(), *orders.findings()]
    return found


def awq(opened: Opened, settings: Mapping[str, Any]) -> Layout:
    """Outputs packed along the second axis, eight to a word in an order of their own."""
    found = Layout()
    kept = Kept(lambda name: opened.values(name))
    for base, parts in Packed(opened, ".qweight").groups((WORDS, ZEROS, SCALES), ()):
        if missing_parts(found, base, parts, (WORDS, ZEROS, SCALES)):
            continue
        inputs, words = parts[WORDS].shape
        groups, outputs = parts[SCALES].shape
        if words * 8 != outputs or parts[ZEROS].shape != (groups, words):
            found.bad_shape(base, parts)
            continue
        found.findings += disagreement(base, settings, "bits", 4)
        found.findings += disagreement(base, settings, "group_size", -(-inputs // groups), whole=inputs)
        size = -(-inputs // groups)
        tensor = whole(f"{base}.weight", (outputs, inputs), "AWQ 4-bit", parts.values())

        def rows(start: int, end: int, parts: Mapping[str, StoredTensor] = parts, size: int = size) -> Tensor:
            low, high = start // 8, -(-end // 8)
            numbers = _in_order(kept(parts[WORDS].name)[:, low:high])
            zeros = _in_order(opened.values(parts[ZEROS].name)[:, low:high])
            scales = opened.values(parts[SCALES].name)[:, low * 8 : high * 8].to(torch.float32)
            group = torch.arange(numbers.shape[0]) // size
            made = (numbers - zeros[group]).to(torch.float32) * scales[group]
            return made[:, start - low * 8 : end - low * 8].T.contiguous()

        found.shown.append(Shown(tensor=tensor, read=in_pieces(rows, tensor.shape)))
    return found


def _in_order(words: Tensor) -> Tensor:
    numbers = unpacked(words, 4, words.shape[1] * 8, 1).reshape(len(words), -1, 8)
    return numbers[:, :, list(AWQ_ORDER)].flatten(1)


def _bits(parts: Mapping[str, StoredTensor]) -> int | None:
    """How many bits a zero point has, from the shapes."""
    zeros, scales = parts[ZEROS].shape, parts[SCALES].shape
    if len(zeros) != 2 or len(scales) != 2 or zeros[0] != scales[0] or not scales[1]:
        return None
    bits, rest = divmod(zeros[1] * WORD, scales[1])
    return bits if not rest and bits in (2, 3, 4, 8) else None


def _agrees(
    base: str, settings: Mapping[str, Any], bits: int, inputs: int, parts: Mapping[str, StoredTensor]
) -> list[Finding]:
    groups = parts[SCALES].shape[0]
    found = disagreement(base, settings, "bits", bits)
    found += disagreement(base, settings, "group_size", -(-inputs // groups), whole=inputs)
    if settings.get("desc_act") is True and GROUPS not in parts and groups > 1:
        expected = "which input is of which group, as desc_act says that they are out of order"
        found.append(finding("tensors.packed-part", f"{base}.{GROUPS}", expected=expected, found="none"))
    return found


class _Zeros:
    """By how much stored zero points are too small: told by the values where they can tell, else by the settings."""

    def __init__(self, opened: Opened, settings: Mapping[str, Any]) -> None:
        self._opened, self._symmetric = opened, settings.get("sym") is True
        self._stated = settings.get("checkpoint_format", "gptq")
        self.packed: list[tuple[str, StoredTensor, int, int]] = []

    def shift(self, values: Tensor, bits: int) -> int:
        """1 for the first version, 0 for the second."""
        told = self._told(values, bits)
        return int(self._stated != "gptq_v2") if told is None else told

    def _told(self, values: Tensor, bits: int) -> int | None:
        """In a symmetric file every zero point is the middle one, or one less in the first version."""
        middle, first = 1 << (bits - 1), int(values.reshape(-1)[0])
        if not self._symmetric or first not in (middle, middle - 1) or not bool((values == first).all()):
            return None
        return middle - first

    def findings(self) -> list[Finding]:
        """Where values and settings name different versions."""
        found = []
        for base, zeros, bits, outputs in self.packed:
            values = unpacked(self._opened.values(zeros.name), bits, outputs, 1)
            told = self._told(values, bits)
            if told is not None and told != int(self._stated != "gptq_v2"):
                version = ("gptq_v2", "gptq")
                what = f"all {int(values[0, 0])}, which is the middle in {version[told]}"
                found.append(finding("tensors.packed-zeros", f"{base}.{ZEROS}", expected=self._stated, found=what))
        return found


class _Orders:
    """Of which group each input is: one that is there, and the next in turn where the settings say so."""

    def __init__(self, opened: Opened, settings: Mapping[str, Any]) -> None:
        self._opened, self._in_turn = opened, settings.get("desc_act") is False
        self.packed: list[tuple[str, StoredTensor, int, int]] = []

    def findings(self) -> list[Finding]:
        """Where the values say otherwise."""
        found = []
        for base, groups, inputs, count in self.packed:
            order, where = self._opened.values(groups.name).to(torch.int64), f"{base}.{GROUPS}"
            if beyond := _beyond(order, count):
                expected = f"groups 0 to {count - 1}"
                found.append(finding("tensors.packed-state", where, expected=expected, found=f"group {beyond[0]}"))
            elif self._in_turn and not torch.equal(order, _in_turn(inputs, count)):
                expected = "groups in turn, as desc_act says"
                found.append(finding("tensors.packed-state", where, expected=expected, found="another order"))
        return found


def _in_turn(inputs: int, count: int) -> Tensor:
    return torch.arange(inputs) // -(-inputs // count)


def _beyond(order: Tensor, count: int) -> list[int]:
    """Groups that there are no scales of."""
    beyond: list[int] = order[(order < 0) | (order >= count)].tolist()
    return beyond


class _Gptq:
    def __init__(
        self, opened: Opened, parts: Mapping[str, StoredTensor], bits: int, inputs: int, zeros: _Zeros
    ) -> None:
        self._opened, self._parts, self._bits, self._inputs, self._zeros = opened, parts, bits, inputs, zeros
        self._kept = Kept(lambda name: opened.values(name))

    def rows(self, start: int, end: int) -> Tensor:
        """Some outputs, as rows."""
        words = self._kept(self._parts[WORDS].name)
        scales = self._opened.values(self._parts[SCALES].name).to(torch.float32)
        zeros = unpacked(self._opened.values(self._parts[ZEROS].name), self._bits, scales.shape[1], 1)
        shift = self._zeros.shift(zeros, self._bits)
        zeros = ((zeros + shift) & ((1 << self._bits) - 1))[:, start:end]
        group = self._groups(scales.shape[0])
        numbers = unpacked(words[:, start:end], self._bits, self._inputs, 0)
        return ((numbers - zeros[group]).to(torch.float32) * scales[:, start:end][group]).T.contiguous()

    def _groups(self, count: int) -> Tensor:
        if GROUPS not in self._parts:
            return _in_turn(self._inputs, count)
        where, order = self._parts[GROUPS].name, self._opened.values(self._parts[GROUPS].name).to(torch.int64)
        if beyond := _beyond(order, count):
            raise CheckpointError(
                "an input is of a group without scales",
                where=where,
                expected=f"groups 0 to {count - 1}",
                found=beyond[0],
                code="values.unreadable",
            )
        return order
