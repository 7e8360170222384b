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


class Scores(nn.Module):
    r"""Compares every query with every key of its head by a dot product, scaled by the root of the head width.

    Equation:
        \out_{h,t,s} = \frac{\port{q}_{t,h} \cdot \port{k}_{s,h}}{\sqrt{E}}

    Dtype: the dtype of queries and keys.
    """

    def forward(self, q: Float[Tensor, "B T H E"], k: Float[Tensor, "B S H E"]) -> Float[Tensor, "B H T S"]:
        return torch.einsum("bthe,bshe->bhts", q, k) / math.sqrt(q.shape[-1])


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
        self.scores, self.mask, self.softmax, self.mix = Scores(), AddMask(), Softmax(), Mix()

    def forward(
        self,
        q: Float[Tensor, "B T H E"],
        k: Float[Tensor, "B S K E"],
        v: Float[Tensor, "B S K E"],
        mask: Float[Tensor, "B 1 T S"],
    ) -> Float[Tensor, "B T H E"]:
        weights = self.softmax(self.mask(self.scores(q, self.repeat_k(k)), mask))
        return self.mix(weights, self.repeat_v(v))


class FusedAttend(nn.Module):
    r"""The same attention as one fused kernel, whose inner values are not captured.

    Equation:
        \out = \operatorname{softmax}\left(\frac{\port{q}\,\port{k}^{\top}}{\sqrt{E}} + \port{mask}\right)\port{v}

    Dtype: scores and softmax in float32 inside the kernel.
    """

    def forward(
        self,
        q: Float[Tensor, "B T H E"],
        k: Float[Tensor, "B S K E"],
        v: Float[Tensor, "B S K E"],
        mask: Float[Tensor, "B 1 T S"],
    ) -> Float[Tensor, "B T H E"]:
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask.to(q.dtype), enable_gqa=True).transpose(1, 2)
