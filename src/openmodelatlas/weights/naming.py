"""What a checkpoint scheme calls a family's parameters and settings, read from `FAMILY.names.toml`."""

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

from openmodelatlas.errors import CatalogError
from openmodelatlas.models import tables

Scheme = Literal["gguf", "huggingface", "meta"]
INDEX = "{i}"


@dataclass(frozen=True, kw_only=True)
class TensorName:
    """One parameter: `parameter` as the definition names it, `stored` as the scheme does, both with `{i}` for the
    block; `steps` are the layout conversions from stored to defined, by name."""

    parameter: str
    stored: str
    steps: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ConstantName:
    """A stored tensor that is no parameter: it must hold `equals`, computed at `owner`, or is `ignored` (why)."""

    stored: str
    owner: str | None
    equals: str | None
    ignored: str | None


@dataclass(frozen=True, kw_only=True)
class NameTable:
    """A family's names in one scheme, and the three columns in which every metadata key must stand."""

    family: str
    scheme: Scheme
    tensors: tuple[TensorName, ...]
    constants: tuple[ConstantName, ...]
    required: tuple[str, ...]
    read: Mapping[str, str]
    absent: Mapping[str, Any]
    must_equal: Mapping[str, Any]
    ignored: Mapping[str, str]

    def ignored_because(self, key: str) -> str | None:
        """Why a key is ignored, or None if it is not."""
        for pattern, reason in self.ignored.items():
            if fnmatchcase(key, pattern):
                return reason
        return None


def fill(pattern: str, index: int | None) -> str:
    """The name of one block's tensor; names outside the blocks have no `{i}`."""
    return pattern if index is None else pattern.replace(INDEX, str(index))


def block_pattern(parameter: str) -> tuple[str, int | None]:
    """`blocks.3.ffn_norm.weight` as `blocks.{i}.ffn_norm.weight` and 3."""
    if match := re.fullmatch(r"blocks\.(\d+)\.(.+)", parameter):
        return f"blocks.{INDEX}.{match[2]}", int(match[1])
    return parameter, None


@functools.cache
def name_table(family: str, scheme: Scheme) -> NameTable:
    """The table; CatalogError names a section or key that is missing or unknown."""
    raw = tables.names(family)
    where = f"models/{family}.names.toml"
    try:
        columns = raw["metadata"][scheme]
        return NameTable(
            family=family,
            scheme=scheme,
            tensors=tuple(
                TensorName(parameter=row["parameter"], stored=row[scheme], steps=tuple(row.get(f"{scheme}_steps", ())))
                for row in raw["tensor"]
            ),
            constants=tuple(
                ConstantName(
                    stored=row[scheme],
                    owner=row.get("owner"),
                    equals=row.get("equals"),
                    ignored=row.get("ignored"),
                )
                for row in raw["constant"]
                if scheme in row
            ),
            required=tuple(columns["required"]),
            read=columns["read"],
            absent=columns.get("absent", {}),
            must_equal=columns["must_equal"],
            ignored=columns["ignored"],
        )
    except KeyError as error:
        raise CatalogError("a section or key is missing", where=where, expected=error) from None
