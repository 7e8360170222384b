"""Tiny twins of a model, their random weights, and their run: what a parity check does on our side."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from openmodelatlas import models
from openmodelatlas.infer.steady import one_thread
from openmodelatlas.models.variant import Variant
from openmodelatlas.parts.cache import BlockCache, Cache
from openmodelatlas.parts.norm import ZeroCenteredRMSNorm
from openmodelatlas.trace import regions
from openmodelatlas.trace.run import leaves
from openmodelatlas.verify.references.exchange import Case, Past, Request, Values, past
from openmodelatlas.weights import steps
from openmodelatlas.weights.naming import EXPERT, INDEX, Scheme, block_pattern, fill, name_table, pieces

SIZES = {"num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 320, "vocab_size": 307}
WINDOW = 11
EXPERT_WIDTH = 96  # an expert's; a reference may fetch its whole matrix for every token
UNEVEN = 40  # what a twin's width exceeds heads times head width by, where the head width is to be its own
LOOKING = 1.5  # the size of queries and keys, so that attention looks somewhere
SMALL = 4e-3  # the residual stream's size at an eps of 1e-5: its mean square is near eps, so that eps shows


def twin(model: str | Variant, *, uneven: bool = False, **changes: Any) -> Variant:
    """The variant with small sizes and every other number as it is; the head width too, which the angles depend on.

    A window is a size, too, and small enough for short texts to leave it. One block more than shows every kind."""
    variant = models.find(model) if isinstance(model, str) else model
    width = SIZES["num_attention_heads"] * variant.config.head_dim + (UNEVEN if uneven else 0)
    sizes = {"hidden_size": width, **SIZES}
    if hasattr(variant.config, "sliding_window"):
        sizes["sliding_window"] = WINDOW
    if hasattr(variant.config, "num_experts_per_tok"):
        sizes["intermediate_size"] = EXPERT_WIDTH
    small = variant_with(variant, **{**sizes, **changes})
    return small if "num_hidden_layers" in changes else variant_with(small, num_hidden_layers=depth(small) + 1)


def kinds(variant: Variant) -> tuple[str, ...]:
    """The region of each block by name."""
    return regions.kinds(variant.build("meta"))


def depth(variant: Variant) -> int:
    """The least number of blocks that shows every kind that the variant has."""
    found = kinds(variant)
    return max(found.index(kind) for kind in found) + 1


def variant_with(variant: Variant, **changes: Any) -> Variant:
    """The variant with some numbers of its configuration changed."""
    return dataclasses.replace(variant, config=dataclasses.replace(variant.config, **changes))


def _shapes(variant: Variant) -> dict[str, torch.Size]:
    return {name: p.shape for name, p in variant.build("meta").named_parameters()}


def stored(variant: Variant, seed: int = 0, *, rounded: bool = False) -> Values:
    """Random weights under Hugging Face's names and in its row order: what a checkpoint of the twin would hold.

    `rounded`: for a run in a coarse dtype, in which a gain of nearly minus one would be minus one."""
    drawn, shapes = torch.Generator().manual_seed(seed), _shapes(variant)
    scales = _Scales(variant, rounded)
    made = {}
    for row in name_table(variant.family, "huggingface").tensors:
        for i in range(variant.config.num_hidden_layers) if INDEX in row.parameter else (None,):
            shape = shapes.get(fill(row.parameter, i))
            if shape is None:
                continue
            apart = EXPERT in row.stored
            for name in pieces(row.stored, i, shape[0]):
                made[name] = scales.random(fill(row.parameter, i), shape[1:] if apart else shape, drawn)
    return made


class _Scales:
    """How large random weights are: a residual stream whose mean square is near eps, and updates as small as it is;
    attention that looks somewhere; norms that see so little that their eps shows."""

    def __init__(self, variant: Variant, rounded: bool) -> None:
        self.modules = dict(variant.build("meta").named_modules())
        self.rounded = rounded
        self.stream = SMALL * math.sqrt(variant.config.rms_norm_eps / 1e-5)

    def random(self, parameter: str, shape: torch.Size, drawn: torch.Generator) -> Tensor:
        """One stored tensor."""
        path = parameter.removesuffix(".weight")
        if len(shape) == 1:
            gain = (torch.rand(shape, generator=drawn) + 0.5) * self._gain(path)
            return gain - 1 if isinstance(self.modules[path], ZeroCenteredRMSNorm) else gain
        scale = self._size(path) / (1.0 if path == "embed" else math.sqrt(shape[1]))
        return torch.randn(shape, generator=drawn) * scale

    def _gain(self, path: str) -> float:
        last = path.rpartition(".")[2]
        if last in ("q_norm", "k_norm"):
            return LOOKING
        lost = self.rounded and isinstance(self.modules[path], ZeroCenteredRMSNorm)
        return self.stream if last.endswith("_post_norm") and not lost else 1.0

    def _read(self, path: str) -> float:
        """What brings a mechanism's input to unit size: nothing where a norm has done that, else the stream is read."""
        block, _, rest = path.partition(".attention.") if ".attention." in path else path.partition(".feed_forward.")
        norm = "attention_norm" if ".attention." in path else "ffn_norm"
        return 1.0 if not rest or f"{block}.{norm}" in self.modules else 1.0 / self.stream

    def _size(self, path: str) -> float:
        parent, _, last = path.rpartition(".")
        if last in ("q", "k"):
            return self._read(path) * (self.stream if f"{parent}.{last}_norm" in self.modules else LOOKING)
        if last in ("v", "gate", "up", "router"):
            return self._read(path)
        if path == "embed" and "embed_scale" in self.modules:
            return self.stream / math.sqrt(self.modules["embed"].get_parameter("weight").shape[1])
        return self.stream if last in ("embed", "o", "down") else 1.0


