"""Planted mistakes: what a parity run must notice, made on purpose beside every run so that its record can say so."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from openmodelatlas.models.variant import Variant
from openmodelatlas.verify import parity
from openmodelatlas.verify.references.exchange import Case, Values

Plant = Callable[[Variant, Values], nn.Module]


def changed(**numbers: Any) -> Plant:
    """Other numbers in the configuration, the weights as they are."""
    return lambda variant, weights: parity.filled(parity.variant_with(variant, **numbers), weights)


def patched(path: str, forward: Callable[..., Any]) -> Plant:
    """Another forward at `path`, in every block where it is one of a block."""

    def build(variant: Variant, weights: Values) -> nn.Module:
        model = parity.filled(variant, weights)
        for name, module in model.named_modules():
            if parity.region(name) == path:
                module.forward = forward.__get__(module)
        return model

    return build


def half_split(_self: Any, x: Tensor, rope: Any) -> Tensor:
    cos, sin = rope.cos[:, :, None, :], rope.sin[:, :, None, :]
    first, second = x.chunk(2, -1)
    return torch.cat((first * cos - second * sin, first * sin + second * cos), -1)


def interleaved_heads(self: Any, x: Tensor) -> Tensor:
    return x.repeat(1, 1, self.group, 1)


def one_ahead(_self: Any, positions: Tensor, key_positions: Tensor) -> Tensor:
    seen = key_positions[:, None, :] <= positions[:, :, None] + 1
    return torch.where(seen, 0.0, float("-inf")).unsqueeze(1)


def unscaled(_self: Any, frequencies: Tensor) -> Tensor:
    return frequencies


def from_the_norm(self: Any, x: Tensor, rope: Any, mask: Tensor, cache: Any, slots: Any) -> Any:
    normed = self.attention_norm(x)
    x = self.attention_add(normed, self.attention(normed, rope, mask, cache, slots))
    return self.ffn_add(x, self.feed_forward(self.ffn_norm(x)))


def from_the_block_input(self: Any, x: Tensor, rope: Any, mask: Tensor, cache: Any, slots: Any) -> Any:
    first = self.attention_add(x, self.attention(self.attention_norm(x), rope, mask, cache, slots))
    return self.ffn_add(x, self.feed_forward(self.ffn_norm(first)))


def swapped(self: Any, x: Tensor) -> Any:
    return self.down(self.multiply(self.silu(self.up(x)), self.gate(x)))


SCALED: Mapping[str, Plant] = {
    "no rope scaling": patched("rope.scale", unscaled),
    "rope factor off": changed(rope_factor=17.0),
    "low frequency factor 1.1": changed(rope_low_freq_factor=1.1),
    "high frequency factor 4.1": changed(rope_high_freq_factor=4.1),
    "original context 8,000": changed(rope_original_max_position_embeddings=8000),
}
"""For models that scale their rotary frequencies."""

EVERYWHERE: Mapping[str, Plant] = {
    "theta off by a hundredth": lambda variant, weights: changed(rope_theta=variant.config.rope_theta * 1.01)(
        variant, weights
    ),
    "eps 1.1e-5": changed(rms_norm_eps=1.1e-5),
    "query heads grouped the other way": patched("block.attention.attend.repeat_k", interleaved_heads),
    "value heads grouped the other way": patched("block.attention.attend.repeat_v", interleaved_heads),
    "half-split rotation of queries": patched("block.attention.q_rotate", half_split),
    "mask one ahead": patched("mask", one_ahead),
    "residual from the norm": patched("block", from_the_norm),
    "second residual from the block's input": patched("block", from_the_block_input),
    "gate and up swapped": patched("block.feed_forward", swapped),
}


def plants(variant: Variant) -> Mapping[str, Plant]:
    """The mistakes that can be made in this model."""
    return {**EVERYWHERE, **(SCALED if hasattr(variant.config, "rope_factor") else {})}


def distances(
    model: nn.Module, case: Case, sides: Mapping[str, list[Values]], between: Mapping[str, float]
) -> parity.Distances:
    """How far `model` is from each side, node by node, with the sides' own distance to each other."""
    here, found = parity.ours(model, case), parity.Distances()
    for name, values in sides.items():
        found.add(name, here, values)
    found.pairs[parity.BETWEEN] = dict(between)
    return found


def noticed(
    variant: Variant, weights: Values, case: Case, sides: Mapping[str, list[Values]], between: Mapping[str, float]
) -> dict[str, int]:
    """How many mistakes were planted, and how many of them the bars of a parity run notice."""
    made = plants(variant)
    seen = 0
    for plant in made.values():
        rows = parity.measured(distances(plant(variant, weights), case, sides, between), parity.BETWEEN, tuple(sides))
        seen += not parity.holds(rows)
    return {"planted": len(made), "noticed": seen}
