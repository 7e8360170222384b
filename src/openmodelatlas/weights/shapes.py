"""Sizes that settings do not state, from the shapes of what is stored."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from openmodelatlas.models.variant import Variant
from openmodelatlas.records.report import Header
from openmodelatlas.weights.naming import NameTable, block_pattern, pieces

Shapes = dict[str, tuple[int, ...]]


def sizes(header: Header, variant: Variant, table: NameTable, known: set[str]) -> dict[str, int]:
    """The whole numbers of the configuration that are not `known` and that shapes of the first block show.

    Each size of a parameter is linear in each number, so one more value of the number tells how."""
    stored = {tensor.name: tensor.shape for tensor in header.tensors}
    found: dict[str, int] = {}
    for number in dataclasses.fields(variant.config):
        name, value = number.name, getattr(variant.config, number.name)
        if name in known or name == "num_hidden_layers" or type(value) is not int:
            continue
        base, other = parameter_shapes(variant, found), parameter_shapes(variant, {**found, name: 2 * value})
        shown = set(solved(value, base, other, stored_shapes(variant, table, stored)))
        if len(shown) == 1 and min(shown) > 0:
            found |= {name: shown.pop()}
    return found


def parameter_shapes(variant: Variant, changed: Mapping[str, Any]) -> Shapes:
    """The shapes of all parameters of one block and outside the blocks, with some numbers changed."""
    config = dataclasses.replace(variant.config, **{**changed, "num_hidden_layers": 1})
    model = dataclasses.replace(variant, config=config).build("meta")
    return {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}


def stored_shapes(variant: Variant, table: NameTable, stored: Mapping[str, tuple[int, ...]]) -> Shapes:
    names = {row.parameter: row for row in table.tensors}
    found: Shapes = {}
    for parameter, meant in parameter_shapes(variant, {}).items():
        pattern, index = block_pattern(parameter)
        for form in names[pattern].forms if pattern in names else ():
            name = pieces(form, index, 1)[0]
            if 0 < len(stored.get(name, ())) <= len(meant):
                found[parameter] = stored[name]
    return found


def solved(value: int, base: Shapes, other: Shapes, stored: Shapes) -> Iterator[int]:
    """What the number must be for each stored size that depends on it."""
    for parameter, shape in stored.items():
        before, after = base[parameter][-len(shape) :], other[parameter][-len(shape) :]
        for size, first, second in zip(shape, before, after, strict=True):
            slope = (second - first) / value
            if slope:
                yield round(value + (size - first) / slope)
