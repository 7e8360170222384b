r"""The Llama 3 family: a dense decoder with grouped-query attention, rotary positions and a gated feed-forward.

Every block adds two updates to a residual stream, each computed from a normalised copy of it. Positions enter only by
rotating queries and keys. Llama 3.1 and later differ from Llama 3 in one op, `rope.scale`; the small 3.2 models and
SmolLM2 score the vocabulary with the embedding table itself.

Sources: meta-llama/llama3 and meta-llama/llama-models (the pinned lines stand in the catalogue). Llama 3.2's factor is
32 in its published configurations, though the vendor's code has 8 written into it; 32 is used here.
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
from openmodelatlas.parts.rope import RopeFrequencies, RopeScale, RopeTable, RotaryTable, Rotate


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


@dataclass(frozen=True, kw_only=True)
class ScaledConfig:
    """The numbers of a variant whose rotary frequencies are scaled."""

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
    rope_factor: float
    rope_low_freq_factor: float
    rope_high_freq_factor: float
    rope_original_max_position_embeddings: int


class Rope(nn.Module):
    """Prepares the angles by which every position's queries and keys are rotated."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.frequencies = RopeFrequencies(config.head_dim, config.rope_theta)
        self.table = RopeTable()

    def forward(self, positions: Int[Tensor, "B T"]) -> RotaryTable:
        return self.table(self.frequencies(positions.device), positions)


class ScaledRope(nn.Module):
    """Prepares the angles by which every position's queries and keys are rotated, slowed for a longer context."""

    def __init__(self, config: ScaledConfig) -> None:
        super().__init__()
        c = config
        self.frequencies = RopeFrequencies(c.head_dim, c.rope_theta)
        self.scale = RopeScale(
            c.rope_factor, c.rope_low_freq_factor, c.rope_high_freq_factor, c.rope_original_max_position_embeddings
        )
        self.table = RopeTable()

    def forward(self, positions: Int[Tensor, "B T"]) -> RotaryTable:
        return self.table(self.scale(self.frequencies(positions.device)), positions)


class Attention(nn.Module):
    """Lets each position read from earlier ones: many query heads share few key/value heads, rotated by position."""

    def __init__(self, config: Config | ScaledConfig) -> None:
        super().__init__()
        width, head = config.hidden_size, config.head_dim
        self.q = Linear(width, config.num_attention_heads * head)
        self.k = Linear(width, config.num_key_value_heads * head)
        self.v = Linear(width, config.num_key_value_heads * head)
        self.q_heads, self.k_heads, self.v_heads = SplitHeads(head), SplitHeads(head), SplitHeads(head)
        self.q_rotate, self.k_rotate = Rotate(), Rotate()
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
        q = self.q_rotate(self.q_heads(self.q(x)), rope)
        k = self.k_rotate(self.k_heads(self.k(x)), rope)
        keys, values = self.cache(k, self.v_heads(self.v(x)), cache, slots)
        return self.o(self.merge_heads(self.attend(q, keys, values, mask)))


class FeedForward(nn.Module):
    r"""Works on each position by itself: a gated expansion to a wider space and back.

    Equation:
        \out = \left(\operatorname{SiLU}\left(\port{x}\,\param{gate.weight}^{\top}\right) \odot
        \port{x}\,\param{up.weight}^{\top}\right)\param{down.weight}^{\top}
    """

    def __init__(self, config: Config | ScaledConfig) -> None:
        super().__init__()
        self.gate = Linear(config.hidden_size, config.intermediate_size)
        self.up = Linear(config.hidden_size, config.intermediate_size)
        self.silu, self.multiply = SiLU(), Multiply()
        self.down = Linear(config.intermediate_size, config.hidden_size)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        return self.down(self.multiply(self.silu(self.gate(x)), self.up(x)))


class Block(nn.Module):
    """Adds two updates to the residual stream: first attention's, then the feed-forward's, each from a normed copy."""

    def __init__(self, config: Config | ScaledConfig) -> None:
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

    def __init__(self, config: Config | ScaledConfig, rope: type[nn.Module], unembed: type[Unembed]) -> None:
        super().__init__()
        self.config = config
        self.embed = Embedding(config.vocab_size, config.hidden_size)
        self.rope = rope(config)
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


def _variant(kind: type[Config] | type[ScaledConfig], unembed: type[Unembed], *row: Any) -> Variant:
    """A row of the table: the numbers in the order of the configuration's fields."""
    config = from_row(kind, row)
    rope = Rope if kind is Config else ScaledRope
    return Variant(config=config, model=Model, parts={"rope": rope, "unembed": unembed})


LLAMA_3 = (128256, 8192, 1e-5, 500000.0)
LLAMA_3_1 = (128256, 131072, 1e-5, 500000.0, 8.0, 1.0, 4.0, 8192)
LLAMA_3_2 = (128256, 131072, 1e-5, 500000.0, 32.0, 1.0, 4.0, 8192)
"""What a release's models share: vocabulary, context, eps, theta; rope factor, its low and high bounds, old context."""

VARIANTS = {
    # width, blocks, heads, kv heads, head width, ffn width, vocabulary, context, eps, theta
    "llama-3-8b": _variant(Config, Unembed, 4096, 32, 32, 8, 128, 14336, *LLAMA_3),
    "llama-3-70b": _variant(Config, Unembed, 8192, 80, 64, 8, 128, 28672, *LLAMA_3),
    "llama-3.1-8b": _variant(ScaledConfig, Unembed, 4096, 32, 32, 8, 128, 14336, *LLAMA_3_1),
    "llama-3.1-70b": _variant(ScaledConfig, Unembed, 8192, 80, 64, 8, 128, 28672, *LLAMA_3_1),
    "llama-3.1-405b": _variant(ScaledConfig, Unembed, 16384, 126, 128, 8, 128, 53248, *LLAMA_3_1),
    "llama-3.2-1b": _variant(ScaledConfig, TiedUnembed, 2048, 16, 32, 8, 64, 8192, *LLAMA_3_2),
    "llama-3.2-3b": _variant(ScaledConfig, TiedUnembed, 3072, 28, 24, 8, 128, 8192, *LLAMA_3_2),
    "llama-3.3-70b": _variant(ScaledConfig, Unembed, 8192, 80, 64, 8, 128, 28672, *LLAMA_3_1),
    "smollm2-135m": _variant(Config, TiedUnembed, 576, 30, 9, 3, 64, 1536, 49152, 8192, 1e-5, 100000.0),
    "smollm2-360m": _variant(Config, TiedUnembed, 960, 32, 15, 5, 64, 2560, 49152, 8192, 1e-5, 100000.0),
    "smollm2-1.7b": _variant(Config, TiedUnembed, 2048, 24, 32, 32, 64, 8192, 49152, 8192, 1e-5, 130000.0),
    "tinyllama-1.1b": _variant(Config, Unembed, 2048, 22, 32, 4, 64, 5632, 32000, 2048, 1e-5, 10000.0),
}
