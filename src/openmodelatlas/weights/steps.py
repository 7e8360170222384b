"""Layout conversions from what a file stores to what a definition computes with. No other code converts anything."""

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from openmodelatlas.errors import CatalogError

STACK = "stack_experts"


def interleave_rotary_rows(weight: Tensor, config: Any) -> Tensor:
    """Half-split rows (all first features of a head's pairs, then all second ones) to adjacent pairs."""
    heads = weight.reshape(-1, 2, config.head_dim // 2, weight.shape[1])
    return heads.transpose(1, 2).reshape(weight.shape).contiguous()


def subtract_one(weight: Tensor, _config: Any) -> Tensor:
    """A gain as the file stores it, to the weight that the definition adds one to."""
    return weight.to(torch.promote_types(weight.dtype, torch.float32)) - 1


def part_rotary_rows(weight: Tensor, config: Any) -> Tensor:
    """Adjacent pairs to half-split rows."""
    heads = weight.reshape(-1, config.head_dim // 2, 2, weight.shape[1])
    return heads.transpose(1, 2).reshape(weight.shape).contiguous()


def add_one(weight: Tensor, _config: Any) -> Tensor:
    """A weight that the definition adds one to, to the gain as a file stores it."""
    return weight.to(torch.promote_types(weight.dtype, torch.float32)) + 1


STEPS: dict[str, Callable[[Tensor, Any], Tensor]] = {
    "interleave_rotary_rows": interleave_rotary_rows,
    "subtract_one": subtract_one,
}
INVERSES: dict[str, Callable[[Tensor, Any], Tensor]] = {
    "interleave_rotary_rows": part_rotary_rows,
    "subtract_one": add_one,
}
"""What undoes each step. All of these work on any run of rows that holds whole heads."""
COMPUTING = {"subtract_one"}
"""Steps that compute new numbers, in float32 at least; the others only move them."""


def apply(weight: Tensor, steps: tuple[str, ...], config: Any) -> Tensor:
    """Every step of one stored tensor in turn; STACK, which joins several, is `stack_experts`'s.

    CatalogError for a step that does not exist."""
    for name in steps:
        if name == STACK:
            continue
        if name not in STEPS:
            raise CatalogError("no such layout step", found=name, expected=", ".join((*STEPS, STACK)))
        weight = STEPS[name](weight, config)
    return weight


def undo(weight: Tensor, steps: tuple[str, ...], config: Any) -> Tensor:
    """From the definition's layout to the stored one: each step undone, the last first; taking a stack apart is the
    caller's. CatalogError for a step that nothing undoes."""
    for name in reversed(steps):
        if name == STACK:
            continue
        if name not in INVERSES:
            raise CatalogError("no inverse of this layout step", found=name, expected=", ".join((*INVERSES, STACK)))
        weight = INVERSES[name](weight, config)
    return weight


def stack_experts(experts: Iterable[Tensor], count: int) -> Tensor:
    """`count` tensors of equal shape, one an expert, as one parameter along a new first axis; one is held at a time."""
    experts = iter(experts)
    first = next(experts)
    whole = first.new_empty((count, *first.shape))
    for place, expert in zip(whole, itertools.chain((first,), experts), strict=True):
        place.copy_(expert)
    return whole
