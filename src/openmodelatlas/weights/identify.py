"""Which model of the atlas a header describes: by its numbers, never by a name in it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openmodelatlas.errors import CheckpointError
from openmodelatlas.models import shallow, variants
from openmodelatlas.models.variant import Variant
from openmodelatlas.records.report import Header
from openmodelatlas.weights.naming import NameTable, Scheme, has_names, name_table
from openmodelatlas.weights.settings import printable, readings, same


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
    tables = {f: name_table(f, scheme) for f in {v.family for v in pool.values()} if has_names(f, scheme)}
    taken = _nearest(header, [table for table in tables.values() if belongs(header, table)])
    found = [(name, v, differences(header, v, scheme)) for name, v in pool.items() if v.family in taken]
    if not found:
        raise _stranger(header, list(tables.values()))
    nearest = min(found, key=lambda entry: len(entry[2]))
    matches = tuple(name for name, _, differing in found if not differing)
    return Identity(matches=matches, nearest=nearest[1], differences=nearest[2])


def _stranger(header: Header, tables: list[NameTable]) -> CheckpointError:
    """The first key that names no architecture of the atlas; all of them, where each names one and not the same."""
    keys = list(dict.fromkeys(key for table in tables for key in table.identity))
    names = {
        key: [value for table in tables if key in table.identity for value in _identities(table, key)] for key in keys
    }
    said = {key: header.metadata[key] for key in keys if header.metadata.get(key) is not None}
    strange = [key for key in said if not any(same(said[key], name) for name in names[key])]
    key = next(iter(strange), keys[0])
    chosen = {key: said[key]} if strange else said
    return CheckpointError(
        "not an architecture of the atlas",
        where=header.path,
        expected=", ".join(sorted({printable(name) for name in names[key]})),
        found=", ".join(f"{name} {printable(value)}" for name, value in chosen.items()) or f"no {keys[0]}",
    )


def _identities(table: NameTable, key: str) -> tuple[Any, ...]:
    return tuple(table.one_of[key]) if key in table.one_of else (table.must_equal[key],)


def belongs(header: Header, table: NameTable) -> bool:
    """Whether the header says that it is of the family's kind; several families may share a kind."""
    said = [key for key in table.identity if header.metadata.get(key) is not None]
    agree = all(any(same(header.metadata[key], value) for value in _identities(table, key)) for key in said)
    return agree and (bool(said) or not table.identity)


def _nearest(header: Header, families: list[NameTable]) -> set[str]:
    """Of families that share a kind, those that have a place for most of the header's tensors, then of its settings."""
    if len(families) < 2:
        return {table.family for table in families}
    strangers = {table.family: _strangers(header, table) for table in families}
    return {family for family, count in strangers.items() if count == min(strangers.values())}


def _strangers(header: Header, table: NameTable) -> tuple[int, int]:
    tensors = sum(not table.knows(tensor.name) for tensor in header.tensors)
    held = [key for key in header.metadata if key in table.must_equal]
    against = sum(not same(header.metadata[key], table.must_equal[key]) for key in held)
    return tensors, against + sum(key not in header.metadata for key in table.required)


def differences(header: Header, variant: Variant, scheme: Scheme = "gguf") -> tuple[Difference, ...]:
    """Where settings and kinds of tensors in the header contradict the variant; nothing if they do not."""
    table = name_table(variant.family, scheme)
    found = [
        Difference(field=r.field, key=r.key, expected=r.expected, found=printable(r.value))
        for r in readings(header.metadata, variant, table)
        if not r.ok
    ]
    for field, key, has in unread_conditions(header, variant, table):
        state = ("no such number", "one")
        found.append(Difference(field=field, key=key, expected=state[has], found=state[not has]))
    stored = {t.name for t in header.tensors}
    for what, name, expected in presence(variant, table) if stored else ():
        if expected != (name in stored):
            state = ("absent", "stored")
            found.append(Difference(field=what, key=name, expected=state[expected], found=state[not expected]))
    return tuple(found)


def unread_conditions(header: Header, variant: Variant, table: NameTable) -> list[tuple[str, str, bool]]:
    """Numbers that a file has no key for, only one that says whether there are some, where that contradicts the
    variant: the number, the key, whether the variant has it."""
    found = []
    for key, rule in table.conditional.items():
        has = hasattr(variant.config, rule.field)
        if rule.field not in table.read.values() and has != (header.metadata.get(key) in rule.there):
            found.append((rule.field, key, has))
    return found


def presence(variant: Variant, table: NameTable) -> list[tuple[str, str, bool]]:
    """Tensors that stand in a file only if the variant has a part (an unembedding of its own, scaled rotation): the
    part, the tensor, and whether it must be there."""
    model = shallow(variant)
    parameters = dict(model.named_parameters())  # without repeats: a tied unembedding has no name of its own
    modules = {path for path, _ in model.named_modules()}
    copies = {c.stored for c in table.constants if c.copy_of is not None}
    rows = [
        (t.parameter.removesuffix(".weight"), t.stored, t.parameter in parameters)
        for t in table.tensors
        if t.parameter == "unembed.weight" and (t.parameter in parameters or t.stored not in copies)
    ]
    rows += [(c.owner, c.stored, c.owner in modules) for c in table.constants if c.owner is not None and c.equals]
    return rows
