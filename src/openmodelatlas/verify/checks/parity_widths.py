"""A head width that is not model width over heads, beside transformers."""

from openmodelatlas.fetch.progress import Progress
from openmodelatlas.models.variant import Variant
from openmodelatlas.records.catalog import Model
from openmodelatlas.records.verification import VerificationRecord
from openmodelatlas.verify import parity
from openmodelatlas.verify import parity_run as run_

TITLE = "with a head width of its own (not width over heads), every node's values equal transformers'"
TIER = run_.TINY
POSITIONS = 96

applies = run_.runs_here


def run(model: Model, progress: Progress) -> VerificationRecord:
    """So that no width can stand in for another. Meta's code has no head width of its own."""
    variant = parity.twin(model.variant, uneven=True)
    return run_.shared(__name__, model, variant, lambda: _run(model, variant, progress))


def _run(model: Model, variant: Variant, progress: Progress) -> VerificationRecord:
    outcomes, yardsticks = run_.against_hub(variant, {"text": parity.case(POSITIONS, batch=2)}, progress)
    alone = "Meta's code cannot express this case; the" if run_.by_meta(model) else "The"
    return run_.record(
        model,
        __name__,
        TITLE,
        run_.summary(outcomes["text"]),
        references=yardsticks,
        positions=POSITIONS,
        detail=f"{alone} second yardstick is transformers' own rounding. {run_.LISTED}",
        nodes=outcomes["text"].found.sequence,
    )
