"""How the whole models use statements."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..statements import STATEMENTS, Array, single

__all__ = ["Array", "Weights", "angles", "linear", "queries_keys_values", "say", "single", "under"]

Weights = Mapping[str, Array]


def say(op: str, numbers: Mapping[str, Any], weights: Weights, /, **ports: Array) -> Any:
    """One statement, nothing rounded. A port `rope_cos` is `rope.cos`."""
    (statement,) = [s for (name, _), s in STATEMENTS.items() if name == op]
    named = {k.replace("rope_", "rope."): v for k, v in ports.items()}
    return statement.compute(named, weights, numbers, lambda v: v)


def under(weights: Weights, prefix: str) -> dict[str, Array]:
    """The weights below a path, by the rest of their names."""
    return {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}


def linear(w: Weights, name: str, x: Array) -> Array:
    """A learned map by its path."""
    return np.asarray(x @ w[f"{name}.weight"].T)


def queries_keys_values(w: Weights, x: Array, head: int) -> list[Array]:
    """The three projections in heads of that width."""
    flat = (linear(w, f"attention.{name}", x) for name in "qkv")
    return [say("SplitHeads", {"head_width": head}, {}, x=value) for value in flat]


def angles(frequencies: Array, positions: Array) -> dict[str, Array]:
    """Cosines and sines by the ports that a rotation calls them."""
    table = say("RopeTable", {}, {}, frequencies=single(frequencies), positions=positions[None])
    return {"rope_cos": table["cos"], "rope_sin": table["sin"]}
