"""Look things up by name: releases, models, references, claims, and what a model's provenance is made of."""

import difflib
from collections.abc import Iterable
from dataclasses import replace

from openmodelatlas.catalog.load import references, releases
from openmodelatlas.errors import CatalogError, UnknownName
from openmodelatlas.records.catalog import Model, Provenance, Reference, Release
from openmodelatlas.records.evidence import Claim


def models() -> tuple[Model, ...]:
    """Every model, release by release, in the order of the catalogue."""
    return tuple(model for release in releases().values() for model in release.models)


def model(name: str) -> Model:
    """The model of that id; a release's id stands for its default size."""
    by_id = {m.id: m for m in models()}
    key = name.strip().lower()
    if key in releases():
        key = releases()[key].default
    if key not in by_id:
        raise unknown("model", name, [*by_id, *releases()])
    return by_id[key]


def release(name: str) -> Release:
    """The release of that id."""
    key = name.strip().lower()
    if key not in releases():
        raise unknown("release", name, releases())
    return releases()[key]


def reference(name: str) -> Reference:
    """The reference of that id."""
    if name not in references():
        raise unknown("reference", name, references())
    return references()[name]


def unknown(kind: str, name: str, known: Iterable[str]) -> UnknownName:
    """The error for a name that isn't there: it lists the nearest ones, or all."""
    known = list(known)
    near = difflib.get_close_matches(name.strip().lower(), known, n=3, cutoff=0.5)
    listed = f"nearest: {', '.join(near)}" if near else f"known: {', '.join(known)}"
    return UnknownName(f"unknown {kind}", where=repr(name), fix=listed)


def claim(name: str) -> Claim:
    """The claim of that id; ids are unique over all references."""
    for ref in references().values():
        for found in ref.claims:
            if found.id == name:
                return found
    raise CatalogError("unknown claim", where=name)


def claims(of: Model) -> tuple[Claim, ...]:
    """Every claim that is made of a model: its configuration, its reference's claims but for those that its deviations
    drop or its size is without, and the claims that its deviations stand on; each with the conflict that the model
    records against it."""
    dropped = {*of.without, *(name for deviation in of.deviations for name in deviation.drops)}
    known = {c.id for c in reference(of.reference).claims}
    if stray := dropped - known:
        raise CatalogError("an unknown claim is dropped", where=f"{of.id}: {', '.join(sorted(stray))}")
    chosen = [c for c in reference(of.reference).claims if c.id not in dropped and not c.caveat]
    extra = [of.configuration.claim, *(d.claim for d in of.deviations)]
    chosen += [claim(name) for name in extra if name is not None]
    if stray := set(of.conflicts) - {c.id for c in chosen}:
        raise CatalogError("a conflict with a claim that is not made", where=f"{of.id}: {', '.join(sorted(stray))}")
    return tuple(replace(c, conflict=of.conflicts.get(c.id)) for c in chosen)


def caveats(of: Model) -> tuple[Claim, ...]:
    """What speaks against the file that the model's configuration is pinned to, though not against its lines there."""
    if of.configuration.claim is None:
        return ()
    place = claim(of.configuration.claim).pin.place
    return tuple(c for ref in references().values() for c in ref.claims if c.caveat and c.pin.place == place)


def shown(of: Model) -> tuple[Claim, ...]:
    """All that a model's pages show: the claims made of it, then the caveats about where its numbers come from."""
    return claims(of) + caveats(of)


def provenance(of: Model) -> Provenance:
    """What the provenance line of a model's pages is made of."""
    ref = reference(of.reference)
    return Provenance(
        reference=ref,
        own=ref.release in (None, of.release),
        computes_as=releases()[of.release].title,
        deviations=tuple((d, claim(d.claim) if d.claim else None) for d in of.deviations),
        configuration=of.configuration,
        configuration_claim=claim(of.configuration.claim) if of.configuration.claim else None,
        caveats=caveats(of),
        not_verified=of.not_verified,
    )
