"""A checkpoint on the Hub: settings and headers alone, by ranges of bytes."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from openmodelatlas.errors import NotACheckpoint, UnknownName
from openmodelatlas.fetch.hub import HubModel, open_model
from openmodelatlas.records.findings import refusal
from openmodelatlas.records.shown import printable, shown
from openmodelatlas.weights.opened import Opened
from openmodelatlas.weights.reading.folder import candidate_of, open_huggingface, the_candidate
from openmodelatlas.weights.reading.gguf import read_gguf
from openmodelatlas.weights.reading.place import MOST_ENTRIES, Place
from openmodelatlas.weights.reading.source import Source, headers_only

FIRST = 1 << 15  # fetched at once of each file: most headers of shards are shorter
LARGEST_START = 1 << 28
AT_ONCE = 8


class HubFile(Source):
    """A file of the Hub of which the start is kept once it was fetched. `sealed`: nothing more is fetched of it."""

    def __init__(self, model: HubModel, path: str, name: str) -> None:
        self.model, self.path, self.name, self.where = model, path, name, printable(f"{model.where}/{path}")
        size = model.files[path]
        if size is None or size < 0:
            raise refusal("files.unknown-size", self.where)
        if size == 0:
            raise refusal("files.empty", self.where)
        self.size, self.sealed, self._start = size, False, bytearray()

    def read_into(self, start: int, buffer: memoryview) -> None:
        """From the start that is kept, which grows as far as it is read."""
        end = start + len(buffer)
        if end > len(self._start):
            if self.sealed or end > LARGEST_START:
                raise headers_only(self.where)
            self.fetch(end)
        buffer[:] = self._start[start:end]

    def fetch(self, end: int) -> None:
        """Have the file's start up to there, or to its end."""
        more = bytearray(min(end, self.size) - len(self._start))
        if more:
            self.model.read_into(self.path, len(self._start), memoryview(more))
            self._start += more


class HubPlace(Place):
    """The files of a model on the Hub that stand in one folder of it."""

    def __init__(self, model: HubModel, folder: str = "") -> None:
        self.model, self.folder = model, folder
        self.where = printable(f"{model.where}/{folder}").rstrip("/")
        self.names = self._inside(folder)
        if len(self.names) > MOST_ENTRIES:
            raise refusal("files.crowded", self.where, expected=f"at most {MOST_ENTRIES:,} files")
        self._sources: dict[str, HubFile] = {}

    def source(self, name: str) -> HubFile:
        """The same one each time, with what was fetched of it."""
        if name not in self._sources:
            path = self.folder + name
            if path not in self.model.files:
                raise refusal("files.missing", self.of(name))
            self._sources[name] = HubFile(self.model, path, name)
        return self._sources[name]

    def is_file(self, name: str) -> bool:
        """Not so a folder."""
        return self.folder + name in self.model.files

    def below(self, name: str) -> list[str]:
        """By the names of all files."""
        return self._inside(f"{self.folder}{name}/")

    def _inside(self, folder: str) -> list[str]:
        rest = {path.removeprefix(folder).partition("/")[0] for path in self.model.files if path.startswith(folder)}
        return sorted(name for name in rest if name and not name.startswith("."))

    def fetch_starts(self, names: Iterable[str], count: int) -> None:
        """The first bytes of several files, some at a time."""
        wanted = [name for name in names if self.is_file(name)]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda name: self._start(name, count), wanted))

    def _start(self, name: str, count: int) -> None:
        try:
            self.source(name).fetch(count)
        except NotACheckpoint:
            return  # an empty file, say: the reader will come upon it

    def seal(self) -> None:
        """Fetch no more of any weights."""
        for name, source in self._sources.items():
            source.sealed = name.endswith((".safetensors", ".gguf"))


def open_hub(target: str) -> Opened:
    """The checkpoint of `ORG/NAME[@REVISION][:FILE]`: settings, small files when asked for, and headers.

    FILE chooses among several, or a folder (`:original`). FetchError if the Hub doesn't give it."""
    place_of, _, file = target.partition(":")
    name, at, revision = place_of.partition("@")
    model = open_model(name, revision if at else None)
    place, chosen = _chosen(model, file)
    candidate = the_candidate(place) if chosen is None else candidate_of(place, chosen)
    if candidate is not None and candidate.kind == "gguf":
        parsed = read_gguf(place.source(candidate.name))
        place.seal()
        return parsed
    if candidate is None or candidate.kind not in ("index", "shards", "safetensors") or ".bin" in candidate.name:
        found = shown(file if candidate is None else candidate.name)
        raise refusal("files.not-by-ranges", place.where, expected="safetensors, or GGUF in one file", found=found)
    place.fetch_starts(candidate.files, FIRST)
    opened = open_huggingface(place, candidate)
    place.seal()
    return opened


def _chosen(model: HubModel, file: str) -> tuple[HubPlace, str | None]:
    """The folder of the model, and the file in it, that are named; UnknownName if there is neither."""
    file = file.strip("/")
    if file in model.files:
        folder, _, name = file.rpartition("/")
        return HubPlace(model, f"{folder}/" if folder else ""), name
    if file and not any(path.startswith(f"{file}/") for path in model.files):
        raise UnknownName("no such file in the model", where=model.where, found=repr(file[:200]))
    return HubPlace(model, f"{file}/" if file else ""), None
