"""Which files of a folder are a checkpoint, and opening them: Hugging Face's layout, Meta's, GGUF, or a single file."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn

from openmodelatlas.errors import NotACheckpoint
from openmodelatlas.records.findings import finding, refusal
from openmodelatlas.records.report import Finding
from openmodelatlas.records.shown import printable, shown
from openmodelatlas.weights.configuration import flat
from openmodelatlas.weights.opened import Opened
from openmodelatlas.weights.reading import causes, index, pth, safetensors, shards
from openmodelatlas.weights.reading.gguf import open_gguf
from openmodelatlas.weights.reading.gguf_split import PART_NAME as GGUF_PART
from openmodelatlas.weights.reading.gguf_split import open_parts
from openmodelatlas.weights.reading.place import LocalPlace, Place, SmallFiles, leads_out, read_json
from openmodelatlas.weights.reading.source import LocalFile

FORMATS = "safetensors, GGUF or .pth"
SETTINGS = ("config.json", "params.json")
INDEX_ENDS = (".safetensors.index.json", ".bin.index.json")
WEIGHT_ENDS = (".safetensors", ".pth", ".bin", ".gguf", ".pt", ".h5", ".msgpack", ".onnx")
SHARD_NAME = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.(?P<end>safetensors|bin)")
SHARE_NAME = re.compile(r"consolidated\.(?P<number>\d{2})\.pth")
SECOND_FORM = "consolidated"
ADAPTER, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model"

Kind = Literal["index", "shards", "safetensors", "pickle", "meta", "gguf", "gguf parts"]


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A checkpoint in a folder: `name`, a file that stands for it, and its `files`."""

    kind: Kind
    name: str
    files: tuple[str, ...]


def open_folder(folder: Path) -> Opened:
    """The one checkpoint of a folder. NotACheckpoint if there is none, or several to choose from."""
    place = LocalPlace(folder)
    return _open(place, the_candidate(place))


def the_candidate(place: Place) -> Candidate:
    """The one checkpoint of a place; NotACheckpoint if there is none, or several to choose from."""
    found = candidates(place.names)
    if len(found) > 1 and SETTINGS[0] in place.names:
        found = _without_second_form(found)
    if len(found) > 1:
        choices = ", ".join(shown(candidate.name) for candidate in found)
        raise refusal("files.several-checkpoints", place.where, expected="one checkpoint", found=choices)
    if not found:
        _nothing(place)
    return found[0]


def _without_second_form(found: list[Candidate]) -> list[Candidate]:
    """Some publishers put their own program's form of the same weights beside; programs for the settings that stand
    here do not look at it."""
    usual = [candidate for candidate in found if not candidate.name.startswith(SECOND_FORM)]
    return usual if len(usual) == 1 and usual[0].kind in ("index", "shards", "safetensors") else found


def candidate_of(place: Place, name: str) -> Candidate | None:
    """The checkpoint that a file stands for or is a part of."""
    if name.startswith(ADAPTER_WEIGHTS) and ADAPTER in place.names:
        raise refusal("files.adapter", place.of(name), found=ADAPTER)
    return next((c for c in candidates(place.names) if name == c.name or name in c.files), None)


def open_file_in_folder(path: Path) -> Opened:
    """The checkpoint that a file stands for or is a part of, with the settings of the folder that it stands in."""
    if path.name in SETTINGS and path.is_file():
        return open_folder(path.parent)
    if leads_out(path):  # whoever names a link means what it leads to, and what stands there
        path = Path(os.path.realpath(path))
    source = LocalFile(path)
    try:
        place = LocalPlace(path.parent)
    except NotACheckpoint:  # a file stands for itself, whatever it stands among
        place = LocalPlace(path.parent, [path.name])
    if candidate := candidate_of(place, path.name):
        return _open(place, candidate)
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
    return _open(place, Candidate(kind=kind, name=path.name, files=(path.name,)))


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
            files = files or tuple(n for n in names if n == f"{stem}.{end}")  # an index of a single file
            found.append(Candidate(kind="index", name=name, files=files))
            taken |= set(files)
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


def _nothing(place: Place) -> NoReturn:
    """NotACheckpoint that says what a folder without a checkpoint has instead."""
    where, names = place.where, place.names
    if ADAPTER in names:
        raise refusal("files.adapter", where, found=ADAPTER)
    if unfinished := [name for name in names if name.endswith(causes.UNFINISHED)]:
        raise refusal("files.unfinished", where, found=shown(unfinished[0]))
    if deeper := [name for name in names if candidates(place.below(name))]:
        raise refusal("files.in-folder", where, found=f"one in {shown(deeper[0] + '/')}")
    if alien := [name for name in names if name.endswith(WEIGHT_ENDS)]:
        raise refusal("files.unknown-format", where, expected=FORMATS, found=shown(alien[0]))
    found = ", ".join(map(shown, names[:5])) or "nothing"
    code = "files.no-weights" if set(SETTINGS) & set(names) else "files.no-checkpoint"
    raise refusal(code, where, expected=FORMATS, found=found)


def _open(place: LocalPlace, candidate: Candidate) -> Opened:
    if candidate.kind in ("gguf", "gguf parts"):
        for name in candidate.files:
            place.source(name)  # a link that must not be followed is an error
    if candidate.kind == "gguf":
        return open_gguf(place.folder / candidate.name)
    if candidate.kind == "gguf parts":
        return open_parts([place.folder / name for name in candidate.files])
    return open_meta(place, candidate) if candidate.kind == "meta" else open_huggingface(place, candidate)


