r"""The OLMo 2 family, dense models: each update is normed on its way into the stream, and nothing before it is.

Attention and feed-forward read the residual stream as it is; a norm stands behind each, before its update is added. In
stored names `post_attention_layernorm` is the norm *behind* attention, which Llama's files use for the one in front of
the feed-forward; there is no `input_layernorm`. One norm more stands in front of the unembedding.

Queries and keys are normed over their whole projection, all heads at once, and cut into heads afterwards: one mean
square a position, and a gain as long as all heads together. Only then are they rotated; values are not normed.

Two casts are not those of the neighbours. A norm's gain is applied in float32, and the product is rounded once; and the
rotation is taken in float32 and rounded at its end. Rotation pairs feature i with feature i + E/2, and files keep their
rows in that order. Embedding and unembedding are two tables.

Sources: transformers, modeling_olmo2.py (the pinned lines stand in the catalogue); the published configurations.
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Float32, Int
from torch import Tensor, nn

from openmodelatlas.models.variant import Variant, from_row
from openmodelatlas.parts.attend import Attend, CausalMask
from openmodelatlas.parts.cache import BlockCache, Cache, UpdateCache
from openmodelatlas.parts.elementwise import Multiply, ResidualAdd, SiLU, Upcast
from openmodelatlas.parts.heads import MergeHeads, SplitHeads
from openmodelatlas.parts.linear import Embedding, Linear, Unembed
from openmodelatlas.parts.precision import upcast
from openmodelatlas.parts.rope import RopeFrequencies, RopeTable, RotaryTable


@dataclass(frozen=True, kw_only=True)
class Config:
    """The numbers of a variant, named as in Hugging Face configurations."""

    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    max_position_embeddings: int
    rms_norm_eps: float
    rope_theta: float


class FloatGainRMSNorm(nn.Module):
    r"""Divides features by their root mean square and scales each by a learned gain before anything is rounded.

    Equation:
        \out_i = \frac{\port{x}_i}{\sqrt{\frac{1}{d}\sum_{j=1}^{d}\port{x}_j^{2} + \const{eps}}}\;\param{weight}_i

    Dtype: everything in float32, the gain included; rounded to the input's dtype at the end.
    """

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.empty(width))

    def forward(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        y = upcast(x)
        return (upcast(self.weight) * (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps))).type_as(x)


class FloatRotateHalves(nn.Module):
    r"""Rotates feature i of a head's first half with feature i of its second half, in float32 whatever they come in.

    Equation:
        \begin{aligned}
        \out_{i} &= \port{x}_{i}\,\port{rope.cos}_i - \port{x}_{i+E/2}\,\port{rope.sin}_i \\
        \out_{i+E/2} &= \port{x}_{i+E/2}\,\port{rope.cos}_i + \port{x}_{i}\,\port{rope.sin}_i
        \end{aligned}

    Dtype: float32, rounded back to the input's dtype.
    Sources: half-split pairs, as in the code of transformers.
    """

    def forward(self, x: Float[Tensor, "B T H E"], rope: RotaryTable) -> Float[Tensor, "B T H E"]:
        cos, sin = rope.cos[:, :, None, :], rope.sin[:, :, None, :]
        first, second = upcast(x).chunk(2, -1)
        return torch.cat((first * cos - second * sin, second * cos + first * sin), -1).type_as(x)


class Rope(nn.Module):
    """Prepares the angles by which every position's queries and keys are rotated."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.frequencies = RopeFrequencies(config.head_dim, config.rope_theta)
        self.table = RopeTable()

    def forward(self, positions: Int[Tensor, "B T"]) -> RotaryTable:
        return self.table(self.frequencies(positions.device), positions)


