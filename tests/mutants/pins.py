"""Mutants of pins and of the catalogue's numbers; no process is needed for these."""

import dataclasses
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from openmodelatlas.catalog import load
from openmodelatlas.errors import FetchError
from openmodelatlas.evidence import excerpts
from openmodelatlas.fetch import cache
from openmodelatlas.models import find
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
    claims = [c for reference in load.references().values() for c in reference.claims]
    files, absent = texts({pin.place.blob: pin.place for c in claims for pin in (c.pin, *c.also)})
    found = [r for c in claims for pin in (c.pin, *c.also) if pin.place.blob in files for r in moved(c, pin, files)]
    return [*found, *misplaced(claims), *contexts()], absent


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


def moved(claim: Claim, pin: Pin, files: Mapping[str, bytes]) -> Iterator[Result]:
    """Each range with an end a line off, both off, or one digit of its hash changed."""
    for index, part in enumerate(pin.ranges):
        for name, wrong in wrong_ranges(part).items():
            ranges = (*pin.ranges[:index], wrong, *pin.ranges[index + 1 :])
            status = excerpts.read(dataclasses.replace(pin, ranges=ranges), files[pin.place.blob]).status
            key = f"{claim.id} at {pin.place.source}, range {index}: {name}"
            yield Result(key, "pin", SURVIVED if status == "same" else "text", status)


def wrong_ranges(part: Range) -> dict[str, Range]:
    found = {}
    for name, (first, last) in MOVES.items():
        if 1 <= part.first + first <= part.last + last:
            found[name] = dataclasses.replace(part, first=part.first + first, last=part.last + last)
    digit = "0" if part.sha256[0] != "0" else "1"
    return found | {"hash": dataclasses.replace(part, sha256=digit + part.sha256[1:])}


def misplaced(claims: list[Claim]) -> Iterator[Result]:
    """Each node that a claim calls direct, under the lines of the next claim that shares no line with it: the line
    found by running is not there."""
    from openmodelatlas.catalog.find import model
    from openmodelatlas.trace.locate import locate
    from openmodelatlas.verify.located import inside, place_of
    from openmodelatlas.verify.sources import unpacked

    place = place_of(model("llama-3.1-8b"), "wheel")
    try:
        with tempfile.TemporaryDirectory() as folder:
            located = locate(find("llama-3.1-8b"), unpacked(place, Path(folder)))
    except FetchError:
        return
    lines = {n.node: {*n.lines, *n.called} for n in located.nodes}
    pinned = [(c, pin) for c in claims if c.direct for pin in (c.pin, *c.also) if pin.place.blob == place.blob]
    pinned = [row for i, row in enumerate(pinned) if row[0].id not in {c.id for c, _ in pinned[:i]}]
    for i, (claim, pin) in enumerate(pinned):
        own = set(all_lines(pin))
        other, lines_there = next((c, p) for c, p in pinned[i + 1 :] + pinned[:i] if not own & set(all_lines(p)))
        for node in sorted(set(claim.direct) - set(other.direct)):
            wrong = not inside(lines_there, lines[node])
            key = f"{node} under {other.id}, not {claim.id}"
            yield Result(key, "pin", "located" if wrong else SURVIVED, f"at {sorted(lines[node])}")


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
            yield Result(mutant.key, "catalogue", "context" if wrong else SURVIVED, ", ".join(wrong))


def context(release: dict[str, dict[str, int]], model: dict[str, dict[str, int]]) -> int:
    return (model.get("context") or release["context"])["config"]


def configured(model: dict[str, str]) -> int:
    return int(find(model.get("variant", model["id"])).config.max_position_embeddings)
