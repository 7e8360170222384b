"""One call of a reference's model and the same call of ours: new positions after some that lie in a cache."""

import dataclasses
import inspect
from typing import Any

import torch
from torch import Tensor, nn

from openmodelatlas.errors import UsageError
from openmodelatlas.models.variant import Variant
from openmodelatlas.parts.cache import BlockCache, Cache
from openmodelatlas.trace.located_watch import Handed, Watcher, handed

TINY = {
    "hidden_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": 97,
    "intermediate_size": 128,
    "sliding_window": 4,
    "sliding_window_pattern": 2,
}
"""Sizes of a twin, as far as its configuration has them: two blocks, one of each kind; a window shorter than the text,
which no position that lies in the cache has left yet."""

BATCH, BEFORE, NEW = 2, 3, 5
"""A call of 5 new positions after 3 that lie in the cache, so that no two values have to be equal."""

CACHES = ("cache", "past_key_values")
"""What a model that makes its own cache calls it, in what it takes and in what it returns."""


def twin(variant: Variant) -> Variant:
    """The variant at tiny sizes: structure and every other number kept."""
    sizes = {name: size for name, size in TINY.items() if hasattr(variant.config, name)}
    return dataclasses.replace(variant, config=dataclasses.replace(variant.config, **sizes))


def filled(variant: Variant) -> nn.Module:
    """Random weights of a size at which every op matters; gains random too, so that a gain is not the identity."""
    model = variant.build("cpu", torch.float32)
    for name, parameter in model.named_parameters():
        with torch.no_grad():
            if parameter.dim() == 1:
                parameter.uniform_(0.5, 1.5)
            else:
                parameter.normal_(std=0.5 if name == "embed.weight" else 1.5 / parameter.shape[-1] ** 0.5)
    return model


def run_reference(model: nn.Module, tokens: Tensor, watcher: Watcher) -> tuple[Tensor, int]:
    """The reference's logits of the new positions, and where they start: 0 where it cannot be called in two steps."""
    parameters = inspect.signature(model.forward).parameters
    cache = next((name for name in CACHES if name in parameters), None)
    with torch.no_grad():
        try:
            if "start_pos" in parameters:
                model(tokens[:, :BEFORE], 0)
                with watcher.watching():
                    out = model(tokens[:, BEFORE:], BEFORE)
                return logits_of(out), BEFORE
            if cache is not None and "use_cache" in parameters:
                made = {cache: getattr(model(tokens[:, :BEFORE], use_cache=True), cache)}
                with watcher.watching():
                    out = model(tokens[:, BEFORE:], use_cache=True, **made)
                return logits_of(out), BEFORE
            with watcher.watching():
                out = model(tokens)
            return logits_of(out), 0
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
            raise UsageError("the model cannot be called", where=watcher.path, found=found) from error


def logits_of(out: Any) -> Tensor:
    """The scores in whatever a model returns."""
    for value in (out, getattr(out, "logits", None), *(out if isinstance(out, tuple) else ())):
        if isinstance(value, Tensor):
            return value
    raise UsageError("the model returns no tensor", found=type(out).__name__)


def run_ours(model: nn.Module, variant: Variant, tokens: Tensor, start: int) -> list[Handed]:
    """Our values of the call that the reference was watched in."""
    positions = torch.arange(tokens.shape[1]).expand(len(tokens), -1)
    if not start:
        return handed(model, tokens, positions)
    shape = (len(tokens), tokens.shape[1], variant.config.num_key_value_heads, variant.config.head_dim)
    blocks = tuple(BlockCache(torch.zeros(shape), torch.zeros(shape)) for _ in range(variant.config.num_hidden_layers))
    stored = torch.full(tokens.shape, -1)
    stored[:, :start] = positions[:, :start]
    with torch.no_grad():
        model(tokens[:, :start], positions[:, :start], Cache(torch.arange(start), stored, blocks))
    stored = positions.clone()
    slots = torch.arange(start, tokens.shape[1])
    return handed(model, tokens[:, start:], positions[:, start:], Cache(slots, stored, blocks))
