"""Planted mistakes: what a parity run must notice, made on purpose beside every run so that its record can say so.

A mistake is planted in every model that has what it is about: a node, a class of module, a number of the configuration.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from openmodelatlas.infer.steady import one_thread
from openmodelatlas.models.variant import Variant
from openmodelatlas.parts.elementwise import GELU, SiLU
from openmodelatlas.parts.norm import RMSNorm, ZeroCenteredRMSNorm
from openmodelatlas.parts.rope import Rotate, RotateHalves
from openmodelatlas.verify import parity
from openmodelatlas.verify.parity_distances import Distances, holds, measured, region
from openmodelatlas.verify.parity_run import Outcome
from openmodelatlas.verify.references.exchange import Case, Values

Plant = Callable[[Variant, Values], nn.Module]
Forward = Callable[..., Any]


class Anatomy:
    """What a model has: nodes by id with `block` for every kind of block, shapes of parameters, classes of modules,
    numbers."""

    def __init__(self, variant: Variant) -> None:
        model = variant.build("meta")
        modules = dict(model.named_modules())
        self.shapes = {region(name): tuple(p.shape) for name, p in model.named_parameters()}
        self.nodes = {region(path): type(module) for path, module in modules.items()}
        self.classes = set(self.nodes.values())
        self.norms = {type(module) for module in modules.values() if hasattr(module, "eps")}
        self.numbers = vars(variant.config)
        self.kinds = len(set(parity.kinds(variant)))


Needs = Callable[[Anatomy], bool]


def has(*nodes: str) -> Needs:
    """Models with all those nodes."""
    return lambda model: all(node in model.nodes for node in nodes)


def of_one_shape(*parameters: str) -> Needs:
    """Models with all those parameters, one as large as the other: else nothing can take one for the other."""
    return lambda model: len({model.shapes.get(name, name) for name in parameters}) == 1


def made_of(kind: type[nn.Module], node: str | None = None) -> Needs:
    """Models with a module of that class, at `node` if one is named."""
    return lambda model: kind in model.classes if node is None else model.nodes.get(node) is kind


def number(*names: str) -> Needs:
    """Models with all those numbers, no two of them equal."""
    return lambda model: all(n in model.numbers for n in names) and len({model.numbers[n] for n in names}) == len(names)


def per_head(node: str) -> Needs:
    """Models with a norm there whose gain is as long as a head is wide."""
    return lambda model: model.shapes.get(f"{node}.weight") == (model.numbers["head_dim"],)


def other_than(node: str, *kinds: type[nn.Module]) -> Needs:
    """Models with a module there that is none of those: a class of the family's own, so another than each."""
    return lambda model: node in model.nodes and model.nodes[node] not in kinds


def of_all_heads(node: str) -> Needs:
    """Models with a norm there whose gain is as long as several heads are wide."""
    return lambda model: f"{node}.weight" in model.shapes and not per_head(node)(model)


def own_norm(model: Anatomy) -> bool:
    """Models with a norm that is none of `parts`, so another than each of those."""
    return bool(model.norms - {RMSNorm, ZeroCenteredRMSNorm})


def only_behind(model: Anatomy) -> bool:
    """Models whose blocks norm what their mechanisms give and not what those read."""
    return has("block.attention_post_norm", "block.ffn_post_norm")(model) and not (
        has("block.attention_norm")(model) or has("block.ffn_norm")(model)
    )


# --- ways to plant ----------------------------------------------------------------------------------------------------


def changed(name: str, new: Callable[[Any], Any]) -> Plant:
    """Another number in the configuration, the weights as they are; `new` is given the configuration."""
    return lambda variant, weights: parity.filled(parity.variant_with(variant, **{name: new(variant.config)}), weights)


def times(name: str, factor: float) -> Plant:
    """A number of the configuration off by a factor."""
    return changed(name, lambda config: getattr(config, name) * factor)


