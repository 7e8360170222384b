"""What takes time to make, kept in the cache under a hash of the sources that made it: maps, and checkpoint records.

Stands beside the rooms: it joins some that may not see each other, `fetch` (the cache) with `trace` and `verify`.
"""

import functools
import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from importlib import metadata
from importlib.resources import files
from pathlib import Path
from typing import Any

from openmodelatlas.catalog import find
from openmodelatlas.catalog.checkpoints import path_of
from openmodelatlas.errors import FetchError
from openmodelatlas.fetch import cache
from openmodelatlas.fetch.checkpoints import present
from openmodelatlas.records.catalog import Checkpoint, Model
from openmodelatlas.records.graph import GRAPH_SCHEMA, Graph
from openmodelatlas.records.json import dump_json, from_json
from openmodelatlas.records.report import CheckpointRecord
from openmodelatlas.records.verification import VerificationRecord

MAP_ROOMS = ("parts", "models", "trace", "records")
"""What a map depends on, besides the version of torch."""

RECORD_ROOMS = (*MAP_ROOMS, "weights", "text", "infer", "verify", "catalog")
"""What a checkpoint's record depends on, besides torch, the checkpoint's bytes and the prompt."""

Progress = Callable[[str], None]


def graph(name: str, *, progress: Progress | None = None) -> Graph:
    """The map of a catalogue model: from the cache, else derived (imports torch) and kept. UnknownName otherwise."""
    variant = find.model(name).variant
    path = cache.cache_dir() / "maps" / sources_hash(MAP_ROOMS) / f"{variant}.json"
    kept: Graph | None = _read(path, Graph)
    if kept is not None and kept.schema == GRAPH_SCHEMA:
        return kept
    if progress:
        progress(f"deriving the map of {variant}")
    from openmodelatlas import models
    from openmodelatlas.trace.derive import derive

    made = derive(models.find(variant))
    _keep(path, made)
    return made


def checkpoint_record(entry: Checkpoint, prompt: str, *, progress: Progress | None = None) -> CheckpointRecord:
    """A pulled checkpoint verified and run with one prompt, or the record of the same code having done it with the same
    bytes (which are hashed anew). CheckpointError if a check fails."""
    path = path_of(entry)
    intact = present(entry, check=True)
    key = hashlib.sha256(f"{sources_hash(RECORD_ROOMS)}\0{entry.sha256}\0{prompt}".encode()).hexdigest()
    place = cache.cache_dir() / "records" / f"{key}.json"
    kept: CheckpointRecord | None = _read(place, CheckpointRecord) if intact else None
    if kept is not None:
        return kept
    if progress:
        progress(f"verifying {entry.title}")
    from openmodelatlas.verify.checkpoint import record

    made = record(path, entry.id, prompt)
    _keep(place, made)
    return made


def _keep(path: Path, record: object) -> None:
    """Keep a record; a cache that cannot be written only costs the time to make it again."""
    with suppress(FetchError):
        cache.folder(*path.parent.relative_to(cache.cache_dir()).parts)
        cache.write(path, dump_json(record).encode())


def _read(path: Path, kind: type) -> Any:
    """A kept record; None where there is none, or where what stands there is not one."""
    try:
        return from_json(kind, json.loads(path.read_bytes()))
    except (OSError, ValueError, AttributeError, TypeError, KeyError):
        return None


@functools.cache
def sources_hash(rooms: tuple[str, ...]) -> str:
    """sha256 over the files of these rooms, and the version of torch."""
    digest = hashlib.sha256(metadata.version("torch").encode())
    root = Path(str(files("openmodelatlas")))
    for room in rooms:
        for path in sorted((root / room).rglob("*.*")):
            if path.suffix in (".py", ".toml"):
                digest.update(f"{path.relative_to(root).as_posix()}\0".encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()


def annotated(
    name: str,
    *,
    mirror: Path | None = None,
    offline: bool = True,
    progress: Progress | None = None,
) -> Graph:
    """The map with the catalogue's claims on it, each with the state of its pins (no torch once the map is cached)."""
    from openmodelatlas.catalog.annotate import annotate
    from openmodelatlas.evidence.resolve import resolve

    found = find.model(name)
    claims = find.claims(found)
    made = graph(name, progress=progress)
    return annotate(made, resolve(claims, mirror=mirror, offline=offline), claims, *runs(found))


def runs(model: Model) -> tuple[tuple[VerificationRecord, ...], tuple[str, ...]]:
    """A model's verification records, and the names of those that are stale: whose definition or entry has changed."""
    from openmodelatlas.catalog import records
    from openmodelatlas.verify import definition_hash

    found = records.of(model.id)
    if not found:
        return (), ()
    subject = (definition_hash.definition(model.family), definition_hash.entry(model))
    return found, tuple(run.check for run in found if (run.definition, run.entry) != subject)
