r"""The Gemma 3 family, text models: five local blocks to one global, four norms a block, gains counted from one.

Local and global blocks are the same code; what differs is what they are given. A local block sees a window of W keys,
the current one included, and rotates by a small base; a global block sees everything before it and rotates by a large
base, in the longer-context models slowed by a linear factor.

Where readers slip: stored gains are distances from one, and are applied in float32 before rounding. The embedding is
scaled by the root of the width, rounded to the embedding's dtype (in bfloat16 50.5 for a width of 2,560). Scores are
divided by the root of a number of its own, which is not always the head width. In stored names
`post_attention_layernorm` is the norm *behind* attention, which other families use for the one before the feed-forward.
GGUF files store one plus the gain.

Scores and logits are not capped, as they were in Gemma 2. The published 4B and larger checkpoints hold a vision tower
besides, and 64 more rows of the table for its tokens; neither is part of this text model.

Sources: transformers, modeling_gemma3.py; google/gemma_pytorch (the pinned lines stand in the catalogue).
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Float32, Int
from torch import Tensor, nn

from openmodelatlas.models.variant import Variant, from_row
from openmodelatlas.parts.attend import CausalMask, ScaledAttend, WindowMask
from openmodelatlas.parts.cache import BlockCache, Cache, UpdateCache
from openmodelatlas.parts.elementwise import GELU, Multiply, ResidualAdd, Upcast
from openmodelatlas.parts.heads import MergeHeads, SplitHeads
from openmodelatlas.parts.linear import Embedding, Linear, TiedUnembed
from openmodelatlas.parts.norm import ZeroCenteredRMSNorm
from openmodelatlas.parts.rope import RopeFrequencies, RopeLinearScale, RopeTable, RotaryTable, RotateHalves


@dataclass(frozen=True, kw_only=True)
class Config:
    """The numbers of a variant, named as in Hugging Face configurations."""

    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    intermediate_size: int
    query_pre_attn_scalar: int
    sliding_window: int
    max_position_embeddings: int
    vocab_size: int
    sliding_window_pattern: int
    rms_norm_eps: float
    rope_theta: float
    rope_local_base_freq: float


@dataclass(frozen=True, kw_only=True)
class ScaledConfig:
    """The numbers of a variant whose global rotary frequencies are divided by a factor."""

    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    intermediate_size: int
    query_pre_attn_scalar: int
    sliding_window: int
    max_position_embeddings: int
    vocab_size: int
    sliding_window_pattern: int
    rms_norm_eps: float
    rope_theta: float
    rope_local_base_freq: float
    rope_factor: float


class EmbeddingScale(nn.Module):
    r"""Brings the token features to the size that the stream is to have.

    Equation:
        \out = \port{x}\,\sqrt{\const{width}}

    Dtype: the root is rounded to the dtype of the table before the product.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        return x * torch.full((), self.width**0.5, dtype=x.dtype, device=x.device)


class Rope(nn.Module):
    """Prepares the angles by which every position's queries and keys are rotated."""

    def __init__(self, config: Config | ScaledConfig, theta: float) -> None:
        super().__init__()
        self.frequencies = RopeFrequencies(config.head_dim, theta)
        self.table = RopeTable()

    def forward(self, positions: Int[Tensor, "B T"]) -> RotaryTable:
        return self.table(self.frequencies(positions.device), positions)


class ScaledRope(nn.Module):
    """Prepares the angles of the global blocks, slowed for a longer context."""

    def __init__(self, config: ScaledConfig, theta: float) -> None:
        super().__init__()
        self.frequencies = RopeFrequencies(config.head_dim, theta)
        self.scale = RopeLinearScale(config.rope_factor)
        self.table = RopeTable()

    def forward(self, positions: Int[Tensor, "B T"]) -> RotaryTable:
        return self.table(self.scale(self.frequencies(positions.device)), positions)


