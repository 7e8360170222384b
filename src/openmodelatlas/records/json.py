"""Records to JSON and back, and the JSON schema of a record; all three read the dataclass fields."""

import dataclasses
import functools
import json
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar, Union

T = TypeVar("T")


def _key(name: str) -> str:
    """`from_` and `class_` avoid Python keywords; JSON has the bare word."""
    return name.removesuffix("_")


def to_json(record: Any) -> Any:
    """Plain lists, dicts, strings and numbers, in field order."""
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        return {_key(f.name): to_json(getattr(record, f.name)) for f in dataclasses.fields(record)}
    if isinstance(record, Mapping):
        return {str(k): to_json(v) for k, v in record.items()}
    if isinstance(record, (list, tuple)):
        return [to_json(v) for v in record]
    return record


def dump_json(record: Any) -> str:
    """The one byte form of a record: two-space indent, field order, final newline."""
    return json.dumps(to_json(record), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def from_json(kind: Any, data: Any) -> Any:
    """The record of type `kind` that `data` describes; a missing or surplus key is a ValueError that names it."""
    origin = typing.get_origin(kind)
    if origin in (Union, types.UnionType):
        options = [k for k in typing.get_args(kind) if k is not type(None)]
        return None if data is None else from_json(options[0], data) if len(options) == 1 else data
    if origin is tuple:
        args = typing.get_args(kind)
        items = [args[0]] * len(data) if args[1:] == (Ellipsis,) else args
        return tuple(from_json(k, v) for k, v in zip(items, data, strict=True))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {k: from_json(typing.get_args(kind)[1], v) for k, v in data.items()}
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        hints, fields = _fields(kind)
        if set(fields) != set(data):
            wrong = ", ".join(sorted(set(fields) ^ set(data)))
            raise ValueError(f"{kind.__name__}: missing or surplus keys: {wrong}")
        return kind(**{name: from_json(hints[name], data[key]) for key, name in fields.items()})
    return data


@functools.cache
def _fields(kind: type) -> tuple[dict[str, Any], dict[str, str]]:
    """Types by field name, and field names by JSON key."""
    return typing.get_type_hints(kind), {_key(f.name): f.name for f in dataclasses.fields(kind)}


def schema(kind: Any, *, title: str) -> dict[str, Any]:
    """A JSON schema (draft 2020-12) of record type `kind`; nested records become `$defs`."""
    defs: dict[str, Any] = {}
    root = _schema(kind, defs)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **root,
        "$defs": dict(sorted(defs.items())),
    }


_PLAIN: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    Any: {},
    object: {},
}


def _schema(kind: Any, defs: dict[str, Any]) -> dict[str, Any]:
    if kind in _PLAIN:
        return _PLAIN[kind]
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema(a, defs) for a in args]}
    if origin is typing.Literal:
        return {"enum": list(args)}
    if origin is tuple:
        if args[1:] == (Ellipsis,):
            return {"type": "array", "items": _schema(args[0], defs)}
        return {"type": "array", "prefixItems": [_schema(a, defs) for a in args], "items": False}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _schema(args[1], defs)}
    if kind.__name__ not in defs:
        defs[kind.__name__] = {}  # placeholder: records may nest
        hints = typing.get_type_hints(kind)
        properties = {_key(f.name): _schema(hints[f.name], defs) for f in dataclasses.fields(kind)}
        defs[kind.__name__] = {
            "type": "object",
            "description": (kind.__doc__ or "").strip().split("\n\n")[0],
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }
    return {"$ref": f"#/$defs/{kind.__name__}"}
