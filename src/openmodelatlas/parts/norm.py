"""Normalisation over the model width."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from openmodelatlas.parts.precision import upcast


class RMSNorm(nn.Module):
    r"""Divides each position's features by their root mean square, then scales every feature by a learned gain.

    Equation:
        \out_i = \frac{\port{x}_i}{\sqrt{\frac{1}{d}\sum_{j=1}^{d}\port{x}_j^{2} + \const{eps}}}\;\param{weight}_i

    Dtype: the division runs in float32 and is rounded to the input's dtype before the gain is applied.
    Sources: Zhang and Sennrich, Root Mean Square Layer Normalization, 2019.
    """

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.empty(width))

    def forward(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        y = upcast(x)
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)).type_as(x) * self.weight


class ZeroCenteredRMSNorm(nn.Module):
    r"""Divides features by their root mean square, then scales each by one plus a learned number.

    Equation:
        \out_i = \frac{\port{x}_i}{\sqrt{\frac{1}{d}\sum_{j=1}^{d}\port{x}_j^{2} + \const{eps}}}\;
        \left(1 + \param{weight}_i\right)

    Dtype: everything in float32, the sum with one included; rounded to the input's dtype at the end.
    """

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.empty(width))

    def forward(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        y = upcast(x)
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps) * (1.0 + upcast(self.weight))).type_as(x)
