"""What takes time to make, kept in the cache under a hash of the sources that made it: maps, and checkpoint records.
And what only the user can make: the records of their own checkpoints.

Stands beside the rooms: it joins some that may not see each other, `fetch` (the cache) with `trace` and `verify`.
"""

import dataclasses
import functools
import hashlib
import json
import os
import platform
from collections.abc import Callable
from contextlib import suppress
from datetime import date
from importlib import metadata
from importlib.resources import files
from pathlib import Path
from typing import Any

from openmodelatlas.catalog import find
from openmodelatlas.catalog.checkpoints import path_of
from openmodelatlas.errors import CheckpointError, FetchError
from openmodelatlas.fetch import cache
from openmodelatlas.fetch.checkpoints import present
from openmodelatlas.records.catalog import Checkpoint, Model
from openmodelatlas.records.graph import GRAPH_SCHEMA, Graph
from openmodelatlas.records.json import dump_json, from_json
from openmodelatlas.records.report import CheckpointRecord, OwnRecord, Report
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


OWN = "own"
"""The cache's folder of records of the user's own checkpoints: one folder a model, one file a checkpoint."""


def keep_own(path: Path, report: Report, before: os.stat_result) -> OwnRecord:
    """Keep the record of the user's own file, in place of an older one of the same bytes.

    `before` is the file's state when its checks began. CheckpointError if a check failed or the file changed since.
    """
    from openmodelatlas.verify import definition_hash

    if report.model is None or not report.ok:
        raise CheckpointError("not recorded, since not every check holds", where=path.name)
    digest = cache.sha256(path)
    after = path.stat()
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise CheckpointError("not recorded, since the file changed while it was checked", where=path.name)
    name = path.name.encode(errors="replace").decode()
    made = OwnRecord(
        model=report.model,
        file=name,
        bytes=after.st_size,
        sha256=digest,
        definition=definition_hash.definition(find.model(report.model).family),
        report=dataclasses.replace(report, target=name),
        date=date.today().isoformat(),
        environment={
            "openmodelatlas": metadata.version("openmodelatlas"),
            "python": platform.python_version(),
            "torch": metadata.version("torch"),
        },
    )
    cache.write(cache.folder(OWN, made.model) / f"{digest}.json", dump_json(made).encode())
    return made


def own_records(
    model: Model, *, progress: Progress | None = None
) -> tuple[tuple[OwnRecord, ...], tuple[OwnRecord, ...]]:
    """The records of the user's own checkpoints of a model: those that hold, and those whose definition has changed."""
    found: list[OwnRecord] = []
    for path in sorted((cache.cache_dir() / OWN / model.id).glob("*.json")):
        kept: OwnRecord | None = _read(path, OwnRecord)
        if kept is not None and (kept.model, kept.sha256, kept.report.ok) == (model.id, path.stem, True):
            found.append(kept)
        elif progress:
            progress(f"not a record of a checkpoint, left out: {OWN}/{model.id}/{path.name}")
    if not found:
        return (), ()
    from openmodelatlas.verify import definition_hash

    now = definition_hash.definition(model.family)
    found.sort(key=lambda record: (record.date, record.file, record.sha256))
    return tuple(r for r in found if r.definition == now), tuple(r for r in found if r.definition != now)


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
    claims = find.shown(found)
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
