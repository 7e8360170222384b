"""What the parity checks share: tiny twins of a model, the same run here and in the references, and distances by node.

A distance is the largest difference over a node's elements, divided by the largest magnitude in it. The bar is not a
matter of taste: ours to each reference may be at most twice the references' own distance to each other, or 1e-6.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from openmodelatlas import models
from openmodelatlas.infer.steady import one_thread
from openmodelatlas.models.variant import Variant
from openmodelatlas.parts.cache import BlockCache, Cache
from openmodelatlas.parts.linear import TiedUnembed
from openmodelatlas.records.verification import Measurement
from openmodelatlas.trace.run import leaves
from openmodelatlas.verify.references.exchange import Case, Past, Request, Values, past
from openmodelatlas.weights import steps
from openmodelatlas.weights.naming import INDEX, Scheme, fill, name_table

FLOOR = 1e-6
UNSEEN = -1e30  # a masked score: minus infinity here, the most negative number elsewhere

SIZES = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
SIZES |= {"intermediate_size": 320, "vocab_size": 307}
UNEVEN = 40  # what a twin's width exceeds heads times head width by, where the head width is to be its own
SMALL = 4e-3  # the residual stream's size: its mean square is near eps, so that eps shows


def twin(model: str | Variant, *, uneven: bool = False, **changes: Any) -> Variant:
    """The variant with small sizes and every other number as it is; the head width too, which the angles depend on."""
    variant = models.find(model) if isinstance(model, str) else model
    width = SIZES["num_attention_heads"] * variant.config.head_dim + (UNEVEN if uneven else 0)
    return variant_with(variant, **{"hidden_size": width, **SIZES, **changes})


def variant_with(variant: Variant, **changes: Any) -> Variant:
    """The variant with some numbers of its configuration changed."""
    return dataclasses.replace(variant, config=dataclasses.replace(variant.config, **changes))


def tied(variant: Variant) -> bool:
    """Whether the variant scores with its embedding table."""
    return issubclass(variant.parts["unembed"], TiedUnembed)


def stored(variant: Variant, seed: int = 0) -> Values:
    """Random weights under Hugging Face's names and in its row order: what a checkpoint of the twin would hold."""
    drawn = torch.Generator().manual_seed(seed)
    table = name_table(variant.family, "huggingface")
    shallow = {name: p.shape for name, p in variant.build("meta").named_parameters()}
    made = {}
    for row in table.tensors:
        for i in range(variant.config.num_hidden_layers) if INDEX in row.parameter else (None,):
            shape = shallow.get(fill(row.parameter, i))
            if shape is not None:
                made[fill(row.stored, i)] = _random(row.parameter, shape, drawn)
    return made


def _random(parameter: str, shape: torch.Size, drawn: torch.Generator) -> Tensor:
    """Gains around one; attention that looks somewhere; updates as small as the stream they are added to."""
    if len(shape) == 1:
        return torch.rand(shape, generator=drawn) + 0.5
    size = {"embed.weight": SMALL, "o.weight": SMALL, "down.weight": SMALL, "q.weight": 1.5, "k.weight": 1.5}
    leaf = parameter if parameter == "embed.weight" else ".".join(parameter.split(".")[-2:])
    scale = size.get(leaf, 1.0) / (1.0 if leaf == "embed.weight" else math.sqrt(shape[1]))
    return torch.randn(shape, generator=drawn) * scale


def renamed(variant: Variant, weights: Values, scheme: Scheme) -> Values:
    """Hugging Face's weights under another scheme's names, by way of the definition: through the name table's steps."""
    ours = {row.parameter: row for row in name_table(variant.family, scheme).tensors}
    made = {}
    for parameter, weight in _defined(variant, weights).items():
        pattern, index = parameter
        if ours[pattern].steps:
            raise ValueError(f"{scheme} stores {pattern} in another layout")
        made[fill(ours[pattern].stored, index)] = weight
    return made


def _defined(variant: Variant, weights: Values) -> dict[tuple[str, int | None], Tensor]:
    made = {}
    for row in name_table(variant.family, "huggingface").tensors:
        for i in range(variant.config.num_hidden_layers) if INDEX in row.parameter else (None,):
            if fill(row.stored, i) in weights:
                made[row.parameter, i] = steps.apply(weights[fill(row.stored, i)], row.steps, variant.config)
    return made


def filled(variant: Variant, weights: Values, dtype: torch.dtype = torch.float32) -> nn.Module:
    """The definition with those weights, loaded as a Hugging Face checkpoint is: by name table and layout steps."""
    model = variant.build("cpu", dtype)
    named = {fill(parameter, i): weight.to(dtype) for (parameter, i), weight in _defined(variant, weights).items()}
    if tied(variant):
        named["unembed.weight"] = named["embed.weight"]
    model.load_state_dict(named, strict=True)
    return model