def small_files(place: Place) -> SmallFiles:
    """Everything in a place that is neither weights nor an index of them."""
    weights = (*WEIGHT_ENDS, *INDEX_ENDS, *causes.UNFINISHED)
    return SmallFiles(place, [name for name in place.names if not name.endswith(weights) and place.is_file(name)])


def _settings(place: Place, name: str) -> tuple[dict[str, Any], list[Finding]]:
    """The file of settings, flat; a finding if there is none."""
    if name not in place.names:
        return {}, [finding("files.no-settings", place.where, expected=name, found="none")]
    content = read_json(place.source(name))
    if not isinstance(content, dict):
        raise refusal("files.not-settings", place.of(name), expected="an object")
    return flat(content), []


def open_meta(place: Place, candidate: Candidate) -> Opened:
    """Meta's shares of a model. The tensors of several shares have the file's name before their own: `FILE:NAME`."""
    settings, findings = _settings(place, "params.json")
    read = shards.read_files(candidate.files, place.source, pth.read_header)
    count = 1 + max(int(name.split(".")[1]) for name in candidate.files)
    expected = [f"consolidated.{number:02}.pth" for number in range(count)]
    findings += [
        finding("files.share-missing", place.where, expected=name, found=f"{len(candidate.files)} shares")
        for name in expected
        if name not in candidate.files
    ]
    homes = {}
    for shard, file in read.files.items():
        for tensor in file.tensors:
            name = f"{shard}:{tensor.name}" if len(candidate.files) > 1 else tensor.name
            homes[name] = (file, tensor)
    header = shards.header("Meta .pth", place.where, read.files.values(), settings, homes)
    findings += read.findings
    return shards.Shards("meta", header, homes, findings=findings, notes=read.notes, beside=small_files(place))


def open_huggingface(place: Place, candidate: Candidate) -> Opened:
    """Safetensors or pickled weights, of one file or several, with or without an index."""
    settings, findings = _settings(place, "config.json")
    listed = None
    if candidate.kind == "index":
        source = place.source(candidate.name)
        listed = index.read_index(read_json(source), source.where)
    wanted = list(candidate.files) if listed is None else listed.files
    if not wanted:
        raise refusal("files.index-entry", place.of(candidate.name), expected="tensors in files", found="none")
    known = set(place.names)
    there, absent = [name for name in wanted if name in known], [name for name in wanted if name not in known]
    if not there:
        raise refusal("files.shard-missing", place.of(absent[0]), found=f"none of {len(wanted)} shards")
    reader = pth.read_header if there[0].endswith(".bin") or candidate.kind == "pickle" else safetensors.read_header
    read = shards.read_files(there, place.source, reader)
    homes, pairs = index.join(read.files, listed)
    findings += [*read.findings, *pairs]
    notes = read.notes
    if listed is not None:
        findings += index.index_findings(listed, read.files, absent)
        findings += _surplus(place, candidate, listed)
        notes += index.size_note(listed, read.files.values()) if len(read.files) == len(wanted) else []
    elif candidate.kind == "shards":
        findings += _numbering(place, candidate)
    if reader is safetensors.read_header and (old := [n for n in place.names if n.startswith("pytorch_model")]):
        notes.append(f"{len(old)} files of pickled weights stand beside and are not looked at, such as {shown(old[0])}")
    second = [n for n in place.names if n.startswith(SECOND_FORM) and n.endswith(WEIGHT_ENDS)]
    if second and not candidate.name.startswith(SECOND_FORM):
        notes.append(f"{shown(second[0])} stands beside and is not looked at; name it to look at it")
    kind = "safetensors" if reader is safetensors.read_header else "PyTorch .bin"
    header = shards.header(kind, place.where, read.files.values(), settings, homes)
    beside = small_files(place)
    return shards.Shards("huggingface", header, homes, findings=findings, notes=notes, beside=beside)


def _surplus(place: Place, candidate: Candidate, listed: index.Index) -> list[Finding]:
    """Shards of the index's own kind that it doesn't name."""
    extra = [name for name in candidate.files if name not in set(listed.files)]
    found = f"{len(extra)} such files"
    if not extra:
        return []
    return [finding("files.surplus-shard", place.of(extra[0]), expected="files of the index", found=found)]


def _numbering(place: Place, candidate: Candidate) -> list[Finding]:
    """Numbered shards without an index: programs don't find them, and some may be missing."""
    matches = [match for name in candidate.files if (match := SHARD_NAME.fullmatch(name))]
    stem, end, count = matches[0]["stem"], matches[0]["end"], int(matches[0]["count"])
    found = [finding("files.no-index", place.where, expected=printable(f"{stem}.{end}.index.json"), found="none")]
    numbers = {int(match["number"]) for match in matches}
    lost = [number for number in range(1, count + 1) if number not in numbers]
    if lost:
        name, short = f"{stem}-{lost[0]:05}-of-{count:05}.{end}", f"{len(lost)} of {count} shards absent"
        found.append(finding("files.shard-missing", shown(name), expected="a file", found=short))
    if strays := sorted(numbers - set(range(1, count + 1))) or len({match["count"] for match in matches}) > 1:
        found.append(finding("files.shard-numbers", place.where, expected=f"1 to {count}", found=strays))
    return found
