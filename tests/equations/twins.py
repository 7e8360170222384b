"""Tiny twins of a variant with random weights, and inputs at which every op and every number matters."""

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from openmodelatlas.models import find
from openmodelatlas.models.variant import Variant
from openmodelatlas.parts.cache import BlockCache, Cache

SIZES = {
    "hidden_size": 30,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 12,
    "intermediate_size": 28,
    "vocab_size": 31,
}
"""Heads unlike kv heads, a head width that is not width / heads, no two equal. Head width 12 has a frequency in each
band of the scaling and one between."""


def twin(name: str, **changes: int) -> Variant:
    """The variant at tiny sizes; structure and every other number are kept."""
    found = find(name)
    return dataclasses.replace(found, config=dataclasses.replace(found.config, **{**SIZES, **changes}))


def filled(variant: Variant, dtype: torch.dtype, seed: int = 0) -> nn.Module:
    """Random weights, the same numbers in every dtype. Embeddings are small, so that eps shows in the first norm."""
    model = variant.build("cpu", torch.float32)
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter.copy_(0.5 + torch.rand(parameter.shape, generator=draw))
            else:
                scale = 0.02 if name == "embed.weight" else 1.5 / parameter.shape[1] ** 0.5
                parameter.copy_(torch.randn(parameter.shape, generator=draw) * scale)
            parameter.copy_(parameter.bfloat16())  # numbers that every dtype can hold
    return model.to(dtype)


@dataclass(frozen=True)
class Input:
    """Tokens at positions; -1 is padding."""

    tokens: Tensor
    positions: Tensor


def whole(length: int = 12, start: int = 0) -> Input:
    """Two rows; the second is padded on the left."""
    draw = torch.Generator().manual_seed(1)
    tokens = torch.randint(0, SIZES["vocab_size"], (2, length), generator=draw)
    positions = torch.arange(start, start + length).repeat(2, 1)
    positions[1] = torch.where(torch.arange(length) < 3, -1, positions[1] - 3)
    return Input(tokens, positions)


def cache(variant: Variant, batch: int, slots: int, dtype: torch.dtype) -> Cache:
    """An empty cache."""
    shape = (batch, slots, variant.config.num_key_value_heads, variant.config.head_dim)
    blocks = tuple(
        BlockCache(torch.zeros(shape, dtype=dtype), torch.zeros(shape, dtype=dtype))
        for _ in range(variant.config.num_hidden_layers)
    )
    return Cache(torch.empty(0, dtype=torch.long), torch.full((batch, slots), -1), blocks)


def steps(model: nn.Module, variant: Variant, given: Input, lengths: tuple[int, ...], spare: int = 2) -> Tensor:
    """The logits of all positions, computed in several calls through a cache with slots to spare."""
    batch, total = given.tokens.shape
    dtype = next(model.parameters()).dtype
    empty, start, out = cache(variant, batch, total + spare, dtype), 0, []
    with torch.no_grad():
        for length in lengths:
            part = slice(start, start + length)
            empty.positions[:, part] = given.positions[:, part]
            call = empty._replace(slots=torch.arange(start, start + length))
            out.append(model(given.tokens[:, part], given.positions[:, part], call))
            start += length
    return torch.cat(out, 1)
