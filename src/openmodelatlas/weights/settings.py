"""The settings that a file states, each in one column: read into a field, held to a value, or ignored with a reason."""

import dataclasses
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import torch

from openmodelatlas import models
from openmodelatlas.models.variant import Variant
from openmodelatlas.records.findings import finding
from openmodelatlas.records.report import Finding, MetadataRow
from openmodelatlas.records.shown import shown
from openmodelatlas.weights.naming import NameTable, quantization, quantization_columns

LONGEST_VALUE = 120
LARGEST = 1 << 40
_MISREAD = re.compile(r"\s*|[-+\d.\[{].*|(?i:true|false|null|nan|inf)")
ABSENT = "absent"
ELSEWHERE = {"tokenizer", "reader"}
"""What a key may be read into besides the numbers of a model; who reads it there judges it there."""


class Reading(NamedTuple):
    """A key that is read: what the model has in that field (`allowed` holds nothing if it has no such field), and what
    the file says. `stated` False: the key is not there, and `value` is what that means."""

    key: str
    field: str
    allowed: tuple[Any, ...]
    value: Any
    stated: bool

    @property
    def ok(self) -> bool:
        """Whether file and model agree."""
        return any(same(self.value, expected) for expected in self.allowed)

    @property
    def expected(self) -> str:
        """The model's value, in words where it has none."""
        return " or ".join(map(str, self.allowed)) or "no such number"


def same(value: Any, expected: Any) -> bool:
    """Equal; a float also if both are the same float32, which is all that some formats keep."""
    if isinstance(expected, float) and isinstance(value, (int, float)) and not isinstance(value, bool):
        return value == expected or bool(torch.tensor(value, dtype=torch.float32) == torch.tensor(expected).float())
    return type(value) is type(expected) and value == expected


def readings(settings: Mapping[str, Any], variant: Variant, table: NameTable) -> list[Reading]:
    """Every key that is read into a number of the model, stated or meant.

    A number that one key states and the absence of another makes a different one is there twice: programs that look
    for the other key alone compute it."""
    named = _stated(settings, table)
    found = []
    for key, value in settings.items():
        name = table.canonical(key)
        field = table.read.get(name)
        if field is None or field in ELSEWHERE or value is None or (name in table.schedule and isinstance(value, list)):
            continue
        found.append(Reading(key, field, _allowed(name, field, variant, table), value, True))
    if (inner := inner_width(settings, table)) is not None:
        found.append(Reading(table.width["multiple"], "intermediate_size", _width(variant), inner, True))
    said = {reading.field: reading.value for reading in found}
    for key, value in _meant(named, table).items():
        field = table.read[key]
        expected = _number(variant, field)
        against = field in said and key in table.derived and not same(said[field], value)
        if expected is not None and (field not in said or against):
            said[field] = value
            found.append(Reading(key, field, (expected,), value, False))
    return found


def _width(variant: Variant) -> tuple[Any, ...]:
    return (_number(variant, "intermediate_size"),)


