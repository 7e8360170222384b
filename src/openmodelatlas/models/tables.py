"""The tables beside a family's file: `FAMILY.pages.toml` (titles, symbols), `FAMILY.names.toml` (stored names),
`FAMILY.tokens.toml` (what is known of its tokenizers), and
`FAMILY.transformers.toml` (where that library computes each node)."""

import functools
import tomllib
from importlib.resources import files
from typing import Any

from openmodelatlas.errors import CatalogError


@functools.cache
def table(family: str, kind: str) -> dict[str, Any]:
    """The table `FAMILY.KIND.toml`."""
    path = files(__package__) / f"{family}.{kind}.toml"
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CatalogError("no such table beside the family", where=f"models/{family}.{kind}.toml") from None
    except tomllib.TOMLDecodeError as error:
        raise CatalogError("not TOML", where=f"models/{family}.{kind}.toml", found=error) from None


def pages(family: str) -> dict[str, Any]:
    """Titles, sentences, symbols and axes: sections `axes`, `nodes`, `tensors`, `parameters`."""
    return table(family, "pages")


def names(family: str) -> dict[str, Any]:
    """Stored tensor names and metadata keys of every checkpoint scheme."""
    return table(family, "names")


def transformers(family: str) -> dict[str, Any]:
    """Classes of the library, and the point in them for each node."""
    return table(family, "transformers")


def tokens(family: str) -> dict[str, Any]:
    """What is known of the family's tokenizers; empty where nothing is."""
    path = files(__package__) / f"{family}.tokens.toml"
    return table(family, "tokens") if path.is_file() else {}


def families_with_tokens() -> list[str]:
    """Families that have such a table."""
    found = (entry.name for entry in files(__package__).iterdir())
    return sorted(name.removesuffix(".tokens.toml") for name in found if name.endswith(".tokens.toml"))