def case(
    positions: int, *, batch: int = 1, calls: Sequence[int] = (), start: int = 0, vocabulary: int = SIZES["vocab_size"]
) -> Case:
    """Random tokens at `start` and after; with a `start`, that many random keys and values are in the cache before."""
    drawn = torch.Generator().manual_seed(1)
    tokens = torch.randint(0, vocabulary, (batch, positions), generator=drawn)
    where = (torch.arange(positions) + start).expand(batch, -1).contiguous()
    before = Past(length=start, repeat=61, seed=7) if start else None
    return Case(tokens=tokens, positions=where, calls=list(calls) or [positions], past=before, keep=[])


def request(
    variant: Variant, weights: Values, cases: Mapping[str, Case], *, dtype: str = "float32", **options: Any
) -> Request:
    """Those cases of that model, for a reference."""
    config = dataclasses.asdict(variant.config)
    return Request(config=config, tied=tied(variant), weights=weights, dtype=dtype, options=options, cases=dict(cases))


# --- our side ---------------------------------------------------------------------------------------------------------


@one_thread()
def ours(model: nn.Module, asked: Case) -> list[Values]:
    """The definition's values of the case by node id, call by call."""
    made, start = [], 0
    total, batch = asked["tokens"].shape[1], asked["tokens"].shape[0]
    before = asked["past"]["length"] if asked["past"] else 0
    whole = asked["calls"] == [total] and not before
    blocks = () if whole else _buffers(model, asked, batch, before + total)
    seen = torch.cat([torch.arange(before).expand(batch, -1), asked["positions"]], 1)
    for length in asked["calls"]:
        part, end = slice(start, start + length), before + start + length
        cache = None
        if not whole:
            views = tuple(BlockCache(block.k[:, :end], block.v[:, :end]) for block in blocks)
            cache = Cache(slots=torch.arange(before + start, end), positions=seen[:, :end], blocks=views)
        made.append(values(model, asked["tokens"][:, part], asked["positions"][:, part], cache))
        start += length
    return made


def _buffers(model: Any, asked: Case, batch: int, slots: int) -> tuple[BlockCache, ...]:
    c, weight = model.config, next(model.parameters())
    made = []
    for i in range(c.num_hidden_layers):
        shape = (batch, slots, c.num_key_value_heads, c.head_dim)
        block = BlockCache(weight.new_zeros(shape), weight.new_zeros(shape))
        if asked["past"]:
            keys, mixed = past(asked["past"], batch, c.num_key_value_heads, c.head_dim, i, weight.dtype)
            block.k[:, : keys.shape[1]], block.v[:, : keys.shape[1]] = keys, mixed
        made.append(block)
    return tuple(made)


@torch.no_grad()
def values(
    model: nn.Module,
    tokens: Tensor,
    positions: Tensor,
    cache: Cache | None = None,
    *,
    force: Mapping[str, Any] | None = None,
) -> Values:
    """Every value of one forward by node id; of a tuple, by node and port.

    With `force`, a node's result is replaced by the value given for it once it is noted: every node then computes from
    a reference's own values, and differs from it by what it does itself."""
    found: Values = {}
    handles = []
    for path, module in model.named_modules():
        if path and not list(module.children()):
            handles.append(module.register_forward_hook(_keep(found, path, force or {})))
    try:
        model(tokens, positions, cache)
    finally:
        for handle in handles:
            handle.remove()
    return found


def _keep(found: Values, path: str, force: Mapping[str, Any]) -> Callable[..., Any]:
    def hook(_module: nn.Module, _args: Any, result: Any) -> Any:
        for port, value in leaves("", result):
            found[f"{path}:{port}" if port else path] = value.detach()
        return force.get(path)

    return hook


# --- distances --------------------------------------------------------------------------------------------------------

HALF_SPLIT = ("q", "k", "q_rotate", "k_rotate", "attend.repeat_k")


def interleaved(found: Values, variant: Variant) -> Values:
    """A reference's values, queries and keys brought from half-split to adjacent pairs by the loader's own step."""
    names = tuple(f".attention.{name}" for name in HALF_SPLIT)
    return {node: _interleave(v, variant) if node.endswith(names) else v for node, v in found.items()}


def _interleave(value: Tensor, variant: Variant) -> Tensor:
    shape, flat = value.shape, value.flatten(2).flatten(0, 1)
    return steps.apply(flat.T, ("interleave_rotary_rows",), variant.config).T.reshape(shape)


def distance(a: Tensor, b: Tensor, rows: Tensor | None = None) -> float:
    """The largest difference relative to the largest magnitude; infinite where shapes, or what is masked, differ.

    `rows` `[B, T]`: the positions that count; of a value without a T axis, all count."""
    if a.shape != b.shape:
        return math.inf
    if rows is not None:
        a, b = _rows(a, rows), _rows(b, rows)
    if a.numel() == 0:
        return 0.0
    wide = torch.promote_types(torch.promote_types(a.dtype, b.dtype), torch.float32)
    a, b = a.to(wide), b.to(wide)
    if float(a.min()) <= UNSEEN:
        seen = a > UNSEEN
        if not torch.equal(seen, b > UNSEEN):
            return math.inf
        a, b = a.where(seen, 0.0), b.where(seen, 0.0)
    apart, largest = float((a - b).abs().max()), max(float(a.abs().max()), float(b.abs().max()))
    if not math.isfinite(apart):
        return math.inf
    return apart / largest if largest else 0.0