class Attention(nn.Module):
    """Lets each position read from earlier ones: queries and keys of unit scale head by head, rotated by position."""

    def __init__(self, c: Config | ScaledConfig) -> None:
        super().__init__()
        width, head = c.hidden_size, c.head_dim
        self.q = Linear(width, c.num_attention_heads * head)
        self.k, self.v = (Linear(width, c.num_key_value_heads * head) for _ in range(2))
        self.q_heads, self.k_heads, self.v_heads = SplitHeads(head), SplitHeads(head), SplitHeads(head)
        self.q_norm, self.k_norm = (ZeroCenteredRMSNorm(head, c.rms_norm_eps) for _ in range(2))
        self.q_rotate, self.k_rotate = RotateHalves(), RotateHalves()
        self.cache = UpdateCache()
        self.attend = ScaledAttend(c.num_attention_heads // c.num_key_value_heads, c.query_pre_attn_scalar)
        self.merge_heads = MergeHeads()
        self.o = Linear(c.num_attention_heads * head, width)

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
        \out = \left(\operatorname{GELU}\left(\port{x}\,\param{gate.weight}^{\top}\right) \odot
        \port{x}\,\param{up.weight}^{\top}\right)\param{down.weight}^{\top}
    """

    def __init__(self, c: Config | ScaledConfig) -> None:
        super().__init__()
        self.gate, self.up = (Linear(c.hidden_size, c.intermediate_size) for _ in range(2))
        self.gelu, self.multiply = GELU(), Multiply()
        self.down = Linear(c.intermediate_size, c.hidden_size)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        return self.down(self.multiply(self.gelu(self.gate(x)), self.up(x)))


class Block(nn.Module):
    """Adds two updates to the residual stream; each is normed before it is computed and again before it is added."""

    def __init__(self, c: Config | ScaledConfig) -> None:
        super().__init__()
        self.attention_norm = ZeroCenteredRMSNorm(c.hidden_size, c.rms_norm_eps)
        self.attention = Attention(c)
        self.attention_post_norm = ZeroCenteredRMSNorm(c.hidden_size, c.rms_norm_eps)
        self.attention_add = ResidualAdd()
        self.ffn_norm = ZeroCenteredRMSNorm(c.hidden_size, c.rms_norm_eps)
        self.feed_forward = FeedForward(c)
        self.ffn_post_norm = ZeroCenteredRMSNorm(c.hidden_size, c.rms_norm_eps)
        self.ffn_add = ResidualAdd()

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        rope: RotaryTable,
        mask: Float[Tensor, "B 1 T S"],
        cache: BlockCache | None,
        slots: Int[Tensor, "T"] | None,
    ) -> Float[Tensor, "B T D"]:
        update = self.attention(self.attention_norm(x), rope, mask, cache, slots)
        x = self.attention_add(x, self.attention_post_norm(update))
        return self.ffn_add(x, self.ffn_post_norm(self.feed_forward(self.ffn_norm(x))))


class LocalBlock(Block):
    """A block that sees a window and rotates by the small base; each update is normed before and after."""


class GlobalBlock(Block):
    """A block that sees all earlier positions and rotates by the large base; each update is normed before and after."""


class Model(nn.Module):
    """Reads tokens at their positions and scores every vocabulary entry as the next token."""

    def __init__(self, config: Config | ScaledConfig, rope: type[nn.Module]) -> None:
        super().__init__()
        self.config = c = config
        self.embed, self.embed_scale = Embedding(c.vocab_size, c.hidden_size), EmbeddingScale(c.hidden_size)
        self.rope, self.local_rope = rope(c, c.rope_theta), Rope(c, c.rope_local_base_freq)
        self.mask, self.local_mask = CausalMask(), WindowMask(c.sliding_window)
        every = c.sliding_window_pattern
        kinds = (GlobalBlock if i % every == every - 1 else LocalBlock for i in range(c.num_hidden_layers))
        self.blocks = nn.ModuleList(kind(c) for kind in kinds)
        self.norm = ZeroCenteredRMSNorm(c.hidden_size, c.rms_norm_eps)
        self.unembed = TiedUnembed(self.embed)
        self.logits = Upcast()

    def forward(
        self, tokens: Int[Tensor, "B T"], positions: Int[Tensor, "B T"], cache: Cache | None = None
    ) -> Float32[Tensor, "B T V"]:
        x = self.embed_scale(self.embed(tokens))
        stored = positions if cache is None else cache.positions
        near = self.local_rope(positions), self.local_mask(positions, stored)
        far = self.rope(positions), self.mask(positions, stored)
        for i, block in enumerate(self.blocks):
            rope, mask = near if isinstance(block, LocalBlock) else far
            x = block(x, rope, mask, cache and cache.blocks[i], cache and cache.slots)
        return self.logits(self.unembed(self.norm(x)))


def _variant(kind: type[Config] | type[ScaledConfig], *row: Any) -> Variant:
    """A row of the table: the numbers in the order of the configuration's fields."""
    rope = Rope if kind is Config else ScaledRope
    return Variant(config=from_row(kind, row), model=Model, parts={"rope": rope})


GEMMA_3 = (262144, 6, 1e-6, 1000000.0, 10000.0)
"""What all sizes share: vocabulary, one global block in so many, eps, the two bases."""

VARIANTS = {
    # width, blocks, heads, kv heads, head width, ffn width, query scalar, window, context, then the shared; rope factor
    "gemma-3-1b": _variant(Config, 1152, 26, 4, 1, 256, 6912, 256, 512, 32768, *GEMMA_3),
    "gemma-3-4b": _variant(ScaledConfig, 2560, 34, 8, 4, 256, 10240, 256, 1024, 131072, *GEMMA_3, 8.0),
    "gemma-3-12b": _variant(ScaledConfig, 3840, 48, 16, 8, 256, 15360, 256, 1024, 131072, *GEMMA_3, 8.0),
    "gemma-3-27b": _variant(ScaledConfig, 5376, 62, 32, 16, 128, 21504, 168, 1024, 131072, *GEMMA_3, 8.0),
}