def renamed(variant: Variant, weights: Values, scheme: Scheme) -> Values:
    """Hugging Face's weights under another scheme's names, by way of the definition: through the name table's steps."""
    ours = {row.parameter: row for row in name_table(variant.family, scheme).tensors}
    made = {}
    for parameter, weight in _defined(variant, weights).items():
        pattern, index = block_pattern(parameter)
        if ours[pattern].steps:
            raise ValueError(f"{scheme} stores {pattern} in another layout")
        made[fill(ours[pattern].stored, index)] = weight
    return made


def _defined(variant: Variant, weights: Values) -> Values:
    """Stored weights as the definition's parameters."""
    made = {}
    rows = {row.parameter: row for row in name_table(variant.family, "huggingface").tensors}
    for parameter, shape in _shapes(variant).items():
        pattern, index = block_pattern(parameter)
        row = rows[pattern]
        parts = [steps.apply(weights[name], row.steps, variant.config) for name in pieces(row.stored, index, shape[0])]
        made[parameter] = steps.stack_experts(parts, len(parts)) if EXPERT in row.stored else parts[0]
    return made


def filled(variant: Variant, weights: Values, dtype: torch.dtype = torch.float32) -> nn.Module:
    """The definition with those weights, loaded as a Hugging Face checkpoint is: by name table and layout steps."""
    model = variant.build("cpu", dtype)
    named = {name: weight.to(dtype) for name, weight in _defined(variant, weights).items()}
    if models.tied(variant):
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
    tied, asked = models.tied(variant), dict(cases)
    return Request(config=config, tied=tied, weights=weights, dtype=dtype, options=options, cases=asked)


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
        made.append(values(model, asked["tokens"][:, part], asked["positions"][:, part], cache, keep=asked["keep"]))
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
    force: Mapping[str, Tensor] | None = None,
    keep: Sequence[str] = (),
) -> Values:
    """Every value of one forward by node id, in the order in which they are computed; of a tuple, by node and port.
    With `keep`, only those of the nodes named.

    With `force`, a node's result is replaced by the value given for it once it is noted: every node then computes from
    a reference's own values, and differs from it by what it does itself."""
    found: Values = {}
    handles = []
    for path, module in model.named_modules():
        if path and not list(module.children()):
            handles.append(module.register_forward_hook(_note(found, path, force or {}, not keep or path in keep)))
    try:
        model(tokens, positions, cache)
    finally:
        for handle in handles:
            handle.remove()
    return found


def _note(found: Values, path: str, force: Mapping[str, Tensor], wanted: bool) -> Callable[..., Any]:
    def hook(_module: nn.Module, _args: Any, result: Any) -> Any:
        given = {}
        for port, value in leaves("", result):
            name = f"{path}:{port}" if port else path
            if wanted:
                found[name] = value.detach()
            if name in force:
                given[port] = force[name].to(value.dtype)  # the library may cast only behind the point
        return result._replace(**given) if given and "" not in given else given.get("")

    return hook
