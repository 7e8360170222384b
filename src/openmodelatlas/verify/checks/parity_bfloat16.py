"""Rounding in bfloat16: where values are cast, and in which order."""

from collections.abc import Mapping

import torch

from openmodelatlas.fetch.progress import Progress
from openmodelatlas.infer.steady import one_thread
from openmodelatlas.parts.rope import RotaryTable
from openmodelatlas.records.catalog import Model
from openmodelatlas.records.verification import Measurement, VerificationRecord
from openmodelatlas.verify import parity
from openmodelatlas.verify import parity_run as run_
from openmodelatlas.verify.references.exchange import Case, Values

TITLE = "in bfloat16, each node rounds as in Meta's code"
TIER = run_.TINY
POSITIONS = 64
STEP = 2.0**-7  # one rounding step of bfloat16, relative to a number just above a power of two
SUMS = ("q", "k", "v", "o", "gate", "up", "down", "scores", "mix", "unembed", "logits", "mask")
OURS = "ours on Meta's inputs to Meta's output, relative"
THEIRS = "transformers' whole forward to Meta's, relative"

applies = run_.runs_here


def run(model: Model, progress: Progress) -> VerificationRecord:
    """Every node of ours is fed Meta's own values, so that differences don't add up; what only casts must be equal to
    the bit, and what sums may round the other way once."""
    variant = parity.twin(model.variant)
    weights = parity.stored(variant)
    cases = {"text": parity.case(POSITIONS, batch=2)}
    progress("running Meta's code", 0, 0)
    meta = run_.ask_meta(variant, weights, cases, run_.packaged_source(progress), dtype="bfloat16")
    progress("running transformers", 0, 0)
    hub = run_.ask_hub(variant, weights, cases, dtype="bfloat16")
    ours = parity.filled(variant, weights, torch.bfloat16)
    theirs = meta["cases"]["text"][0]
    found = parity.Distances()
    found.add(OURS, [local(ours, cases["text"], theirs)], [theirs])
    found.add(THEIRS, hub["cases"]["text"], meta["cases"]["text"])
    return run_.record(
        model,
        __name__,
        TITLE,
        measured(found.pairs),
        references=run_.yardsticks(meta, hub),
        positions=POSITIONS,
        dtype="bfloat16",
        detail="CONFLICT between the references: transformers rounds the rotary tables to bfloat16 and rotates in it; "
        "Meta's code rotates in float32. Ours follows Meta's; the references' distance is shown, and bounds nothing.",
        nodes=found.nodes(),
    )


@one_thread()
def local(model: torch.nn.Module, case: Case, theirs: Values) -> Values:
    """Our values, each node computed from the reference's."""
    table = RotaryTable(theirs["rope.table:cos"], theirs["rope.table:sin"])
    return parity.values(model, case["tokens"], case["positions"], force={**theirs, "rope.table": table})


def measured(pairs: Mapping[str, Mapping[str, float]]) -> list[Measurement]:
    """Zero is the bound of every node that does not sum many products; the tables are float32 of two makers."""
    made = []
    for node in sorted(pairs[OURS], key=parity.order):
        leaf = node.rpartition(".")[2]
        bound = parity.FLOOR if node.startswith("rope.table") else STEP if leaf in SUMS else 0.0
        made.append(Measurement(where=node, what=OURS, value=parity.short(pairs[OURS][node]), bound=bound))
        if node in pairs[THEIRS]:
            value = parity.short(pairs[THEIRS][node])
            made.append(Measurement(where=node, what=THEIRS, value=value, bound=None))
    return made
