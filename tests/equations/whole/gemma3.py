"""Gemma 3: two kinds of block that differ in what they see and by which base they rotate; a norm behind each update."""

from collections.abc import Mapping
from typing import Any

from .say import Array, Weights, angles, linear, queries_keys_values, say, single, under


def logits(c: Any, w: Weights, tokens: Array, positions: Array) -> Array:
    x = say("EmbeddingScale", {"width": c.hidden_size}, {}, x=w["embed.weight"][tokens][None])
    at = {"positions": positions[None], "key_positions": positions[None]}
    near = angles(base(c, c.rope_local_base_freq), positions), say("WindowMask", {"window": c.sliding_window}, {}, **at)
    far = angles(global_frequencies(c), positions), say("CausalMask", {}, {}, **at)
    for i in range(c.num_hidden_layers):
        last_of_its_round = (i + 1) % c.sliding_window_pattern == 0
        x = block(c, under(w, f"blocks.{i}."), x, *(far if last_of_its_round else near))
    out: Array = norm(c, x, w["norm.weight"])[0] @ w["embed.weight"].T
    return out


def base(c: Any, theta: float) -> Array:
    out: Array = say("RopeFrequencies", {"theta": theta, "width": c.head_dim}, {})
    return out


def global_frequencies(c: Any) -> Array:
    """Divided where the configuration has a factor."""
    plain = single(base(c, c.rope_theta))
    if not hasattr(c, "rope_factor"):
        return plain
    out: Array = say("RopeLinearScale", {"factor": c.rope_factor}, {}, frequencies=plain)
    return out


def norm(c: Any, x: Array, gain: Array) -> Array:
    out: Array = say("ZeroCenteredRMSNorm", {"eps": c.rms_norm_eps}, {"weight": gain}, x=x)
    return out


def block(c: Any, w: Weights, x: Array, rope: Mapping[str, Array], mask: Array) -> Array:
    update = attention(c, w, norm(c, x, w["attention_norm.weight"]), rope, mask)
    x = x + norm(c, update, w["attention_post_norm.weight"])
    normed = norm(c, x, w["ffn_norm.weight"])
    gate, up = (linear(w, f"feed_forward.{name}", normed) for name in ("gate", "up"))
    update = linear(w, "feed_forward.down", say("GELU", {}, {}, x=gate) * up)
    return x + norm(c, update, w["ffn_post_norm.weight"])


def attention(c: Any, w: Weights, x: Array, rope: Mapping[str, Array], mask: Array) -> Array:
    q, k, v = queries_keys_values(w, x, c.head_dim)
    q = say("RotateHalves", {}, {}, x=norm(c, q, w["attention.q_norm.weight"]), **rope)
    k = say("RotateHalves", {}, {}, x=norm(c, k, w["attention.k_norm.weight"]), **rope)
    scale = {"query_pre_attn_scalar": c.query_pre_attn_scalar}
    mixed = say("ScaledAttend", scale, {}, q=q, k=k, v=v, mask=mask)
    return linear(w, "attention.o", say("MergeHeads", {}, {}, x=mixed))
