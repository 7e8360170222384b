"""Which files of a folder are a checkpoint, and opening them: Hugging Face's layout, Meta's, GGUF, or a single file."""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn

from openmodelatlas.errors import NotACheckpoint
from openmodelatlas.records import strict_json
from openmodelatlas.records.findings import finding, refusal
from openmodelatlas.records.report import Finding
from openmodelatlas.weights import causes, index, pth, safetensors, shards
from openmodelatlas.weights.configuration import flat
from openmodelatlas.weights.gguf import open_gguf
from openmodelatlas.weights.gguf_split import PART_NAME as GGUF_PART
from openmodelatlas.weights.gguf_split import open_parts
from openmodelatlas.weights.opened import Opened
from openmodelatlas.weights.shown import shown
from openmodelatlas.weights.source import LocalFile, Source, unreadable

FORMATS = "safetensors, GGUF or .pth"
MOST_ENTRIES = 20_000
LARGEST_SMALL = 64 << 20
INDEX_ENDS = (".safetensors.index.json", ".bin.index.json")
WEIGHT_ENDS = (".safetensors", ".pth", ".bin", ".gguf", ".pt", ".h5", ".msgpack", ".onnx")
SHARD_NAME = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.(?P<end>safetensors|bin)")
SHARE_NAME = re.compile(r"consolidated\.(?P<number>\d{2})\.pth")
ADAPTER, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model"

Kind = Literal["index", "shards", "safetensors", "pickle", "meta", "gguf", "gguf parts"]


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A checkpoint in a folder: `name`, a file that stands for it, and its `files`."""

    kind: Kind
    name: str
    files: tuple[str, ...]


class SmallFiles(Mapping[str, bytes]):
    """The small files of a folder, read when asked for."""

    def __init__(self, folder: Path, names: list[str]) -> None:
        self.folder, self._names = folder, names

    def __getitem__(self, name: str) -> bytes:
        if name not in self._names:
            raise KeyError(name)
        return read_small(placed(self.folder, name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def placed(folder: Path, name: str) -> LocalFile:
    """A file of the folder. NotACheckpoint for a link out of it, unless it is the one that the Hub's cache makes:
    `snapshots/REVISION/NAME` to `blobs/HASH`."""
    path = folder / name
    if path.is_symlink():
        real, home = Path(os.path.realpath(path)), Path(os.path.realpath(folder))
        cached = home.parent.name == "snapshots" and real.parent == home.parent.parent / "blobs"
        if not cached and not real.is_relative_to(home):
            raise refusal("files.link-outside", str(path), found=f"a link to {os.readlink(path)!r}")
    return LocalFile(path, name)


def read_small(source: Source) -> bytes:
    """All of a file that must be small."""
    if source.size > LARGEST_SMALL:
        expected = f"at most {LARGEST_SMALL:,} bytes"
        raise refusal("files.absurd-size", source.where, expected=expected, found=f"{source.size:,}")
    return source.read(0, source.size)


def read_json(source: Source) -> Any:
    """The content of a JSON file; what stands there instead is named."""
    if source.read(0, causes.HEAD).lstrip()[:1] not in (b"{", b"["):
        causes.refuse(source, "a JSON text")
    return strict_json.parse(read_small(source), source.where)


def open_folder(folder: Path) -> Opened:
    """The one checkpoint of a folder. NotACheckpoint if there is none, or several to choose from."""
    names = _listing(folder)
    found = candidates(names)
    if len(found) > 1:
        choices = ", ".join(shown(candidate.name) for candidate in found)
        raise refusal("files.several-checkpoints", str(folder), expected="one checkpoint", found=choices)
    if not found:
        _nothing(folder, names)
    return open_candidate(folder, found[0], names)


def open_file_in_folder(path: Path) -> Opened:
    """The checkpoint that a file stands for or is a part of, with the settings of the folder that it stands in."""
    source, folder = LocalFile(path), path.parent
    try:
        names = _listing(folder)
    except NotACheckpoint:  # a file stands for itself, whatever it stands among
        names = [path.name]
    if path.name.startswith(ADAPTER_WEIGHTS) and ADAPTER in names:
        raise refusal("files.adapter", str(path), found=ADAPTER)
    for candidate in candidates(names):
        if path.name == candidate.name or path.name in candidate.files:
            return open_candidate(folder, candidate, names)
    form = causes.format_of(source.read(0, causes.HEAD), source.size)
    kinds: dict[str | None, Kind] = {
        causes.SAFETENSORS: "safetensors",
        causes.GGUF: "gguf",
        causes.ZIP: "pickle",
        causes.PICKLE: "pickle",
    }
    if form not in kinds:
        causes.refuse(source, FORMATS)
    kind = kinds[form]
    return open_candidate(folder, Candidate(kind=kind, name=path.name, files=(path.name,)), names)


def _listing(folder: Path) -> list[str]:
    """Names in a folder, in order; hidden ones left out."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry, _ in zip(entries, range(MOST_ENTRIES + 1), strict=False)]
    except OSError as error:
        raise unreadable(error, str(folder)) from None
    if len(names) > MOST_ENTRIES:
        raise refusal("files.crowded", str(folder), expected=f"at most {MOST_ENTRIES:,} files")
    return sorted(name for name in names if not name.startswith("."))


