r"""The Qwen3 family, dense models: queries and keys are normalised head by head before they are rotated.

Else the blocks are those of Llama: two updates to a residual stream, grouped-query attention, a gated feed-forward. A
head is as wide as its configuration says, whatever model width over heads would give (128 against 64 in the smallest
model), so the query projection may be wider than the stream. Up to 4B the vocabulary is scored with the embedding
table itself.

Rotation pairs feature i with feature i + E/2, as the family's code in transformers does; the gains of the head norms
stand in the same order. Other code rotates adjacent pairs: rows *and* these gains must then be reordered.

Published checkpoints of the tied models store the embedding table a second time under the unembedding's name, which is
why some counters show more parameters than there are.

Sources: transformers, modeling_qwen3.py (the pinned lines stand in the catalogue); the published configurations.
"""

from dataclasses import dataclass
from typing import Any

from jaxtyping import Float, Float32, Int
from torch import Tensor, nn

from openmodelatlas.models.variant import Variant, from_row
from openmodelatlas.parts.attend import Attend, CausalMask
from openmodelatlas.parts.cache import BlockCache, Cache, UpdateCache
from openmodelatlas.parts.elementwise import Multiply, ResidualAdd, SiLU, Upcast
from openmodelatlas.parts.heads import MergeHeads, SplitHeads
from openmodelatlas.parts.linear import Embedding, Linear, TiedUnembed, Unembed
from openmodelatlas.parts.norm import RMSNorm
from openmodelatlas.parts.rope import RopeFrequencies, RopeTable, RotaryTable, RotateHalves


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


class Rope(nn.Module):
    """Prepares the angles by which every position's queries and keys are rotated."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.frequencies = RopeFrequencies(config.head_dim, config.rope_theta)
        self.table = RopeTable()

    def forward(self, positions: Int[Tensor, "B T"]) -> RotaryTable:
        return self.table(self.frequencies(positions.device), positions)


class Attention(nn.Module):
    """Lets each position read from earlier ones: queries and keys of unit scale head by head, rotated by position."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, head = config.hidden_size, config.head_dim
        self.q = Linear(width, config.num_attention_heads * head)
        self.k = Linear(width, config.num_key_value_heads * head)
        self.v = Linear(width, config.num_key_value_heads * head)
        self.q_heads, self.k_heads, self.v_heads = SplitHeads(head), SplitHeads(head), SplitHeads(head)
        self.q_norm, self.k_norm = RMSNorm(head, config.rms_norm_eps), RMSNorm(head, config.rms_norm_eps)
        self.q_rotate, self.k_rotate = RotateHalves(), RotateHalves()
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
        q = self.q_rotate(self.q_norm(self.q_heads(self.q(x))), rope)
        k = self.k_rotate(self.k_norm(self.k_heads(self.k(x))), rope)
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
    """Adds two updates to the residual stream: first attention's, then the feed-forward's, each from a normed copy."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.attention = Attention(config)
        self.attention_add = ResidualAdd()
        self.ffn_norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.feed_forward = FeedForward(config)
        self.ffn_add = ResidualAdd()

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        rope: RotaryTable,
        mask: Float[Tensor, "B 1 T S"],
        cache: BlockCache | None,
        slots: Int[Tensor, "T"] | None,
    ) -> Float[Tensor, "B T D"]:
        x = self.attention_add(x, self.attention(self.attention_norm(x), rope, mask, cache, slots))
        return self.ffn_add(x, self.feed_forward(self.ffn_norm(x)))


class Model(nn.Module):
    """Reads tokens at their positions and scores every vocabulary entry as the next token."""

    def __init__(self, config: Config, unembed: type[Unembed]) -> None:
        super().__init__()
        self.config = config
        self.embed = Embedding(config.vocab_size, config.hidden_size)
        self.rope = Rope(config)
        self.mask = CausalMask()
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.num_hidden_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.unembed = unembed(self.embed)
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


def _variant(unembed: type[Unembed], *row: Any) -> Variant:
    """A row of the table: the numbers in the order of the configuration's fields."""
    return Variant(config=from_row(Config, row), model=Model, parts={"unembed": unembed})


QWEN_3 = (151936, 40960, 1e-6, 1000000.0)
"""What all sizes share: vocabulary, context, eps, theta."""

VARIANTS = {
    # width, blocks, heads, kv heads, head width, ffn width, vocabulary, context, eps, theta
    "qwen3-0.6b": _variant(TiedUnembed, 1024, 28, 16, 8, 128, 3072, *QWEN_3),
    "qwen3-1.7b": _variant(TiedUnembed, 2048, 28, 16, 8, 128, 6144, *QWEN_3),
    "qwen3-4b": _variant(TiedUnembed, 2560, 36, 32, 8, 128, 9728, *QWEN_3),
    "qwen3-8b": _variant(Unembed, 4096, 36, 32, 8, 128, 12288, *QWEN_3),
    "qwen3-14b": _variant(Unembed, 5120, 40, 40, 8, 128, 17408, *QWEN_3),
    "qwen3-32b": _variant(Unembed, 5120, 64, 64, 8, 128, 25600, *QWEN_3),
}
