"""Llama: two updates a block, each from a normed copy; rotation in adjacent pairs; a gate of SiLU."""

from collections.abc import Mapping
from typing import Any

from .say import Array, Weights, angles, linear, queries_keys_values, say, single, under


def logits(c: Any, w: Weights, tokens: Array, positions: Array) -> Array:
    x = w["embed.weight"][tokens][None]
    rope = angles(frequencies(c), positions)
    mask = say("CausalMask", {}, {}, positions=positions[None], key_positions=positions[None])
    for i in range(c.num_hidden_layers):
        x = block(c, under(w, f"blocks.{i}."), x, rope, mask)
    out: Array = norm(c, x, w["norm.weight"])[0] @ w.get("unembed.weight", w["embed.weight"]).T
    return out


def frequencies(c: Any) -> Array:
    """Scaled where the configuration scales."""
    plain: Array = single(say("RopeFrequencies", {"theta": c.rope_theta, "width": c.head_dim}, {}))
    if not hasattr(c, "rope_factor"):
        return plain
    scaling = {
        "factor": c.rope_factor,
        "low_freq_factor": c.rope_low_freq_factor,
        "high_freq_factor": c.rope_high_freq_factor,
        "original_context": c.rope_original_max_position_embeddings,
    }
    scaled: Array = say("RopeScale", scaling, {}, frequencies=plain)
    return scaled


def norm(c: Any, x: Array, gain: Array) -> Array:
    out: Array = say("RMSNorm", {"eps": c.rms_norm_eps}, {"weight": gain}, x=x)
    return out


def block(c: Any, w: Weights, x: Array, rope: Mapping[str, Array], mask: Array) -> Array:
    x = x + attention(c, w, norm(c, x, w["attention_norm.weight"]), rope, mask)
    normed = norm(c, x, w["ffn_norm.weight"])
    gate, up = (linear(w, f"feed_forward.{name}", normed) for name in ("gate", "up"))
    return x + linear(w, "feed_forward.down", say("SiLU", {}, {}, x=gate) * up)


def attention(c: Any, w: Weights, x: Array, rope: Mapping[str, Array], mask: Array) -> Array:
    q, k, v = queries_keys_values(w, x, c.head_dim)
    q, k = (say("Rotate", {}, {}, x=value, **rope) for value in (q, k))
    return linear(w, "attention.o", say("MergeHeads", {}, {}, x=attend(q, k, v, mask)))


def attend(q: Array, k: Array, v: Array, mask: Array) -> Array:
    """Op by op, as the pages show it."""
    k, v = (say("RepeatHeads", {"group": q.shape[2] // k.shape[2]}, {}, x=value) for value in (k, v))
    scores = say("AddMask", {}, {}, scores=say("Scores", {}, {}, q=q, k=k), mask=mask)
    out: Array = say("Mix", {}, {}, weights=say("Softmax", {}, {}, scores=scores), v=v)
    return out
