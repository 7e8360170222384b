"""Which model of the atlas a header describes: by its numbers, never by a name in it."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from openmodelatlas.errors import CheckpointError
from openmodelatlas.models import variants
from openmodelatlas.models.variant import Variant
from openmodelatlas.records.report import Header
from openmodelatlas.weights.naming import NameTable, Scheme, name_table


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A field of the nearest model that the header contradicts."""

    field: str
    key: str
    expected: str
    found: str


@dataclass(frozen=True, kw_only=True)
class Identity:
    """`matches`: every model whose computation the header describes, by catalogue order (more than one where models
    compute alike). `nearest` is the first of them, or else the one that `differences` tell apart from the header."""

    matches: tuple[str, ...]
    nearest: Variant
    differences: tuple[Difference, ...]


def identify(header: Header, scheme: Scheme = "gguf", candidates: Mapping[str, Variant] | None = None) -> Identity:
    """Hold the header against every candidate (default: all variants). CheckpointError if no family takes it."""
    pool = variants() if candidates is None else candidates
    taken = {family: _belongs(header, name_table(family, scheme)) for family in {v.family for v in pool.values()}}
    found = [(name, v, differences(header, v, scheme)) for name, v in pool.items() if taken[v.family]]
    if not found:
        architecture = header.metadata.get("general.architecture")
        known = ", ".join(sorted(taken))
        raise CheckpointError(
            "not an architecture of the atlas", where=header.path, expected=known, found=repr(architecture)
        )
    nearest = min(found, key=lambda entry: len(entry[2]))
    matches = tuple(name for name, _, differing in found if not differing)
    return Identity(matches=matches, nearest=nearest[1], differences=nearest[2])


def _belongs(header: Header, table: NameTable) -> bool:
    key = next(iter(table.must_equal))
    return same(header.metadata.get(key), table.must_equal[key])


def differences(header: Header, variant: Variant, scheme: Scheme = "gguf") -> tuple[Difference, ...]:
    """Where settings and kinds of tensors in the header contradict the variant; nothing if they do not."""
    table = name_table(variant.family, scheme)
    found = []
    for key, field in table.read.items():
        value = header.metadata.get(key, table.absent.get(key))
        expected = getattr(variant.config, field, None)
        if value is None or expected is None or same(value, expected):
            continue
        found.append(Difference(field=field, key=key, expected=str(expected), found=str(value)))
    stored = {t.name for t in header.tensors}
    for what, name, expected in _presence(variant, table):
        if expected != (name in stored):
            state = ("absent", "stored")
            found.append(Difference(field=what, key=name, expected=state[expected], found=state[not expected]))
    return tuple(found)


def _presence(variant: Variant, table: NameTable) -> list[tuple[str, str, bool]]:
    """Tensors that stand in a file only if the variant has a part: an unembedding of its own, scaled rotation."""
    shallow = _shallow(variant)
    parameters = dict(shallow.named_parameters())  # without repeats: a tied unembedding has no name of its own
    modules = {path for path, _ in shallow.named_modules()}
    rows = [
        (t.parameter.removesuffix(".weight"), t.stored, t.parameter in parameters)
        for t in table.tensors
        if t.parameter == "unembed.weight"
    ]
    rows += [(c.owner, c.stored, c.owner in modules) for c in table.constants if c.owner is not None]
    return rows


def _shallow(variant: Variant) -> torch.nn.Module:
    """The variant without its blocks, which is all that identification needs and costs no time."""
    config = dataclasses.replace(variant.config, num_hidden_layers=0)
    return dataclasses.replace(variant, config=config).build("meta")


def same(value: Any, expected: Any) -> bool:
    """Equal; a float also if both are the same float32, which is all that some formats keep."""
    if isinstance(expected, float) and isinstance(value, (int, float)) and not isinstance(value, bool):
        return value == expected or bool(torch.tensor(value, dtype=torch.float32) == torch.tensor(expected).float())
    return type(value) is type(expected) and value == expected
