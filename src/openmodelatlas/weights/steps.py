"""Layout conversions from what a file stores to what a definition computes with. No other code converts anything."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from openmodelatlas.errors import CatalogError


def interleave_rotary_rows(weight: Tensor, config: Any) -> Tensor:
    """Half-split rows (all first features of a head's pairs, then all second ones) to adjacent pairs."""
    heads = weight.reshape(-1, 2, config.head_dim // 2, weight.shape[1])
    return heads.transpose(1, 2).reshape(weight.shape).contiguous()


STEPS: dict[str, Callable[[Tensor, Any], Tensor]] = {"interleave_rotary_rows": interleave_rotary_rows}


def apply(weight: Tensor, steps: tuple[str, ...], config: Any) -> Tensor:
    """Every step in turn; CatalogError for a step that does not exist."""
    for name in steps:
        if name not in STEPS:
            raise CatalogError("no such layout step", found=name, expected=", ".join(STEPS))
        weight = STEPS[name](weight, config)
    return weight