def candidates(names: list[str]) -> list[Candidate]:
    """Every checkpoint among these names. Pickles count only where nothing safer is there."""
    safe = _families(names, "safetensors")
    shares = tuple(name for name in names if SHARE_NAME.fullmatch(name))
    meta = [Candidate(kind="meta", name=shares[0], files=shares)] if shares else []
    return [*safe, *meta, *_gguf(names)] or _families(names, "bin")


def _families(names: list[str], end: str) -> list[Candidate]:
    """Indexed, numbered and single files of that ending."""
    found, taken = [], set()
    for name in names:
        if name.endswith(f".{end}.index.json"):
            stem = name.removesuffix(f".{end}.index.json")
            files = tuple(n for n in names if (m := SHARD_NAME.fullmatch(n)) and m["stem"] == stem and m["end"] == end)
            found.append(Candidate(kind="index", name=name, files=files))
            taken |= {*files, f"{stem}.{end}"} if files else set()
    numbered: dict[str, list[str]] = {}
    for name in (name for name in names if name.endswith(f".{end}") and name not in taken):
        if match := SHARD_NAME.fullmatch(name):
            numbered.setdefault(match["stem"], []).append(name)
        elif _is_weights(name, end):
            kind: Kind = "safetensors" if end == "safetensors" else "pickle"
            found.append(Candidate(kind=kind, name=name, files=(name,)))
    found += [Candidate(kind="shards", name=files[0], files=tuple(files)) for files in numbered.values()]
    return found


def _is_weights(name: str, end: str) -> bool:
    """Adapters change a model and are none; of `.bin` files, which can be anything, only the known name counts."""
    return not name.startswith(ADAPTER_WEIGHTS) and (end == "safetensors" or name == "pytorch_model.bin")


def _gguf(names: list[str]) -> list[Candidate]:
    found: list[Candidate] = []
    parts: dict[tuple[str, str], list[str]] = {}
    for name in (name for name in names if name.endswith(".gguf")):
        if match := GGUF_PART.fullmatch(name):
            parts.setdefault((match["stem"], match["count"]), []).append(name)
        else:
            found.append(Candidate(kind="gguf", name=name, files=(name,)))
    return found + [Candidate(kind="gguf parts", name=files[0], files=tuple(files)) for files in parts.values()]


def _nothing(folder: Path, names: list[str]) -> NoReturn:
    """NotACheckpoint that says what a folder without a checkpoint has instead."""
    where = str(folder)
    if ADAPTER in names:
        raise refusal("files.adapter", where, found=ADAPTER)
    if unfinished := [name for name in names if name.endswith(causes.UNFINISHED)]:
        raise refusal("files.unfinished", where, found=shown(unfinished[0]))
    deeper = [name for name in names if (folder / name).is_dir() and candidates(_listing(folder / name))]
    if deeper:
        raise refusal("files.in-folder", where, found=f"one in {shown(deeper[0] + os.sep)}")
    if alien := [name for name in names if name.endswith(WEIGHT_ENDS)]:
        raise refusal("files.unknown-format", where, expected=FORMATS, found=shown(alien[0]))
    found = ", ".join(map(shown, names[:5])) or "nothing"
    code = "files.no-weights" if {"config.json", "params.json"} & set(names) else "files.no-checkpoint"
    raise refusal(code, where, expected=FORMATS, found=found)


def open_candidate(folder: Path, candidate: Candidate, names: list[str]) -> Opened:
    """Open one of the checkpoints of a folder."""
    if candidate.kind == "gguf":
        return open_gguf(folder / candidate.name)
    if candidate.kind == "gguf parts":
        return open_parts([folder / name for name in candidate.files])
    beside = SmallFiles(folder, _small_names(folder, names))
    if candidate.kind == "meta":
        return _open_meta(folder, candidate, beside)
    return _open_huggingface(folder, candidate, beside, names)


def _small_names(folder: Path, names: list[str]) -> list[str]:
    weights = (*WEIGHT_ENDS, *INDEX_ENDS, *causes.UNFINISHED)
    return [name for name in names if not name.endswith(weights) and (folder / name).is_file()]


