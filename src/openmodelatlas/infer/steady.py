"""The first call of a vectorised function, made alone.

PyTorch's CPU builds take cosine, exponential and their like from oneMKL, whose first call picks a kernel. When that
call runs on several threads, one of them can compute its share with a kernel of low precision, once (pytorch/pytorch
issue 188792: errors of 1e-4 in float32, gone in the next call). Measurements of 1e-7 must not meet that.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

FUNCTIONS = (torch.cos, torch.sin, torch.exp, torch.log, torch.sqrt, torch.rsqrt, torch.sigmoid, torch.tanh)


def steady() -> None:
    """Call every such function on one element, which one thread computes, in each dtype."""
    for dtype in (torch.float32, torch.float64):
        one = torch.ones(1, dtype=dtype)
        for function in FUNCTIONS:
            function(one)


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread: sums are made in one order, and cores that others use don't make a small run wait."""
    before = torch.get_num_threads()
    steady()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
