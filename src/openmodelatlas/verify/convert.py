"""A checkpoint written anew in another format, held against the original before it gets its name."""

import dataclasses
import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from openmodelatlas import models
from openmodelatlas.errors import CheckpointError, UsageError, WriteError
from openmodelatlas.fetch.progress import Progress, silent
from openmodelatlas.models.variant import Variant
from openmodelatlas.records.report import Finding, Ledger
from openmodelatlas.verify.against import REQUANTISED, compare
from openmodelatlas.verify.convert_text import Text, converted_text, without
from openmodelatlas.weights.described import described
from openmodelatlas.weights.identify import identify
from openmodelatlas.weights.ledger import account, metadata_findings, tensor_findings
from openmodelatlas.weights.load import constant_findings, refusal
from openmodelatlas.weights.naming import Scheme, has_names, name_table
from openmodelatlas.weights.open import open_checkpoint
from openmodelatlas.weights.opened import Opened
from openmodelatlas.weights.settings import readings
from openmodelatlas.weights.writing import gguf as write_gguf
from openmodelatlas.weights.writing import meta as write_meta
from openmodelatlas.weights.writing import safetensors as write_safetensors
from openmodelatlas.weights.writing.gguf import Typed
from openmodelatlas.weights.writing.outgoing import Outgoing, outgoing, plain
from openmodelatlas.weights.writing.shares import shares
from openmodelatlas.weights.writing.stated import nested, stated, unsaid
from openmodelatlas.weights.writing.written import need_room, placed, taken

SCHEMES: tuple[Scheme, ...] = ("huggingface", "gguf", "meta")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
SHARD_SIZE = 5 * 10**9
SETTINGS_FILES = {"huggingface": "config.json", "meta": "params.json"}
OWN_LABELS = ("general.architecture", "general.file_type", "general.quantization_version", "general.alignment")


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What to write. `dtype` None: plain numbers keep their type, others become float32. `quantised`: a GGUF type.
    `numbers`: of the configuration, for those that the source does not state; `model` names the model that it is."""

    scheme: Scheme
    dtype: torch.dtype | None = None
    quantised: str | None = None
    shard_size: int = SHARD_SIZE
    ranks: int = 1
    tokenizer: bool = True
    model: str | None = None
    numbers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Converted:
    """What was written: where, of which model, what became of the numbers, and how it compares with the original."""

    path: Path
    model: str
    source: str
    scheme: Scheme
    notes: tuple[str, ...]
    compared: str


def scheme_of(target: Path, to: str | None) -> Scheme:
    """The format that a target's name or an option asks for."""
    if to is not None:
        found: dict[str, Scheme] = {scheme: scheme for scheme in SCHEMES}
        if to not in found:
            raise UsageError("no such format", expected=", ".join(SCHEMES), found=to)
        if (found[to] == "gguf") != (target.suffix == ".gguf"):
            expected = "a name that ends in .gguf" if to == "gguf" else "the name of a folder"
            raise UsageError(f"not a target for {to}", where=str(target), expected=expected)
        return found[to]
    if target.suffix == ".gguf":
        return "gguf"
    raise UsageError(
        "which format is not said", where=str(target), fix="--to huggingface, --to meta, or a name that ends in .gguf"
    )


def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    wanted: Wanted,
    *,
    force: bool = False,
    progress: Progress = silent,
) -> Converted:
    """Write the checkpoint at `source` anew at `target`. Nothing is left there unless everything holds.

    CheckpointError for a source that is not all that its model needs, and for a result that is not the source;
    WriteError where it cannot be written; UsageError for a wish that has no meaning."""
    place = Path(os.path.abspath(target))
    check_place(Path(source), place, wanted.scheme, force)
    with open_checkpoint(source) as original:
        variant = _variant(original, wanted)
        ledger = account(original.header, variant, original.scheme)
        _refuse(original, variant, ledger, str(source))
        _refuse_unsaid(original, variant, ledger, wanted)
        text = _text(original, variant, wanted)
        tensors = outgoing(original, variant, ledger, wanted.scheme, wanted.dtype)
        typed = write_gguf.typed(tensors, wanted.quantised) if wanted.scheme == "gguf" else []
        parts = shares(tensors, variant, wanted.ranks) if wanted.scheme == "meta" else [tensors]
        total = sum(entry.bytes for entry in typed) or sum(tensor.bytes for part in parts for tensor in part)
        need_room(place, total + sum(map(len, text.files.values())))
        notes = _notes(ledger, typed, tensors, original.scheme, wanted, text)
        settings = _settings(original, variant, typed, tensors, text, wanted)
        with placed(place, force=force) as new:
            wrote = _counter(total, progress)
            if wanted.scheme == "gguf":
                write_gguf.write(new, typed, settings, wrote)
            else:
                _write_folder(new, parts, settings, text, wanted, wrote)
            compared = _same(original, variant, new, progress)
        return Converted(
            path=place,
            model=variant.name,
            source=original.scheme,
            scheme=wanted.scheme,
            notes=notes,
            compared=compared,
        )


