"""Files of others to be run: a pinned file from the cache, its wheel or a download, as a file on disk."""

import re
import zipfile
from pathlib import Path

from openmodelatlas.errors import FetchError
from openmodelatlas.fetch import cache, wheels
from openmodelatlas.fetch.download import download
from openmodelatlas.records.evidence import Place
from openmodelatlas.verify.references.worker import needs

FROM_ABOVE = re.compile(rb"^\s*from \.\.", re.MULTILINE)
"""An import from above a file's own folder: the file is part of a package, and runs only inside it."""


def unpacked(place: Place, folder: Path) -> Path:
    """The pinned file in `folder`, with the Python files that it needs where it comes from a wheel: those beside it,
    or all of its package if it is a part of one.

    FetchError where no route has it, or a package is not installed whose requirements it has. Only bytes that have the
    pinned blob id are ever handed out; what stands beside them comes from the same wheel, which its hash fixes.
    """
    target = folder / place.path
    if not target.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        if place.kind == "wheel":
            _from_wheel(place, folder)
        else:
            target.write_bytes(_blob(place))
    if cache.blob_id(target.read_bytes()) != place.blob:
        raise FetchError("not the pinned file", where=f"{place.source} {place.path}", expected=place.blob)
    return target


def _from_wheel(place: Place, folder: Path) -> None:
    wheel = wheels.wheel(place.source, place.revision, place.wheel_sha256 or "")
    whole = FROM_ABOVE.search(wheels.member(wheel, place.path)) is not None
    if whole:
        needs(place.source)
    package, parent = place.path.partition("/")[0], place.path.rpartition("/")[0]

    def wanted(name: str) -> bool:
        beside = name.startswith(f"{package}/") if whole else name.rpartition("/")[0] == parent
        return beside and name.endswith(".py") and ".." not in name.split("/")

    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder, [name for name in archive.namelist() if wanted(name)])


def _blob(place: Place) -> bytes:
    kept = cache.load_blob(place.blob)
    if kept is not None:
        return kept
    where = f"{place.source} @ {place.revision[:12]} {place.path}"
    key = f"{place.blob}.download"
    if (why := cache.missed(key)) is not None:
        raise FetchError("the file is not at hand", where=where, found=why, fix="oma evidence --mirror DIR keeps it")
    try:
        data = download(f"https://github.com/{place.source}/raw/{place.revision}/{place.path}")
    except FetchError as error:
        cache.note_miss(key, str(error))
        raise FetchError("the file is not at hand", where=where, fix="oma evidence --mirror DIR keeps it") from error
    cache.keep_blob(data, instead_of=place.blob)
    return data
