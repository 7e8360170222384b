"""A GGUF checkpoint in several files: the settings stand in the first, every part says which it is and of how many."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openmodelatlas.errors import NotACheckpoint
from openmodelatlas.records.findings import finding, of_error, refusal
from openmodelatlas.records.report import Finding, Header, StoredTensor
from openmodelatlas.records.shown import printable, shown
from openmodelatlas.weights.opened import Opened
from openmodelatlas.weights.reading.gguf import GGUFFile, open_gguf

if TYPE_CHECKING:
    from torch import Tensor

PART_NAME = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")
NUMBER, COUNT, TENSORS = "split.no", "split.count", "split.tensors.count"


class GGUFParts(Opened):
    """Several GGUF files as one. Its settings are those of the first, without the three that say how it is split: they
    are held against the parts here."""

    scheme = "gguf"

    def __init__(
        self, first: GGUFFile, homes: Mapping[str, GGUFFile], header: Header, findings: tuple[Finding, ...]
    ) -> None:
        self.header, self.findings = header, findings
        self._first, self._homes = first, homes

    def values(self, name: str, start: int = 0, end: int | None = None) -> "Tensor":
        """Dequantised, where it is not stored as plain numbers."""
        return self._homes[name].values(name, start, end)

    def section(self, prefix: str) -> dict[str, Any]:
        """Every setting of the first part whose key starts with `prefix`, arrays in full."""
        found = self._first.section(prefix)
        return {key: value for key, value in found.items() if key in self.header.metadata}

    def close(self) -> None:
        """Let go of all files."""
        for file in {id(file): file for file in (self._first, *self._homes.values())}.values():
            file.close()


def open_parts(paths: Sequence[Path]) -> Opened:
    """The parts of one checkpoint, in the order of their names. A part that is missing or damaged is a finding;
    NotACheckpoint if the first is, which has the settings."""
    matches = [match for path in paths if (match := PART_NAME.fullmatch(path.name))]
    count, numbers = int(matches[0]["count"]), [int(match["number"]) for match in matches]
    if 1 not in numbers:
        name = f"{matches[0]['stem']}-00001-of-{count:05}.gguf"
        raise refusal(
            "files.shard-missing", printable(str(paths[0].parent / name)), expected="the part with the settings"
        )
    findings = [
        finding(
            "files.shard-missing", printable(str(paths[0].parent)), expected=f"part {number} of {count}", found="none"
        )
        for number in range(1, min(count, len(paths) + 10) + 1)
        if number not in numbers
    ]
    files: list[GGUFFile] = []
    for path in paths:
        try:
            files.append(open_gguf(path))
        except NotACheckpoint as error:
            if not files:
                raise
            findings.append(of_error(error, "files.unknown-format", printable(path.name)))
    try:
        return _joined(files, count, findings)
    except BaseException:
        for file in files:
            file.close()
        raise


def _joined(files: list[GGUFFile], count: int, findings: list[Finding]) -> GGUFParts:
    homes: dict[str, GGUFFile] = {}
    tensors: list[StoredTensor] = []
    for file in files:
        findings += [*file.findings, *_part_findings(file, count)]
        for tensor in file.header.tensors:
            if tensor.name in homes:
                both = printable(f"{homes[tensor.name].path.name} and {file.path.name}")
                where = f"tensor {shown(tensor.name)}"
                findings.append(finding("files.duplicate-over-shards", where, expected="one file", found=both))
                continue
            homes[tensor.name] = file
            tensors.append(tensor)
    first = files[0]
    stated = first.header.metadata.get(TENSORS)
    if stated != len(tensors):
        found = f"{len(tensors)} in {len(files)} of {count} parts"
        findings.append(finding("files.part-tensors", first.header.path, expected=f"{stated} tensors", found=found))
    settings = {key: value for key, value in first.header.metadata.items() if key not in (NUMBER, COUNT, TENSORS)}
    header = Header(
        format=f"{first.header.format}, {count} files",
        path=first.header.path,
        file_bytes=sum(file.header.file_bytes for file in files),
        metadata=settings,
        tensors=tuple(tensors),
    )
    return GGUFParts(first, homes, header, tuple(findings))


def _part_findings(file: GGUFFile, count: int) -> list[Finding]:
    """What a part says of itself, against its name."""
    match = PART_NAME.fullmatch(file.path.name)
    number = int(match["number"]) - 1 if match else None
    found = []
    for key, expected in ((NUMBER, number), (COUNT, count)):
        value = file.header.metadata.get(key)
        if value != expected:
            where = printable(f"{file.path.name}: {key}")
            found.append(finding("files.part-number", where, expected=expected, found=shown(str(value))))
    return found
