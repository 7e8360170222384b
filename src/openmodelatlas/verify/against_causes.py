"""The usual reasons why a converted tensor is not its original, each tried by recomputing what it would give."""

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from openmodelatlas.weights.steps import interleave_rotary_rows

ALIKE = 0.9  # cosine from which two rows are worth a full comparison
FEWEST_ROWS = 2
LEAST_FACTOR = 2.0**-6  # nearer to one it is rounding
OFFSET_ROUNDING = 2.0**-23  # what adding one may round, absolutely
NARROW = {"F16": torch.float16, "BF16": torch.bfloat16}


class Fits(Protocol):
    """Whether B's values are these, within what B's storage type explains, and `rounding` absolutely."""

    def __call__(self, candidate: Tensor, rounding: float = ...) -> bool: ...


class Cause(NamedTuple):
    """A kind of finding and what was found, in words."""

    code: str
    words: str


def layout(original: Tensor, stored: Tensor, config: Any, fits: Fits) -> Cause | None:
    """A reordering that keeps the numbers: rotary rows, exchanged axes."""
    for words, candidate in _orders(original, config):
        if fits(candidate):
            return Cause("against.row-order", words)
    if original.ndim == 2 and original.shape[0] == original.shape[1] and fits(original.T.contiguous()):
        return Cause("against.transposed", "rows and columns exchanged")
    if stored.ndim == 2 and (cause := _permuted(original, stored, fits)) is not None:
        return cause
    return None


def _orders(original: Tensor, config: Any) -> Iterator[tuple[str, Tensor]]:
    width = getattr(config, "head_dim", 0)
    if original.ndim != 2 or not width or width % 2 or original.shape[0] % width:
        return
    yield "adjacent pairs made of half-split rows once too often", interleave_rotary_rows(original, config)
    pairs = original.reshape(-1, width // 2, 2, original.shape[1])
    yield "rows of each head in two halves where adjacent pairs belong", pairs.transpose(1, 2).reshape(original.shape)


def _permuted(original: Tensor, stored: Tensor, fits: Fits) -> Cause | None:
    """Rows in another order: each stored row is paired with the original row nearest to it by direction."""
    if original.shape[0] < FEWEST_ROWS:
        return None
    order = _matched(original.to(torch.float32), stored.to(torch.float32))
    if order is None:
        return None
    moved = (order != torch.arange(len(order))).nonzero().flatten()
    if not len(moved) or not fits(original[order]):
        return None
    first = int(moved[0])
    return Cause("against.rows-permuted", f"{len(moved):,} rows moved, first row {first}, which is row {order[first]}")


def _matched(original: Tensor, stored: Tensor, rows: int = 1024) -> Tensor | None:
    """For each stored row the original row of its direction; None unless that is one to one."""
    a = torch.nn.functional.normalize(original, dim=1)
    taken = []
    for start in range(0, len(stored), rows):
        b = torch.nn.functional.normalize(stored[start : start + rows], dim=1)
        best, order = _nearest(a, b)
        if bool((best < ALIKE).any()):
            return None
        taken.append(order)
    order = torch.cat(taken)
    return order if len(set(order.tolist())) == len(order) else None


def _nearest(a: Tensor, b: Tensor, columns: int = 16384) -> tuple[Tensor, Tensor]:
    best, order = torch.full((len(b),), -2.0), torch.zeros(len(b), dtype=torch.long)
    for start in range(0, len(a), columns):
        found, at = (b @ a[start : start + columns].T).max(1)
        better = found > best
        best, order = torch.where(better, found, best), torch.where(better, at + start, order)
    return best, order


def numbers(original: Tensor, stored: Tensor, fits: Fits) -> Cause | None:
    """The original's numbers changed in one way throughout: rounded on the way, offset by one, or times a factor."""
    exact = original.to(torch.float32)
    for name, narrow in NARROW.items():
        if torch.equal(exact.to(narrow).to(stored.dtype), stored):
            return Cause("against.rounding", f"the original's values as they come out of {name}")
    for sign in (1, -1):
        if fits((exact + sign).to(torch.promote_types(stored.dtype, original.dtype)), OFFSET_ROUNDING):
            return Cause("against.offset", f"the original's values {'plus' if sign > 0 else 'minus'} one")
    a, b = exact.double().flatten(), stored.double().flatten()
    power = float(a @ a)
    factor = float(a @ b) / power if power else 0.0
    if abs(factor - 1.0) < LEAST_FACTOR:
        return None
    near = factor and float((b - factor * a).norm()) < 2.0**-7 * float(b.norm())
    return Cause("against.scaled", f"the original's values times {factor:.6g}") if near else None


def alike(a: Tensor, b: Tensor) -> bool:
    """Whether two rows point in nearly the same direction."""
    if a.shape != b.shape:
        return False
    return bool(torch.nn.functional.cosine_similarity(a.flatten(), b.flatten(), dim=0) > ALIKE)
