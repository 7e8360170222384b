r"""The Mixtral family: a decoder whose feed-forward is chosen anew for every token, two experts out of eight.

A router scores the experts for each position; the best two compute, and their results are mixed by the softmax of
their two scores. All other parameters stay unread for that position: a model computes with far fewer than it holds.
Attention and norms are those of Llama.

Two codes write the mixing weights differently and mean the same: softmax over the chosen scores alone; or softmax over
all scores, then the best two, divided by their sum. Dividing by the sum cancels the share of the experts that were not
chosen, since exp(a) / sum over all, renormalised over the chosen, is exp(a) / sum over the chosen. And softmax keeps
order, so the same experts are chosen.

The loss that balances the experts, and noise on the router's input, exist in training only. The number of experts is
in the shape of three weights; no expert is a module of its own.

Sources: mistralai/mistral-inference and transformers, modeling_mixtral.py (the pinned lines stand in the catalogue).
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

from jaxtyping import Float, Float32, Int
from torch import Tensor, nn

from openmodelatlas.models.variant import Variant, from_row
from openmodelatlas.parts.attend import Attend, CausalMask
from openmodelatlas.parts.cache import BlockCache, Cache, UpdateCache
from openmodelatlas.parts.elementwise import Multiply, ResidualAdd, SiLU, Upcast
from openmodelatlas.parts.heads import MergeHeads, SplitHeads
from openmodelatlas.parts.linear import Embedding, ExpertLinear, Linear, Unembed
from openmodelatlas.parts.norm import RMSNorm
from openmodelatlas.parts.precision import upcast
from openmodelatlas.parts.rope import RopeFrequencies, RopeTable, RotaryTable, Rotate


@dataclass(frozen=True, kw_only=True)
class Config:
    """The numbers of a variant, named as in Hugging Face configurations."""

    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    intermediate_size: int
    num_local_experts: int
    num_experts_per_tok: int
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
    """Lets each position read from earlier ones: many query heads share few key/value heads, rotated by position."""

    def __init__(self, config: Config) -> None:
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


class Chosen(NamedTuple):
    """The best experts of each position, best first, and the router's scores of them."""

    experts: Int[Tensor, "B T A"]
    scores: Float[Tensor, "B T A"]


class ChooseExperts(nn.Module):
    r"""Picks the experts that the router scores highest, for each position by itself.

    Equation:
        \out{experts}_t = \operatorname{top}_{\const{active}}\left(\port{router}_t\right) \qquad
        \out{scores}_{t,a} = \port{router}_{t,\,\out{experts}_{t,a}}

    Dtype: the scores keep theirs. Near a tie, rounding decides which expert is chosen.
    """

    def __init__(self, active: int) -> None:
        super().__init__()
        self.active = active

    def forward(self, router: Float[Tensor, "B T N"]) -> Chosen:
        scores, experts = router.topk(self.active, -1)
        return Chosen(experts, scores)


class ExpertWeights(nn.Module):
    r"""Turns the chosen experts' scores into shares that sum to one.

    Equation:
        \out_{t,a} = \frac{\exp\left(\port{scores}_{t,a}\right)}{\sum_{a'} \exp\left(\port{scores}_{t,a'}\right)}

    Dtype: float32, and kept so; the vendor's code rounds the shares to the model's dtype before it uses them.
    """

    def forward(self, scores: Float[Tensor, "B T A"]) -> Float[Tensor, "B T A"]:
        return upcast(scores).softmax(-1)


class Dispatch(nn.Module):
    r"""Hands a position's features to each of its experts.

    Equation:
        \out_{t,a} = \port{x}_t \qquad a < \const{active}

    Dtype: unchanged; a view.
    """

    def __init__(self, active: int) -> None:
        super().__init__()
        self.active = active

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T A D"]:
        return x[:, :, None, :].expand(-1, -1, self.active, -1)


class Combine(nn.Module):
    r"""Adds up what a position's experts made, each by its share.

    Equation:
        \out_t = \sum_{a} \port{weights}_{t,a}\,\port{x}_{t,a}

    Dtype: each product is taken in float32 and rounded to the dtype of the experts' results; their sum is rounded once.
    """

    def forward(self, x: Float[Tensor, "B T A D"], weights: Float[Tensor, "B T A"]) -> Float[Tensor, "B T D"]:
        return (x * weights[..., None]).type_as(x).sum(2)


class FeedForward(nn.Module):
    """Works on each position by itself: a router picks experts, each a gated expansion and back; their mix goes on."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        experts, active = config.num_local_experts, config.num_experts_per_tok
        self.router = Linear(config.hidden_size, experts)
        self.choose, self.weights, self.dispatch = ChooseExperts(active), ExpertWeights(), Dispatch(active)
        self.gate = ExpertLinear(experts, config.hidden_size, config.intermediate_size)
        self.up = ExpertLinear(experts, config.hidden_size, config.intermediate_size)
        self.silu, self.multiply = SiLU(), Multiply()
        self.down = ExpertLinear(experts, config.intermediate_size, config.hidden_size)
        self.combine = Combine()

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        experts, scores = self.choose(self.router(x))
        weights = self.weights(scores)
        x = self.dispatch(x)
        h = self.multiply(self.silu(self.gate(x, experts)), self.up(x, experts))
        return self.combine(self.down(h, experts), weights)


class Block(nn.Module):
    """Adds two updates to the residual stream: first attention's, then the experts', each from a normed copy."""

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

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embed = Embedding(config.vocab_size, config.hidden_size)
        self.rope = Rope(config)
        self.mask = CausalMask()
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.num_hidden_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
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
    # width, blocks, heads, kv heads, head width, ffn width, experts, active, vocabulary, context, eps, theta
    "mixtral-8x7b": _variant(4096, 32, 32, 8, 128, 14336, 8, 2, 32000, 32768, 1e-5, 1000000.0),
    "mixtral-8x22b": _variant(6144, 56, 48, 8, 128, 16384, 8, 2, 32768, 65536, 1e-5, 1000000.0),
}
