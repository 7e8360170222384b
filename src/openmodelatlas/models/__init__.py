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
