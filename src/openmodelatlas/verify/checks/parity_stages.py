"""Values at every node of a tiny twin over 512 positions, beside its references."""

from collections.abc import Iterator

import torch

from openmodelatlas import models
from openmodelatlas.fetch.progress import Progress
from openmodelatlas.models.variant import Variant
from openmodelatlas.records.catalog import Model
from openmodelatlas.records.verification import Measurement, VerificationRecord
from openmodelatlas.verify import mutations, parity
from openmodelatlas.verify import parity_run as run_
from openmodelatlas.verify.parity_distances import distance, region, short
from openmodelatlas.verify.references.exchange import Case, Values

TITLE = "every node's values equal the references' over 512 positions"
TIER = run_.TINY
POSITIONS, PLANTED = 512, 96
FIXED = "this code as it stands, with its scale factor of 8, to the one set to the model's factor, relative"
GAP = "least distance between the last expert chosen and the next, relative to the largest score"

applies = run_.runs_here


def run(model: Model, progress: Progress) -> VerificationRecord:
    """Three numbers a node. Where the packaged code has another scale factor written into it, a fourth shows that."""
    variant = run_.twin(model)
    return run_.shared(__name__, model, variant, lambda: _run(model, variant, progress))


def _run(model: Model, variant: Variant, progress: Progress) -> VerificationRecord:
    cases = {"text": parity.case(POSITIONS), "planted": parity.case(PLANTED)}
    outcomes, yardsticks = run_.against(model, variant, cases, progress)
    text = outcomes["text"]
    found, detail = run_.every(text), described(model, variant)
    factor = getattr(variant.config, "rope_factor", 8.0)
    if run_.by_meta(model) and factor != 8.0:
        found += (_conflict(variant, {"text": cases["text"]}),)
        detail += (
            f" CONFLICT: Meta's code fixes the scale factor at 8; the published configuration says {factor:g}. It was "
            f"run with {factor:g}; the last measurement says how far its logits move with its own 8."
        )
    found += tuple(gaps(variant, text.sides[run_.HUB]))
    progress("planting mistakes", 0, 0)
    planted, missed = mutations.unnoticed(variant, parity.stored(variant), cases["planted"], outcomes["planted"])
    found += (Measurement(where="", what="planted mistakes that went unnoticed", value=float(len(missed)), bound=0.0),)
    if missed:
        detail += f" Unnoticed: {', '.join(missed)}."
    return run_.record(
        model,
        __name__,
        TITLE,
        found,
        references=yardsticks,
        positions=POSITIONS,
        detail=detail,
        nodes=text.found.sequence,
        mutants={"planted": planted, "noticed": planted - len(missed)},
    )


def described(model: Model, variant: Variant) -> str:
    """What the twin has of its model."""
    said = (
        "Tiny twin: every number of the configuration as it is but widths (head width kept), depth, heads and "
        "vocabulary; 4 query heads on 2 key/value heads; a residual stream as small as eps."
    )
    if len(set(parity.kinds(variant))) > 1:
        said += f" {variant.config.num_hidden_layers} blocks show every kind."
    if hasattr(variant.config, "sliding_window"):
        window = models.find(model.variant).config.sliding_window
        said += f" The window is {variant.config.sliding_window} positions here; parity_far runs it at its {window}."
    return said + run_.yardstick_note(model)


def gaps(variant: Variant, theirs: list[Values]) -> Iterator[Measurement]:
    """How near a choice of experts came to falling otherwise: rounding must be far smaller."""
    found: dict[str, float] = {}
    for values in theirs:
        for node, scores in values.items():
            if node.endswith(".router"):
                best = scores.topk(variant.config.num_experts_per_tok + 1).values
                least = float((best[..., -2] - best[..., -1]).min() / torch.amax(scores.abs()))
                name = region(node, parity.kinds(variant))
                found[name] = min(found.get(name, least), least)
    for node, least in found.items():
        yield Measurement(where=node, what=GAP, value=short(least), bound=None)


def _conflict(variant: Variant, cases: dict[str, Case]) -> Measurement:
    weights, source = parity.stored(variant), run_.packaged_source()
    as_is = run_.ask_meta(variant, weights, cases, source, patch=False)["cases"]["text"]
    patched = run_.ask_meta(variant, weights, cases, source)["cases"]["text"]
    apart = distance(as_is[0]["logits"], patched[0]["logits"])
    return Measurement(where="rope.scale", what=FIXED, value=float(f"{apart:.3g}"), bound=None)
