"""How far a quantised tensor may be from what it was made of, by its storage type."""

import functools
import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import torch
from torch import Tensor

from openmodelatlas.weights.reading.ggml import BY_NAME

SMALLEST_BLOCK = 32
MOST_LEAN, LEAST_FACTOR = 0.5, 0.1
SMALLEST_LEAN, FEWEST = 2.0**-10, 256
"""Means below that share of the values, or of fewer numbers, say nothing."""
FARTHEST = 0.5
"""For a type of which no loss was measured: the root mean square error as a share of the values' own."""

GROUP, MOST_LOST, LEAST_SIZE = 128, 0.75, 0.5
"""For such a type too: values that are usually quantised together, how much of a block's own values its errors may be,
and from which size, as a share of the tensor's, a block is looked at."""


@dataclass(frozen=True, kw_only=True)
class Loss:
    """How far a quantised tensor is from its original.

    `share`: of what its type may lose, in the worst block (above 1: too much); `row`, `column`: where that block
    begins; `relative`: the root mean square of the errors over that of the original's values; `lean`: their mean over
    their root mean square, where that is more than a rounded scale explains; `factor`: by which the values are the
    original's, as nearly as a factor tells."""

    share: float
    row: int
    column: int
    relative: float
    lean: float
    factor: float

    @property
    def explained(self) -> bool:
        """Whether quantising alone loses this much: to both sides alike, and without making all values larger or
        smaller by more than few levels do, which is about the square of what is lost."""
        near = abs(self.factor - 1.0) <= LEAST_FACTOR + self.relative**2
        return self.share <= 1.0 and abs(self.lean) <= MOST_LEAN and near


@functools.cache
def _table() -> dict[str, Any]:
    return tomllib.loads((files(__package__) / "losses.toml").read_text(encoding="utf-8"))


def bound(kind: str) -> tuple[int, float] | None:
    """Elements of a block, and the largest error allowed in it as a share of its largest magnitude; None if no loss was
    measured for the type."""
    if kind not in _table()["measured"]:
        return None
    return max(BY_NAME[kind].elements, SMALLEST_BLOCK), _table()["measured"][kind] * _table()["margin"]


def loss(original: Tensor, stored: Tensor, kind: str) -> Loss:
    """The loss of `stored`, whose type is `kind`, against `original`; both float32, of one shape."""
    exact, error = original.double(), (stored.double() - original.double()).abs()
    size = float(exact.square().mean().sqrt())
    relative = float(error.square().mean().sqrt()) / size if size else float(bool(error.any()))
    limits = bound(kind)
    width = original.shape[-1]
    lean, factor = _lean(stored.double() - exact, size), _factor(exact, stored.double())
    if limits is None or width % limits[0]:
        share, row, column = _unmeasured(exact, error, relative, size)
        return Loss(share=share, row=row, column=column, relative=relative, lean=lean, factor=factor)
    blocks = error.reshape(-1, limits[0]).amax(1)
    largest = exact.abs().reshape(-1, limits[0]).amax(1) * limits[1]
    shares = torch.where(blocks == 0, 0.0, blocks / largest).nan_to_num(nan=float("inf"))
    worst = int(shares.argmax())
    row, column = divmod(worst * limits[0], width)
    return Loss(share=float(shares[worst]), row=row, column=column, relative=relative, lean=lean, factor=factor)


def _unmeasured(exact: Tensor, error: Tensor, relative: float, size: float) -> tuple[float, int, int]:
    """The share by the tensor as a whole, or by a block of it that is as good as lost; and where that block begins.
    Blocks of small values count for nothing: a large one beside them may have taken all levels."""
    width = exact.shape[-1]
    share = relative / FARTHEST
    if not size or width % GROUP:
        return share, 0, 0
    errors, sizes = (values.square().reshape(-1, GROUP).mean(1).sqrt() for values in (error, exact))
    lost = torch.where(sizes >= LEAST_SIZE * size, errors / sizes, 0.0).nan_to_num(nan=float("inf"))
    worst = int(lost.argmax())
    row, column = divmod(worst * GROUP, width)
    return max((share, 0, 0), (float(lost[worst]) / MOST_LOST, row, column))


def _lean(error: Tensor, size: float) -> float:
    mean, spread = float(error.mean()), float(error.square().mean().sqrt())
    return mean / spread if abs(mean) > SMALLEST_LEAN * size and error.numel() >= FEWEST else 0.0


def _factor(exact: Tensor, stored: Tensor) -> float:
    power = float(exact.square().sum())
    return float((exact * stored).sum()) / power if power and exact.numel() >= FEWEST else 1.0