def inner_width(settings: Mapping[str, Any], table: NameTable) -> int | None:
    """The inner width that a scheme computes instead of stating it, as the vendor's code does: two thirds of four times
    the width, rounded down, times the factor, rounded down again, then up to a multiple. None without such keys."""
    multiple: Any = settings.get(table.width.get("multiple", ""))
    factor: Any = settings.get(table.width.get("factor", ""))
    keys = [key for key, field in table.read.items() if field == "hidden_size" and key in settings]
    width: Any = settings[keys[0]] if keys else 0
    if not _positive(multiple, int) or not _positive(width, int) or (factor is not None and not _positive(factor)):
        return None
    inner = 2 * (4 * width) // 3
    inner = int(factor * inner) if factor is not None else inner
    found: int = multiple * -(-inner // multiple)
    return found


def _positive(value: Any, *kinds: type) -> bool:
    return type(value) in (kinds or (int, float)) and 0 < value < LARGEST


def _stated(settings: Mapping[str, Any], table: NameTable) -> dict[str, Any]:
    return {table.canonical(key): value for key, value in settings.items() if value is not None}


def _allowed(name: str, field: str, variant: Variant, table: NameTable) -> tuple[Any, ...]:
    expected = _number(variant, field)
    if expected is not None:
        return (expected,)
    return (table.absent[name],) if name in table.absent else ()


def _number(variant: Variant, field: str) -> Any:
    """A number of the configuration, or a fact of the definition; None if the model has no such thing."""
    return models.tied(variant) if field == "tied" else getattr(variant.config, field, None)


def _meant(named: Mapping[str, Any], table: NameTable) -> dict[str, Any]:
    """What keys that are not stated mean, by a default or by other keys."""
    found = {key: default for key, default in table.absent.items() if key not in named}
    for key, rule in table.derived.items():
        value, _, by = (named.get(name) if name else 1 for name in rule.partition(" / "))
        if key not in named and isinstance(value, int) and isinstance(by, int) and by > 0:
            found[key] = value // by
    return found


def setting_rows(settings: Mapping[str, Any], variant: Variant, table: NameTable) -> tuple[MetadataRow, ...]:
    """A row for every key, and one for each key that is required, or means something by not being there."""
    read = readings(settings, variant, table)
    stated = {reading.key: reading for reading in read if reading.stated}
    if table.width and table.width["multiple"] in stated and table.width["factor"] in settings:
        stated[table.width["factor"]] = stated[table.width["multiple"]]
    rows = [_row(key, value, stated.get(key), variant, table, settings) for key, value in settings.items()]
    named = _stated(settings, table)
    for key in table.required:
        if key not in named:
            rows.append(MetadataRow(key=key, value=ABSENT, column="read", reason="must be stated", ok=False))
    for reading in read:
        if not reading.stated and reading.key not in table.required:
            row = _read_row(reading)
            rows.append(dataclasses.replace(row, value=f"absent, which means {row.value}"))
    return tuple(rows)


def _read_row(reading: Reading) -> MetadataRow:
    reason = reading.field if reading.ok else f"{reading.field} must be {reading.expected}"
    return MetadataRow(key=reading.key, value=printable(reading.value), column="read", reason=reason, ok=reading.ok)


def _packing(key: str, value: Any, settings: Mapping[str, Any]) -> MetadataRow | None:
    """The row of a key that says how weights are packed; None for any other."""
    method, section = quantization(settings)
    if method is None or not key.startswith(f"{section}."):
        return None
    name, columns = key.removeprefix(f"{section}."), quantization_columns(method)

    def of(column: str) -> Any:
        return next((v for pattern, v in columns.get(column, {}).items() if fnmatchcase(name, pattern)), None)

    text = printable(value)
    if (expected := of("must_equal")) is not None:
        ok = same(value, expected)
        return MetadataRow(key=key, value=text, column="must equal", reason=printable(expected), ok=ok)
    if (reason := of("read")) is not None:
        return MetadataRow(key=key, value=text, column="read", reason=reason, ok=True)
    if (reason := of("ignored")) is not None:
        return MetadataRow(key=key, value=text, column="ignored", reason=reason, ok=True)
    return None


def _row(
    key: str,
    value: Any,
    reading: Reading | None,
    variant: Variant,
    table: NameTable,
    settings: Mapping[str, Any],
) -> MetadataRow:
    if reading is not None:
        row = _read_row(reading)
        if key in table.width.values():
            return dataclasses.replace(row, key=key, value=f"{printable(value)}, which makes {row.value}")
        return row
    name = table.canonical(key)
    if (packing := _packing(name, value, settings)) is not None:
        return packing
    allowed = _held_to(name, value, variant, table)
    text = printable(value)
    if allowed is not None:
        reason = " or ".join(map(printable, allowed)) + (f": {table.null[name]}" if name in table.null else "")
        ok = any(same(value, expected) for expected in allowed)
        return MetadataRow(key=key, value=text, column="must equal", reason=reason, ok=ok)
    if name in table.read:  # judged elsewhere, or null
        return MetadataRow(key=key, value=text, column="read", reason=table.read[name], ok=True)
    reason_why = table.ignored_because(name)
    if reason_why is not None:
        return MetadataRow(key=key, value=text, column="ignored", reason=reason_why, ok=True)
    return MetadataRow(key=key, value=text, column="unaccounted", reason="no table knows this key", ok=False)


def _held_to(name: str, value: Any, variant: Variant, table: NameTable) -> tuple[Any, ...] | None:
    """The values that a key may have; None if its table doesn't hold it to any."""
    if name in table.schedule and isinstance(value, list):
        words = table.schedule[name]
        blocks: Any = variant.build("meta").get_submodule("blocks")
        return ([words.get(type(block).__name__) for block in blocks],)
    if name in table.null:
        return (None,)
    if name in table.conditional:
        rule = table.conditional[name]
        return rule.there if hasattr(variant.config, rule.field) else rule.otherwise
    if name in table.one_of:
        return tuple(table.one_of[name])
    return (table.must_equal[name],) if name in table.must_equal else None


def printable(value: Any) -> str:
    """A setting in one line: a long array as its length, a long text cut, control characters escaped, and a text that
    reads as something else in quotes."""
    if isinstance(value, Mapping) and {"array", "length"} <= set(value):
        return f"{value['length']} × {value['array']}"
    if value is None:
        return "null"
    text = value if isinstance(value, str) and value.isprintable() and not _MISREAD.fullmatch(value) else repr(value)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"


def setting_findings(rows: tuple[MetadataRow, ...], by_shapes: frozenset[str] = frozenset()) -> list[Finding]:
    """One finding for every key that contradicts the definition or that nothing accounts for.

    `by_shapes`: fields whose values are those that the stored shapes show."""
    found = []
    for row in rows:
        if row.ok:
            continue
        if row.column == "unaccounted":
            kind, expected = "unaccounted", "a key that a table accounts for"
        else:
            kind, expected = "missing" if row.value.startswith(ABSENT) else "contradicts", row.reason
            kind = "shapes" if row.reason.partition(" ")[0] in by_shapes else kind
        found.append(finding(f"configuration.{kind}", shown(row.key), expected=expected, found=row.value))
    return found


def disagreements(settings: Mapping[str, Any], variant: Variant, table: NameTable) -> list[Finding]:
    """Two keys that state one number, and not the same: programs differ in which of them they read."""
    first: dict[str, Reading] = {}
    found = []
    for reading in readings(settings, variant, table):
        other = first.setdefault(reading.field, reading)
        alike = same(reading.value, other.value) or same(other.value, reading.value)
        if reading.stated and other.stated and not alike:
            said, expected = printable(reading.value), f"{printable(other.value)}, as {shown(other.key)} says"
            found.append(finding("configuration.disagrees", shown(reading.key), expected=expected, found=said))
    return found


def assumed(settings: Mapping[str, Any], variant: Variant, table: NameTable) -> list[Reading]:
    """Numbers that no key states, and that programs guess differently."""
    return [r for r in readings(settings, variant, table) if not r.stated and r.field in table.unsafe]
