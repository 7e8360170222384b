"""Parameter counts that others publish."""

import functools
import tomllib
from importlib.resources import files
from typing import Any


@functools.cache
def counts() -> dict[str, dict[str, Any]]:
    """By model: `count`, and the `source` that publishes it."""
    return tomllib.loads((files("openmodelatlas.verify") / "published_counts.toml").read_text(encoding="utf-8"))
