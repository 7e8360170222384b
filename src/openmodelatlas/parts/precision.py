"""The one rule of upcasting."""

import torch
from torch import Tensor


def upcast(x: Tensor) -> Tensor:
    """`x` in float32, or in float64 where it already is: references write `.float()`, which would round a float64 run.

    Equal to the references bit for bit in float32, bfloat16 and float16.
    """
    return x.to(torch.promote_types(x.dtype, torch.float32))
