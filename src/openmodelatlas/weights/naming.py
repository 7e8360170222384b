"""What a checkpoint scheme calls a family's parameters and settings: `FAMILY.names.toml`, and `formats.toml` here."""

import functools
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.resources import files
from typing import Any, Literal

from openmodelatlas.errors import CatalogError
from openmodelatlas.models import tables

Scheme = Literal["gguf", "huggingface", "meta"]
INDEX, EXPERT = "{i}", "{e}"
HALF = "#"
"""`NAME#0/2`: the first of two equal parts of what is stored as NAME, of the last axis but one."""
COLUMNS = ("read", "must_equal", "one_of", "null", "conditional", "schedule", "ignored")


@dataclass(frozen=True, kw_only=True)
class TensorName:
    """One parameter: `parameter` as the definition names it, `stored` as the scheme does, both with `{i}` for the
    block; `{e}` in a stored name stands for each index of the parameter's first axis, one tensor each. `others` are
    further forms that files of the scheme have. `steps` are the layout conversions from stored to defined, by name.
    `split`: how the scheme shares it out over several devices (by `rows`, by `columns`, or as a table of the
    `vocabulary`); None where each share has a copy."""

    parameter: str
    stored: str
    others: tuple[str, ...]
    steps: tuple[str, ...]
    split: Literal["rows", "columns", "vocabulary"] | None = None

    @property
    def forms(self) -> tuple[str, ...]:
        """Every form, the usual one first."""
        return (self.stored, *self.others)


@dataclass(frozen=True, kw_only=True)
class ConstantName:
    """A stored tensor that is no parameter: it must hold `equals`, computed at `owner`, or the values of the parameter
    `copy_of`, or is `ignored` (why)."""

    stored: str
    owner: str | None
    equals: str | None
    copy_of: str | None
    ignored: str | None


@dataclass(frozen=True, kw_only=True)
class Conditional:
    """The values that a key may have in models that have `field`, and in those that don't."""

    field: str
    there: tuple[Any, ...]
    otherwise: tuple[Any, ...]


@dataclass(frozen=True, kw_only=True)
class NameTable:
    """A family's names in one scheme, and the columns in one of which every metadata key must stand.

    `read`: into which field. `absent`: what a key means where it is not stated, and where the model has no such field;
    `derived`: the same, from other keys (`a` or `a / b`). `unstated`: fields that the scheme has no key for, and why
    that may be. `must_equal`, `one_of`, `null` (must be null, which means so much), `conditional` and `schedule` (one
    value a block, by its class) hold a key to values; `ignored` says why. `inside`: sections whose keys count as if
    they stood outside. `prefixes`: how names of tensors begin in checkpoints that hold more than the model, or less,
    and how they begin otherwise. `unsafe`: fields that programs guess differently where nothing is stated. `width`: the
    keys from which the inner width is computed (a factor, a multiple), if there are such."""

    family: str
    scheme: Scheme
    tensors: tuple[TensorName, ...]
    constants: tuple[ConstantName, ...]
    identity: tuple[str, ...]
    required: tuple[str, ...]
    read: Mapping[str, str]
    absent: Mapping[str, Any]
    derived: Mapping[str, str]
    unstated: Mapping[str, str]
    must_equal: Mapping[str, Any]
    one_of: Mapping[str, Any]
    null: Mapping[str, str]
    conditional: Mapping[str, Conditional]
    schedule: Mapping[str, Mapping[str, Any]]
    ignored: Mapping[str, str]
    inside: tuple[str, ...]
    prefixes: Mapping[str, str]
    unsafe: tuple[str, ...]
    width: Mapping[str, str]

    def ignored_because(self, key: str) -> str | None:
        """Why a key is ignored, or None if it is not."""
        for pattern, reason in self.ignored.items():
            if fnmatchcase(key, pattern):
                return reason
        return None

    def canonical(self, key: str) -> str:
        """The key whose row counts: its own, or that of the part behind a section of `inside`."""
        section, _, rest = key.partition(".")
        columns = (self.read, self.must_equal, self.one_of, self.null, self.conditional, self.schedule)
        own = section not in self.inside or any(key in column for column in columns)
        return key if own else rest

    def knows(self, stored: str) -> bool:
        """Whether a stored tensor of that name has a row, whatever the numbers of its block and expert."""
        return any(pattern.fullmatch(stored) for pattern in _patterns(self.family, self.scheme))


def fill(pattern: str, index: int | None) -> str:
    """The name of one block's tensor; names outside the blocks have no `{i}`."""
    return pattern if index is None else pattern.replace(INDEX, str(index))


def pieces(pattern: str, index: int | None, experts: int) -> tuple[str, ...]:
    """Names of the stored tensors that make up one parameter: one, or one an expert where the pattern has `{e}`."""
    name = fill(pattern, index)
    return tuple(name.replace(EXPERT, str(e)) for e in range(experts)) if EXPERT in name else (name,)


