"""Ops with constants and sizes that no variant has: a factor of one, or two equal sizes, would hide a mistake."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from openmodelatlas.models.olmo2 import FloatGainRMSNorm
from openmodelatlas.parts.attend import Attend, CausalMask, FusedAttend, ScaledAttend, WindowMask
from openmodelatlas.parts.cache import BlockCache, UpdateCache
from openmodelatlas.parts.elementwise import GELU, SiLU
from openmodelatlas.parts.heads import RepeatHeads, SplitHeads
from openmodelatlas.parts.linear import ExpertLinear
from openmodelatlas.parts.norm import RMSNorm, ZeroCenteredRMSNorm
from openmodelatlas.parts.rope import RopeFrequencies, RopeLinearScale, RopeScale

from .hold import Captured, capture


def unusual(dtype: torch.dtype) -> list[Captured]:
    """Every such op's call."""
    found = []
    for module, args in _calls(dtype):
        for parameter in module.parameters():
            nn.init.uniform_(parameter, 0.5, 1.5)
        found += capture(_Lone(module.to(dtype)), *args)
    return found


class _Lone(nn.Module):
    """Gives a module a path."""

    def __init__(self, op: nn.Module) -> None:
        super().__init__()
        self.op = op

    def forward(self, *args: Any) -> Any:
        return self.op(*args)


def _calls(dtype: torch.dtype) -> Iterator[tuple[nn.Module, tuple[Any, ...]]]:
    draw = torch.Generator().manual_seed(4)

    def some(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=draw).to(dtype)

    q, k, v = some(2, 3, 6, 4), some(2, 5, 2, 4), some(2, 5, 2, 4)
    positions, keys = torch.tensor([[3, 4, 9], [-1, 0, 1]]), torch.tensor([[4, 0, -1, 9, 3], [-1, 1, 0, -1, 2]])
    mask = CausalMask()(positions, keys)
    yield RopeScale(6.0, 2.0, 5.0, 500), (torch.logspace(0, -4, 41),)
    yield RopeLinearScale(6.0), (torch.logspace(0, -4, 41),)
    yield RopeFrequencies(14, 777.0), (torch.device("cpu"),)
    yield RMSNorm(9, 0.3), (some(2, 3, 9),)
    yield ZeroCenteredRMSNorm(9, 0.3), (some(2, 3, 9),)
    yield FloatGainRMSNorm(9, 0.3), (some(2, 3, 9),)
    yield SplitHeads(3), (some(2, 5, 12),)
    yield RepeatHeads(3), (some(2, 5, 2, 4),)
    yield CausalMask(), (positions, keys)
    yield WindowMask(2), (positions, keys)
    yield WindowMask(6), (positions, keys)
    yield Attend(3), (q, k, v, mask)
    yield ScaledAttend(3, 7), (q, k, v, mask)
    yield FusedAttend(), (q, k, v, mask)
    yield FusedAttend(0.6), (q, k, v, mask)
    yield SiLU(), (4 * some(2, 3, 50),)
    yield GELU(), (4 * some(2, 3, 50),)
    cache = BlockCache(some(2, 7, 2, 4), some(2, 7, 2, 4))
    yield UpdateCache(), (some(2, 3, 2, 4), some(2, 3, 2, 4), cache, torch.tensor([5, 1, 6]))
    # Experts that nobody chose: the first, the last, and one between.
    experts = torch.tensor([[[3, 1], [5, 3], [1, 5]], [[1, 3], [1, 5], [5, 1]]])
    yield ExpertLinear(7, 8, 16), (some(2, 3, 2, 8), experts)