def check_place(source: Path, target: Path, scheme: Scheme, force: bool) -> None:
    """WriteError for a target that is, holds or lies in the source, or that would overwrite what is there."""
    where = str(target)
    if not target.parent.is_dir():
        raise WriteError("no folder to write in", where=str(target.parent), fix="make it first")
    own, other = target.resolve(), source.resolve()
    if own == other or own in other.parents or (other.is_dir() and other in own.parents):
        raise WriteError("the target is the source, or one lies within the other", where=where, found=str(source))
    if not taken(target):
        return
    if not force:
        raise WriteError("something stands there already", where=where, fix="choose another name, or --force")
    if target.is_dir() and not target.is_symlink():
        entries = list(target.iterdir())
        strange = next((entry.name for entry in entries if entry.is_dir() and not entry.is_symlink()), None)
        known = any((target / name).exists() for name in SETTINGS_FILES.values())
        if scheme == "gguf" or strange or not known:
            found = f"a folder within: {strange}" if strange else "a folder that is no checkpoint"
            raise WriteError("--force replaces checkpoints only", where=where, found=found)
    elif scheme != "gguf":
        raise WriteError("a folder cannot replace a file", where=where)


def _variant(opened: Opened, wanted: Wanted) -> Variant:
    if wanted.model is not None:
        variant = models.find(wanted.model)
    else:
        identity = identify(opened.header, opened.scheme)
        known = [models.find(name) for name in identity.matches]
        if any((v.config, v.parts) != (known[0].config, known[0].parts) for v in known):
            names = ", ".join(identity.matches)
            raise CheckpointError(
                "several models fit, which differ in what is not stored here",
                where=opened.header.path,
                found=names,
                fix="--model says which",
            )
        variant = known[0] if known else described(opened.header, opened.scheme, identity.nearest.family)
    if not has_names(variant.family, wanted.scheme):
        forms = ", ".join(scheme for scheme in SCHEMES if has_names(variant.family, scheme))
        raise UsageError(f"the {variant.family} family has no form in this format", expected=forms, found=wanted.scheme)
    return _with_numbers(variant, wanted.numbers)


def _with_numbers(variant: Variant, numbers: Mapping[str, str]) -> Variant:
    changed = {}
    for name, text in numbers.items():
        before = getattr(variant.config, name, None)
        if before is None:
            fields = ", ".join(known.name for known in dataclasses.fields(variant.config))
            raise UsageError("no such number of the model", expected=fields, found=name)
        try:
            changed[name] = type(before)(text)
        except ValueError:
            kind = "a whole number" if isinstance(before, int) else "a number"
            raise UsageError(f"--set {name}", expected=kind, found=text) from None
    return dataclasses.replace(variant, config=dataclasses.replace(variant.config, **changed))


def _refuse(opened: Opened, variant: Variant, ledger: Ledger, where: str) -> None:
    """CheckpointError with the first finding, if there is one. A tokenizer that is not there is none."""
    found = [*opened.findings, *tensor_findings(ledger)]
    found += [flaw for flaw in metadata_findings(ledger) if not _lacks_tokenizer(flaw)]
    found += constant_findings(opened, variant, ledger) if not found else []
    if found:
        raise refusal(found, where)


def _text(original: Opened, variant: Variant, wanted: Wanted) -> Text:
    return (
        converted_text(original, variant, wanted.scheme)
        if wanted.tokenizer
        else without(original, wanted.scheme, "as asked")
    )


def _lacks_tokenizer(flaw: Finding) -> bool:
    return flaw.code == "configuration.missing" and flaw.where.strip("'").startswith("tokenizer.")


def _refuse_unsaid(opened: Opened, variant: Variant, ledger: Ledger, wanted: Wanted) -> None:
    """CheckpointError for a number that would be made up: of no model of the atlas, and nowhere in the source."""
    if variant.name in models.variants():
        return
    table = name_table(variant.family, opened.scheme)
    said = {reading.field for reading in readings(opened.header.metadata, variant, table)} | set(wanted.numbers)
    if any(row.parameter is None and row.stored is not None and row.owners for row in ledger.rows):
        said |= set(table.unstated)  # the constants that stand for them are there, and hold
    if lacking := unsaid(variant, said, wanted.scheme):
        raise CheckpointError(
            "the source does not say, and no model of the atlas fits",
            where=opened.header.path,
            expected=", ".join(lacking),
            fix=f"--set {lacking[0]}=..., or --model",
        )


