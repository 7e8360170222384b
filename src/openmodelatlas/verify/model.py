"""The checks of a catalogue model: which apply, running them, keeping their records, and which records are stale."""

import functools
import importlib
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from openmodelatlas.catalog import find
from openmodelatlas.catalog import records as kept
from openmodelatlas.errors import AtlasError, CatalogError, UnknownName
from openmodelatlas.fetch import cache
from openmodelatlas.fetch.progress import Progress, silent
from openmodelatlas.records.catalog import Model
from openmodelatlas.records.verification import VerificationRecord
from openmodelatlas.verify import checks as room
from openmodelatlas.verify import definition_hash


@dataclass(frozen=True, kw_only=True)
class Ran:
    """One check of one model: its record; or why it does not apply; or the error that kept it from running."""

    check: str
    title: str
    record: VerificationRecord | None
    reason: str | None
    error: AtlasError | None


@functools.cache
def checks() -> Mapping[str, Any]:
    """Every check's module by name."""
    names = sorted(info.name for info in pkgutil.iter_modules(room.__path__))
    return {name: importlib.import_module(f"{room.__name__}.{name}") for name in names}


def check(name: str) -> Any:
    """The check of that name."""
    if name not in checks():
        raise find.unknown("check", name, checks())
    return checks()[name]


def matrix() -> dict[str, dict[str, str | None]]:
    """By model and check: None where the check applies, else the reason why not."""
    return {model.id: {name: module.applies(model) for name, module in checks().items()} for model in find.models()}


def run(model: Model, names: Sequence[str] = (), progress: Progress = silent) -> Iterator[Ran]:
    """Every check, or those named, one after another. A check that cannot run here does not keep the others."""
    for name in names or checks():
        module = check(name)
        reason = module.applies(model)
        record, error = None, None
        if reason is None:
            try:
                record = module.run(model, progress)
            except AtlasError as trouble:
                error = trouble
        yield Ran(check=name, title=module.TITLE, record=record, reason=reason, error=error)


def write(record: VerificationRecord) -> Path:
    """Keep a record in the catalogue's folder. CatalogError where the package cannot be written."""
    path = Path(str(files("openmodelatlas.catalog"))) / kept.FOLDER / kept.place(record)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CatalogError("records cannot be kept here", where=str(path), found=cache.reason(error)) from None
    cache.write(path, kept.text(record).encode())
    kept.records.cache_clear()
    return path


def stale(record: VerificationRecord) -> tuple[str, ...]:
    """Why a record no longer speaks of what is here; nothing if it does."""
    try:
        model = find.model(record.model)
    except UnknownName:
        return ("the model is no longer in the catalogue",)
    found = []
    if record.definition != definition_hash.definition(model.family):
        found.append("the definition has changed")
    if record.entry != definition_hash.entry(model):
        found.append("the catalogue's entry has changed")
    if record.check not in checks():
        found.append("there is no such check")
    elif checks()[record.check].applies(model) is not None:
        found.append("the check no longer applies")
    return tuple(found)


def missing() -> tuple[tuple[str, str], ...]:
    """Model and check for every check that applies and has no record."""
    have = {(record.model, record.check) for record in kept.records()}
    return tuple(
        (model, name)
        for model, row in matrix().items()
        for name, reason in row.items()
        if reason is None and (model, name) not in have
    )
