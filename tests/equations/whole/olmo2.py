"""OLMo 2: each update normed before it is added and nothing in front; queries and keys normed before they are heads."""

from collections.abc import Mapping
from typing import Any

from .say import Array, Weights, angles, linear, say, under


def logits(c: Any, w: Weights, tokens: Array, positions: Array) -> Array:
    x = w["embed.weight"][tokens][None]
    rope = angles(say("RopeFrequencies", {"theta": c.rope_theta, "width": c.head_dim}, {}), positions)
    mask = say("CausalMask", {}, {}, positions=positions[None], key_positions=positions[None])
    for i in range(c.num_hidden_layers):
        x = block(c, under(w, f"blocks.{i}."), x, rope, mask)
    out: Array = norm(c, x, w["norm.weight"])[0] @ w["unembed.weight"].T
    return out


def norm(c: Any, x: Array, gain: Array) -> Array:
    out: Array = say("FloatGainRMSNorm", {"eps": c.rms_norm_eps}, {"weight": gain}, x=x)
    return out


def block(c: Any, w: Weights, x: Array, rope: Mapping[str, Array], mask: Array) -> Array:
    x = x + norm(c, attention(c, w, x, rope, mask), w["attention_post_norm.weight"])
    gate, up = (linear(w, f"feed_forward.{name}", x) for name in ("gate", "up"))
    update = linear(w, "feed_forward.down", say("SiLU", {}, {}, x=gate) * up)
    return x + norm(c, update, w["ffn_post_norm.weight"])


def attention(c: Any, w: Weights, x: Array, rope: Mapping[str, Array], mask: Array) -> Array:
    q, k = (norm(c, linear(w, f"attention.{name}", x), w[f"attention.{name}_norm.weight"]) for name in "qk")
    flat = (q, k, linear(w, "attention.v", x))
    q, k, v = (say("SplitHeads", {"head_width": c.head_dim}, {}, x=value) for value in flat)
    q, k = (say("FloatRotateHalves", {}, {}, x=heads, **rope) for heads in (q, k))
    mixed = say("Attend", {}, {}, q=q, k=k, v=v, mask=mask)
    return linear(w, "attention.o", say("MergeHeads", {}, {}, x=mixed))
