"""Published `config.json` files: those that stand in tests/data, and how those of OMA_TEST_DATA are told."""

import functools
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

DATA = Path(__file__).parent / "data"
SIZES = frozenset(
    {"hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "intermediate_size"}
)
"""Numbers that tell one size of a family from another."""


class Published(NamedTuple):
    """A file, whose it is, and which of its keys are known to state something else than the atlas has."""

    name: str
    model: str
    config: dict[str, Any]
    conflicts: Mapping[str, str]
    trimmed: bool


@functools.cache
def published() -> tuple[Published, ...]:
    found = []
    for number, row in enumerate(tomllib.loads((DATA / "published_configs.toml").read_text())["config"]):
        config = {**row["keys"], **dict.fromkeys(row.get("null", ()))}
        known, trimmed = row.get("conflicts", {}), row.get("trimmed", False)
        found.append(Published(f"{number}-{row['model']}", row["model"], config, known, trimmed))
    return tuple(found)


@functools.cache
def conflicts() -> list[dict[str, Any]]:
    """Keys of the wider collection that are known to be against our models, and why."""
    rows: list[dict[str, Any]] = tomllib.loads((DATA / "config_conflicts.toml").read_text())["conflict"]
    return rows


def named(place: str) -> str:
    """The model that a folder's or a repository's name says, if it is one of ours."""
    slug = place.rpartition("__")[2].rpartition("/")[2].partition("@")[0].lower().removeprefix("meta-")
    for ending in ("-instruct", "-it", "-v0.1"):
        slug = slug.removesuffix(ending)
    return slug
