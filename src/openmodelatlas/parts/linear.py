"""Learned linear maps and tables. Subclasses of torch's own, so that tensor parallelism recognises them."""

import torch
import torch.nn.functional as F  # noqa: N812
from jaxtyping import Float, Int
from torch import Tensor, nn


class Linear(nn.Linear):
    r"""A learned linear map of the last axis, without bias.

    Equation:
        \out = \port{x}\,\param{weight}^{\top}

    Dtype: the dtype of the weights; accumulation is the kernel's.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, bias=False)

    def reset_parameters(self) -> None:
        """Values come from a checkpoint; a definition has no initialisation scheme."""

    def forward(self, x: Float[Tensor, "... i"]) -> Float[Tensor, "... o"]:
        return super().forward(x)


class ExpertLinear(nn.Module):
    r"""A learned linear map for each expert; every row goes through the map of its own expert.

    Rows are sorted by expert, multiplied group by group, and put back: each expert's matrix is read once.

    Equation:
        \out_{t,a} = \port{x}_{t,a}\,\param{weight}_{\port{experts}_{t,a}}^{\top}

    Dtype: the dtype of the weights; accumulation is the kernel's.
    """

    def __init__(self, experts: int, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(experts, outputs, inputs))

    def forward(self, x: Float[Tensor, "B T A i"], experts: Int[Tensor, "B T A"]) -> Float[Tensor, "B T A o"]:
        rows, own = x.flatten(0, 2), experts.flatten()
        if x.dtype == torch.float64:  # the grouped kernel has no float64: each row's own matrix is fetched
            return torch.einsum("pi,poi->po", rows, self.weight[own]).unflatten(0, x.shape[:3])
        order = own.argsort(stable=True)
        names = torch.arange(self.weight.shape[0], device=own.device)
        ends = torch.searchsorted(own[order], names, right=True).int()
        grouped = F.grouped_mm(rows[order], self.weight.transpose(1, 2), offs=ends)
        return torch.empty_like(grouped).index_copy(0, order, grouped).unflatten(0, x.shape[:3])


class Embedding(nn.Embedding):
    r"""Looks up one learned row for each token.

    Equation:
        \out = \param{weight}\left[\port{tokens}\right]

    Dtype: the dtype of the table.
    """

    def __init__(self, rows: int, width: int) -> None:
        super().__init__(rows, width)

    def reset_parameters(self) -> None:
        """Values come from a checkpoint; a definition has no initialisation scheme."""

    def forward(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        return super().forward(tokens)


class Unembed(Linear):
    r"""Scores every vocabulary entry against the final features, with a matrix of its own.

    Equation:
        \out = \port{x}\,\param{weight}^{\top}

    Dtype: the dtype of the weights.
    """

    def __init__(self, embedding: Embedding) -> None:
        super().__init__(embedding.embedding_dim, embedding.num_embeddings)


class TiedUnembed(Unembed):
    r"""Scores every vocabulary entry against the final features, with the token embedding table itself.

    Equation:
        \out = \port{x}\,\param{weight}^{\top}

    Dtype: the dtype of the weights.
    """

    def __init__(self, embedding: Embedding) -> None:
        super().__init__(embedding)
        self.weight = embedding.weight
