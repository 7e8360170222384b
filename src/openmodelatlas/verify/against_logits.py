"""Two checkpoints run on the same tokens: how far their next-token probabilities are apart, and where it begins."""

from collections.abc import Sequence
from importlib.resources import files
from typing import NamedTuple

import torch
from torch import Tensor, nn

from openmodelatlas.errors import CheckpointError, InputError
from openmodelatlas.fetch.progress import Progress, silent
from openmodelatlas.infer.cache import Session
from openmodelatlas.infer.steady import steady
from openmodelatlas.records.findings import finding
from openmodelatlas.trace.capture import op_values
from openmodelatlas.verify.against_tokenizer import tokenizer_of
from openmodelatlas.verify.held import held
from openmodelatlas.verify.outcome import Outcome, not_run, outcome
from openmodelatlas.weights.identify import identify
from openmodelatlas.weights.load import load
from openmodelatlas.weights.opened import Opened
from openmodelatlas.weights.reading.plain import TYPES

NOISE = 1e-6
"""Mean divergence, in nats, that two plain checkpoints of the same numbers may show; run alike they show none."""
FAR = 1.0
"""Mean divergence from which a quantised model is another model for every practical purpose."""
PREFIX = 16  # tokens whose values are held node by node
MOST_TOKENS = 1024
CHUNK = 128
APART = 0.05  # relative error of a node's values from which it is named


class Divergence(NamedTuple):
    """Of B from A over the positions of a text, in nats; `agree`: the share of positions with one likeliest token."""

    mean: float
    largest: float
    agree: float
    positions: int


def compare_on(a: Opened, b: Opened, text: str, progress: Progress = silent) -> Outcome:
    """The two on a text, as A's tokenizer reads it."""
    tokenizer = tokenizer_of(a)
    if tokenizer is None:
        return not_run("logits", "the original brings no tokenizer that can be built")
    try:
        return compare_logits(a, b, tokenizer.encode(text), progress)
    except CheckpointError as error:
        return not_run("logits", f"{error}")


def sample() -> str:
    """A text of a few hundred tokens: prose, code, numbers, questions, other languages."""
    return (files(__package__) / "sample.txt").read_text(encoding="utf-8")


def compare_logits(a: Opened, b: Opened, tokens: Sequence[int], progress: Progress = silent) -> Outcome:
    """Both in float32 on the same tokens, one after the other, so that one model is in memory at a time."""
    tokens = list(tokens)[:MOST_TOKENS]
    if len(tokens) < 2:
        raise InputError("too short a text to compare probabilities on", expected="2 tokens", found=len(tokens))
    steady()
    run_a = _run(a, tokens, progress)
    run_b = _run(b, tokens, progress)
    if run_a.logits.shape != run_b.logits.shape:
        sizes = [run.logits.shape[-1] for run in (run_a, run_b)]
        flaw = finding("against.logits", "logits", expected=f"{sizes[0]} scores", found=f"{sizes[1]}")
        return outcome("logits", "not comparable", [flaw])
    apart = divergence(run_a.logits, run_b.logits)
    first = _first_apart(run_a.values, run_b.values)
    detail = (
        f"over {apart.positions} positions: KL {apart.mean:.3g} nats on average, {apart.largest:.3g} at most; "
        f"the likeliest token agrees at {apart.agree:.1%}"
    )
    most = NOISE if run_a.plain and run_b.plain else FAR
    findings = []
    if not apart.mean <= most:
        where = first or "logits"
        findings.append(finding("against.logits", where, expected=f"KL at most {most:g}", found=f"{apart.mean:.3g}"))
    return outcome(
        "logits", detail, findings, (f"first node apart by more than {APART:.0%}: {first}",) if first else ()
    )


class _Run(NamedTuple):
    logits: Tensor
    values: dict[str, Tensor]
    plain: bool


def _run(opened: Opened, tokens: list[int], progress: Progress) -> _Run:
    found = held(opened, identify(opened.header, opened.scheme))
    model = load(opened, found.variant, found.ledger, progress=progress)
    plain = all(row.stored is None or row.stored.type in TYPES for row in found.ledger.rows)
    return _Run(_logits(model, tokens), _values(model, tokens[:PREFIX]), plain)


def _logits(model: nn.Module, tokens: list[int]) -> Tensor:
    """Scores at every position `[T, V]`, read in pieces."""
    session = Session(model, 1, len(tokens))
    at = torch.arange(len(tokens))[None]
    ids = torch.tensor([tokens])
    parts = [session.advance(ids[:, s : s + CHUNK], at[:, s : s + CHUNK])[0] for s in range(0, len(tokens), CHUNK)]
    return torch.cat(parts)


def _values(model: nn.Module, tokens: list[int]) -> dict[str, Tensor]:
    ids = torch.tensor([tokens])
    return op_values(model, ids, torch.arange(ids.shape[1])[None])


def divergence(a: Tensor, b: Tensor) -> Divergence:
    """Kullback-Leibler divergence of the distributions `[T, V]`; a constant added to all scores changes nothing."""
    total, largest, agree = 0.0, 0.0, 0
    for left, right in zip(torch.split(a, CHUNK), torch.split(b, CHUNK), strict=True):
        p, q = left.double().log_softmax(-1), right.double().log_softmax(-1)
        each = (p.exp() * (p - q)).sum(-1)
        total += float(each.sum())
        largest = max(largest, float(each.max()))
        agree += int((left.argmax(-1) == right.argmax(-1)).sum())
    return Divergence(mean=total / len(a), largest=largest, agree=agree / len(a), positions=len(a))


def _first_apart(a: dict[str, Tensor], b: dict[str, Tensor]) -> str | None:
    """The first value in the order of computation that differs by more than APART, relative to its size."""
    for name in a:
        left, right = a[name], b.get(name)
        if right is None or left.shape != right.shape:
            return name
        there = left.isfinite() & right.isfinite()
        size = left[there].double().norm()
        if float((left[there].double() - right[there].double()).norm()) > APART * float(size):
            return name
    return None
