"""Derived maps, kept in the cache under a hash of the sources that they are derived from.

Stands beside the rooms because it joins two that may not see each other: `fetch` (the cache) and `trace`.
"""

import functools
import hashlib
import json
from collections.abc import Callable
from importlib import metadata
from importlib.resources import files
from pathlib import Path

from openmodelatlas.catalog import find
from openmodelatlas.fetch import cache
from openmodelatlas.records.graph import GRAPH_SCHEMA, Graph
from openmodelatlas.records.json import dump_json, from_json

ROOMS = ("parts", "models", "trace", "records")
"""What a map depends on, besides the version of torch."""


def graph(name: str, *, progress: Callable[[str], None] | None = None) -> Graph:
    """The map of a catalogue model: from the cache, else derived (imports torch) and kept. UnknownName otherwise."""
    variant = find.model(name).variant
    path = cache.folder("maps", sources_hash()) / f"{variant}.json"
    kept = _read(path)
    if kept is not None:
        return kept
    if progress:
        progress(f"deriving the map of {variant}")
    from openmodelatlas import models
    from openmodelatlas.trace.derive import derive

    made = derive(models.find(variant))
    cache.write(path, dump_json(made).encode())
    return made


def _read(path: Path) -> Graph | None:
    """A kept map; None where there is none, or where what stands there is not one."""
    try:
        data = json.loads(path.read_bytes())
        if data.get("schema") == GRAPH_SCHEMA:
            found: Graph = from_json(Graph, data)
            return found
    except (OSError, ValueError, AttributeError, TypeError, KeyError):
        pass
    return None


@functools.cache
def sources_hash() -> str:
    """sha256 over the files of the rooms that a map is derived from, and the version of torch."""
    digest = hashlib.sha256(metadata.version("torch").encode())
    root = Path(str(files("openmodelatlas")))
    for room in ROOMS:
        for path in sorted((root / room).glob("*.*")):
            if path.suffix in (".py", ".toml"):
                digest.update(f"{room}/{path.name}\0".encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()


def annotated(
    name: str,
    *,
    mirror: Path | None = None,
    offline: bool = True,
    progress: Callable[[str], None] | None = None,
) -> Graph:
    """The map with the catalogue's claims on it, each with the state of its pins (no torch once the map is cached)."""
    from openmodelatlas.catalog.annotate import annotate
    from openmodelatlas.evidence.resolve import resolve

    found = find.model(name)
    claims = find.claims(found)
    made = graph(name, progress=progress)
    return annotate(made, resolve(claims, mirror=mirror, offline=offline), claims)
