"""A whole model of the family in NumPy, float64: the statements in the order that the references run them in.

Written from the pages' wiring, without a cache, one row of the batch at a time; it shares no code with the definition.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from .statements import STATEMENTS, Array, single

Weights = Mapping[str, Array]


def say(op: str, numbers: Mapping[str, Any], weights: Weights, **ports: Array) -> Any:
    """One statement, nothing rounded. A port `rope_cos` is `rope.cos`."""
    named = {k.replace("rope_", "rope."): v for k, v in ports.items()}
    return STATEMENTS[op].compute(named, weights, numbers, lambda v: v)


def logits(config: Any, weights: Weights, tokens: Array, positions: Array) -> Array:
    """Scores of the vocabulary; `unembed.weight` is missing where the embedding table is shared."""
    c = config
    rows = []
    for row, at in zip(tokens, positions, strict=True):
        x = weights["embed.weight"][row][None]
        rope = angles(c, at[None])
        mask = say("CausalMask", {}, {}, positions=at[None], key_positions=at[None])
        for i in range(c.num_hidden_layers):
            x = block(c, under(weights, f"blocks.{i}."), x, rope, mask)
        x = norm(c, x, weights["norm.weight"])
        rows.append(x[0] @ weights.get("unembed.weight", weights["embed.weight"]).T)
    return np.stack(rows)


def under(weights: Weights, prefix: str) -> dict[str, Array]:
    return {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}


def norm(c: Any, x: Array, gain: Array) -> Array:
    out: Array = say("RMSNorm", {"eps": c.rms_norm_eps}, {"weight": gain}, x=x)
    return out


def angles(c: Any, positions: Array) -> dict[str, Array]:
    """Cosines and sines, of scaled frequencies where the configuration scales."""
    frequencies = single(say("RopeFrequencies", {"theta": c.rope_theta, "width": c.head_dim}, {}))
    if hasattr(c, "rope_factor"):
        scaling = {
            "factor": c.rope_factor,
            "low_freq_factor": c.rope_low_freq_factor,
            "high_freq_factor": c.rope_high_freq_factor,
            "original_context": c.rope_original_max_position_embeddings,
        }
        frequencies = single(say("RopeScale", scaling, {}, frequencies=frequencies))
    table: dict[str, Array] = say("RopeTable", {}, {}, frequencies=frequencies, positions=positions)
    return table


def block(c: Any, w: Weights, x: Array, rope: Mapping[str, Array], mask: Array) -> Array:
    """One block's two updates."""
    normed = norm(c, x, w["attention_norm.weight"])
    x = x + attention(c, w, normed, rope, mask)
    normed = norm(c, x, w["ffn_norm.weight"])
    out: Array = x + say("FeedForward", {}, under(w, "feed_forward."), x=normed)
    return out


def attention(c: Any, w: Weights, x: Array, rope: Mapping[str, Array], mask: Array) -> Array:
    """Queries, keys and values in heads; rotated; attended; merged."""
    q, k, v = (say("Linear", {}, {"weight": w[f"attention.{name}.weight"]}, x=x) for name in "qkv")
    q, k, v = (say("SplitHeads", {"head_width": c.head_dim}, {}, x=value) for value in (q, k, v))
    q, k = (say("Rotate", {}, {}, x=value, rope_cos=rope["cos"], rope_sin=rope["sin"]) for value in (q, k))
    mixed = say("MergeHeads", {}, {}, x=say("Attend", {}, {}, q=q, k=k, v=v, mask=mask))
    out: Array = mixed @ w["attention.o.weight"].T
    return out
