"""Blocks proven identical: the whole depth is run once without storage, and equal subtrees fold into one region."""

import hashlib
import inspect
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from openmodelatlas.models.variant import Variant
from openmodelatlas.parts.cache import BlockCache, Cache
from openmodelatlas.records.graph import Constant, Region
from openmodelatlas.trace.run import Call, Tracer

BLOCKS = "blocks"
"""The attribute of every model that holds its blocks."""

FULL_DEPTH = (2, 3, 5)
"""Batch, positions and cache slots of the full-depth run: small, distinct, over 1."""


@dataclass(frozen=True)
class Census:
    """What the full-depth run says: the regions, and the distinct parameters of the whole model with their sizes."""

    regions: tuple[Region, ...]
    total: int
    without_embedding: int
    parameters: Mapping[str, int]

    @property
    def shortest(self) -> tuple[int, ...]:
        """Blocks that show every kind between the right neighbours: the first of each region, in order, and the last
        block of all, behind which the model goes on."""
        firsts = [region.indices[0] for region in self.regions]
        last = max(index for region in self.regions for index in region.indices)
        return tuple(firsts if self.region_of(last) == self.regions[-1] else [*firsts, last])

    def region_of(self, index: int) -> Region:
        """The region that a block lies in."""
        return next(region for region in self.regions if index in region.indices)


def empty_cache(variant: Variant, blocks: int, batch: Any, positions: Any, slots: Any) -> Cache:
    """A cache of the shape that the variant's models take, uninitialised, on the default device."""
    dtype, shape = variant.dtype, (batch, slots, variant.config.num_key_value_heads, variant.config.head_dim)
    buffers = tuple(BlockCache(torch.empty(shape, dtype=dtype), torch.empty(shape, dtype=dtype)) for _ in range(blocks))
    return Cache(torch.empty(positions, dtype=torch.long), torch.empty(batch, slots, dtype=torch.long), buffers)


def census(variant: Variant) -> Census:
    """Run every block on the meta device (no weights, no storage) and group the blocks by subtree hash."""
    model = variant.build("meta")
    batch, positions, slots = FULL_DEPTH
    blocks: nn.ModuleList = getattr(model, BLOCKS)
    tracer = Tracer(model)
    with torch.device("meta"):
        tokens = torch.empty(batch, positions, dtype=torch.long)
        cache = empty_cache(variant, len(blocks), batch, positions, slots)
    tracer(tokens, tokens.clone(), cache)
    embedding = {id(p) for p in model.get_submodule("embed").parameters()}
    unique = dict(model.named_parameters())
    return Census(
        regions(blocks, tracer.calls),
        sum(p.numel() for p in unique.values()),
        sum(p.numel() for p in unique.values() if id(p) not in embedding),
        {name: p.numel() for name, p in unique.items()},
    )


def regions(blocks: nn.ModuleList, calls: dict[str, Call]) -> tuple[Region, ...]:
    """Groups of blocks with equal subtrees, in order of first appearance."""
    inside: dict[str, list[Call]] = {}
    for path, call in calls.items():
        inside.setdefault(".".join(path.split(".")[:2]), []).append(call)
    groups: dict[str, list[int]] = {}
    for index in range(len(blocks)):
        root = f"{BLOCKS}.{index}"
        given = surroundings(root, calls)
        groups.setdefault(subtree_hash(root, inside[root], given), []).append(index)
    named: list[Region] = []
    for digest, indices in groups.items():
        name = snake_case(type(blocks[indices[0]]).__name__)
        taken = sum(region.name.rstrip("_0123456789") == name for region in named)
        named.append(
            Region(
                name=name if not taken else f"{name}_{taken + 1}",
                count=len(indices),
                indices=tuple(indices),
                independent=independent([blocks[i] for i in indices]),
                subtree=digest,
            )
        )
    return tuple(named)


def kinds(model: nn.Module) -> tuple[str, ...]:
    """The kind of each block, by its class; a region has the same name where one class makes one region."""
    return tuple(snake_case(type(block).__name__) for block in model.get_submodule(BLOCKS).children())


def independent(blocks: list[nn.Module]) -> bool:
    """Whether no parameter belongs to two of the blocks."""
    owners = [id(p) for block in blocks for p in {id(p): p for p in block.parameters()}.values()]
    return len(owners) == len(set(owners))


def surroundings(root: str, calls: Mapping[str, Call]) -> list[Any]:
    """What feeds a block from outside, but for the stream, its first argument: two blocks that read different tables
    or masks are not of one kind. The block's own number in a cache's port is left out."""
    stream = calls[root].inputs[0].name
    fed = {port: source for (path, port), source in calls[""].feeds.items() if path == root and port != stream}
    own = root.removeprefix(f"{BLOCKS}.")
    return [
        [port, source and [source[0], source[1].replace(f".{BLOCKS}.{own}.", f".{BLOCKS}.")]]
        for port, source in sorted(fed.items())
    ]


def subtree_hash(root: str, calls: Iterable[Call], given: Sequence[Any] = ()) -> str:
    """sha256 over everything that a block's calls compute and what they are given, with paths relative to the block."""
    facts = [*(call_facts(call, root) for call in calls), *given]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def call_facts(call: Call, root: str) -> list[Any]:
    """Path, class, numbers, parameters, ports, edges and FLOPs of one call, as JSON."""
    assert call.module is not None
    module = call.module

    def relative(path: str) -> str:
        return path.removeprefix(root)

    return [
        relative(call.path),
        f"{type(module).__module__}.{type(module).__qualname__}",
        constants(module),
        [[name, list(p.shape), str(p.dtype)] for name, p in module.named_parameters(recurse=False)],
        [[p.name, [str(n) for n in p.shape], str(p.dtype), p.written] for p in call.inputs + call.outputs],
        [[relative(d), dp, s and [relative(s[0]), s[1]]] for (d, dp), s in call.feeds.items()],
        str(call.flops),
    ]


def constants(module: nn.Module) -> dict[str, Constant]:
    """The numbers a module was made with: constructor arguments that it keeps under their own names."""
    kept = vars(module)
    names = inspect.signature(type(module).__init__).parameters
    return {n: kept[n] for n in names if isinstance(kept.get(n), (int, float, str, bool))}


def snake_case(name: str) -> str:
    """`LocalBlock` to `local_block`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
