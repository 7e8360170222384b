"""Values at every node of a tiny twin over 512 positions, beside both references."""

from openmodelatlas.fetch.progress import Progress
from openmodelatlas.models.variant import Variant
from openmodelatlas.records.catalog import Model
from openmodelatlas.records.verification import Measurement, VerificationRecord
from openmodelatlas.verify import mutations, parity
from openmodelatlas.verify import parity_run as run_
from openmodelatlas.verify.references.exchange import Case

TITLE = "every node's values equal both references' over 512 positions"
TIER = run_.TINY
POSITIONS = 512
FIXED = "this code as it stands, with its scale factor of 8, to the one set to the model's factor, relative"

applies = run_.runs_here


def run(model: Model, progress: Progress) -> VerificationRecord:
    """Three numbers a node. Where the packaged code has another scale factor written into it, a fourth shows that."""
    variant = parity.twin(model.variant)
    cases = {"text": parity.case(POSITIONS)}
    outcomes, yardsticks = run_.against_both(variant, cases, progress)
    found = run_.every(outcomes["text"])
    detail = (
        "Tiny twin: every number of the configuration as it is but widths (head width kept), depth, heads and "
        "vocabulary; 4 query heads on 2 key/value heads; a residual stream as small as eps."
    )
    if getattr(variant.config, "rope_factor", 8.0) != 8.0:
        factor = variant.config.rope_factor
        found += (_conflict(variant, cases),)
        detail += (
            f" CONFLICT: Meta's code fixes the scale factor at 8; the published configuration says {factor:g}. It was "
            f"run with {factor:g}; the last measurement says how far its logits move with its own 8."
        )
    nodes = outcomes["text"].found.nodes()
    progress("planting mistakes", 0, 0)
    sides, between = outcomes["text"].sides, outcomes["text"].found.pairs[parity.BETWEEN]
    planted = mutations.noticed(variant, parity.stored(variant), cases["text"], sides, between)
    unseen = planted["planted"] - planted["noticed"]
    found += (Measurement(where="", what="planted mistakes that went unnoticed", value=float(unseen), bound=0.0),)
    return run_.record(
        model,
        __name__,
        TITLE,
        found,
        references=yardsticks,
        positions=POSITIONS,
        detail=detail,
        nodes=nodes,
        mutants=planted,
    )


def _conflict(variant: Variant, cases: dict[str, Case]) -> Measurement:
    weights, source = parity.stored(variant), run_.packaged_source()
    as_is = run_.ask_meta(variant, weights, cases, source, patch=False)["cases"]["text"]
    patched = run_.ask_meta(variant, weights, cases, source)["cases"]["text"]
    apart = parity.distance(as_is[0]["logits"], patched[0]["logits"])
    return Measurement(where="rope.scale", what=FIXED, value=float(f"{apart:.3g}"), bound=None)
