"""Is a checkpoint what it says it is? Every check, and the record that pages show of it."""

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path

import torch

from openmodelatlas.catalog import checkpoints
from openmodelatlas.errors import AtlasError, CheckpointError
from openmodelatlas.fetch.cache import sha256
from openmodelatlas.fetch.progress import Progress, silent
from openmodelatlas.infer.checkpoint import Loaded, load_checkpoint
from openmodelatlas.infer.generate import generate
from openmodelatlas.models.variant import Variant
from openmodelatlas.records.catalog import Checkpoint
from openmodelatlas.records.report import Check, CheckpointRecord, Finding, Header, Ledger, Report
from openmodelatlas.text.tokenizer import from_gguf
from openmodelatlas.trace.capture import summaries
from openmodelatlas.weights.dequantise import dequantise
from openmodelatlas.weights.gguf import GGUFFile, open_gguf
from openmodelatlas.weights.identify import Identity, identify
from openmodelatlas.weights.ledger import account, metadata_findings, tensor_findings
from openmodelatlas.weights.load import constant_findings

COMPLETION_TOKENS = 32


@dataclass(frozen=True, kw_only=True)
class CheckpointVerification:
    """The report, and what it rests on. `ledger` is None if no family of the atlas takes the file."""

    report: Report
    ledger: Ledger | None
    header: Header


class _Checks:
    """Checks in order; one without findings holds."""

    def __init__(self) -> None:
        self.checks: list[Check] = []
        self.findings: list[Finding] = []

    def add(self, name: str, detail: str, findings: list[Finding]) -> None:
        self.checks.append(Check(name=name, ok=not findings, detail=detail))
        self.findings += findings

    def report(self, target: str, model: str | None, form: str) -> Report:
        return Report(
            target=target,
            ok=not self.findings,
            model=model,
            format=form,
            checks=tuple(self.checks),
            findings=tuple(self.findings),
        )


def verify(
    path: str | os.PathLike[str],
    *,
    target: str | None = None,
    checkpoint: Checkpoint | None = None,
    progress: Progress = silent,
) -> CheckpointVerification:
    """Hold a checkpoint against the atlas. `checkpoint`: the catalogue's entry, whose hash and model it must have too.

    NotACheckpoint if the file cannot be read as one; every other flaw is a finding."""
    name = target or str(path)
    checks = _Checks()
    with open_gguf(path) as file:
        header = file.header
        detail = f"{header.format}, {len(header.tensors)} tensors, {len(header.metadata)} metadata pairs"
        checks.add("format", detail, [])
        _bytes(checks, file)
        if checkpoint is not None:
            _hash(checks, Path(path), checkpoint)
        try:
            identity = identify(header)
        except CheckpointError as error:
            finding = _finding("model", "general.architecture", error)
            checks.add("model", "not an architecture of the atlas", [finding])
            return CheckpointVerification(report=checks.report(name, None, header.format), ledger=None, header=header)
        _identity(checks, identity, checkpoint)
        ledger = account(header, identity.nearest)
        _tensors(checks, file, identity.nearest, ledger)
        _metadata(checks, ledger)
        _parameters(checks, ledger)
        _tokenizer(checks, file, identity.nearest)
        _values(checks, file, progress)
        model = identity.matches[0] if identity.matches else None
        return CheckpointVerification(report=checks.report(name, model, header.format), ledger=ledger, header=header)


def _finding(check: str, where: str, error: AtlasError) -> Finding:
    expected = "it holds" if error.expected is None else str(error.expected)
    found = error.what if error.found is None else f"{error.what}: {error.found}"
    return Finding(check=check, where=error.where or where, expected=expected, found=found)


def _bytes(checks: _Checks, file: GGUFFile) -> None:
    total, used = file.header.file_bytes, file.accounted_bytes
    findings = []
    if used != total:
        findings.append(Finding(check="bytes", where="the file", expected=f"{used:,} bytes", found=f"{total:,} bytes"))
    checks.add("bytes", f"header, tensors and padding are {used:,} of {total:,} bytes", findings)


def _hash(checks: _Checks, path: Path, checkpoint: Checkpoint) -> None:
    found = sha256(path)
    findings = []
    if found != checkpoint.sha256:
        findings.append(Finding(check="hash", where=checkpoint.id, expected=checkpoint.sha256, found=found))
    checks.add("hash", f"sha256 {found}", findings)


def _identity(checks: _Checks, identity: Identity, checkpoint: Checkpoint | None) -> None:
    nearest = identity.nearest.name
    findings = [
        Finding(check="model", where=f"{d.field} ({d.key})", expected=f"{d.expected} as in {nearest}", found=d.found)
        for d in identity.differences
    ]
    if not identity.matches:
        checks.add("model", f"no model of the atlas; the nearest is {nearest}", findings)
        return
    if checkpoint is not None and checkpoint.model not in identity.matches:
        findings.append(Finding(check="model", where=checkpoint.id, expected=checkpoint.model, found=nearest))
    also = f", which computes as {', '.join(identity.matches[1:])}" if len(identity.matches) > 1 else ""
    checks.add("model", nearest + also, findings)


