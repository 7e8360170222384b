"""The checkpoints that `oma pull` knows: one TOML file each."""

from functools import cache
from pathlib import Path

from openmodelatlas.catalog.find import unknown
from openmodelatlas.catalog.load import Entry, tables
from openmodelatlas.errors import FetchError
from openmodelatlas.fetch import checkpoints as files
from openmodelatlas.records.catalog import Checkpoint, Wheel


@cache
def checkpoints() -> dict[str, Checkpoint]:
    """Every known checkpoint, by id."""
    return {c.id: c for c in (_checkpoint(entry) for _, entry in tables("checkpoints"))}


def find(name: str) -> Checkpoint:
    """The checkpoint of that id; an unknown one is an error that lists the nearest."""
    key = name.strip().lower()
    if key not in checkpoints():
        raise unknown("checkpoint", name, checkpoints())
    return checkpoints()[key]


def path_of(checkpoint: Checkpoint) -> Path:
    """The file in the cache, which must have been pulled."""
    if not files.present(checkpoint):
        raise FetchError("checkpoint is not here", where=checkpoint.id, fix=f"run: oma pull {checkpoint.id}")
    return files.place(checkpoint)


def _checkpoint(entry: Entry) -> Checkpoint:
    wheel = Entry(entry.take("wheel", dict), f"{entry.where}: wheel")
    record = Checkpoint(
        id=entry.take("id", str),
        title=entry.take("title", str),
        model=entry.take("model", str),
        wheel=Wheel(
            name=wheel.take("name", str),
            version=wheel.take("version", str),
            sha256=wheel.take("sha256", str),
            bytes=wheel.take("bytes", int),
        ),
        member=entry.take("member", str),
        bytes=entry.take("bytes", int),
        sha256=entry.take("sha256", str),
        license=entry.take("license", str),
        source=entry.take("source", str),
    )
    wheel.end()
    entry.end()
    return record
