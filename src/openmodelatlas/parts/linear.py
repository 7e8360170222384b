"""Learned linear maps and tables. Subclasses of torch's own, so that tensor parallelism recognises them."""

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
