"""A checkpoint's tensors as another scheme names them and lays them out, made a few rows at a time."""

import functools
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from openmodelatlas.errors import CheckpointError
from openmodelatlas.models.variant import Variant
from openmodelatlas.records.report import Ledger, StoredTensor, TensorRow
from openmodelatlas.weights import steps
from openmodelatlas.weights.load import frequency_divisors
from openmodelatlas.weights.naming import Scheme, block_pattern, name_table, pieces
from openmodelatlas.weights.opened import Opened
from openmodelatlas.weights.reading.plain import TYPES

PIECE_BYTES = 32 << 20
KEPT = {torch.float64: "F64", torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16"}
"""Types that every format has; numbers of any other are written in float32."""

ALWAYS_WIDE = ("ffn_gate_inp",)
"""GGUF files keep vectors and the matrices that choose experts in float32; programs that read them rely on it."""


class Made(Protocol):
    """Where a tensor's values come from."""

    def pieces(self) -> Iterable[Tensor]:
        """The values in order, as runs of the first axis."""
        ...


@dataclass(frozen=True, kw_only=True)
class Outgoing:
    """One tensor to write. `pieces` gives its values in order, as runs of its first axis, each in memory of its own."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    made: Made = field(repr=False)

    @property
    def bytes(self) -> int:
        """Its length if it is written in plain numbers."""
        return math.prod(self.shape) * self.dtype.itemsize

    def pieces(self) -> Iterator[Tensor]:
        """CheckpointError where a number is too large for the type."""
        for piece in self.made.pieces():
            narrowed = piece.to(self.dtype)
            if narrowed.dtype != piece.dtype and bool((narrowed.isinf() & piece.isfinite()).any()):
                raise CheckpointError(
                    f"a number is too large for {str(self.dtype).removeprefix('torch.')}",
                    where=self.name,
                    found=f"{float(piece.abs().max()):g}",
                    fix="choose another --dtype",
                )
            yield narrowed.contiguous()


class _Made:
    """Values by way of the definition: read from one or several stored tensors, each step of theirs done, each of the
    target's undone. `part` is the index of one expert in a stack."""

    def __init__(
        self, opened: Opened, rows: Sequence[TensorRow], part: int | None, undone: tuple[str, ...], variant: Variant
    ) -> None:
        self._opened, self._rows, self._part = opened, rows, part
        done = tuple(name for name in rows[0].steps if name != steps.STACK)
        self._done, self._undone = ((), ()) if done == undone else (done, undone)  # there and back may round
        self._config = variant.config

    @property
    def widened(self) -> bool:
        """Whether a step computes, in float32 at least."""
        return bool({*self._done, *self._undone} & steps.COMPUTING)

    @property
    def stored(self) -> list[StoredTensor]:
        """What is read."""
        return [row.stored for row in self._rows if row.stored is not None]

    def pieces(self) -> Iterator[Tensor]:
        """In the types that the values have in the definition."""
        for row in self._rows:
            for piece in self._read(row):
                yield steps.undo(steps.apply(piece, self._done, self._config), self._undone, self._config)

    def _read(self, row: TensorRow) -> Iterator[Tensor]:
        assert row.stored is not None
        name, shape = row.stored.name, row.stored.shape
        if self._part is not None:
            yield self._opened.values(name, self._part, self._part + 1)[0]
        elif len(shape) == 3:
            for index in range(shape[0]):
                yield self._opened.values(name, index, index + 1)
        elif len(shape) < 2 or not {*self._done, *self._undone} <= steps.INVERSES.keys():
            yield self._opened.values(name)
        else:
            run = self._run(shape)
            for start in range(0, shape[0], run):
                yield self._opened.values(name, start, min(start + run, shape[0]))

    def _run(self, shape: tuple[int, ...]) -> int:
        """Rows of one piece: whole heads, so that steps that move rows stay within it."""
        heads = getattr(self._config, "head_dim", 1)
        return max(1, PIECE_BYTES // (4 * shape[1] * heads)) * heads


class _Divisors:
    """By how much each rotary frequency is divided, from the definition."""

    def __init__(self, variant: Variant) -> None:
        self._values = frequency_divisors(variant).to(torch.float32)

    def pieces(self) -> Iterator[Tensor]:
        yield self._values


def outgoing(
    opened: Opened, variant: Variant, ledger: Ledger, scheme: Scheme, dtype: torch.dtype | None = None
) -> list[Outgoing]:
    """Every tensor that the scheme stores of the model, in the definition's order.

    `dtype` None: plain numbers keep their type, others become float32; and where a file mostly of a narrow type keeps
    some tensors in float32, as GGUF does by convention, those come out narrow if that changes no number."""
    names = {row.parameter: row for row in name_table(variant.family, scheme).tensors}
    narrow = _most(ledger) if opened.scheme == "gguf" and scheme != "gguf" else None
    found = []
    for parameter, group in itertools.groupby(ledger.rows, lambda row: row.parameter):
        rows = list(group)
        if parameter is None:
            continue
        pattern, index = block_pattern(parameter)
        row, shape = names[pattern], _whole(rows)
        stored = pieces(row.stored, index, shape[0])
        for number, name in enumerate(stored):
            apart = len(stored) > 1
            made = _of(opened, rows, number if apart else None, row.steps, variant)
            size = shape[1:] if apart else shape
            wide = scheme == "gguf" and (len(size) < 2 or any(word in name for word in ALWAYS_WIDE))
            kind = dtype or _type(made, narrow)
            if wide and kind != torch.float64:
                kind = torch.float32
            found.append(Outgoing(name=name, shape=size, dtype=kind, made=made))
    return found + _constants(variant, scheme)


def _whole(rows: Sequence[TensorRow]) -> tuple[int, ...]:
    """The shape of a parameter whose rows these are."""
    shape = rows[0].shape or ()
    return (len(rows), *shape) if steps.STACK in rows[0].steps else shape


def _of(opened: Opened, rows: list[TensorRow], expert: int | None, undone: tuple[str, ...], variant: Variant) -> _Made:
    stacked = steps.STACK not in rows[0].steps
    if expert is None:
        return _Made(opened, rows, None, undone, variant)
    return _Made(opened, rows if stacked else [rows[expert]], expert if stacked else None, undone, variant)


def _constants(variant: Variant, scheme: Scheme) -> list[Outgoing]:
    modules = {path for path, _ in variant.build("meta").named_modules()}
    found = []
    for constant in name_table(variant.family, scheme).constants:
        if constant.equals == "frequency_divisors" and constant.owner in modules:
            made = _Divisors(variant)
            shape = tuple(next(made.pieces()).shape)
            found.append(Outgoing(name=constant.stored, shape=shape, dtype=torch.float32, made=made))
    return found


def plain(tensor: StoredTensor) -> torch.dtype | None:
    """The type of its numbers where every format has it; None for one that is dequantised."""
    kind = TYPES.get(tensor.type)
    return kind if kind in KEPT else None


def _type(made: _Made, narrow: torch.dtype | None) -> torch.dtype:
    """The type that holds every number as it is."""
    found = functools.reduce(torch.promote_types, (plain(stored) or torch.float32 for stored in made.stored))
    if made.widened:
        found = torch.promote_types(found, torch.float32)
    return narrow if found == torch.float32 and narrow is not None and _fits(made, narrow) else found


def _most(ledger: Ledger) -> torch.dtype | None:
    """The narrow type that most of the numbers are stored in, if they are."""
    bytes_of = Counter[torch.dtype | None]()
    for row in ledger.rows:
        if row.stored is not None:
            bytes_of[plain(row.stored)] += row.stored.bytes
    kind = bytes_of.most_common(1)[0][0]
    return kind if kind in (torch.bfloat16, torch.float16) else None


def _fits(made: _Made, narrow: torch.dtype) -> bool:
    return all(torch.equal(piece.to(narrow).to(piece.dtype), piece) for piece in made.pieces())
