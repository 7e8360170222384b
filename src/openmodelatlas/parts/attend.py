"""Attention over keys and values: the mask, the explicit form op by op, and the fused form of the same interface."""

import math

import torch
import torch.nn.functional as F  # noqa: N812
from jaxtyping import Float, Int
from torch import Tensor, nn

from openmodelatlas.parts.heads import RepeatHeads
from openmodelatlas.parts.precision import upcast


class CausalMask(nn.Module):
    r"""Lets a position see itself and earlier positions only, by the positions' own numbers.

    Padding (position -1) is seen by no real position; a padding row sees padding only, so that it stays finite.

    Equation:
        \out_{t,s} = \begin{cases} 0 & 0 \le \port{key_positions}_s \le \port{positions}_t \\ -\infty & \text{otherwise}
        \end{cases}

    Dtype: float32; added in the dtype of the scores.
    """

    def forward(
        self, positions: Int[Tensor, "B T"], key_positions: Int[Tensor, "B S"]
    ) -> Float[Tensor, "B 1 T S"]:
        query, key = positions[:, :, None], key_positions[:, None, :]
        seen = (key <= query) & ((key >= 0) | (query < 0))
        return torch.where(seen, 0.0, float("-inf")).unsqueeze(1)


class WindowMask(nn.Module):
    r"""Lets a position see itself and the positions before it that lie in its window, by the positions' own numbers.

    The window counts the current position: a width of four shows three earlier keys. Padding as in the causal mask.

    Equation:
        \out_{t,s} = \begin{cases} 0 & \port{positions}_t - \const{window} < \port{key_positions}_s \le
        \port{positions}_t \text{ and } \port{key_positions}_s \ge 0 \\ -\infty & \text{otherwise} \end{cases}

    Dtype: float32; added in the dtype of the scores.
    """

    def __init__(self, window: int) -> None:
        super().__init__()
        self.window = window

    def forward(self, positions: Int[Tensor, "B T"], key_positions: Int[Tensor, "B S"]) -> Float[Tensor, "B 1 T S"]:
        query, key = positions[:, :, None], key_positions[:, None, :]
        seen = (key <= query) & (key > query - self.window) & ((key >= 0) | (query < 0))
        return torch.where(seen, 0.0, float("-inf")).unsqueeze(1)


class Scores(nn.Module):
    r"""Compares every query with every key of its head by a dot product, scaled by the root of the head width.

    Equation:
        \out_{h,t,s} = \frac{\port{q}_{t,h} \cdot \port{k}_{s,h}}{\sqrt{E}}

    Dtype: the dtype of queries and keys.
    """

    def forward(self, q: Float[Tensor, "B T H E"], k: Float[Tensor, "B S H E"]) -> Float[Tensor, "B H T S"]:
        return torch.einsum("bthe,bshe->bhts", q, k) / math.sqrt(q.shape[-1])


class ScaledScores(nn.Module):
    r"""Compares every query with every key of its head by a dot product, scaled by the root of a number of its own.

    Equation:
        \out_{h,t,s} = \frac{\port{q}_{t,h} \cdot \port{k}_{s,h}}{\sqrt{\const{query_pre_attn_scalar}}}

    Dtype: the dtype of queries and keys.
    """

    def __init__(self, query_pre_attn_scalar: int) -> None:
        super().__init__()
        self.query_pre_attn_scalar = query_pre_attn_scalar

    def forward(self, q: Float[Tensor, "B T H E"], k: Float[Tensor, "B S H E"]) -> Float[Tensor, "B H T S"]:
        return torch.einsum("bthe,bshe->bhts", q, k) * self.query_pre_attn_scalar**-0.5


class AddMask(nn.Module):
    r"""Adds the mask to the scores of every head, which sends unseen positions to minus infinity.

    Equation:
        \out = \port{scores} + \port{mask}

    Dtype: the dtype of the scores.
    """

    def forward(
        self, scores: Float[Tensor, "B H T S"], mask: Float[Tensor, "B 1 T S"]
    ) -> Float[Tensor, "B H T S"]:
        return scores + mask.to(scores.dtype)


