"""Files of others to be run: a pinned file from the cache, its wheel or a download, as a file on disk."""

import zipfile
from pathlib import Path

from openmodelatlas.errors import FetchError
from openmodelatlas.fetch import cache, wheels
from openmodelatlas.fetch.download import download
from openmodelatlas.records.evidence import Place


def unpacked(place: Place, folder: Path) -> Path:
    """The pinned file in `folder`, with the Python files that stand beside it where it comes from a wheel.

    FetchError where no route has it. Only bytes that have the pinned blob id are ever handed out.
    """
    target = folder / place.path
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
    parent = place.path.rpartition("/")[0]
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    for name in names:
        if name.rpartition("/")[0] == parent and name.endswith(".py"):
            (folder / name).write_bytes(wheels.member(wheel, name))


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
