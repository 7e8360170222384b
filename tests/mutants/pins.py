"""Mutants of pins and of the catalogue's numbers; no process is needed for these."""

import dataclasses
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from openmodelatlas.catalog import load
from openmodelatlas.catalog.find import claims as claims_of
from openmodelatlas.catalog.find import models
from openmodelatlas.errors import FetchError
from openmodelatlas.evidence import excerpts
from openmodelatlas.fetch import cache
from openmodelatlas.models import find
from openmodelatlas.records.catalog import Model
from openmodelatlas.records.evidence import Claim, Pin, Place, Range

from .data import numbers
from .run import SURVIVED, Result

MOVES = {
    "first-1": (-1, 0),
    "first+1": (1, 0),
    "last-1": (0, -1),
    "last+1": (0, 1),
    "both-1": (-1, -1),
    "both+1": (1, 1),
}


def results() -> tuple[list[Result], list[str]]:
    """Every pin's mutants held against its file, every node put under foreign lines; and files that are not at hand."""
    references = load.references().values()
    pins = [(r.id, c, pin) for r in references for c in r.claims for pin in (c.pin, *c.also)]
    files, absent = texts({pin.place.blob: pin.place for _, _, pin in pins})
    found = [r for of, c, pin in pins if pin.place.blob in files for r in moved(of, c, pin, files)]
    for reference in references:
        used = [m for m in models() if m.reference == reference.id]
        if used:  # of those, one that has as much of the family as any
            found += misplaced(max(used, key=lambda m: len(vars(find(m.variant).config))))
    return [*found, *contexts()], absent


def texts(places: Mapping[str, Place]) -> tuple[dict[str, bytes], list[str]]:
    """Pinned files by blob, from the cache or a wheel."""
    from openmodelatlas.verify.sources import unpacked

    found, absent = {}, []
    with tempfile.TemporaryDirectory() as folder:
        for blob, place in places.items():
            try:
                found[blob] = cache.load_blob(blob) or unpacked(place, Path(folder, blob)).read_bytes()
            except FetchError:
                absent.append(f"{place.source} {place.path}")
    return found, absent


def moved(of: str, claim: Claim, pin: Pin, files: Mapping[str, bytes]) -> Iterator[Result]:
    """Each range with an end a line off, both off, or one digit of its hash changed."""
    for index, part in enumerate(pin.ranges):
        for name, wrong in wrong_ranges(part).items():
            ranges = (*pin.ranges[:index], wrong, *pin.ranges[index + 1 :])
            status = excerpts.read(dataclasses.replace(pin, ranges=ranges), files[pin.place.blob]).status
            key = f"{claim.id} at {pin.place.source} {pin.place.path}, range {index}: {name}"
            yield Result(key, of, "pin", SURVIVED if status == "same" else "text", status)


def wrong_ranges(part: Range) -> dict[str, Range]:
    found = {}
    for name, (first, last) in MOVES.items():
        if 1 <= part.first + first <= part.last + last:
            found[name] = dataclasses.replace(part, first=part.first + first, last=part.last + last)
    digit = "0" if part.sha256[0] != "0" else "1"
    return found | {"hash": dataclasses.replace(part, sha256=digit + part.sha256[1:])}


def misplaced(model: Model) -> Iterator[Result]:
    """Each node that a claim calls direct, under the lines of the next claim on that file that shares no line with it:
    the line found by running is not there."""
    from openmodelatlas.catalog.annotate import spread
    from openmodelatlas.verify import located

    try:
        found, lines = located.watch(model, located.packaged(model), located.patches(model))
    except FetchError:
        return
    claims = [spread(claim, found.blocks) for claim in claims_of(model)]
    for blob, there in lines.items():
        pins = ((c, [p for p in (c.pin, *c.also) if p.place.blob == blob]) for c in claims if c.direct)
        pinned = [(c, here[0]) for c, here in pins if here]
        for i, (claim, pin) in enumerate(pinned):
            own = set(all_lines(pin))
            others = [(c, p) for c, p in pinned[i + 1 :] + pinned[:i] if not own & set(all_lines(p))]
            for other, foreign in others[:1]:
                for node in sorted(set(claim.direct) - set(other.direct)):
                    wrong = not located.inside(foreign, there.get(node, set()))
                    key = f"{node} under {other.id}, not {claim.id}"
                    yield Result(key, model.reference, "pin", "located" if wrong else SURVIVED, f"at {there.get(node)}")


def all_lines(pin: Pin) -> Iterator[int]:
    for part in pin.ranges:
        yield from range(part.first, part.last + 1)


def contexts() -> Iterator[Result]:
    """A release's configured context against the definitions' rows."""
    for name, entry in load.tables("releases"):
        path = Path(load.__file__).parent / "releases" / name
        assert entry.where.endswith(name)
        for mutant in numbers(name, path.read_text()):
            release = tomllib.loads(mutant.source)
            wrong = [m["id"] for m in release["model"] if context(release, m) != configured(m)]
            family = find(release["model"][0].get("variant", release["model"][0]["id"])).family
            yield Result(mutant.key, family, "catalogue", "context" if wrong else SURVIVED, ", ".join(wrong))


def context(release: dict[str, Any], model: dict[str, Any]) -> int:
    positions: int = (model.get("context") or release["context"])["config"]["positions"]
    return positions


def configured(model: dict[str, str]) -> int:
    return int(find(model.get("variant", model["id"])).config.max_position_embeddings)
