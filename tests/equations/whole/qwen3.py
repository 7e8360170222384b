"""Qwen3: as a plain decoder, with queries and keys normed head by head before they are rotated in halves."""

from collections.abc import Mapping
from typing import Any

from .say import Array, Weights, angles, linear, queries_keys_values, say, under


def logits(c: Any, w: Weights, tokens: Array, positions: Array) -> Array:
    x = w["embed.weight"][tokens][None]
    rope = angles(say("RopeFrequencies", {"theta": c.rope_theta, "width": c.head_dim}, {}), positions)
    mask = say("CausalMask", {}, {}, positions=positions[None], key_positions=positions[None])
    for i in range(c.num_hidden_layers):
        x = block(c, under(w, f"blocks.{i}."), x, rope, mask)
    out: Array = norm(c, x, w["norm.weight"])[0] @ w.get("unembed.weight", w["embed.weight"]).T
    return out


def norm(c: Any, x: Array, gain: Array) -> Array:
    out: Array = say("RMSNorm", {"eps": c.rms_norm_eps}, {"weight": gain}, x=x)
    return out


def block(c: Any, w: Weights, x: Array, rope: Mapping[str, Array], mask: Array) -> Array:
    q, k, v = queries_keys_values(w, norm(c, x, w["attention_norm.weight"]), c.head_dim)
    q = say("RotateHalves", {}, {}, x=norm(c, q, w["attention.q_norm.weight"]), **rope)
    k = say("RotateHalves", {}, {}, x=norm(c, k, w["attention.k_norm.weight"]), **rope)
    mixed = say("Attend", {}, {}, q=q, k=k, v=v, mask=mask)
    x = x + linear(w, "attention.o", say("MergeHeads", {}, {}, x=mixed))
    normed = norm(c, x, w["ffn_norm.weight"])
    gate, up = (linear(w, f"feed_forward.{name}", normed) for name in ("gate", "up"))
    return x + linear(w, "feed_forward.down", say("SiLU", {}, {}, x=gate) * up)
