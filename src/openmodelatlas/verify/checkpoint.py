"""Is a checkpoint what it says it is? Every check in order, and the record that pages show of it."""

import dataclasses
import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import torch

from openmodelatlas.catalog import checkpoints
from openmodelatlas.errors import CheckpointError, NotACheckpoint
from openmodelatlas.fetch.cache import sha256
from openmodelatlas.fetch.progress import Progress, silent
from openmodelatlas.infer.checkpoint import Loaded, load_checkpoint
from openmodelatlas.infer.generate import generate
from openmodelatlas.records.catalog import Checkpoint
from openmodelatlas.records.findings import finding, of_error
from openmodelatlas.records.report import CheckpointRecord, Finding, Header, Ledger, Report, Waived
from openmodelatlas.trace.capture import summaries
from openmodelatlas.verify import contents
from openmodelatlas.verify.against import compare
from openmodelatlas.verify.against_logits import compare_on
from openmodelatlas.verify.held import Held, held
from openmodelatlas.verify.outcome import Outcome, not_run, outcome
from openmodelatlas.verify.tokenizer import check_text
from openmodelatlas.verify.values import check_values
from openmodelatlas.verify.waivers import Waiver, apply
from openmodelatlas.weights.identify import Identity, identify
from openmodelatlas.weights.open import open_checkpoint
from openmodelatlas.weights.opened import Opened
from openmodelatlas.weights.reading.digests import CHECKLIST, check_digests

COMPLETION_TOKENS = 32
AGAINST_A_MODEL = ("configuration", "tensors", "parameters", "tokenizer", "template", "values")
NO_DEFINITION = "there is no definition to hold it against"
VALUES_NOT_READ = "not read; --values does"


@dataclass(frozen=True, kw_only=True)
class CheckpointVerification:
    """The report, and what it rests on. `ledger` is None if no family of the atlas takes the checkpoint."""

    report: Report
    ledger: Ledger | None
    header: Header


def verify(
    path: str | os.PathLike[str],
    *,
    target: str | None = None,
    checkpoint: Checkpoint | None = None,
    values: bool = False,
    against: str | os.PathLike[str] | None = None,
    logits: str | None = None,
    waivers: tuple[Waiver, ...] = (),
    progress: Progress = silent,
) -> CheckpointVerification:
    """Hold a checkpoint against the atlas: headers and small files only, and with `values` every number too.

    `target`: what the report calls it; `checkpoint`: the catalogue's entry, whose hash and model it must have;
    `against`: another checkpoint, of which it must be a conversion; `logits`: a text on which both are run besides.
    NotACheckpoint if one cannot be read as one; every other flaw is a finding."""
    name = target or os.fspath(path)
    with ExitStack() as stack:
        original = None if against is None else stack.enter_context(open_checkpoint(against))
        opened = stack.enter_context(open_checkpoint(path))
        deep = _by_values(opened) if values else []
        outcomes = [_files(opened, progress if values else None, deep)]
        if checkpoint is not None:
            outcomes.append(_hash(Path(path), checkpoint))
        identity, ledger = None, None
        try:
            identity = identify(opened.header, opened.scheme)
        except CheckpointError as error:
            flaw = of_error(error, "model.unknown", opened.header.path)
            outcomes.append(outcome("model", "no architecture of the atlas", [flaw]))
            outcomes += [_without_model(opened, check) for check in AGAINST_A_MODEL]
        else:
            against_model = held(opened, identity)
            variant, ledger = against_model.variant, against_model.ledger
            outcomes += _contents(opened, identity, against_model, checkpoint, deep, values=values)
            outcomes.append(check_values(opened, ledger, progress) if values else not_run("values", VALUES_NOT_READ))
        if original is not None:
            outcomes.append(compare(original, opened, progress))
            if logits is not None:
                outcomes.append(compare_on(original, opened, logits, progress))
        counts = {} if ledger is None else contents.counts(ledger, variant)
        report = _report(name, opened.header, identity, counts, apply(outcomes, name, waivers, date.today()))
        return CheckpointVerification(report=report, ledger=ledger, header=opened.header)


