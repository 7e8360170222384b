"""A Hugging Face index of shards held against the shards, both ways, before any tensor is read."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from openmodelatlas.records.findings import finding, refusal
from openmodelatlas.records.report import Finding, StoredTensor
from openmodelatlas.records.shown import shown
from openmodelatlas.weights.reading.shards import StoredFile


@dataclass(frozen=True, kw_only=True)
class Index:
    """`places`: the file of every tensor; `total_size` as the index states it."""

    where: str
    places: Mapping[str, str]
    total_size: int | None

    @property
    def files(self) -> list[str]:
        """Every file that is named, in the order of names."""
        return sorted(set(self.places.values()))


def read_index(content: Any, where: str) -> Index:
    """An index from its parsed JSON; NotACheckpoint if it is none, or names anything but files beside it."""
    if not isinstance(content, dict) or not isinstance(content.get("weight_map"), dict):
        raise refusal("files.index-entry", where, expected="a section weight_map", found="none")
    places = content["weight_map"]
    for name, file in places.items():
        if not isinstance(file, str):
            raise refusal("files.index-entry", f"{where}: {shown(name)}", expected="the name of a file")
    for file in set(places.values()):
        if not file or "/" in file or "\\" in file or "\0" in file or file in (".", ".."):
            raise refusal("files.index-path", where, expected="a file beside the index", found=shown(file))
    labels = content.get("metadata")
    total = labels.get("total_size") if isinstance(labels, dict) else None
    whole = isinstance(total, (int, float)) and not isinstance(total, bool) and total == int(total)
    return Index(where=where, places=places, total_size=int(total) if whole and total is not None else None)


def join(
    files: Mapping[str, StoredFile], index: Index | None
) -> tuple[dict[str, tuple[StoredFile, StoredTensor]], list[Finding]]:
    """Every tensor with its file: where the index says, or else the first that has it; a name in two is a finding."""
    homes: dict[str, tuple[StoredFile, StoredTensor]] = {}
    twice: dict[tuple[str, str], list[str]] = defaultdict(list)
    for shard, file in files.items():
        for tensor in file.tensors:
            if tensor.name in homes:
                twice[homes[tensor.name][1].shard, shard].append(tensor.name)
                if index is None or index.places.get(tensor.name) != shard:
                    continue
            homes[tensor.name] = (file, tensor)
    pairs = [
        finding(
            "files.duplicate-over-shards",
            _names(names),
            expected="one file",
            found=f"{shown(first)} and {shown(second)}",
        )
        for (first, second), names in twice.items()
    ]
    return homes, pairs


def index_findings(index: Index, files: Mapping[str, StoredFile], absent: Iterable[str]) -> list[Finding]:
    """Where index and headers disagree; one finding for each pair of files, not for each tensor. Shards that could not
    be read are not held against it, and of `absent` ones only that they are."""
    found = []
    wanted: dict[str, list[str]] = defaultdict(list)
    for name, shard in index.places.items():
        wanted[shard].append(name)
    for shard in absent:
        where, expected = shown(shard), f"a file with {_names(wanted[shard])}"
        found.append(finding("files.shard-missing", where, expected=expected, found="none"))
    stored = {tensor.name: shard for shard, file in files.items() for tensor in file.tensors}
    inside = {shard: {tensor.name for tensor in file.tensors} for shard, file in files.items()}
    lost: dict[tuple[str, str], list[str]] = defaultdict(list)
    moved: dict[tuple[str, str], list[str]] = defaultdict(list)
    unknown: dict[str, list[str]] = defaultdict(list)
    for name, shard in index.places.items():
        if shard in files and name not in inside[shard]:
            (moved if name in stored else lost)[shard, stored.get(name, "")].append(name)
    for name, shard in stored.items():
        if name not in index.places:
            unknown[shard].append(name)
    for (shard, other), names in moved.items():
        found.append(finding("files.tensor-in-other-shard", _names(names), expected=shown(shard), found=shown(other)))
    for (shard, _), names in lost.items():
        where = _names(names)
        found.append(finding("files.tensor-not-in-shard", where, expected=f"in {shown(shard)}", found="in no header"))
    for shard, names in unknown.items():
        found.append(finding("files.tensor-not-in-index", _names(names), expected="in the index", found=shown(shard)))
    return found


def size_note(index: Index, files: Iterable[StoredFile]) -> list[str]:
    """What to say of the index's total size: many published ones count shared tensors twice, or other things."""
    stored = sum(tensor.bytes for file in files for tensor in file.tensors)
    if index.total_size in (None, stored):
        return []
    return [f"the index states total_size {index.total_size:,}; the tensors of all shards are {stored:,} bytes"]


def _names(names: list[str]) -> str:
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"tensor {shown(names[0])}{more}"
