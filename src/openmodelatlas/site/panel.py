"""What each of the five things a model rests on is known by: records in, one row each out."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from openmodelatlas.records.evidence import NodeClaim, State
from openmodelatlas.records.report import CheckpointRecord, OwnRecord, Report
from openmodelatlas.records.verification import VerificationRecord
from openmodelatlas.site.checkpoint import verdict
from openmodelatlas.site.inputs import ModelPage
from openmodelatlas.site.words import pin_words

HEADER, REAL = "header match", "real weights"
SCALING = "rope.scale"
"""The node that only models with scaled rotary frequencies have."""

CHECKPOINT, TOKENIZER, TENSORS = "checkpoint", "tokenizer", "tensors"
SHORT = 12


@dataclass(frozen=True)
class Line:
    """One thing that a row's state rests on; `state` only where it differs from the row's."""

    words: str
    tier: str = ""
    state: State | None = None


@dataclass(frozen=True)
class Row:
    """One of the five. `by`: what verified it, as the line under the title says it; empty unless it is verified."""

    name: str
    state: State
    lines: tuple[Line, ...]
    by: str = ""


def panel(page: ModelPage, records: Sequence[CheckpointRecord], own: Sequence[OwnRecord]) -> tuple[Row, ...]:
    """Reference code, configuration, checkpoint, tokenizer, tensors. `records` and `own` are of checkpoints of it."""
    return (
        _code(page),
        _configuration(page),
        *(_stored(page, name, records, own) for name in (CHECKPOINT, TOKENIZER, TENSORS)),
    )


def own_words(record: OwnRecord) -> str:
    """`FILE, sha256 0123456789ab…, 2026-11-30`."""
    return f"{record.file}, sha256 {record.sha256[:SHORT]}…, {record.date}"


def _code(page: ModelPage) -> Row:
    """By runs beside the code that its claims are pinned to; without one, by the pinned lines that were found."""
    name = "reference code"
    own = page.model.configuration.claim
    caveats = {claim.id for claim in page.provenance.caveats}
    claims = [claim for key, claim in _claims(page).items() if key != own and key not in caveats]
    sources = {report.pin.place.source for claim in claims for report in (claim.pin, *claim.also)}
    beside = [r for r in page.runs if any(s in yardstick.name for yardstick in r.references for s in sources)]
    runs = [r for r in beside if own not in r.claims]
    against = [
        Line(f"claim {c.id}: {'sources disagree' if c.conflict else 'the text has changed'}", state="conflict")
        for c in claims
        if c.state == "conflict"
    ]
    lines, state = _ran(page, runs), _outcome(page, runs)
    if state is None:
        read = sum(claim.state in ("read", "verified") for claim in claims)
        state = "read" if read else "not verified"
        lines.append(Line(f"{read} of {len(claims)} claims read at their pins; no run speaks of it"))
    return Row(name, state, (*lines, *against))


def _configuration(page: ModelPage) -> Row:
    """By a run that proves the claim on the maker's list, else as that claim or the catalogue's entry has it. What
    speaks against the list elsewhere in it is shown, and does not change what is known of these lines."""
    entry = page.model.configuration
    runs = [r for r in page.runs if entry.claim is not None and entry.claim in r.claims]
    counts = [r for r in page.runs if r.check == "parity_count"]
    claim = _claims(page).get(entry.claim or "")
    state = _outcome(page, runs) or (claim.state if claim else entry.state)
    if claim is not None and claim.state == "conflict":
        state = "conflict"
    lines = [Line(entry.source), *_ran(page, runs)]
    lines += [Line(f"its count of parameters only: {w.words}", w.tier, w.state) for w in _ran(page, counts)]
    if entry.note:
        lines.append(Line(entry.note))
    for c in page.provenance.caveats:
        lines.append(Line(f"{pin_words(c.pin)}: {c.statement} Against it: {c.conflict}", state="conflict"))
    return Row("configuration", state, tuple(lines))


def _stored(page: ModelPage, name: str, records: Sequence[CheckpointRecord], own: Sequence[OwnRecord]) -> Row:
    """By the reports of checkpoints, and for all but the tokenizer by runs on a real file."""
    tiers = {CHECKPOINT: (REAL,), TENSORS: (HEADER,)}.get(name, ())
    runs = [r for r in page.runs if r.tier in tiers]
    lines, by, states = [], [], set[State]()
    known = [(r.report, f"your {r.file}", own_words(r)) for r in own]
    for report, words, short in [*known, *((r.report, r.title, r.title) for r in records)]:
        said = _said(report, name)
        if said is not None:
            holds, detail = said
            states.add("verified" if holds else "conflict")
            lines.append(Line(f"{words}: {detail}", HEADER))
            by.append(short)
    ran = _outcome(page, runs)
    states |= {ran} if ran else set()
    lines += _ran(page, runs)
    by = by or list(dict.fromkeys(f"by runs, {r.tier}" for r in runs if _speaks(page, r)))
    state: State = next((s for s in ("conflict", "verified") if s in states), "not verified")
    lines += [
        Line(f"your {r.file} held on {r.date}; the definition has changed since", HEADER, "not verified")
        for r in page.own_stale
    ]
    if state == "not verified" and not lines:
        lines.append(Line("no check of one is recorded; oma verify FILE --record keeps yours"))
    if name == CHECKPOINT and not any(r.tier == REAL and _speaks(page, r) for r in page.runs):
        scaled = ": scaled rotary frequencies have met none" if SCALING in page.graph.by_id else ""
        lines.append(Line(f"no run on real weights{scaled}"))
    return Row(name, state, tuple(lines), "; ".join(by) if state == "verified" else "")


def _said(report: Report, name: str) -> tuple[bool, str] | None:
    """Whether a report's checks hold for that row, and in what words; None if none of them is about it."""
    if name == CHECKPOINT:
        return report.ok, verdict(report)
    ran = (check for check in report.checks if check.state != "not run")
    return next(((check.ok, check.detail) for check in ran if check.name == name), None)


def _speaks(page: ModelPage, run: VerificationRecord) -> bool:
    return run.outcome == "passed" and run.check not in page.stale


def _outcome(page: ModelPage, runs: Iterable[VerificationRecord]) -> State | None:
    """Conflict if one of them failed, verified if one passed; None if none of them speaks of what is here."""
    outcomes = {run.outcome for run in runs if run.check not in page.stale}
    return "conflict" if "failed" in outcomes else "verified" if "passed" in outcomes else None


def _ran(page: ModelPage, runs: Sequence[VerificationRecord]) -> list[Line]:
    """The runs by tier: those that passed, those that did not, those that are stale."""
    kinds: tuple[tuple[str, State | None, Callable[[VerificationRecord], bool]], ...] = (
        ("", None, lambda r: _speaks(page, r)),
        ("failed: ", "conflict", lambda r: r.outcome == "failed" and r.check not in page.stale),
        ("stale: ", "not verified", lambda r: r.check in page.stale),
    )
    lines = []
    for before, state, belongs in kinds:
        by_tier: dict[str, list[str]] = {}
        for run in filter(belongs, runs):
            by_tier.setdefault(run.tier, []).append(run.check)
        lines += [Line(before + ", ".join(checks), tier, state) for tier, checks in by_tier.items()]
    return lines


def _claims(page: ModelPage) -> dict[str, NodeClaim]:
    """Every claim of the map, by id."""
    return {claim.id: claim for node in page.graph.nodes for claim in node.claims}
