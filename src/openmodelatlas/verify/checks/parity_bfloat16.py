"""Rounding in bfloat16: where values are cast, and in which order."""

from collections.abc import Mapping

import torch
from torch import nn

from openmodelatlas.fetch.progress import Progress
from openmodelatlas.infer.steady import one_thread
from openmodelatlas.models.variant import Variant
from openmodelatlas.records.catalog import Model
from openmodelatlas.records.verification import Measurement, VerificationRecord
from openmodelatlas.verify import mutations, parity, parity_hub
from openmodelatlas.verify import parity_run as run_
from openmodelatlas.verify.mutations_casts import casts
from openmodelatlas.verify.parity_distances import FLOOR, Distances, holds, region, short
from openmodelatlas.verify.references.exchange import Case, Values

TITLE = "in bfloat16, each node rounds as in the reference"
TIER = run_.TINY
POSITIONS = 64
STEP = 2.0**-7  # one rounding step of bfloat16, relative to a number just above a power of two
SUMS = ("q", "k", "v", "o", "router", "gate", "up", "down", "combine", "scores", "mix", "unembed", "logits", "mask")
FLOAT32 = ("table", "weights")
OURS = "ours on the reference's inputs to its output, relative"
THEIRS = "transformers' whole forward to Meta's, relative"

applies = run_.runs_here


def run(model: Model, progress: Progress) -> VerificationRecord:
    """Every node of ours is fed the reference's own values, so that differences don't add up; what only casts must be
    equal to the bit, and what sums may round the other way once."""
    variant = run_.twin(model)
    return run_.shared(__name__, model, variant, lambda: _run(model, variant, progress))


def _run(model: Model, variant: Variant, progress: Progress) -> VerificationRecord:
    weights = parity.stored(variant, rounded=True)
    cases = {"text": parity.case(POSITIONS, batch=2)}
    progress("running transformers", 0, 0)
    hub = run_.ask_hub(variant, weights, cases, dtype="bfloat16")
    answers, reference = [hub], hub["cases"]["text"]
    if run_.by_meta(model):
        progress("running Meta's code", 0, 0)
        meta = run_.ask_meta(variant, weights, cases, run_.packaged_source(progress), dtype="bfloat16")
        answers, reference = [meta, hub], meta["cases"]["text"]
    elsewhere = {} if run_.by_meta(model) else parity_hub.rounds_otherwise(variant.family)
    ours, kinds = parity.filled(variant, weights, torch.bfloat16), parity.kinds(variant)
    found = rounding(ours, cases["text"], reference[0], kinds)
    if run_.by_meta(model):
        found.add(THEIRS, hub["cases"]["text"], reference)
    planted, missed = unnoticed(variant, weights, cases["text"], reference[0], elsewhere)
    unseen = Measurement(where="", what="planted mistakes that went unnoticed", value=float(len(missed)), bound=0.0)
    return run_.record(
        model,
        __name__,
        TITLE,
        (*measured(found, elsewhere), unseen),
        references=run_.yardsticks(*answers),
        positions=POSITIONS,
        dtype="bfloat16",
        detail=_said(model, elsewhere) + (f" Unnoticed: {', '.join(missed)}." if missed else ""),
        nodes=found.sequence,
        mutants={"planted": planted, "noticed": planted - len(missed)},
    )


def _said(model: Model, elsewhere: Mapping[str, str]) -> str:
    if run_.by_meta(model):
        return (
            "CONFLICT between the references: transformers rounds the rotary tables to bfloat16 and rotates in it; "
            "Meta's code rotates in float32. Ours follows Meta's; the references' distance is shown, and bounds "
            "nothing."
        )
    said = "The reference is transformers."
    for why in dict.fromkeys(elsewhere.values()):
        nodes = ", ".join(node for node, reason in elsewhere.items() if reason == why)
        said += f" CONFLICT at {nodes}: {why}. The distance is shown, and bounds nothing."
    return said


def rounding(model: nn.Module, case: Case, theirs: Values, kinds: tuple[str, ...]) -> Distances:
    """Our values, each node computed from the reference's, beside the reference's."""
    found = Distances(kinds)
    found.add(OURS, [local(model, case, theirs)], [theirs])
    return found


@one_thread()
def local(model: nn.Module, case: Case, theirs: Values) -> Values:
    """Our values, each node computed from the reference's. Where the reference's value is rounded and ours is a float32
    that its readers round, ours counts as they see it."""
    found = parity.values(model, case["tokens"], case["positions"], force=theirs)
    return {n: v.to(theirs[n].dtype) if n in theirs and theirs[n].dtype.itemsize < 4 else v for n, v in found.items()}


def measured(found: Distances, elsewhere: Mapping[str, str]) -> list[Measurement]:
    """Zero is the bound of every node that does not sum many products; what is float32 is made by two makers."""
    made = []
    ours, theirs = found.pairs[OURS], found.pairs.get(THEIRS, {})
    for node in found.sequence:
        made.append(Measurement(where=node, what=OURS, value=short(ours[node]), bound=bound(node, elsewhere)))
        if node in theirs:
            made.append(Measurement(where=node, what=THEIRS, value=short(theirs[node]), bound=None))
    return made


def bound(node: str, elsewhere: Mapping[str, str]) -> float | None:
    """How far a node may round from the reference."""
    leaf = node.partition(":")[0].rpartition(".")[2]
    if any(node == name or node.endswith(name.removeprefix("block")) for name in elsewhere):
        return None
    return FLOOR if leaf in FLOAT32 else STEP if leaf in SUMS else 0.0


@one_thread()
def unnoticed(
    variant: Variant, weights: Values, case: Case, theirs: Values, elsewhere: Mapping[str, str]
) -> tuple[int, tuple[str, ...]]:
    """How many mistakes of rounding were planted, and those that no node shows. None where the reference rounds
    otherwise anyway."""
    planted, missed = 0, []
    for name, (where, forward) in casts(variant).items():
        model = parity.filled(variant, weights, torch.bfloat16)
        if {region(path) for path, _ in mutations.named(model, where)} <= set(elsewhere):
            continue  # what is bound by nothing shows nothing
        planted += 1
        for _, module in mutations.named(model, where):
            module.forward = forward.__get__(module)
        if holds(measured(rounding(model, case, theirs, parity.kinds(variant)), elsewhere)):
            missed.append(name)
    return planted, tuple(missed)
