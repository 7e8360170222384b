"""The models themselves: one complete file a family, with its name and page tables beside it.

The directory is the registry: a module with a `VARIANTS` table is a family.
"""

import dataclasses
import difflib
import functools
import importlib
import pkgutil
from typing import TYPE_CHECKING

from openmodelatlas.errors import UnknownName

if TYPE_CHECKING:
    from torch import nn

    from openmodelatlas.models.variant import Variant


@functools.cache
def variants() -> "dict[str, Variant]":
    """Every variant of every family by name, in the families' own order."""
    found: dict[str, Variant] = {}
    for info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{info.name}")
        for name, variant in getattr(module, "VARIANTS", {}).items():
            found[name] = dataclasses.replace(variant, name=name, family=info.name)
    return found


def names() -> list[str]:
    """Names of all variants."""
    return list(variants())


def find(name: str) -> "Variant":
    """The variant of that name; UnknownName lists the nearest."""
    try:
        return variants()[name]
    except KeyError:
        near = difflib.get_close_matches(name, names(), n=3, cutoff=0.3)
        raise UnknownName("no such model", found=repr(name), fix="nearest: " + ", ".join(near or names())) from None


def structures(family: str | None = None) -> "list[Variant]":
    """One variant, the first, for each way in which models are put together: a kind of configuration with the classes
    of its parts. Of one family, or of all."""
    found: dict[object, Variant] = {}
    for variant in variants().values():
        if family in (None, variant.family):
            parts = tuple(sorted((part, kind.__name__) for part, kind in variant.parts.items()))
            found.setdefault((variant.family, type(variant.config).__name__, parts), variant)
    return list(found.values())


def shallow(variant: "Variant") -> "nn.Module":
    """The variant without its blocks and without storage, which costs no time."""
    config = dataclasses.replace(variant.config, num_hidden_layers=0)
    return dataclasses.replace(variant, config=config).build("meta")


def tied(variant: "Variant") -> bool:
    """Whether the unembedding is the embedding table."""
    model = shallow(variant)
    return model.get_parameter("unembed.weight") is model.get_parameter("embed.weight")
