"""The model that a header describes, in the atlas or not: a structure of the family, with the header's numbers."""

import dataclasses
from typing import Any

import numpy as np

from openmodelatlas import models
from openmodelatlas.errors import CheckpointError
from openmodelatlas.models.variant import Variant
from openmodelatlas.records.report import Header
from openmodelatlas.weights.identify import presence, unread_conditions
from openmodelatlas.weights.naming import NameTable, Scheme, name_table
from openmodelatlas.weights.settings import readings
from openmodelatlas.weights.shapes import sizes

LARGEST = 1 << 31
"""No size of a model comes near this; a larger one in a file is no size."""
MOST_BLOCKS = 1 << 12
DESCRIBED = "as described"
TIED, UNEMBED = "tied", "unembed.weight"


def described(header: Header, scheme: Scheme, family: str) -> Variant:
    """The family's variant with every number that the settings state, or mean by not stating it, or shapes show.

    How it is put together (ties, kinds of rotation) is that of the family's structures which the header fits best.
    CheckpointError for a number that no model can have."""
    table = name_table(family, scheme)
    known = models.structures(family)
    common = set.intersection(*({f.name for f in dataclasses.fields(v.config)} for v in known))
    nearest = min(known, key=lambda variant: _strangeness(header, variant, table, common))
    changed = {}
    for reading in readings(header.metadata, nearest, table):
        if hasattr(nearest.config, reading.field) and (reading.stated or reading.field not in changed):
            own = getattr(nearest.config, reading.field)
            _check(reading.field, reading.key, reading.value, header.path, type(own))
            changed[reading.field] = _decimal(reading.value) if type(own) is float else reading.value
    stated = dataclasses.replace(nearest, config=dataclasses.replace(nearest.config, **changed), name=DESCRIBED)
    shown = sizes(header, stated, table, set(changed))
    return dataclasses.replace(stated, config=dataclasses.replace(stated.config, **shown))


def _strangeness(header: Header, variant: Variant, table: NameTable, common: set[str]) -> tuple[int, bool]:
    """How many statements and kinds of tensors of the header the structure has no place for, or lacks."""
    found = readings(header.metadata, variant, table)
    count = sum(reading.field == TIED and not reading.ok for reading in found)
    for reading in found:
        if reading.field not in common and reading.field != TIED:
            has = hasattr(variant.config, reading.field)
            count += has != reading.stated and not (reading.stated and reading.ok)
    count += len(unread_conditions(header, variant, table))
    stored = {tensor.name for tensor in header.tensors}
    count += sum(expected != (name in stored) for _, name, expected in presence(variant, table) if stored)
    own = any(row.stored in stored for row in table.tensors if row.parameter == UNEMBED)
    return count, models.tied(variant) and own  # a stored matrix may be a copy; it is likelier to be its own


def _decimal(value: float) -> float:
    """The number that was meant: where a format keeps float32, the shortest decimal that becomes it (1e-05)."""
    with np.errstate(over="ignore"):
        short = np.float32(value)
    return float(str(short)) if float(short) == value else float(value)


def _check(field: str, key: str, value: Any, where: str, kind: type) -> None:
    """`kind`: of a size, which is whole, or of any other number."""
    most = MOST_BLOCKS if field == "num_hidden_layers" else LARGEST
    if type(value) is int and 0 < value <= most:
        return
    if type(value) is float and kind is float and 0.0 < value < float("inf"):
        return
    raise CheckpointError(
        f"a number that no model can have: {key}", where=where, expected=f"1 to {most}", found=repr(value)[:40]
    )