def _tensors(checks: _Checks, file: GGUFFile, variant: Variant, ledger: Ledger) -> None:
    matched = sum(row.status == "matched" for row in ledger.rows)
    missing = sum(row.status == "missing" for row in ledger.rows)
    surplus = sum(row.status == "surplus" for row in ledger.rows)
    findings = tensor_findings(ledger)
    if not findings:
        findings = constant_findings(file, variant, ledger)
    checks.add("tensors", f"{matched} matched, {missing} missing, {surplus} surplus", findings)


def _metadata(checks: _Checks, ledger: Ledger) -> None:
    columns = [row.column for row in ledger.metadata]
    counts = ", ".join(f"{columns.count(column)} {column}" for column in ("read", "must equal", "ignored"))
    checks.add("metadata", f"{counts}, {columns.count('unaccounted')} unaccounted", metadata_findings(ledger))


def _parameters(checks: _Checks, ledger: Ledger) -> None:
    stored = 0
    for row in ledger.rows:
        if row.parameter is not None and row.stored is not None:
            elements = 1
            for size in row.stored.shape:
                elements *= size
            stored += elements
    findings = []
    if stored != ledger.parameters:
        expected, found = f"{ledger.parameters:,}", f"{stored:,} stored"
        findings.append(Finding(check="parameters", where=ledger.model, expected=expected, found=found))
    checks.add("parameters", f"{stored:,} of {ledger.parameters:,}", findings)


def _tokenizer(checks: _Checks, file: GGUFFile, variant: Variant) -> None:
    try:
        tokenizer = from_gguf(file.section("tokenizer."))
    except AtlasError as error:
        checks.add("tokenizer", "does not build", [_finding("tokenizer", "tokenizer.ggml", error)])
        return
    size, expected = tokenizer.vocab_size, variant.config.vocab_size
    findings = []
    if size != expected:
        findings.append(
            Finding(check="tokenizer", where="tokenizer.ggml.tokens", expected=f"{expected} tokens", found=f"{size}")
        )
    checks.add("tokenizer", f"builds, {size:,} tokens", findings)


def _values(checks: _Checks, file: GGUFFile, progress: Progress) -> None:
    """Read every tensor once: all of it must be finite."""
    findings, done = [], 0
    total = sum(tensor.bytes for tensor in file.header.tensors)
    for tensor in file.header.tensors:
        try:
            values = dequantise(file.tensor_bytes(tensor.name), tensor)
        except CheckpointError as error:
            findings.append(_finding("values", tensor.name, error))
        else:
            broken = values.numel() - int(values.isfinite().sum())
            if broken:
                found = f"{broken} of {values.numel()} are not"
                findings.append(Finding(check="values", where=tensor.name, expected="finite numbers", found=found))
        done += tensor.bytes
        progress("checking values", done, total)
    checks.add("values", f"{len(file.header.tensors)} tensors read", findings)


def record(path: str | os.PathLike[str], name: str, prompt: str, *, progress: Progress = silent) -> CheckpointRecord:
    """Verify a checkpoint, run `prompt` through it in float32 and keep what pages show of it.

    The completion is greedy, to the end of its first line. `name` is an id of the catalogue. CheckpointError if
    a check fails: a page must not show values of a file that is not what it says."""
    entry = checkpoints.find(name)
    done = verify(path, target=name, checkpoint=entry, progress=progress)
    if done.ledger is None or done.report.model is None or not done.report.ok:
        first = done.report.findings[0]
        raise CheckpointError(
            f"{first.check} does not hold at {first.where}", where=name, expected=first.expected, found=first.found
        )
    loaded = load_checkpoint(path, progress=progress)
    tokens = torch.tensor([loaded.tokenizer.encode(prompt)])
    return CheckpointRecord(
        name=name,
        title=entry.title,
        source=entry.source,
        sha256=entry.sha256,
        model=done.report.model,
        header=dataclasses.replace(done.header, path=Path(path).name),
        ledger=done.ledger,
        report=done.report,
        prompt=prompt,
        completion=_completion(loaded, tokens[0].tolist()),
        dtype="float32",
        values=summaries(loaded.model, tokens, torch.arange(tokens.shape[1])[None]),
    )


def _completion(loaded: Loaded, prompt: list[int]) -> str:
    text, stream = "", loaded.tokenizer.stream()
    stop = loaded.tokenizer.special.eos
    for token in generate(loaded.model, prompt, max_tokens=COMPLETION_TOKENS, stop=stop):
        text += stream.push(token)
        if "\n" in text.lstrip():
            break
    return text.strip().partition("\n")[0].rstrip()
