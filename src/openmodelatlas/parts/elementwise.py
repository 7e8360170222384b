"""Operations on each element by itself."""

import torch.nn.functional as F  # noqa: N812
from jaxtyping import Float
from torch import Tensor, nn

from openmodelatlas.parts.precision import upcast


class SiLU(nn.Module):
    r"""A smooth gate: each element times its own sigmoid.

    Equation:
        \out = \frac{\port{x}}{1 + \exp\left(-\port{x}\right)}

    Dtype: the input's.
    Sources: Elfwing, Uchibe and Doya, 2017.
    """

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return F.silu(x)


class GELU(nn.Module):
    r"""A smooth gate: each element times the share of a normal distribution below it, by its usual tanh formula.

    Equation:
        \out = \frac{\port{x}}{2}\left(1 + \tanh\left(\sqrt{\tfrac{2}{\pi}}\left(\port{x} +
        0.044715\,\port{x}^{3}\right)\right)\right)

    Dtype: the input's.
    Sources: Hendrycks and Gimpel, 2016.
    """

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return F.gelu(x, approximate="tanh")


class Multiply(nn.Module):
    r"""Lets the gate scale each feature of the other branch.

    Equation:
        \out = \port{gate} \odot \port{up}

    Dtype: the inputs'.
    """

    def forward(self, gate: Float[Tensor, "*shape"], up: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return gate * up


class ResidualAdd(nn.Module):
    r"""Sums the stream and a mechanism's update, feature by feature.

    Equation:
        \out = \port{x} + \port{update}

    Dtype: the inputs'.
    """

    def forward(self, x: Float[Tensor, "*shape"], update: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return x + update


class Upcast(nn.Module):
    r"""Hands the result out in float32, whatever dtype computed it.

    Equation:
        \out = \operatorname{float32}\left(\port{x}\right)

    Dtype: float32, or float64 where the model runs in float64.
    """

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return upcast(x)