class Softmax(nn.Module):
    r"""Turns each query's scores into weights that are positive and sum to one.

    Equation:
        \out_{h,t,s} = \frac{\exp\left(\port{scores}_{h,t,s}\right)}{\sum_{s'} \exp\left(\port{scores}_{h,t,s'}\right)}

    Dtype: float32, rounded back to the input's dtype.
    """

    def forward(self, scores: Float[Tensor, "B H T S"]) -> Float[Tensor, "B H T S"]:
        return upcast(scores).softmax(-1).type_as(scores)


class Mix(nn.Module):
    r"""Averages the values of each head by the attention weights.

    Equation:
        \out_{t,h} = \sum_{s} \port{weights}_{h,t,s}\,\port{v}_{s,h}

    Dtype: the dtype of weights and values.
    """

    def forward(self, weights: Float[Tensor, "B H T S"], v: Float[Tensor, "B S H E"]) -> Float[Tensor, "B T H E"]:
        return torch.einsum("bhts,bshe->bthe", weights, v)


class Attend(nn.Module):
    r"""Lets each position gather values from the positions it may see, weighted by how well query and key agree.

    Equation:
        \out = \operatorname{softmax}\left(\frac{\port{q}\,\port{k}^{\top}}{\sqrt{E}} + \port{mask}\right)\port{v}
    """

    def __init__(self, group: int) -> None:
        super().__init__()
        self.repeat_k, self.repeat_v = RepeatHeads(group), RepeatHeads(group)
        self.scores: nn.Module = Scores()
        self.mask, self.softmax, self.mix = AddMask(), Softmax(), Mix()

    def forward(
        self,
        q: Float[Tensor, "B T H E"],
        k: Float[Tensor, "B S K E"],
        v: Float[Tensor, "B S K E"],
        mask: Float[Tensor, "B 1 T S"],
    ) -> Float[Tensor, "B T H E"]:
        weights = self.softmax(self.mask(self.scores(q, self.repeat_k(k)), mask))
        return self.mix(weights, self.repeat_v(v))

    def fused(self) -> "FusedAttend":
        """The same attention as one kernel."""
        return FusedAttend()


class ScaledAttend(Attend):
    r"""Lets each position gather values from the positions it may see, weighted by how well query and key agree.

    Equation:
        \out = \operatorname{softmax}\left(\frac{\port{q}\,\port{k}^{\top}}{\sqrt{\const{query_pre_attn_scalar}}} +
        \port{mask}\right)\port{v}
    """

    def __init__(self, group: int, query_pre_attn_scalar: int) -> None:
        super().__init__(group)
        self.query_pre_attn_scalar = query_pre_attn_scalar
        self.scores = ScaledScores(query_pre_attn_scalar)

    def fused(self) -> "FusedAttend":
        """The same attention as one kernel."""
        return FusedAttend(self.query_pre_attn_scalar**-0.5)


class FusedAttend(nn.Module):
    r"""The same attention as one fused kernel, whose inner values are not captured.

    A scale of its own takes the place of one over the root of the head width.

    Equation:
        \out = \operatorname{softmax}\left(\frac{\port{q}\,\port{k}^{\top}}{\sqrt{E}} + \port{mask}\right)\port{v}

    Dtype: scores and softmax in float32 inside the kernel.
    """

    def __init__(self, scale: float | None = None) -> None:
        """`scale`: what scores are multiplied with; by default one over the root of the head width."""
        super().__init__()
        self.scale = scale

    def forward(
        self,
        q: Float[Tensor, "B T H E"],
        k: Float[Tensor, "B S K E"],
        v: Float[Tensor, "B S K E"],
        mask: Float[Tensor, "B 1 T S"],
    ) -> Float[Tensor, "B T H E"]:
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        seen = mask.to(q.dtype)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=self.scale, enable_gqa=True)
        return mixed.transpose(1, 2)
