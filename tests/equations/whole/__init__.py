"""A whole model of each family in NumPy, float64: the statements in the order that the references run them in.

One module a family, of its name. Written from the pages' wiring, without a cache, one row of the batch at a time; they
share no code with the definitions.
"""

import importlib
from typing import Any

import numpy as np

from .say import Array, Weights


def logits(family: str, config: Any, weights: Weights, tokens: Array, positions: Array) -> Array:
    """Scores of the vocabulary; `unembed.weight` is missing where the embedding table is shared."""
    model = importlib.import_module(f"{__name__}.{family}")
    return np.stack([model.logits(config, weights, *row) for row in zip(tokens, positions, strict=True)])