def _without_model(opened: Opened, check: str) -> Outcome:
    """What can be told of a checkpoint that no definition takes."""
    findings = [flaw for flaw in opened.findings if flaw.check == check]
    return outcome(check, NO_DEFINITION, findings) if findings else not_run(check, NO_DEFINITION)


def _by_values(opened: Opened) -> list[Finding]:
    """What values tell of how tensors are put together."""
    try:
        return opened.by_values()
    except CheckpointError as error:
        return [of_error(error, "tensors.packed-state", opened.header.path)]


def _contents(
    opened: Opened,
    identity: Identity,
    against_model: Held,
    checkpoint: Checkpoint | None,
    deep: list[Finding],
    *,
    values: bool,
) -> list[Outcome]:
    """What headers and small files tell, against a model; with `values` what numbers tell besides."""
    return [
        contents.check_model(opened, identity, against_model, checkpoint, values=values),
        contents.check_configuration(opened, identity, against_model),
        contents.check_tensors(opened, against_model, deep, values=values),
        contents.check_parameters(against_model),
        *check_text(opened, against_model.variant),
    ]


def _report(
    target: str,
    header: Header,
    identity: Identity | None,
    counts: Mapping[str, int],
    applied: tuple[list[Outcome], list[Waived]],
) -> Report:
    outcomes, waived = applied
    findings = [flaw for _, flaws in outcomes for flaw in flaws]
    return Report(
        target=target,
        ok=not findings,
        model=identity.matches[0] if identity is not None and identity.matches else None,
        nearest=None if identity is None else identity.nearest.name,
        format=header.format,
        counts=counts,
        checks=tuple(check for check, _ in outcomes),
        findings=tuple(findings),
        waived=tuple(waived),
    )


def refused(target: str, error: NotACheckpoint) -> Report:
    """The report of what is no checkpoint: the reason is its one finding, which nothing waives."""
    flaw = of_error(error, "files.unreadable", target)
    check, _ = outcome("files", "cannot be read as a checkpoint", [flaw])
    return Report(
        target=target,
        ok=False,
        model=None,
        nearest=None,
        format="",
        counts={},
        checks=(dataclasses.replace(check, name=flaw.check),),
        findings=(flaw,),
        waived=(),
    )


def _files(opened: Opened, progress: Progress | None, deep: list[Finding]) -> Outcome:
    """`progress` None: no file is read whole. `deep`: what values told of how tensors are put together."""
    header, notes = opened.header, list(opened.notes)
    findings = [flaw for flaw in (*opened.findings, *deep) if flaw.check == "files"]
    detail = f"{header.format}, {len(header.tensors):,} tensors, {header.file_bytes:,} bytes"
    if progress is not None:
        findings += check_digests(opened, progress)
    elif CHECKLIST in opened.beside:
        notes.append(f"{CHECKLIST} has digests of the files; --values reads and compares them")
    return outcome("files", detail, findings, tuple(notes))


def _hash(path: Path, checkpoint: Checkpoint) -> Outcome:
    found = sha256(path)
    findings = []
    if found != checkpoint.sha256:
        findings.append(finding("hash.differs", checkpoint.id, expected=checkpoint.sha256, found=found))
    return outcome("hash", f"sha256 {found}", findings)


def record(path: str | os.PathLike[str], name: str, prompt: str, *, progress: Progress = silent) -> CheckpointRecord:
    """Verify a checkpoint, run `prompt` through it in float32 and keep what pages show of it.

    The completion is greedy, to the end of its first line. `name` is an id of the catalogue. CheckpointError if
    a check fails: a page must not show values of a file that is not what it says."""
    entry = checkpoints.find(name)
    done = verify(path, target=name, checkpoint=entry, values=True, progress=progress)
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
