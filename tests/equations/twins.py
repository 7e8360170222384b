"""Tiny twins of a variant with random weights, and inputs at which every op and every number matters."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from openmodelatlas import models
from openmodelatlas.models.variant import Variant
from openmodelatlas.parts.cache import BlockCache, Cache

SIZES: dict[str, Any] = {
    "hidden_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 12,
    "intermediate_size": 40,
    "vocab_size": 31,
    "rms_norm_eps": 0.01,
    "sliding_window": 4,
    "sliding_window_pattern": 3,
    "num_local_experts": 5,
    "num_experts_per_tok": 3,
}
"""Heads unlike kv heads, a head width that is not width / heads, no two equal. Head width 12 has a frequency in each
band of llama's scaling and one between. Expert matrices have rows of whole 16 bytes in bfloat16, as their kernel wants,
and the root of the width is one that bfloat16 rounds far. An eps so large shows in every norm. The window is shorter
than the text."""

PERIODS = 2
"""How often a pattern of blocks comes round: a schedule that is right in the first only is not right."""


def structures() -> list[str]:
    """One variant for each way a family's models are put together."""
    return [variant.name for variant in models.structures()]


def twin(name: str, **changes: int) -> Variant:
    """The variant at tiny sizes; structure and every other number are kept."""
    found = models.find(name)
    known = {field.name for field in dataclasses.fields(found.config)}
    sizes = {field: value for field, value in SIZES.items() if field in known}
    if "sliding_window_pattern" in known:
        sizes["num_hidden_layers"] = PERIODS * SIZES["sliding_window_pattern"]
    return dataclasses.replace(found, config=dataclasses.replace(found.config, **{**sizes, **changes}))


def filled(variant: Variant, dtype: torch.dtype) -> nn.Module:
    """Random weights, the same numbers in every dtype and release. Embeddings are small, as in real models."""
    model = variant.build("cpu", torch.float32)
    with torch.no_grad():
        for name, values in drawn(model):
            model.get_parameter(name).copy_(values)
    return model.to(dtype)


def drawn(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Numbers that every dtype can hold; drawn by a generator whose numbers never change."""
    draw = np.random.RandomState(0)
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1:
            values = 0.5 + draw.random_sample(tuple(parameter.shape))
        else:
            scale = 0.02 if name == "embed.weight" else 1.5 / parameter.shape[-1] ** 0.5
            values = (2 * draw.random_sample(tuple(parameter.shape)) - 1) * 3**0.5 * scale
        yield name, torch.from_numpy(values).bfloat16().float()


@dataclass(frozen=True)
class Input:
    """Tokens at positions; -1 is padding."""

    tokens: Tensor
    positions: Tensor


LENGTH = 11
CALLS = (5, 1, 1, 4)
"""How many positions of a text go into each call of a run step by step."""


def whole(start: int = 0) -> Input:
    """Two rows; the second is padded on the left."""
    tokens = torch.from_numpy(np.random.RandomState(1).randint(0, SIZES["vocab_size"], (2, LENGTH)))
    positions = torch.arange(start, start + LENGTH).repeat(2, 1)
    positions[1] = torch.where(torch.arange(LENGTH) < 3, -1, positions[1] - 3)
    return Input(tokens, positions)


def cache(variant: Variant, batch: int, slots: int, dtype: torch.dtype) -> Cache:
    """An empty cache."""
    shape = (batch, slots, variant.config.num_key_value_heads, variant.config.head_dim)
    blocks = tuple(
        BlockCache(torch.zeros(shape, dtype=dtype), torch.zeros(shape, dtype=dtype))
        for _ in range(variant.config.num_hidden_layers)
    )
    return Cache(torch.empty(0, dtype=torch.long), torch.full((batch, slots), -1), blocks)


def steps(model: nn.Module, variant: Variant, given: Input, spare: int = 2) -> Tensor:
    """The logits of all positions, computed in several calls through a cache with slots to spare."""
    batch, total = given.tokens.shape
    dtype = next(model.parameters()).dtype
    empty, start, out = cache(variant, batch, total + spare, dtype), 0, []
    with torch.no_grad():
        for length in CALLS:
            part = slice(start, start + length)
            empty.positions[:, part] = given.positions[:, part]
            call = empty._replace(slots=torch.arange(start, start + length))
            out.append(model(given.tokens[:, part], given.positions[:, part], call))
            start += length
    return torch.cat(out, 1)