def edited(edit: Callable[[nn.Module], None]) -> Plant:
    """The model, changed."""

    def build(variant: Variant, weights: Values) -> nn.Module:
        model = parity.filled(variant, weights)
        with torch.no_grad():
            edit(model)
        return model

    return build


def named(model: nn.Module, where: str | type[nn.Module]) -> Iterator[tuple[str, Any]]:
    """Path and module of a node, in every block where it is one of a block; or of all modules of a class."""
    for path, module in model.named_modules():
        if region(path) == where if isinstance(where, str) else type(module) is where:
            yield path, module


def patched(where: str | type[nn.Module], forward: Forward) -> Plant:
    """Another forward at a node or in a class."""

    def edit(model: nn.Module) -> None:
        for _, module in named(model, where):
            module.forward = forward.__get__(module)

    return edited(edit)


def in_blocks(edit: Callable[[Any], None]) -> Plant:
    """Every block changed."""

    def edit_all(model: Any) -> None:
        for block in model.blocks:
            edit(block)

    return edited(edit_all)


def shifted(parameter: str, rows: int) -> Plant:
    """A parameter of every block with its first axis rolled."""

    def edit(block: nn.Module) -> None:
        weight = block.get_parameter(parameter)
        weight.copy_(weight.roll(rows, 0))

    return in_blocks(edit)


def exchanged(first: str, second: str) -> Plant:
    """Two parameters of every block, each in the other's place."""

    def edit(block: nn.Module) -> None:
        a, b = block.get_parameter(first), block.get_parameter(second)
        before = a.clone()
        a.copy_(b)
        b.copy_(before)

    return in_blocks(edit)


# --- the mistakes -----------------------------------------------------------------------------------------------------


def unchanged(_self: Any, x: Tensor) -> Tensor:
    return x


def half_split(_self: Any, x: Tensor, rope: Any) -> Tensor:
    cos, sin = rope.cos[:, :, None, :], rope.sin[:, :, None, :]
    first, second = x.chunk(2, -1)
    return torch.cat((first * cos - second * sin, first * sin + second * cos), -1)


def adjacent(_self: Any, x: Tensor, rope: Any) -> Tensor:
    cos, sin = rope.cos[:, :, None, :], rope.sin[:, :, None, :]
    even, odd = x.reshape(*x.shape[:-1], -1, 2).unbind(-1)
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)


def turned_back(self: Any, x: Tensor, rope: Any) -> Any:
    return type(self).forward(self, x, rope._replace(sin=-rope.sin))


def interleaved_heads(self: Any, x: Tensor) -> Tensor:
    return x.repeat(1, 1, self.group, 1)


def one_ahead(self: Any, positions: Tensor, key_positions: Tensor) -> Any:
    return type(self).forward(self, positions + 1, key_positions)


def of_whole_width(self: Any, x: Tensor) -> Any:
    gain = self.weight if type(self) is RMSNorm else 1 + self.weight
    return x * torch.rsqrt(x.pow(2).mean((-2, -1), keepdim=True) + self.eps) * gain


def of_each_head(width: int) -> Forward:
    """The gain as it is; a mean square for each stretch of a head's width."""

    def forward(self: Any, x: Tensor) -> Any:
        heads = x.reshape(*x.shape[:-1], -1, width)
        return (heads * torch.rsqrt(heads.pow(2).mean(-1, keepdim=True) + self.eps)).flatten(-2) * self.weight

    return forward


def exact_gelu(_self: Any, x: Tensor) -> Tensor:
    return F.gelu(x)


def silu(_self: Any, x: Tensor) -> Tensor:
    return F.silu(x)


