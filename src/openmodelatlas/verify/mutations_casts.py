"""Planted mistakes of rounding: casts left out, added, or in another order. In float32 none of them shows."""

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from openmodelatlas.models.variant import Variant
from openmodelatlas.parts.attend import Softmax
from openmodelatlas.parts.elementwise import ResidualAdd
from openmodelatlas.parts.norm import RMSNorm, ZeroCenteredRMSNorm
from openmodelatlas.parts.rope import RopeFrequencies, Rotate, RotateHalves
from openmodelatlas.verify.mutations import Anatomy, Forward, Needs, has, made_of, other_than


def _unit(self: Any, x: Tensor) -> Tensor:
    y = x.float()
    unit: Tensor = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
    return unit


def gain_before_rounding(self: Any, x: Tensor) -> Any:
    return (_unit(self, x) * self.weight.float()).type_as(x)


def gain_after_rounding(self: Any, x: Tensor) -> Any:
    return _unit(self, x).type_as(x) * (1.0 + self.weight.float()).type_as(x)


def gain_rounded(self: Any, x: Tensor) -> Any:
    return (_unit(self, x) * (1.0 + self.weight)).type_as(x)


def low_rotation(_self: Any, x: Tensor, rope: Any) -> Any:
    cos, sin = rope.cos[:, :, None, :].type_as(x), rope.sin[:, :, None, :].type_as(x)
    even, odd = x.reshape(*x.shape[:-1], -1, 2).unbind(-1)
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)


def high_rotation(_self: Any, x: Tensor, rope: Any) -> Any:
    cos, sin = rope.cos[:, :, None, :].float(), rope.sin[:, :, None, :].float()
    first, second = x.float().chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1).type_as(x)


def low_table(self: Any, x: Tensor, rope: Any) -> Any:
    return type(self).forward(self, x, rope._replace(cos=rope.cos.type_as(x), sin=rope.sin.type_as(x)))


def low_frequencies(self: Any, device: torch.device) -> Any:
    made: Tensor = type(self).forward(self, device)
    return made.bfloat16().float()


def low_softmax(_self: Any, scores: Tensor) -> Any:
    weights = (scores - scores.amax(-1, keepdim=True)).exp()
    return weights / weights.sum(-1, keepdim=True)


def low_residual(_self: Any, x: Tensor, update: Tensor) -> Any:
    return (x.half() + update.half()).type_as(x)


def root_not_rounded(self: Any, x: Tensor) -> Any:
    return (x.float() * self.width**0.5).type_as(x)


def _by_root(model: Anatomy) -> bool:
    """Models whose embedding is scaled by a width, not by another number."""
    kind = model.nodes.get("embed_scale")
    return kind is not None and "width" in inspect.signature(kind.__init__).parameters


def rounded_shares(_self: Any, scores: Tensor) -> Any:
    return scores.float().softmax(-1).type_as(scores)


QUERIES = "block.attention.q_rotate"
CASTS: Mapping[str, tuple[Needs, str | type[torch.nn.Module], Forward]] = {
    "gain before rounding": (made_of(RMSNorm), RMSNorm, gain_before_rounding),
    "gain after rounding": (made_of(ZeroCenteredRMSNorm), ZeroCenteredRMSNorm, gain_after_rounding),
    "one plus the gain rounded": (made_of(ZeroCenteredRMSNorm), ZeroCenteredRMSNorm, gain_rounded),
    "an own norm as RMSNorm": (other_than("norm", RMSNorm, ZeroCenteredRMSNorm), "norm", RMSNorm.forward),
    "an own rotation by a rounded table": (other_than(QUERIES, Rotate, RotateHalves), QUERIES, low_table),
    "rotation in bfloat16": (made_of(Rotate), Rotate, low_rotation),
    "rotation in float32": (made_of(RotateHalves), RotateHalves, high_rotation),
    "frequencies in bfloat16": (made_of(RopeFrequencies), RopeFrequencies, low_frequencies),
    "softmax in bfloat16": (made_of(Softmax), Softmax, low_softmax),
    "residual through float16": (made_of(ResidualAdd), ResidualAdd, low_residual),
    "root of the width not rounded": (_by_root, "embed_scale", root_not_rounded),
    "experts' shares rounded": (has("block.feed_forward.weights"), "block.feed_forward.weights", rounded_shares),
}


def casts(variant: Variant) -> Mapping[str, tuple[str | type[torch.nn.Module], Forward]]:
    """The mistakes of rounding that can be made in this model: where, and the forward that makes it."""
    anatomy = Anatomy(variant)
    return {name: (where, forward) for name, (needs, where, forward) in CASTS.items() if needs(anatomy)}
