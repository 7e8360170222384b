"""Where the files of a checkpoint stand together: a folder here, or one elsewhere that answers the same questions."""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from openmodelatlas.errors import NotACheckpoint
from openmodelatlas.records import strict_json
from openmodelatlas.records.findings import refusal
from openmodelatlas.records.shown import printable
from openmodelatlas.weights.reading import causes
from openmodelatlas.weights.reading.source import LocalFile, Source, unreadable

MOST_ENTRIES = 20_000
LARGEST_SMALL = 64 << 20


class Place(ABC):
    """A folder: `where` as messages call it, and the `names` in it, hidden ones left out."""

    where: str
    names: list[str]

    @abstractmethod
    def source(self, name: str) -> Source:
        """A file of it; NotACheckpoint says what else has that name."""

    @abstractmethod
    def is_file(self, name: str) -> bool:
        """Whether the name is a file's."""

    @abstractmethod
    def below(self, name: str) -> list[str]:
        """The names in a folder of it; nothing if it is none."""

    def of(self, name: str) -> str:
        """A file's full name, for messages."""
        return f"{self.where}/{printable(name)}"


class LocalPlace(Place):
    """A folder of this machine. NotACheckpoint if it cannot be listed, or has far too many files."""

    def __init__(self, folder: Path, names: list[str] | None = None) -> None:
        self.folder, self.where = folder, printable(str(folder))
        self.names = _listing(folder) if names is None else names

    def source(self, name: str) -> Source:
        """A link is followed within the folder, or as the Hub's cache makes them: `snapshots/REVISION/NAME` to
        `blobs/HASH`; not elsewhere."""
        path = self.folder / name
        if leads_out(path):
            raise refusal("files.link-outside", self.of(name), found=f"a link to {os.readlink(path)!r}")
        return LocalFile(path, name)

    def is_file(self, name: str) -> bool:
        """Through links, too."""
        return (self.folder / name).is_file()

    def below(self, name: str) -> list[str]:
        """Hidden ones left out; nothing if it may not be listed."""
        try:
            return _listing(self.folder / name) if (self.folder / name).is_dir() else []
        except NotACheckpoint:
            return []


def leads_out(path: Path) -> bool:
    """Whether it is a link out of its folder, other than that of a snapshot in the Hub's cache to its blobs."""
    if not path.is_symlink():
        return False
    real, home = Path(os.path.realpath(path)), Path(os.path.realpath(path.parent))
    cached = home.parent.name == "snapshots" and real.parent == home.parent.parent / "blobs"
    return not cached and not real.is_relative_to(home)


class SmallFiles(Mapping[str, bytes]):
    """The small files of a place, read when asked for."""

    def __init__(self, place: Place, names: list[str]) -> None:
        self.place, self._names = place, names

    def __getitem__(self, name: str) -> bytes:
        if name not in self._names:
            raise KeyError(name)
        return read_small(self.place.source(name))

    def __contains__(self, name: object) -> bool:
        return name in self._names  # without reading it, as a mapping would

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def read_small(source: Source) -> bytes:
    """All of a file that must be small."""
    if source.size > LARGEST_SMALL:
        expected = f"at most {LARGEST_SMALL:,} bytes"
        raise refusal("files.absurd-size", source.where, expected=expected, found=f"{source.size:,}")
    return source.read(0, source.size)


def read_json(source: Source) -> Any:
    """The content of a JSON file; what stands there instead is named."""
    raw = read_small(source)
    if not raw.startswith(strict_json.BYTE_ORDER_MARKS) and raw.lstrip()[:1] not in (b"{", b"["):
        causes.refuse(source, "an object of JSON")
    return strict_json.parse(raw, source.where)


def _listing(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry, _ in zip(entries, range(MOST_ENTRIES + 1), strict=False)]
    except OSError as error:
        raise unreadable(error, printable(str(folder))) from None
    if len(names) > MOST_ENTRIES:
        raise refusal("files.crowded", printable(str(folder)), expected=f"at most {MOST_ENTRIES:,} files")
    return sorted(name for name in names if not name.startswith("."))
