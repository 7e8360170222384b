"""What passes between the atlas and a reference's process: plain dicts of tensors, strings and numbers, in one file.

A request: `config` (numbers of the variant, by field), `tied`, `weights` (by the reference's own stored names),
`dtype`, `options` of the adapter, and `cases`. An answer: `yardstick`, and for each case its `calls`, one dict of
values by node id each; the result of the whole model stands under `logits`.
"""

from pathlib import Path
from typing import Any, TypedDict

import torch
from torch import Tensor

Values = dict[str, Tensor]
"""Values by node id, in the axes of the definition; a second result carries its port (`rope.table:sin`)."""


class Past(TypedDict):
    """Random keys and values that fill the cache before the first call, `repeat` rows over and over."""

    length: int
    repeat: int
    seed: int


class Case(TypedDict):
    """One text run through a model in one or more calls. `positions` -1 is padding, on the left only; `calls` are the
    numbers of positions of each call; `keep` are the nodes wanted (empty: all)."""

    tokens: Tensor
    positions: Tensor
    calls: list[int]
    past: Past | None
    keep: list[str]


class Answer(TypedDict):
    """What a reference computed: by case name, the values of each call."""

    yardstick: dict[str, Any]
    cases: dict[str, list[Values]]


class Request(TypedDict):
    """What a reference is to compute."""

    config: dict[str, Any]
    tied: bool
    weights: Values
    dtype: str
    options: dict[str, Any]
    cases: dict[str, Case]


def save(path: Path, data: Any) -> None:
    """Write one side's message."""
    torch.save(data, path)


def load(path: Path) -> Any:
    """Read the other side's message; only tensors and plain values come out of it."""
    return torch.load(path, weights_only=True)


def past(spec: Past, batch: int, heads: int, width: int, block: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The keys (as after rotation, in adjacent pairs) and values `[B, S, K, E]` that `spec` stands for, the same in
    every process."""
    drawn = torch.Generator().manual_seed(spec["seed"] + block)
    shape = (batch, spec["repeat"], heads, width)
    times = -(-spec["length"] // spec["repeat"])
    made = []
    for _ in range(2):
        few = torch.randn(shape, generator=drawn).to(dtype)
        made.append(few.repeat(1, times, 1, 1)[:, : spec["length"]])
    return made[0], made[1]