class Attention(nn.Module):
    """Lets each position read from earlier ones: queries and keys normed over all heads at once, then rotated."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, head = config.hidden_size, config.head_dim
        self.q = Linear(width, config.num_attention_heads * head)
        self.k = Linear(width, config.num_key_value_heads * head)
        self.v = Linear(width, config.num_key_value_heads * head)
        self.q_norm = FloatGainRMSNorm(config.num_attention_heads * head, config.rms_norm_eps)
        self.k_norm = FloatGainRMSNorm(config.num_key_value_heads * head, config.rms_norm_eps)
        self.q_heads, self.k_heads, self.v_heads = SplitHeads(head), SplitHeads(head), SplitHeads(head)
        self.q_rotate, self.k_rotate = FloatRotateHalves(), FloatRotateHalves()
        self.cache = UpdateCache()
        self.attend = Attend(config.num_attention_heads // config.num_key_value_heads)
        self.merge_heads = MergeHeads()
        self.o = Linear(config.num_attention_heads * head, width)

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        rope: RotaryTable,
        mask: Float[Tensor, "B 1 T S"],
        cache: BlockCache | None,
        slots: Int[Tensor, "T"] | None,
    ) -> Float[Tensor, "B T D"]:
        q = self.q_rotate(self.q_heads(self.q_norm(self.q(x))), rope)
        k = self.k_rotate(self.k_heads(self.k_norm(self.k(x))), rope)
        keys, values = self.cache(k, self.v_heads(self.v(x)), cache, slots)
        return self.o(self.merge_heads(self.attend(q, keys, values, mask)))


class FeedForward(nn.Module):
    r"""Works on each position by itself: a gated expansion to a wider space and back.

    Equation:
        \out = \left(\operatorname{SiLU}\left(\port{x}\,\param{gate.weight}^{\top}\right) \odot
        \port{x}\,\param{up.weight}^{\top}\right)\param{down.weight}^{\top}
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.gate = Linear(config.hidden_size, config.intermediate_size)
        self.up = Linear(config.hidden_size, config.intermediate_size)
        self.silu, self.multiply = SiLU(), Multiply()
        self.down = Linear(config.intermediate_size, config.hidden_size)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        return self.down(self.multiply(self.silu(self.gate(x)), self.up(x)))


class Block(nn.Module):
    """Adds two updates to the residual stream; each is made of the stream as it is, and normed before it is added."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.attention_post_norm = FloatGainRMSNorm(config.hidden_size, config.rms_norm_eps)
        self.attention_add = ResidualAdd()
        self.feed_forward = FeedForward(config)
        self.ffn_post_norm = FloatGainRMSNorm(config.hidden_size, config.rms_norm_eps)
        self.ffn_add = ResidualAdd()

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        rope: RotaryTable,
        mask: Float[Tensor, "B 1 T S"],
        cache: BlockCache | None,
        slots: Int[Tensor, "T"] | None,
    ) -> Float[Tensor, "B T D"]:
        x = self.attention_add(x, self.attention_post_norm(self.attention(x, rope, mask, cache, slots)))
        return self.ffn_add(x, self.ffn_post_norm(self.feed_forward(x)))


class Model(nn.Module):
    """Reads tokens at their positions and scores every vocabulary entry as the next token."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embed = Embedding(config.vocab_size, config.hidden_size)
        self.rope = Rope(config)
        self.mask = CausalMask()
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.num_hidden_layers))
        self.norm = FloatGainRMSNorm(config.hidden_size, config.rms_norm_eps)
        self.unembed = Unembed(self.embed)
        self.logits = Upcast()

    def forward(
        self, tokens: Int[Tensor, "B T"], positions: Int[Tensor, "B T"], cache: Cache | None = None
    ) -> Float32[Tensor, "B T V"]:
        x = self.embed(tokens)
        rope = self.rope(positions)
        mask = self.mask(positions, positions if cache is None else cache.positions)
        for i, block in enumerate(self.blocks):
            x = block(x, rope, mask, cache and cache.blocks[i], cache and cache.slots)
        return self.logits(self.unembed(self.norm(x)))


def _variant(*row: Any) -> Variant:
    """A row of the table: the numbers in the order of the configuration's fields."""
    return Variant(config=from_row(Config, row), model=Model, parts={})


VARIANTS = {
    # width, blocks, heads, kv heads, head width, ffn width, vocabulary, context, eps, theta
    "olmo-2-7b": _variant(4096, 32, 32, 32, 128, 11008, 100352, 4096, 1e-6, 500000.0),
}
