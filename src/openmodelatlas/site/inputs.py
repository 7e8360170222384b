"""What a site is built from: for each model, what the catalogue says of it and its annotated map."""

from collections.abc import Sequence
from dataclasses import dataclass

from openmodelatlas.records.catalog import Model, Provenance, Release
from openmodelatlas.records.graph import Graph
from openmodelatlas.records.report import CheckpointRecord, OwnRecord
from openmodelatlas.records.verification import VerificationRecord


@dataclass(frozen=True, kw_only=True)
class ModelPage:
    """One model: the release it belongs to, its own entry, its provenance, and its map with the claims on it.

    `runs` are its verification records, `stale` the names of those whose subject has changed since. `own` are
    records of checkpoints of it that the user had checked, `own_stale` those whose definition has changed since."""

    release: Release
    model: Model
    provenance: Provenance
    graph: Graph
    runs: tuple[VerificationRecord, ...] = ()
    stale: tuple[str, ...] = ()
    own: tuple[OwnRecord, ...] = ()
    own_stale: tuple[OwnRecord, ...] = ()


@dataclass(frozen=True)
class Shelf:
    """All models of a site, findable by id and by release."""

    pages: tuple[ModelPage, ...]

    def by_release(self) -> dict[str, list[ModelPage]]:
        """Models of each release, in catalogue order."""
        found: dict[str, list[ModelPage]] = {}
        for page in self.pages:
            found.setdefault(page.release.id, []).append(page)
        return found

    def default(self, release: str) -> ModelPage | None:
        """The size that a release's page shows, if it is on the shelf."""
        sizes = self.by_release().get(release, [])
        return next((p for p in sizes if p.model.id == p.release.default), sizes[0] if sizes else None)

    def match(self, page: ModelPage, release: str) -> ModelPage | None:
        """The model of another release to compare with: the same size, else the nearest parameter count."""
        others = self.by_release().get(release, [])
        same = [p for p in others if p.model.size == page.model.size]
        near = sorted(others, key=lambda p: abs(p.graph.counts.total - page.graph.counts.total))
        return next(iter([*same, *near]), None)


def shelf(pages: Sequence[ModelPage]) -> Shelf:
    """A shelf of these models."""
    return Shelf(tuple(pages))


@dataclass(frozen=True, kw_only=True)
class Edition:
    """A set of pages of one map, in a folder of its own: of the bare model, or of a checkpoint of it."""

    page: ModelPage
    folder: str
    title: str
    crumb: str
    record: CheckpointRecord | None = None


def edition(page: ModelPage) -> Edition:
    """The pages of the bare model."""
    return Edition(page=page, folder=page.model.id, title=page.model.title, crumb=page.model.size)


def checkpoint_edition(page: ModelPage, record: CheckpointRecord) -> Edition:
    """The pages of a checkpoint of that model."""
    return Edition(page=page, folder=record.name, title=record.title, crumb=record.title, record=record)
