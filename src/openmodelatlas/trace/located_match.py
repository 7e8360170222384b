"""Match our values with those of a reference's lines, whatever layout they stand in."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from openmodelatlas.trace.located_watch import Entry, Handed

TOLERANCE = 1e-5
"""Relative to the largest magnitude; two float32 runs of the same computation are closer by a factor of ten."""


@dataclass(frozen=True)
class Match:
    """Where one of our values was found. `lines` compute it, `called` are lines that got it from a call; `others` are
    further lines with the same value, which call order ruled out."""

    handed: Handed
    lines: tuple[int, ...]
    called: tuple[int, ...]
    others: tuple[int, ...]
    distance: float
    index: int


def match(ours: Sequence[Handed], entries: Sequence[Entry], rows: range) -> tuple[list[Match], list[Handed]]:
    """Every one of our values with its lines, and those that no line has. `rows`: this call's positions.

    A value may stand at several lines. An op that computes is sought among ops that compute, one that only moves among
    views, casts and copies, first in exactly its own shape; of what remains, the first after the places of its inputs.
    """
    found: list[Match] = []
    missing: list[Handed] = []
    places: dict[str, int] = {}
    for value in ours:
        same = [(e, d) for e in entries if (d := distance(value.value, e.value, rows)) < TOLERANCE]
        after = max((places[n] for n in value.needs if n in places), default=-1)
        chosen = _choose(value, [e for e, _ in same if not e.call], after)
        if chosen is None:
            missing.append(value)
            continue
        places[value.path] = max(places.get(value.path, -1), chosen.index)
        called = tuple(dict.fromkeys(e.line for e, _ in same if e.call))
        others = {e.line for e, _ in same if not e.call and e.moves == chosen.moves} - {chosen.line}
        found.append(Match(value, (chosen.line,), called, tuple(sorted(others)), _of(same, chosen), chosen.index))
    return found, missing


def _of(same: list[tuple[Entry, float]], chosen: Entry) -> float:
    return next(d for e, d in same if e is chosen)


def _choose(value: Handed, same: list[Entry], after: int) -> Entry | None:
    exact = [e for e in same if e.value.shape == value.value.shape]
    views = [e for e in same if e.moves]
    groups = (
        [[e for e in exact if e.moves and e.index > after], [e for e in views if e.index > after], views, same]
        if value.moves
        else [[e for e in same if not e.moves and e.index > after], [e for e in same if not e.moves], same]
    )
    return next((group[0] for group in groups if group), None)


def distance(ours: Tensor, theirs: Tensor, rows: range) -> float:
    """The largest difference over the largest magnitude, in the layout that fits best; infinite where none fits."""
    best = float("inf")
    for mine in _ours(ours):
        for view in _layouts(theirs, rows):
            if view.numel() == mine.numel():
                best = min(best, _far(mine, view))
    return best


def _ours(value: Tensor) -> Iterator[Tensor]:
    """A value, and one row of it where all rows of the batch are equal: a reference need not repeat it."""
    yield value.flatten().double()
    if value.dim() > 1 and torch.equal(value, value[:1].expand_as(value)):
        yield value[0].flatten().double()


def _layouts(value: Tensor, rows: range) -> Iterator[Tensor]:
    """The layouts in which the same numbers may stand."""
    for real in _reals(value):
        yield real.flatten()
        if real.dim() == 4:
            yield real.transpose(1, 2).flatten()
        if real.dim() == 2 and len(real) > len(rows) and len(real) >= rows.stop:
            yield real[rows.start : rows.stop].flatten()
        half = real.shape[-1] // 2 if real.dim() else 0
        if half and real.shape[-1] % 2 == 0:
            # Half-split rotary pairs: pairs side by side again, or the one copy of a table that holds two.
            paired = torch.stack((real[..., :half], real[..., half:]), -1).flatten(-2)
            yield paired.flatten()
            if real.dim() == 4:
                yield paired.transpose(1, 2).flatten()
            if torch.equal(real[..., :half], real[..., half:]):
                yield real[..., :half].flatten()


LOWEST = -1e37
"""What a reference may write for minus infinity: the lowest finite number."""


def _reals(value: Tensor) -> Iterator[Tensor]:
    if not value.is_complex():
        yield torch.where(value < LOWEST, float("-inf"), value.double())
        return
    yield torch.view_as_real(value).flatten(-2).double()
    yield value.real.double()
    yield value.imag.double()


def _far(mine: Tensor, theirs: Tensor) -> float:
    """Infinite entries (a mask's) must be the same ones."""
    finite = mine.isfinite()
    if not torch.equal(finite, theirs.isfinite()) or not torch.equal(mine[~finite], theirs[~finite]):
        return float("inf")
    if not finite.any():
        return 0.0
    scale = float(mine[finite].abs().max())
    far = float((mine[finite] - theirs[finite]).abs().max())
    return far / scale if scale else far
