"""The catalogue's TOML files as records. A missing, surplus or impossible entry is a CatalogError that names it."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import Any

from openmodelatlas.errors import CatalogError
from openmodelatlas.records.catalog import Configuration, Context, Deviation, Figure, Model, Reference, Release
from openmodelatlas.records.evidence import Claim, Pin, Place, Range

Table = Mapping[str, Any]


class Entry:
    """A TOML table that must be read to the last key."""

    def __init__(self, table: Table, where: str) -> None:
        self.left, self.where = dict(table), where

    def take(self, key: str, kind: type[Any], default: Any = ...) -> Any:
        """The value of `key`, of that kind; without a default it must be there."""
        if key not in self.left:
            if default is ...:
                raise CatalogError("missing key", where=f"{self.where}: {key}")
            return default
        value = self.left.pop(key)
        if not isinstance(value, kind):
            raise CatalogError("wrong kind", where=f"{self.where}: {key}", expected=kind.__name__, found=repr(value))
        return value

    def strings(self, key: str) -> tuple[str, ...]:
        """A list of strings, empty if absent."""
        return tuple(str(item) for item in self.take(key, list, []))

    def end(self) -> None:
        """Complain of keys that nothing has read."""
        if self.left:
            raise CatalogError("surplus key", where=f"{self.where}: {', '.join(sorted(self.left))}")


def tables(folder: str) -> Iterator[tuple[str, Entry]]:
    """Every TOML file of a folder of the catalogue, by name."""
    entries = (files("openmodelatlas.catalog") / folder).iterdir()
    for item in sorted((e for e in entries if e.name.endswith(".toml")), key=lambda e: e.name):
        where = f"catalog/{folder}/{item.name}"
        try:
            yield item.name, Entry(tomllib.loads(item.read_text(encoding="utf-8")), where)
        except tomllib.TOMLDecodeError as error:
            raise CatalogError("not TOML", where=where, found=str(error)) from error


# --- references -------------------------------------------------------------------------------------------------------


@cache
def references() -> Mapping[str, Reference]:
    """Every reference, by id."""
    return {r.id: r for r in (_reference(entry) for _, entry in tables("references"))}


def _reference(entry: Entry) -> Reference:
    places = {name: _place(Entry(t, f"{entry.where}: place {name}")) for name, t in entry.take("place", dict).items()}
    identity = entry.take("id", str)
    home = places[entry.take("home", str)]
    claims = tuple(_claim(Entry(t, entry.where), identity, places) for t in entry.take("claim", list))
    record = Reference(
        id=identity,
        title=entry.take("title", str),
        repo=home.source,
        revision=home.revision,
        path=home.path,
        license=home.license,
        home=home,
        release=entry.take("release", str, None),
        runner=entry.take("runner", str, None),
        listed=entry.take("listed", dict, {}),
        setting=_figure(entry, "setting"),
        claims=claims,
    )
    entry.end()
    return record


def _place(entry: Entry) -> Place:
    record = Place(
        kind=entry.take("kind", str),
        source=entry.take("source", str),
        revision=entry.take("revision", str),
        path=entry.take("path", str),
        blob=entry.take("blob", str),
        license=entry.take("license", str),
        wheel_sha256=entry.take("wheel_sha256", str, None),
    )
    entry.end()
    _must(entry, "blob", re.fullmatch(r"[0-9a-f]{40}", record.blob) is not None)
    _must(entry, "path", not record.path.startswith(("/", "-")) and ".." not in record.path.split("/"))
    if record.kind == "git":
        _must(entry, "source", re.fullmatch(r"[\w.-]+/[\w.-]+", record.source) is not None)
        _must(entry, "revision", re.fullmatch(r"[0-9a-f]{40}", record.revision) is not None)
    else:
        _must(entry, "kind", record.kind == "wheel")
        _must(entry, "wheel_sha256", re.fullmatch(r"[0-9a-f]{64}", record.wheel_sha256 or "") is not None)
    return record


def _must(entry: Entry, key: str, holds: bool) -> None:
    if not holds:
        raise CatalogError("impossible value", where=f"{entry.where}: {key}")


def _claim(entry: Entry, reference: str, places: Mapping[str, Place]) -> Claim:
    identity, caveat = entry.take("id", str), entry.take("caveat", str, None)
    entry.where += f": claim {identity}"
    record = Claim(
        id=identity,
        reference=reference,
        statement=entry.take("statement", str),
        pin=_pin(entry, places, same_text=True),
        also=tuple(_also(Entry(t, f"{entry.where}: also"), places) for t in entry.take("also", list, [])),
        direct=entry.strings("direct"),
        contextual=entry.strings("contextual"),
        expressions=entry.take("expressions", dict, {}),
        conflict=caveat,
        caveat=caveat is not None,
        lacks=entry.strings("lacks"),
    )
    entry.end()
    if record.caveat and (record.direct or record.expressions):
        raise CatalogError("a caveat about what a node computes", where=entry.where)
    if both := set(record.direct) & set(record.contextual):
        raise CatalogError("direct and contextual at once", where=f"{entry.where}: {', '.join(sorted(both))}")
    if stray := {name.partition(":")[0] for name in record.lacks} - set(record.direct):
        raise CatalogError("lacks a result of a node not claimed", where=f"{entry.where}: {', '.join(sorted(stray))}")
    if stray := set(record.expressions) - set(record.direct + record.contextual):
        raise CatalogError("expression for a node not claimed", where=f"{entry.where}: {', '.join(sorted(stray))}")
    return record


def _also(entry: Entry, places: Mapping[str, Place]) -> Pin:
    record = _pin(entry, places, same_text=entry.take("same_text", bool))
    entry.end()
    return record


def _pin(entry: Entry, places: Mapping[str, Place], *, same_text: bool) -> Pin:
    name = entry.take("at", str)
    if name not in places:
        raise CatalogError("unknown place", where=f"{entry.where}: {name}")
    ranges = tuple(Range(first=first, last=last, sha256=text) for first, last, text in entry.take("lines", list))
    ends = [(r.first, r.last) for r in ranges]
    flat = [line for pair in ends for line in pair]
    _must(entry, "lines", bool(ends) and flat[0] >= 1 and flat == sorted(flat) and _apart(ends))
    _must(entry, "lines", all(re.fullmatch(r"[0-9a-f]{64}", r.sha256) for r in ranges))
    return Pin(place=places[name], ranges=ranges, same_text=same_text)


def _apart(ends: list[tuple[int, int]]) -> bool:
    return all(a[1] < b[0] for a, b in pairwise(ends))


# --- releases ---------------------------------------------------------------------------------------------------------


@cache
def releases() -> Mapping[str, Release]:
    """Every release, by id: families by the date of their first, each lineage oldest first, then what only shares its
    architecture."""
    found = [_release(entry) for _, entry in tables("releases")]
    first: dict[str, str] = {}
    for release in found:
        family = release.models[0].family
        if release.architecture is None:
            first[family] = min(release.date, first.get(family, release.date))
    found.sort(key=lambda r: (first.get(r.models[0].family, r.date), r.models[0].family, r.architecture or "", r.date))
    return {r.id: r for r in found}


def _release(entry: Entry) -> Release:
    identity, title = entry.take("id", str), entry.take("title", str)
    # What all sizes share stands once, at the top of the file.
    shared = {key: entry.left.pop(key) for key in _SHARED if key in entry.left}
    models = tuple(
        _model(Entry({**shared, **table}, f"{entry.where}: model {table.get('id')}"), identity, title)
        for table in entry.take("model", list)
    )
    record = Release(
        id=identity,
        title=title,
        maker=entry.take("maker", str),
        date=entry.take("date", str),
        kind=entry.take("kind", str),
        follows=entry.take("follows", str, None),
        architecture=entry.take("architecture", str, None),
        default=entry.take("default", str),
        models=models,
        sources=entry.strings("sources"),
    )
    entry.end()
    _must(entry, "date", re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])(-\d\d)?", record.date) is not None)
    _must(entry, "default", record.default in {m.id for m in models})
    return record


_SHARED = ("family", "reference", "deviation", "conflicts", "context", "not_verified")


def _model(entry: Entry, release: str, release_title: str) -> Model:
    identity, size = entry.take("id", str), entry.take("size", str)
    configuration = Entry(entry.take("configuration", dict), f"{entry.where}: configuration")
    record = Model(
        id=identity,
        title=f"{release_title} {size}",
        size=size,
        release=release,
        family=entry.take("family", str),
        variant=entry.take("variant", str, identity),
        reference=entry.take("reference", str),
        deviations=tuple(_deviation(Entry(t, f"{entry.where}: deviation")) for t in entry.take("deviation", list, [])),
        without=entry.strings("without"),
        conflicts=entry.take("conflicts", dict, {}),
        configuration=Configuration(
            state=configuration.take("state", str),
            source=configuration.take("source", str),
            claim=configuration.take("claim", str, None),
            note=configuration.take("note", str, None),
        ),
        context=_context(Entry(entry.take("context", dict), f"{entry.where}: context")),
        hub=entry.strings("hub"),
        not_verified=entry.strings("not_verified"),
    )
    for part in (entry, configuration):
        part.end()
    return record


def _context(entry: Entry) -> Context:
    record = Context(
        config=_positions(Entry(entry.take("config", dict), f"{entry.where}: config")),
        trained=tuple(_positions(Entry(t, f"{entry.where}: trained")) for t in entry.take("trained", list, [])),
        advertised=_figure(entry, "advertised"),
    )
    entry.end()
    return record


def _figure(entry: Entry, key: str) -> Figure | None:
    table = entry.take(key, dict, None)
    return None if table is None else _positions(Entry(table, f"{entry.where}: {key}"))


def _positions(entry: Entry) -> Figure:
    record = Figure(
        positions=entry.take("positions", int),
        source=entry.take("source", str),
        note=entry.take("note", str, None),
    )
    entry.end()
    _must(entry, "positions", record.positions > 0)
    return record


def _deviation(entry: Entry) -> Deviation:
    record = Deviation(
        node=entry.take("node", str),
        summary=entry.take("summary", str),
        claim=entry.take("claim", str, None),
        source=entry.take("source", str, None),
        note=entry.take("note", str, None),
        drops=entry.strings("drops"),
    )
    entry.end()
    return record
