"""A checkpoint whose tensors stand in one file or several: opened file by file, and read as one."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from openmodelatlas.errors import NotACheckpoint
from openmodelatlas.records.findings import of_error
from openmodelatlas.records.report import Finding, Header, StoredTensor
from openmodelatlas.records.shown import printable
from openmodelatlas.weights.opened import Opened
from openmodelatlas.weights.reading.source import Source

if TYPE_CHECKING:
    from torch import Tensor

    from openmodelatlas.weights.naming import Scheme


class StoredFile(Protocol):
    """What the reader of one file gives: its tensors, what is wrong with it all the same, their values, and what is
    damaged when all of it is read."""

    @property
    def source(self) -> Source: ...

    @property
    def tensors(self) -> tuple[StoredTensor, ...]: ...

    @property
    def findings(self) -> tuple[Finding, ...]: ...

    @property
    def notes(self) -> tuple[str, ...]: ...

    def read(self, tensor: StoredTensor, start: int = 0, end: int | None = None) -> "Tensor": ...

    def damaged(self) -> list[Finding]: ...


@dataclass(kw_only=True)
class Read:
    """Files that could be read, by name, with what is to be said of them, and findings for those that could not."""

    files: dict[str, StoredFile] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_files(names: Iterable[str], place: Callable[[str], Source], reader: Callable[[Source], StoredFile]) -> Read:
    """The headers of all of them. A file that cannot be read is a finding, since the others can tell more;
    NotACheckpoint if none can."""
    found = Read()
    first: NotACheckpoint | None = None
    for name in names:
        try:
            file = reader(place(name))
        except NotACheckpoint as error:
            first = first or error
            found.findings.append(of_error(error, "files.unknown-format", printable(name)))
        else:
            found.files[name] = file
            found.findings += file.findings
            found.notes += file.notes
    if first is not None and not found.files:
        raise first
    return found


class Shards(Opened):
    """Tensors of several files under one roof. `homes`: for each name of the header the file, and the tensor as that
    file names it."""

    def __init__(
        self,
        scheme: "Scheme",
        header: Header,
        homes: Mapping[str, tuple[StoredFile, StoredTensor]],
        *,
        findings: Iterable[Finding] = (),
        notes: Iterable[str] = (),
        beside: Mapping[str, bytes],
    ) -> None:
        self.scheme, self.header, self.beside = scheme, header, beside
        self.findings, self.notes = tuple(findings), tuple(notes)
        self._homes = homes

    def values(self, name: str, start: int = 0, end: int | None = None) -> "Tensor":
        """In its own type. CheckpointError for numbers of less than eight bits."""
        file, tensor = self._homes[name]
        return file.read(tensor, start, end)

    def by_values(self) -> list[Finding]:
        """The checksums that files have, held against all of their bytes."""
        files = {file.source.where: file for file, _ in self._homes.values()}
        return [flaw for file in files.values() for flaw in file.damaged()]

    def close(self) -> None:
        """Nothing is held open between reads."""


def header(
    kind: str,
    path: str,
    files: Iterable[StoredFile],
    settings: Mapping[str, Any],
    homes: Mapping[str, tuple[StoredFile, StoredTensor]],
) -> Header:
    """One header of all files. `kind`: the format's name; more files than one are counted in it."""
    sources = [file.source for file in files]
    several = f", {len(sources)} files" if len(sources) > 1 else ""
    return Header(
        format=kind + several,
        path=path,
        file_bytes=sum(source.size for source in sources),
        metadata=settings,
        tensors=tuple(dataclasses.replace(tensor, name=name) for name, (_, tensor) in homes.items()),
    )
