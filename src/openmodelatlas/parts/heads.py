"""Views between a flat width and heads."""

from jaxtyping import Float
from torch import Tensor, nn


class SplitHeads(nn.Module):
    r"""Cuts a flat projection into heads of equal width.

    Equation:
        \out_{h,e} = \port{x}_{h \cdot \const{head_width} + e}

    Dtype: unchanged; a view.
    """

    def __init__(self, head_width: int) -> None:
        super().__init__()
        self.head_width = head_width

    def forward(self, x: Float[Tensor, "B T HE"]) -> Float[Tensor, "B T H E"]:
        # The number of heads is inferred, so that a shard of the heads passes too.
        return x.unflatten(-1, (-1, self.head_width))


class RepeatHeads(nn.Module):
    r"""Hands each key/value head to its group of consecutive query heads.

    Equation:
        \out_{h} = \port{x}_{\lfloor h / \const{group} \rfloor}

    Dtype: unchanged.
    Sources: Ainslie et al., GQA, 2023.
    """

    def __init__(self, group: int) -> None:
        super().__init__()
        self.group = group

    def forward(self, x: Float[Tensor, "B S K E"]) -> Float[Tensor, "B S H E"]:
        return x[:, :, :, None, :].expand(-1, -1, -1, self.group, -1).flatten(2, 3)


class MergeHeads(nn.Module):
    r"""Lays the heads' results side by side again.

    Equation:
        \out_{h E + e} = \port{x}_{h,e}

    Dtype: unchanged.
    """

    def forward(self, x: Float[Tensor, "B T H E"]) -> Float[Tensor, "B T HE"]:
        return x.flatten(-2)
