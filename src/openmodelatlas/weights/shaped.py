"""Numbers that the settings state and the stored tensors contradict: what the shapes show counts."""

import dataclasses
import math

from openmodelatlas.errors import AtlasError
from openmodelatlas.models.variant import Variant
from openmodelatlas.records.report import Header
from openmodelatlas.weights.naming import NameTable
from openmodelatlas.weights.shapes import Shapes, parameter_shapes, solved, stored_shapes

MOST_CHANGES = 3
LARGEST = 1 << 31
CANDIDATES = 4
Wrong = tuple[int, int]
"""How many shapes are wrong, and how many numbers are in them: where two values explain as many shapes, larger ones
count."""


def shaped(header: Header, variant: Variant, table: NameTable) -> tuple[Variant, frozenset[str]]:
    """The variant with the numbers that make most of the first block's shapes right, and which those are.

    One number is changed at a time, the one that explains the most; nothing is changed that explains nothing."""
    stored = stored_shapes(variant, table, {tensor.name: tensor.shape for tensor in header.tensors})
    changed: dict[str, int] = {}
    left = _wrong(stored, parameter_shapes(variant, changed))
    while left[0] and len(changed) < MOST_CHANGES:
        best = min(_repairs(variant, changed, stored, left), default=None)
        if best is None or best[0] >= left:
            break
        left, field, value = best
        changed[field] = value
    config = dataclasses.replace(variant.config, **changed)
    return dataclasses.replace(variant, config=config), frozenset(changed)


def _repairs(variant: Variant, changed: dict[str, int], stored: Shapes, left: Wrong) -> list[tuple[Wrong, str, int]]:
    """Each number with a value that some wrong shape shows, and how many shapes it leaves wrong."""
    base = parameter_shapes(variant, changed)
    wrong = {name: shape for name, shape in stored.items() if shape != base[name][-len(shape) :]}
    found = []
    for number in dataclasses.fields(variant.config):
        name, value = number.name, changed.get(number.name, getattr(variant.config, number.name))
        if type(value) is not int or name == "num_hidden_layers":
            continue
        try:
            other = parameter_shapes(variant, {**changed, name: 2 * value})
            for shown in list(dict.fromkeys(solved(value, base, other, wrong)))[:CANDIDATES]:
                if 0 < shown < LARGEST and shown != value:
                    made = parameter_shapes(variant, {**changed, name: shown})
                    found.append((_wrong(stored, made), name, shown))
        except (AtlasError, ArithmeticError, RuntimeError, ValueError):  # numbers that go with no others
            continue
    return [repair for repair in found if repair[0] < left]


def _wrong(stored: Shapes, shapes: Shapes) -> Wrong:
    wrong = [shape for name, shape in stored.items() if shape != shapes[name][-len(shape) :]]
    return len(wrong), sum(map(math.prod, wrong))