def tanh_gelu(_self: Any, x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


def unweighted(_self: Any, x: Tensor, _weights: Tensor) -> Tensor:
    return x.mean(2)


def first_only(self: Any, scores: Tensor) -> Tensor:
    weights: Tensor = type(self).forward(self, scores)
    return torch.cat((torch.ones_like(weights[..., :1]), torch.zeros_like(weights[..., 1:])), -1)


def residual_from_the_norm(block: Any) -> None:
    seen: dict[str, Tensor] = {}
    block.attention_norm.register_forward_hook(lambda _m, _a, out: seen.update(x=out))
    block.attention_add.forward = lambda _x, update: seen["x"] + update


def second_residual_from_the_input(block: Any) -> None:
    seen: dict[str, Tensor] = {}
    block.attention_add.register_forward_hook(lambda _m, args, _out: seen.update(x=args[0]))
    block.ffn_add.forward = lambda _x, update: seen["x"] + update


def norms_in_front(block: Any) -> None:
    """Each norm before its mechanism instead of behind it."""
    for mechanism, norm in ((block.attention, block.attention_post_norm), (block.feed_forward, block.ffn_post_norm)):
        mechanism.register_forward_pre_hook(lambda _m, args, norm=norm.forward: (norm(args[0]), *args[1:]))
        norm.forward = lambda x: x


def norm_after_rotation(block: Any) -> None:
    attention = block.attention
    norm, rotate = attention.q_norm.forward, attention.q_rotate.forward
    attention.q_norm.forward = lambda x: x
    attention.q_rotate.forward = lambda x, rope: norm(rotate(x, rope))


def shares_of_all(block: Any) -> None:
    """Softmax over all experts, the chosen shares as they are."""
    seen: dict[str, Tensor] = {}
    feed = block.feed_forward
    feed.router.register_forward_hook(lambda _m, _a, out: seen.update(all=out.softmax(-1)))
    feed.choose.register_forward_hook(lambda _m, _a, out: seen.update(experts=out.experts))
    feed.weights.forward = lambda _scores: seen["all"].gather(-1, seen["experts"])


def kinds_exchanged(model: Any) -> None:
    first, second, *_ = dict.fromkeys(type(block) for block in model.blocks)
    for block in model.blocks:
        block.__class__ = second if type(block) is first else first


def kinds_one_early(model: Any) -> None:
    kinds = [type(block) for block in model.blocks]
    for block, kind in zip(model.blocks, [*kinds[1:], kinds[0]], strict=True):
        block.__class__ = kind


def scaled_near_by(model: Any) -> None:
    frequencies, scale = model.local_rope.frequencies, model.rope.scale
    made = frequencies.forward
    frequencies.forward = lambda device: scale.forward(made(device))


def own_gains_off(model: nn.Module) -> None:
    """All gains of norms that are none of `parts` too large by one."""
    for module in model.modules():
        if hasattr(module, "eps") and type(module) not in (RMSNorm, ZeroCenteredRMSNorm):
            module.get_parameter("weight").add_(1.0)


def keys_head_by_head(variant: Variant, weights: Values) -> nn.Module:
    """The norm of keys behind their cut into heads."""
    return patched(f"{ATTENTION}.k_norm", of_each_head(variant.config.head_dim))(variant, weights)


def gains_off(kind: type[nn.Module], by: float) -> Plant:
    """All gains of a class of norms too large by so much."""

    def edit(model: nn.Module) -> None:
        for _, norm in named(model, kind):
            norm.weight.add_(by)

    return edited(edit)


@dataclass(frozen=True)
class Mistake:
    """Something to get wrong, and the models in which it can be."""

    needs: Needs
    plant: Plant


ATTENTION, FEED = "block.attention", "block.feed_forward"
MISTAKES: Mapping[str, Mistake] = {
    # numbers
    "theta off by a hundredth": Mistake(number("rope_theta"), times("rope_theta", 1.01)),
    "eps off by a tenth": Mistake(number("rms_norm_eps"), times("rms_norm_eps", 1.1)),
    "rope factor off": Mistake(number("rope_factor"), times("rope_factor", 1.1)),
    "low frequency factor off": Mistake(number("rope_low_freq_factor"), times("rope_low_freq_factor", 1.1)),
    "high frequency factor off": Mistake(number("rope_high_freq_factor"), times("rope_high_freq_factor", 1.025)),
    "original context 8,000": Mistake(
        number("rope_original_max_position_embeddings"),
        changed("rope_original_max_position_embeddings", lambda _: 8000),
    ),
    "local base off by a hundredth": Mistake(number("rope_local_base_freq"), times("rope_local_base_freq", 1.01)),
    "global base in local blocks": Mistake(
        number("rope_theta", "rope_local_base_freq"), changed("rope_local_base_freq", lambda c: c.rope_theta)
    ),
    "local base in global blocks": Mistake(
        number("rope_theta", "rope_local_base_freq"), changed("rope_theta", lambda c: c.rope_local_base_freq)
    ),
    "query scale by head width": Mistake(
        number("query_pre_attn_scalar", "head_dim"), changed("query_pre_attn_scalar", lambda c: c.head_dim)
    ),
    "query scale by width over heads": Mistake(
        number("query_pre_attn_scalar"),
        changed("query_pre_attn_scalar", lambda c: c.hidden_size // c.num_attention_heads),
    ),
    "window one wider": Mistake(number("sliding_window"), changed("sliding_window", lambda c: c.sliding_window + 1)),
    "window one narrower": Mistake(number("sliding_window"), changed("sliding_window", lambda c: c.sliding_window - 1)),
    # positions
    "no rope scaling": Mistake(has("rope.scale"), patched("rope.scale", unchanged)),
    "rope scaling in local blocks, too": Mistake(has("rope.scale", "local_rope"), edited(scaled_near_by)),
    "half-split rotation of queries": Mistake(
        made_of(Rotate, f"{ATTENTION}.q_rotate"), patched(f"{ATTENTION}.q_rotate", half_split)
    ),
    "rotation of queries in adjacent pairs": Mistake(
        made_of(RotateHalves, f"{ATTENTION}.q_rotate"), patched(f"{ATTENTION}.q_rotate", adjacent)
    ),
    "an own rotation of queries turned back": Mistake(
        other_than(f"{ATTENTION}.q_rotate", Rotate, RotateHalves), patched(f"{ATTENTION}.q_rotate", turned_back)
    ),
    "mask one ahead": Mistake(has("mask"), patched("mask", one_ahead)),
    "window one ahead": Mistake(has("local_mask"), patched("local_mask", one_ahead)),
    # attention
    "query heads grouped the other way": Mistake(
        has(f"{ATTENTION}.attend.repeat_k"), patched(f"{ATTENTION}.attend.repeat_k", interleaved_heads)
    ),
    "value heads grouped the other way": Mistake(
        has(f"{ATTENTION}.attend.repeat_v"), patched(f"{ATTENTION}.attend.repeat_v", interleaved_heads)
    ),
    "no norm of queries": Mistake(has(f"{ATTENTION}.q_norm"), patched(f"{ATTENTION}.q_norm", unchanged)),
    "no norm of keys": Mistake(has(f"{ATTENTION}.k_norm"), patched(f"{ATTENTION}.k_norm", unchanged)),
    "norm of queries after rotation": Mistake(per_head(f"{ATTENTION}.q_norm"), in_blocks(norm_after_rotation)),
    "norm of keys over all heads": Mistake(
        per_head(f"{ATTENTION}.k_norm"), patched(f"{ATTENTION}.k_norm", of_whole_width)
    ),
    "norm of keys head by head": Mistake(of_all_heads(f"{ATTENTION}.k_norm"), keys_head_by_head),
    "gains of query and key norm exchanged": Mistake(
        of_one_shape(f"{ATTENTION}.q_norm.weight", f"{ATTENTION}.k_norm.weight"),
        exchanged("attention.q_norm.weight", "attention.k_norm.weight"),
    ),
    # the stream
    "residual from the norm": Mistake(
        has("block.attention_norm", "block.attention_add"), in_blocks(residual_from_the_norm)
    ),
    "second residual from the block's input": Mistake(
        has("block.attention_add", "block.ffn_add"), in_blocks(second_residual_from_the_input)
    ),
    "gains one too large": Mistake(made_of(RMSNorm), gains_off(RMSNorm, 1.0)),
    "gains of an own norm one too large": Mistake(own_norm, edited(own_gains_off)),
    "norms in front instead of behind": Mistake(only_behind, in_blocks(norms_in_front)),
    "gains without their one": Mistake(made_of(ZeroCenteredRMSNorm), gains_off(ZeroCenteredRMSNorm, -1.0)),
    "no norm behind attention": Mistake(
        has("block.attention_post_norm"), patched("block.attention_post_norm", unchanged)
    ),
    "no norm behind the feed-forward": Mistake(has("block.ffn_post_norm"), patched("block.ffn_post_norm", unchanged)),
    "norms behind attention and before the feed-forward exchanged": Mistake(
        has("block.attention_post_norm", "block.ffn_norm"),
        exchanged("attention_post_norm.weight", "ffn_norm.weight"),
    ),
    "embedding not scaled": Mistake(has("embed_scale"), patched("embed_scale", unchanged)),
    "kinds of blocks exchanged": Mistake(lambda model: model.kinds > 1, edited(kinds_exchanged)),
    "kinds of blocks one early": Mistake(lambda model: model.kinds > 1, edited(kinds_one_early)),
    # the feed-forward
    "gate and up swapped": Mistake(
        has(f"{FEED}.gate", f"{FEED}.up"), exchanged("feed_forward.gate.weight", "feed_forward.up.weight")
    ),
    "exact GELU": Mistake(made_of(GELU), patched(GELU, exact_gelu)),
    "SiLU for GELU": Mistake(made_of(GELU), patched(GELU, silu)),
    "GELU for SiLU": Mistake(made_of(SiLU), patched(SiLU, tanh_gelu)),
    "shares of all experts, not made to sum to one": Mistake(has(f"{FEED}.choose"), in_blocks(shares_of_all)),
    "only the first expert": Mistake(has(f"{FEED}.weights"), patched(f"{FEED}.weights", first_only)),
    "experts' shares not applied": Mistake(has(f"{FEED}.combine"), patched(f"{FEED}.combine", unweighted)),
    "router's rows in another order": Mistake(has(f"{FEED}.router"), shifted("feed_forward.router.weight", 1)),
    "experts' down in another order": Mistake(has(f"{FEED}.router"), shifted("feed_forward.down.weight", 1)),
}


def plants(variant: Variant) -> Mapping[str, Plant]:
    """The mistakes that can be made in this model."""
    anatomy = Anatomy(variant)
    return {name: mistake.plant for name, mistake in MISTAKES.items() if mistake.needs(anatomy)}


def distances(model: nn.Module, case: Case, outcome: Outcome) -> Distances:
    """How far `model` is from each side of an outcome, node by node, with the sides' own distance to each other."""
    here, found = parity.ours(model, case), Distances(outcome.found.kinds)
    for name in outcome.to:
        found.add(name, here, outcome.sides[name])
    found.pairs[outcome.between] = outcome.found.pairs[outcome.between]
    return found


@one_thread()
def unnoticed(variant: Variant, weights: Values, case: Case, outcome: Outcome) -> tuple[int, tuple[str, ...]]:
    """How many mistakes were planted, and those that the bars of a parity run do not notice."""
    made = plants(variant)
    missed = []
    for name, plant in made.items():
        found = distances(plant(variant, weights), case, outcome)
        if holds(measured(found, outcome.between, outcome.to)):
            missed.append(name)
    return len(made), tuple(missed)
