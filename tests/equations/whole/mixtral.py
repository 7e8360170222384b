"""Mixtral: a plain decoder whose feed-forward is a few of many, chosen and mixed position by position."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from .say import Array, Weights, angles, linear, queries_keys_values, say, under


def logits(c: Any, w: Weights, tokens: Array, positions: Array) -> Array:
    x = w["embed.weight"][tokens][None]
    rope = angles(say("RopeFrequencies", {"theta": c.rope_theta, "width": c.head_dim}, {}), positions)
    mask = say("CausalMask", {}, {}, positions=positions[None], key_positions=positions[None])
    for i in range(c.num_hidden_layers):
        x = block(c, under(w, f"blocks.{i}."), x, rope, mask)
    out: Array = norm(c, x, w["norm.weight"])[0] @ w["unembed.weight"].T
    return out


def norm(c: Any, x: Array, gain: Array) -> Array:
    out: Array = say("RMSNorm", {"eps": c.rms_norm_eps}, {"weight": gain}, x=x)
    return out


def block(c: Any, w: Weights, x: Array, rope: Mapping[str, Array], mask: Array) -> Array:
    q, k, v = queries_keys_values(w, norm(c, x, w["attention_norm.weight"]), c.head_dim)
    q, k = (say("Rotate", {}, {}, x=value, **rope) for value in (q, k))
    mixed = say("Attend", {}, {}, q=q, k=k, v=v, mask=mask)
    x = x + linear(w, "attention.o", say("MergeHeads", {}, {}, x=mixed))
    normed = norm(c, x, w["ffn_norm.weight"])
    return x + np.stack([[experts(c, under(w, "feed_forward."), row) for row in normed[0]]])


def experts(c: Any, w: Weights, x: Array) -> Array:
    """One position, the way that other code writes it: shares of all experts, of which the largest are kept and made
    to sum to one."""
    scores = w["router.weight"] @ x
    shares = np.exp(scores) / np.exp(scores).sum()
    kept = np.argsort(shares)[len(shares) - c.num_experts_per_tok :]
    out = np.zeros_like(x)
    for e in kept:
        gate, up = w["gate.weight"][e] @ x, w["up.weight"][e] @ x
        out += shares[e] / shares[kept].sum() * (w["down.weight"][e] @ (gate / (1 + np.exp(-gate)) * up))
    return out