def block_pattern(parameter: str) -> tuple[str, int | None]:
    """`blocks.3.ffn_norm.weight` as `blocks.{i}.ffn_norm.weight` and 3."""
    if match := re.fullmatch(r"blocks\.(\d+)\.(.+)", parameter):
        return f"blocks.{INDEX}.{match[2]}", int(match[1])
    return parameter, None


def numberless(name: str) -> str:
    """A stored name, or a pattern of one, without the numbers of its block and expert."""
    return re.sub(r"(?<![^.])\d+(?=\.|$)", INDEX, name.replace(EXPERT, INDEX))


def has_names(family: str, scheme: Scheme) -> bool:
    """Whether checkpoints of the family exist in that scheme at all."""
    return scheme in tables.names(family)["metadata"]


@functools.cache
def name_table(family: str, scheme: Scheme) -> NameTable:
    """The table; CatalogError names a section or key that is missing, or a family that has none in the scheme."""
    raw = tables.names(family)
    where = f"models/{family}.names.toml"
    if not has_names(family, scheme):
        known = ", ".join(raw["metadata"])
        raise CatalogError("no names in this scheme", where=where, expected=known, found=scheme)
    try:
        own, shared = raw["metadata"][scheme], _formats()[scheme]
        stated = {key for name in COLUMNS for key in own.get(name, {})}

        def column(name: str) -> dict[str, Any]:
            merged = {key: value for key, value in shared.get(name, {}).items() if key not in stated}
            return {**own.get(name, {}), **merged}

        return NameTable(
            family=family,
            scheme=scheme,
            tensors=tuple(_tensor(row, scheme) for row in raw["tensor"]),
            constants=tuple(_constant(row, scheme) for row in raw.get("constant", ()) if scheme in row),
            identity=tuple(shared["identity"]),
            required=(*own["required"], *(key for key in shared["required"] if key not in own["required"])),
            read=column("read"),
            absent={**shared.get("absent", {}), **own.get("absent", {})},
            derived=own.get("derived", {}),
            unstated=own.get("unstated", {}),
            must_equal=column("must_equal"),
            one_of=column("one_of"),
            null=column("null"),
            conditional={
                key: Conditional(field=row["field"], there=tuple(row["there"]), otherwise=tuple(row["otherwise"]))
                for key, row in own.get("conditional", {}).items()
            },
            schedule=own.get("schedule", {}),
            ignored=column("ignored"),
            inside=tuple(own.get("inside", ())),
            prefixes={**own.get("prefixes", {}), **shared.get("prefixes", {})},
            unsafe=tuple(shared.get("unsafe", ())),
            width=own.get("width", {}),
        )
    except KeyError as error:
        raise CatalogError("a section or key is missing", where=where, expected=error) from None


def _tensor(row: Mapping[str, Any], scheme: Scheme) -> TensorName:
    forms = row[scheme] if isinstance(row[scheme], list) else [row[scheme]]
    steps = tuple(row.get(f"{scheme}_steps", ()))
    split = row.get(f"{scheme}_split")
    return TensorName(parameter=row["parameter"], stored=forms[0], others=tuple(forms[1:]), steps=steps, split=split)


def _constant(row: Mapping[str, Any], scheme: Scheme) -> ConstantName:
    given = {name: row.get(name) for name in ("owner", "equals", "copy_of", "ignored")}
    return ConstantName(stored=row[scheme], **given)


def quantization(settings: Mapping[str, Any]) -> tuple[str | None, str]:
    """By which method the weights are packed, None if they are not, and the section of the settings that says so."""
    for section in ("quantization_config", "quantization"):
        keys = [key for key in settings if key.startswith(f"{section}.")]
        method = settings.get(f"{section}.quant_method")
        if isinstance(method, str):
            return method, section
        if {f"{section}.bits", f"{section}.group_size"} <= set(keys):
            return "mlx", section
        if keys:
            return str(settings.get(f"{section}.quant_algo")), section
    return None, ""


def quantization_columns(method: str) -> Mapping[str, Mapping[str, Any]]:
    """The columns of the keys that say how weights are packed; none for a method that is not read."""
    found: Mapping[str, Mapping[str, Any]] = _formats()["quantization"].get(method, {})
    return found


def generation_columns() -> Mapping[str, Mapping[str, Any]]:
    """The columns of the keys of `generation_config.json`."""
    found: Mapping[str, Mapping[str, Any]] = _formats()["generation"]
    return found


@functools.cache
def _formats() -> dict[str, Any]:
    return tomllib.loads((files(__package__) / "formats.toml").read_text(encoding="utf-8"))


@functools.cache
def _patterns(family: str, scheme: Scheme) -> tuple[re.Pattern[str], ...]:
    table = name_table(family, scheme)
    names = [form for row in table.tensors for form in row.forms] + [row.stored for row in table.constants]
    number = re.compile("|".join(re.escape(re.escape(place)) for place in (INDEX, EXPERT)))
    return tuple(re.compile(number.sub(r"\\d+", re.escape(name)).replace(r"\*", ".*")) for name in names)