def _notes(
    ledger: Ledger,
    typed: Sequence[Typed],
    tensors: Sequence[Outgoing],
    scheme: Scheme,
    wanted: Wanted,
    text: Text,
) -> tuple[str, ...]:
    packed, left, rounded = Counter[str](), Counter[str](), 0
    narrowest = {tensor.dtype for tensor in tensors}
    for row in ledger.rows:
        if row.stored is None:
            continue
        if row.parameter is None:
            left[row.steps[0] if row.steps else "no part of the model"] += 1
        elif (kind := plain(row.stored)) is None:
            packed[row.stored.type] += 1
        else:
            rounded += wanted.dtype is not None and torch.promote_types(kind, wanted.dtype) != wanted.dtype
    target = _words(wanted.dtype or torch.float32)
    found = [f"{count:,} of type {kind} dequantised to {target}" for kind, count in packed.items()]
    found += [f"{rounded:,} rounded to {target}"] if rounded else []
    found += [f"{count:,} stored beside the parameters left out ({why})" for why, count in left.items()]
    if scheme == "gguf" and wanted.dtype is None and wanted.scheme != "gguf" and len(narrowest) > 1:
        kept = sum(tensor.dtype == torch.float32 for tensor in tensors)
        found += [f"{kept:,} stay in float32, as they would be rounded"]
    if wanted.quantised is not None:
        count = sum(entry.type == wanted.quantised for entry in typed)
        found.append(f"{count:,} of {len(tensors):,} quantised to {wanted.quantised}")
    if text.left_out:
        found.append(f"without tokenizer: {text.left_out}")
    if text.note:
        found.append(text.note)
    return tuple(found)


def _words(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _settings(
    original: Opened,
    variant: Variant,
    typed: Sequence[Typed],
    tensors: Sequence[Outgoing],
    text: Text,
    wanted: Wanted,
) -> dict[str, Any]:
    found = stated(variant, wanted.scheme)
    if wanted.scheme == "gguf":
        types = Counter[str]()
        for entry in typed:
            types[entry.type] += entry.bytes
        found |= _labels(original, variant) | write_gguf.labels(types.most_common(1)[0][0])
    elif wanted.scheme == "huggingface":
        found["torch_dtype"] = _words(Counter(tensor.dtype for tensor in tensors).most_common(1)[0][0])
    return {**found, **text.settings}


def _counter(total: int, progress: Progress) -> Callable[[int], None]:
    done = 0

    def wrote(count: int) -> None:
        nonlocal done
        done += count
        progress("writing", done, total)

    return wrote


def _write_folder(
    new: Path,
    parts: Sequence[Sequence[Outgoing]],
    settings: Mapping[str, Any],
    text: Text,
    wanted: Wanted,
    wrote: Callable[[int], None],
) -> None:
    new.mkdir()
    if wanted.scheme == "huggingface":
        write_safetensors.write_folder(new, parts[0], wanted.shard_size, wrote)
    else:
        for rank, part in enumerate(parts):
            write_meta.write(new / f"consolidated.{rank:02}.pth", part, wrote)
    content = json.dumps(nested(settings), indent=2) + "\n"
    (new / SETTINGS_FILES[wanted.scheme]).write_text(content, encoding="utf-8")
    for name, data in text.files.items():
        (new / name).write_bytes(data)


def _labels(original: Opened, variant: Variant) -> dict[str, Any]:
    """What a GGUF file says of itself besides, from one to the next; of others its model's name."""
    if original.scheme == "gguf":
        return {k: v for k, v in original.section("general.").items() if k not in OWN_LABELS}
    return {"general.name": variant.name} if variant.name in models.variants() else {}


def _same(original: Opened, variant: Variant, new: Path, progress: Progress) -> str:
    """How the written checkpoint compares with the original; CheckpointError if it is not the same."""
    with open_checkpoint(new) as written:
        _refuse(written, variant, account(written.header, variant, written.scheme), f"{new.name} as written")
        check, findings = compare(original, written, progress)
    findings = [flaw for flaw in findings if flaw.code != REQUANTISED]  # what was asked for is no flaw
    if findings:
        first = findings[0]
        raise CheckpointError(
            f"what was written is not the original: {first.title} at {first.where}",
            where=new.name,
            expected=first.expected,
            found=first.found,
            code=first.code,
        )
    return check.detail
