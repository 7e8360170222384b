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
    """Where one of our values was found in a file. `lines` compute it, `called` are lines that got it from a call;
    `others` are further lines with the same value, which call order ruled out."""

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
    A value that stands nowhere whole may have been made in pieces, by one line that ran several times.
    """
    stock = _Stock(entries, rows)
    found: list[Match] = []
    missing: list[Handed] = []
    places: dict[str, int] = {}
    for value in ours:
        same = stock.equal_to(value.value)
        after = max((places[n] for n in value.needs if n in places), default=-1)
        if not same:
            same = list(_in_pieces(value.value, entries, after))
        chosen = _choose(value, [e for e, _ in same if not e.call], after)
        if chosen is None:
            missing.append(value)
            continue
        places[value.path] = max(places.get(value.path, -1), chosen.index)
        called = tuple(dict.fromkeys(e.line for e, _ in same if e.call))
        others = {e.line for e, _ in same if not e.call and e.moves == chosen.moves} - {chosen.line}
        found.append(Match(value, (chosen.line,), called, tuple(sorted(others)), _of(same, chosen), chosen.index))
    return found, missing


def _in_pieces(value: Tensor, entries: Sequence[Entry], after: int) -> Iterator[tuple[Entry, float]]:
    """Lines whose results, put together as they came, are the value's rows in another order; by the first piece."""
    if value.dim() < 3 or not value.is_floating_point():
        return
    wanted = _sorted_rows(value.flatten(0, -2).double())
    groups: dict[tuple[int, str, int], list[Entry]] = {}
    for entry in entries:
        fits = entry.value.dim() == 2 and entry.value.shape[1] == wanted.shape[1] and entry.index > after
        if fits and len(entry.value) < len(wanted) and not entry.call:
            groups.setdefault((entry.line, entry.function, entry.part), []).append(entry)
    for group in groups.values():
        for start in range(len(group)):
            pieces = _run_of(group[start:], len(wanted))
            if pieces:
                together = _sorted_rows(torch.cat([piece.value for piece in pieces]).double())
                if (far := _far(wanted, together)) < TOLERANCE:
                    yield pieces[0], far


def _run_of(group: Sequence[Entry], rows: int) -> Sequence[Entry]:
    """As many of the first pieces as have so many rows together, or none."""
    total = 0
    for count, entry in enumerate(group, 1):
        total += len(entry.value)
        if total >= rows:
            return group[:count] if total == rows else ()
    return ()


def _sorted_rows(rows: Tensor) -> Tensor:
    return rows[rows[:, 0].argsort()]


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


class _Stock:
    """A reference's values in every layout that they may stand in, by how many numbers they have."""

    def __init__(self, entries: Sequence[Entry], rows: range) -> None:
        self.by_count: dict[int, list[tuple[Entry, Tensor]]] = {}
        for entry in entries:
            for view in _layouts(entry.value, rows):
                self.by_count.setdefault(view.numel(), []).append((entry, view))

    def equal_to(self, value: Tensor) -> list[tuple[Entry, float]]:
        """The entries whose value is this one in some layout, in order, with the largest difference over the largest
        magnitude."""
        found: dict[int, tuple[Entry, float]] = {}
        for mine in _ours(value):
            for entry, view in self.by_count.get(mine.numel(), ()):
                far = _far(mine, view)
                if far < TOLERANCE and far < found.get(entry.index, (entry, float("inf")))[1]:
                    found[entry.index] = (entry, far)
        return [found[index] for index in sorted(found)]


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
