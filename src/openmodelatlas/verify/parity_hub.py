"""How the library `transformers` is asked for a model: by the table beside its family, and by its configuration as it
is published, which the name table tells."""

import dataclasses
from typing import Any

from torch import Tensor

from openmodelatlas.errors import CatalogError
from openmodelatlas.models import tables
from openmodelatlas.models.variant import Variant
from openmodelatlas.trace import located_stored
from openmodelatlas.verify.references.exchange import Values
from openmodelatlas.weights import steps
from openmodelatlas.weights.naming import name_table

STEP = "interleave_rotary_rows"
"""The layout step of rows that the library keeps half-split and the definition in adjacent pairs."""


def known(family: str) -> bool:
    """Whether a table says where the library computes the family's nodes."""
    try:
        tables.transformers(family)
    except CatalogError:
        return False
    return True


def options(family: str) -> dict[str, Any]:
    """What the adapter has to know of a family."""
    return {"table": tables.transformers(family), "half_split": bool(half_split(family))}


def rounds_otherwise(family: str) -> dict[str, str]:
    """Nodes at which the library rounds otherwise than the maker's code, which the definition follows; and how."""
    found: dict[str, str] = tables.transformers(family).get("rounds_otherwise", {})
    return found


def published(variant: Variant) -> dict[str, Any]:
    """The configuration file of the variant. CatalogError if the name table has no key for one of its numbers."""
    said = name_table(variant.family, "huggingface").read.values()
    numbers = [field.name for field in dataclasses.fields(variant.config) if field.name not in said]
    if numbers:
        raise CatalogError("no published key for a number", where=variant.family, found=", ".join(numbers))
    return located_stored.settings(variant, "huggingface")


def half_split(family: str) -> tuple[tuple[str, str], ...]:
    """Container and name of the projections whose rows the library stores half-split: `.attention` and `q`, say."""
    rows = [row for row in name_table(family, "huggingface").tensors if STEP in row.steps]
    found = []
    for row in rows:
        parent, _, leaf = row.parameter.removesuffix(".weight").rpartition(".")
        found.append((f".{parent.rpartition('.')[2]}.", leaf))
    return tuple(found)


def interleaved(found: Values, variant: Variant) -> Values:
    """The library's values, those of half-split projections and what is made of them brought to adjacent pairs by the
    loader's own step. What is made of a projection bears its name: `q_rotate`, `attend.repeat_k`."""
    projections = half_split(variant.family)

    def is_split(node: str) -> bool:
        last = node.rpartition(".")[2]
        return any(
            parent in node and (last == leaf or last.startswith(f"{leaf}_") or last.endswith(f"_{leaf}"))
            for parent, leaf in projections
        )

    return {node: _interleave(value, variant) if is_split(node) else value for node, value in found.items()}


def _interleave(value: Tensor, variant: Variant) -> Tensor:
    shape, flat = value.shape, value.flatten(2).flatten(0, 1)
    return steps.apply(flat.T, (STEP,), variant.config).T.reshape(shape)
