"""Distances between two runs, node by node, and the bars that they are held to.

A distance is the largest difference over a node's elements, divided by the largest magnitude in it. The bar is not a
matter of taste: ours to each reference may be at most twice the references' own distance to each other, or 1e-6.
"""

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from openmodelatlas.infer.steady import one_thread
from openmodelatlas.records.verification import Measurement
from openmodelatlas.verify.references.exchange import Values

FLOOR = 1e-6
UNSEEN = -1e30  # a masked score: minus infinity here, the most negative number elsewhere


def distance(a: Tensor, b: Tensor, rows: Tensor | None = None) -> float:
    """The largest difference relative to the largest magnitude; of whole numbers, the share that differs. Infinite
    where shapes, or what is masked, differ.

    `rows` `[B, T]`: the positions that count; of a value without a T axis, all count."""
    if a.shape != b.shape:
        return math.inf
    if rows is not None:
        a, b = _rows(a, rows), _rows(b, rows)
    if a.numel() == 0:
        return 0.0
    if not a.is_floating_point():
        return float((a != b).double().mean())
    wide = torch.promote_types(torch.promote_types(a.dtype, b.dtype), torch.float32)
    a, b = a.to(wide), b.to(wide)
    if float(a.min()) <= UNSEEN:
        seen = a > UNSEEN
        if not torch.equal(seen, b > UNSEEN):
            return math.inf
        a, b = a.where(seen, 0.0), b.where(seen, 0.0)
    apart, largest = float((a - b).abs().max()), max(float(a.abs().max()), float(b.abs().max()))
    if not math.isfinite(apart):
        return math.inf
    return apart / largest if largest else 0.0


def _rows(value: Tensor, rows: Tensor) -> Tensor:
    """The rows of real positions: axis 1, or 2 where heads stand before positions."""
    batch, length = rows.shape
    if value.dim() == 4 and value.shape[2] == length and value.shape[1] != length:
        value = value.transpose(1, 2)
    return value[rows] if value.shape[:2] == (batch, length) else value


OF_ALL_SLOTS = tuple(f".attend.{name}" for name in ("scores", "repeat_k", "repeat_v"))
"""Nodes in which padding's keys and values stand; the mask takes them out afterwards."""

SLOT_AXES = {".attend.repeat_k": 1, ".attend.repeat_v": 1}
SLOT_AXES |= {".attend.scores": 3, ".attend.mask": 3, ".attend.softmax": 3}
"""The axis of cache slots of nodes that have one."""


def last_slots(node: str, ours: Tensor, theirs: Tensor) -> Tensor:
    """Ours without the slots that theirs has dropped, the first ones, since they lie outside a window.

    Ours as it is where it sees one of those, which is then a difference in shape."""
    axis = next((axis for name, axis in SLOT_AXES.items() if node.endswith(name)), None)
    if axis is None or ours.dim() != theirs.dim() or ours.shape[axis] <= theirs.shape[axis]:
        return ours
    kept = theirs.shape[axis]
    dropped = ours.narrow(axis, 0, ours.shape[axis] - kept)
    if node.endswith(".mask") and bool((dropped > UNSEEN).any()):
        return ours
    if node.endswith(".softmax") and bool(dropped.any()):
        return ours
    return ours.narrow(axis, ours.shape[axis] - kept, kept)


@dataclass
class Distances:
    """By node with its region for its block: the largest distance over blocks and calls, for each pair of sides.

    `kinds` are the regions of the blocks; `sequence` the nodes as they follow in a forward."""

    kinds: Sequence[str]
    pairs: dict[str, dict[str, float]] = field(default_factory=dict)
    sequence: list[str] = field(default_factory=list)

    @one_thread()
    def add(self, pair: str, a: Sequence[Values], b: Sequence[Values], rows: Sequence[Tensor] = ()) -> None:
        """Compare two runs of a case at every node that both have."""
        found = self.pairs.setdefault(pair, {})
        for call, (left, right) in enumerate(zip(a, b, strict=True)):
            for node in left:
                if node not in right or (rows and node.endswith(OF_ALL_SLOTS)):
                    continue
                name = region(node, self.kinds)
                mine = last_slots(node, left[node], right[node])
                apart = distance(mine, right[node], rows[call] if rows else None)
                found[name] = max(found.get(name, 0.0), apart)
        self.sequence += [node for node in found if node not in self.sequence]

    def order(self, node: str) -> int:
        """Where a node stands in the forward."""
        return self.sequence.index(node)


def region(node: str, kinds: Sequence[str] = ()) -> str:
    """`blocks.1.attention.q` as `block.attention.q`, or under the name of the block's region; `blocks.1` likewise."""
    if not node.startswith("blocks."):
        return node
    _, index, *rest = node.split(".")
    return ".".join([kinds[int(index)] if kinds else "block", *rest])


BETWEEN = "the references to each other"


def measured(found: Distances, between: str, to: Iterable[str], *, floor: float = FLOOR) -> tuple[Measurement, ...]:
    """Three numbers a node: ours to each reference, with its bound, and the references to each other.

    Where the second reference has no such value inside it, the bound is the floor, or twice the references' distance
    at the next node that both have."""
    made: list[Measurement] = []
    noise = {node: apart for node, apart in found.pairs[between].items() if math.isfinite(apart)}
    for node in found.sequence:
        own = noise.get(node)
        later = [noise[n] for n in noise if found.order(n) > found.order(node)]
        bound = max(2 * (own if own is not None else min(later, default=0.0)), floor)
        for name in to:
            if node in found.pairs[name]:
                what = f"{name}, relative"
                made.append(Measurement(where=node, what=what, value=short(found.pairs[name][node]), bound=bound))
        if own is not None:
            made.append(Measurement(where=node, what=f"{between}, relative", value=short(own), bound=None))
    return tuple(dataclasses.replace(m, bound=None if m.bound is None else short(m.bound)) for m in made)


def short(value: float) -> float:
    """Three digits, rounded up: a bound or a distance needs no more. JSON has no infinity: 1e300 stands for it."""
    if not math.isfinite(value):
        return 1e300
    if value == 0.0:
        return 0.0
    scale = 10.0 ** (2 - math.floor(math.log10(abs(value))))
    return float(f"{math.ceil(value * scale - 1e-9) / scale:.3g}")


def holds(measurements: Iterable[Measurement]) -> bool:
    """Whether every measurement is within its bound."""
    return all(m.bound is None or m.value <= m.bound for m in measurements)


def worst(measurements: Sequence[Measurement]) -> Measurement:
    """The measurement nearest to its bound, or furthest beyond it."""
    return max((m for m in measurements if m.bound is not None), key=lambda m: m.value / (m.bound or FLOOR))
