"""Rotary position embedding: frequencies, their scaling, the table of angles, the rotation."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Float32, Int
from torch import Tensor, nn

from openmodelatlas.parts.precision import upcast


class RotaryTable(NamedTuple):
    """Cosines and sines of every position's angles, one a feature pair."""

    cos: Float32[Tensor, "B T half_E"]
    sin: Float32[Tensor, "B T half_E"]


class RopeFrequencies(nn.Module):
    r"""One angular frequency for each pair of head features, falling geometrically from 1.

    Equation:
        \out_i = \const{theta}^{-2i/\const{width}}

    Dtype: float32 always, whatever the model's dtype; computed anew, never stored in a checkpoint.
    Sources: Su et al., RoFormer, 2021.
    """

    def __init__(self, width: int, theta: float) -> None:
        super().__init__()
        self.width, self.theta = width, theta

    def forward(self, device: torch.device) -> Float32[Tensor, "half_E"]:
        exponents = torch.arange(0, self.width, 2, device=device).float() / self.width
        return 1.0 / self.theta**exponents


class RopeScale(nn.Module):
    r"""Slows the rotations that are too slow for the original context, so that a longer context stays in known angles.

    Pairs with a wavelength under original_context / high_freq_factor keep their frequency, those over original_context
    / low_freq_factor are divided by the factor, and those between are blended linearly in context / wavelength.

    Equation:
        \out_i = \begin{cases} \port{frequencies}_i & \lambda_i < \const{original_context} / \const{high_freq_factor} \\
        \port{frequencies}_i / \const{factor} & \lambda_i > \const{original_context} / \const{low_freq_factor} \\
        (1 - \alpha_i)\,\port{frequencies}_i / \const{factor} + \alpha_i\,\port{frequencies}_i & \text{otherwise}
        \end{cases}
        \quad \lambda_i = \frac{2\pi}{\port{frequencies}_i}
        \quad \alpha_i = \frac{\const{original_context}/\lambda_i - \const{low_freq_factor}}{\const{high_freq_factor} - \const{low_freq_factor}}

    Dtype: float32.
    Sources: Llama 3.1, scaled rotary embedding for its longer context.
    """  # noqa: E501

    def __init__(self, factor: float, low_freq_factor: float, high_freq_factor: float, original_context: int) -> None:
        super().__init__()
        self.factor, self.low_freq_factor, self.high_freq_factor = factor, low_freq_factor, high_freq_factor
        self.original_context = original_context

    def forward(self, frequencies: Float32[Tensor, "half_E"]) -> Float32[Tensor, "half_E"]:
        wavelength = 2 * math.pi / frequencies
        longest, shortest = self.original_context / self.low_freq_factor, self.original_context / self.high_freq_factor
        smooth = self.original_context / wavelength - self.low_freq_factor
        smooth = smooth / (self.high_freq_factor - self.low_freq_factor)
        blended = (1 - smooth) * frequencies / self.factor + smooth * frequencies
        ends = torch.where(wavelength > longest, frequencies / self.factor, frequencies)
        return torch.where((wavelength >= shortest) & (wavelength <= longest), blended, ends)


class RopeLinearScale(nn.Module):
    r"""Slows every rotation by one factor, so that a context that much longer stays within known angles.

    Equation:
        \out = \frac{\port{frequencies}}{\const{factor}}

    Dtype: float32.
    Sources: Chen et al., position interpolation, 2023.
    """

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, frequencies: Float32[Tensor, "half_E"]) -> Float32[Tensor, "half_E"]:
        return frequencies / self.factor


class RopeTable(nn.Module):
    r"""Turns each position into one angle a pair, and tabulates its cosine and sine.

    Equation:
        \out{cos}_{t,i} = \cos\left(\port{positions}_t\,\port{frequencies}_i\right) \qquad
        \out{sin}_{t,i} = \sin\left(\port{positions}_t\,\port{frequencies}_i\right)

    Dtype: float32; a product, not a matmul, so that no reduced-precision matmul mode can round positions.
    """

    def forward(self, frequencies: Float32[Tensor, "half_E"], positions: Int[Tensor, "B T"]) -> RotaryTable:
        angles = positions.float()[..., None] * frequencies
        return RotaryTable(angles.cos(), angles.sin())


class Rotate(nn.Module):
    r"""Rotates each adjacent pair of head features by its position's angle.

    Equation:
        \begin{aligned}
        \out_{2i} &= \port{x}_{2i}\,\port{rope.cos}_i - \port{x}_{2i+1}\,\port{rope.sin}_i \\
        \out_{2i+1} &= \port{x}_{2i}\,\port{rope.sin}_i + \port{x}_{2i+1}\,\port{rope.cos}_i
        \end{aligned}

    Dtype: float32, rounded back to the input's dtype.
    Sources: adjacent pairs, as in Llama's reference code; half-split checkpoints are converted when they are loaded.
    """

    def forward(self, x: Float[Tensor, "B T H E"], rope: RotaryTable) -> Float[Tensor, "B T H E"]:
        cos, sin = rope.cos[:, :, None, :], rope.sin[:, :, None, :]
        even, odd = upcast(x).unflatten(-1, (-1, 2)).unbind(-1)
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2).type_as(x)


class RotateHalves(nn.Module):
    r"""Rotates feature i of a head's first half with feature i of its second half by their position's angle.

    The same turns as in adjacent pairs, with the features of a head in another order: rows of a projection that was
    trained for one form have to be reordered for the other.

    Equation:
        \begin{aligned}
        \out_{i} &= \port{x}_{i}\,\port{rope.cos}_i - \port{x}_{i+E/2}\,\port{rope.sin}_i \\
        \out_{i+E/2} &= \port{x}_{i+E/2}\,\port{rope.cos}_i + \port{x}_{i}\,\port{rope.sin}_i
        \end{aligned}

    Dtype: cosines and sines are rounded to the input's dtype, in which the products and sums are taken.
    Sources: half-split pairs, as in the code of transformers.
    """

    def forward(self, x: Float[Tensor, "B T H E"], rope: RotaryTable) -> Float[Tensor, "B T H E"]:
        cos, sin = rope.cos[:, :, None, :].type_as(x), rope.sin[:, :, None, :].type_as(x)
        first, second = x.chunk(2, -1)
        return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)