def _settings(folder: Path, name: str, beside: SmallFiles) -> tuple[dict[str, Any], list[Finding]]:
    """The file of settings, flat; a finding if there is none."""
    if name not in beside:
        return {}, [finding("files.no-settings", str(folder), expected=name, found="none")]
    content = read_json(placed(folder, name))
    if not isinstance(content, dict):
        raise refusal("files.not-settings", str(folder / name), expected="an object")
    return flat(content), []


def _open_meta(folder: Path, candidate: Candidate, beside: SmallFiles) -> Opened:
    """Meta's shares of a model. The tensors of several shares have the file's name before their own: `FILE:NAME`."""
    settings, findings = _settings(folder, "params.json", beside)
    read = shards.read_files(candidate.files, lambda name: placed(folder, name), pth.read_header)
    count = 1 + max(int(name.split(".")[1]) for name in candidate.files)
    expected = [f"consolidated.{number:02}.pth" for number in range(count)]
    findings += [
        finding("files.share-missing", str(folder), expected=name, found=f"{len(candidate.files)} shares")
        for name in expected
        if name not in candidate.files
    ]
    homes = {}
    for shard, file in read.files.items():
        for tensor in file.tensors:
            name = f"{shard}:{tensor.name}" if len(candidate.files) > 1 else tensor.name
            homes[name] = (file, tensor)
    header = shards.header("Meta .pth", str(folder), read.files.values(), settings, homes)
    return shards.Shards("meta", header, homes, findings=[*findings, *read.findings], beside=beside)


def _open_huggingface(folder: Path, candidate: Candidate, beside: SmallFiles, names: list[str]) -> Opened:
    settings, findings = _settings(folder, "config.json", beside)
    listed = None
    if candidate.kind == "index":
        source = placed(folder, candidate.name)
        listed = index.read_index(read_json(source), source.where)
    wanted = list(candidate.files) if listed is None else listed.files
    if not wanted:
        raise refusal("files.index-entry", str(folder / candidate.name), expected="tensors in files", found="none")
    there = [name for name in wanted if os.path.lexists(folder / name)]
    absent = [name for name in wanted if name not in there]
    if not there:
        raise refusal("files.shard-missing", str(folder / absent[0]), found=f"none of {len(wanted)} shards")
    reader = pth.read_header if there[0].endswith(".bin") or candidate.kind == "pickle" else safetensors.read_header
    read = shards.read_files(there, lambda name: placed(folder, name), reader)
    homes, pairs = index.join(read.files, listed)
    findings += [*read.findings, *pairs]
    notes = []
    if listed is not None:
        findings += index.index_findings(listed, read.files, absent)
        findings += _surplus(folder, candidate, listed)
        notes = index.size_note(listed, read.files.values()) if len(read.files) == len(wanted) else []
    elif candidate.kind == "shards":
        findings += _numbering(folder, candidate)
    if reader is safetensors.read_header and (old := [n for n in names if n.startswith("pytorch_model")]):
        notes.append(f"{len(old)} files of pickled weights stand beside and are not looked at, such as {shown(old[0])}")
    kind = "safetensors" if reader is safetensors.read_header else "PyTorch .bin"
    header = shards.header(kind, str(folder), read.files.values(), settings, homes)
    return shards.Shards("huggingface", header, homes, findings=findings, notes=notes, beside=beside)


def _surplus(folder: Path, candidate: Candidate, listed: index.Index) -> list[Finding]:
    """Shards of the index's own kind that it doesn't name."""
    extra = [name for name in candidate.files if name not in set(listed.files)]
    found = f"{len(extra)} such files"
    if not extra:
        return []
    return [finding("files.surplus-shard", str(folder / extra[0]), expected="files of the index", found=found)]


def _numbering(folder: Path, candidate: Candidate) -> list[Finding]:
    """Numbered shards without an index: programs don't find them, and some may be missing."""
    matches = [match for name in candidate.files if (match := SHARD_NAME.fullmatch(name))]
    stem, end, count = matches[0]["stem"], matches[0]["end"], int(matches[0]["count"])
    found = [finding("files.no-index", str(folder), expected=f"{stem}.{end}.index.json", found="none")]
    numbers = {int(match["number"]) for match in matches}
    lost = [number for number in range(1, min(count, MOST_ENTRIES) + 1) if number not in numbers]
    if lost:
        name, short = f"{stem}-{lost[0]:05}-of-{count:05}.{end}", f"{len(lost)} of {count} shards absent"
        found.append(finding("files.shard-missing", name, expected="a file", found=short))
    if strays := sorted(numbers - set(range(1, count + 1))) or len({match["count"] for match in matches}) > 1:
        found.append(finding("files.shard-numbers", str(folder), expected=f"1 to {count}", found=strays))
    return found