def _rows(value: Tensor, rows: Tensor) -> Tensor:
    """The rows of real positions: axis 1, or 2 where heads stand before positions."""
    batch, length = rows.shape
    if value.dim() == 4 and value.shape[2] == length and value.shape[1] != length:
        value = value.transpose(1, 2)
    return value[rows] if value.shape[:2] == (batch, length) else value


OF_ALL_SLOTS = tuple(f"block.attention.attend.{name}" for name in ("scores", "repeat_k", "repeat_v"))
"""Nodes in which padding's keys and values stand; the mask takes them out afterwards."""


@dataclass
class Distances:
    """By node without block number: the largest distance over blocks and calls, for each pair of sides."""

    pairs: dict[str, dict[str, float]] = field(default_factory=dict)

    @one_thread()
    def add(self, pair: str, a: Sequence[Values], b: Sequence[Values], rows: Sequence[Tensor] = ()) -> None:
        """Compare two runs of a case at every node that both have."""
        found = self.pairs.setdefault(pair, {})
        for call, (left, right) in enumerate(zip(a, b, strict=True)):
            for node in left.keys() & right.keys():
                name = region(node)
                if rows and name in OF_ALL_SLOTS:
                    continue
                apart = distance(left[node], right[node], rows[call] if rows else None)
                found[name] = max(found.get(name, 0.0), apart)

    def nodes(self) -> list[str]:
        """All nodes compared, in the order of the first pair."""
        return list(dict.fromkeys(node for found in self.pairs.values() for node in sorted(found, key=order)))


def region(node: str) -> str:
    """`blocks.1.attention.q` as `block.attention.q`, `blocks.1` as `block`."""
    head, _, rest = node.partition(".")
    return f"block.{rest.partition('.')[2]}".rstrip(".") if head == "blocks" else node


_ATTENTION = (
    "q k v q_rotate k_rotate attend.repeat_k attend.repeat_v attend.scores attend.mask attend.softmax attend.mix "
    "merge_heads o"
)
ORDER = (
    *("embed", "rope.table:cos", "rope.table:sin", "block.attention_norm"),
    *(f"block.attention.{name}" for name in _ATTENTION.split()),
    *("block.attention_add", "block.ffn_norm"),
    *(f"block.feed_forward.{name}" for name in ("gate", "up", "silu", "multiply", "down")),
    *("block.ffn_add", "norm", "unembed", "logits"),
)
"""The nodes that are compared, as they follow in a forward."""


def order(node: str) -> int:
    """Where a node stands in the forward."""
    return ORDER.index(node) if node in ORDER else len(ORDER)


BETWEEN = "the references to each other"


def measured(
    found: Distances, between: str, to: Iterable[str], *, floor: float = FLOOR, only: Iterable[str] | None = None
) -> tuple[Measurement, ...]:
    """Three numbers a node: ours to each reference, with its bound, and the references to each other.

    Where the second reference has no such value inside it, the bound is the floor, or twice the references' distance
    at the next node that both have."""
    made: list[Measurement] = []
    noise = {node: apart for node, apart in found.pairs[between].items() if math.isfinite(apart)}
    nodes = found.nodes() if only is None else [n for n in found.nodes() if n in only]
    for node in nodes:
        own = noise.get(node)
        later = [noise[n] for n in noise if order(n) > order(node)]
        bound = max(2 * (own if own is not None else min(later, default=0.0)), floor)
        for name in to:
            if node in found.pairs[name]:
                what = f"{name}, relative"
                made.append(Measurement(where=node, what=what, value=short(found.pairs[name][node]), bound=bound))
        if own is not None:
            made.append(Measurement(where=node, what=f"{between}, relative", value=short(own), bound=None))
    return tuple(dataclasses.replace(m, bound=None if m.bound is None else short(m.bound)) for m in made)


def short(value: float) -> float:
    """Three digits, rounded up: a bound or a distance needs no more. JSON has no infinity: 1e300 stands for it."""
    if not math.isfinite(value):
        return 1e300
    if value == 0.0:
        return 0.0
    scale = 10.0 ** (2 - math.floor(math.log10(abs(value))))
    return float(f"{math.ceil(value * scale - 1e-9) / scale:.3g}")


def holds(measurements: Iterable[Measurement]) -> bool:
    """Whether every measurement is within its bound."""
    return all(m.bound is None or m.value <= m.bound for m in measurements)


def worst(measurements: Sequence[Measurement]) -> Measurement:
    """The measurement nearest to its bound, or furthest beyond it."""
    return max((m for m in measurements if m.bound is not None), key=lambda m: m.value / (m.bound or FLOOR))
