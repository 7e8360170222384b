"""A head width that is not model width over heads, beside transformers."""

from openmodelatlas.fetch.progress import Progress
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
    outcomes, yardsticks = run_.against_hub(variant, {"text": parity.case(POSITIONS, batch=2)}, progress)
    return run_.record(
        model,
        __name__,
        TITLE,
        run_.summary(outcomes["text"]),
        references=yardsticks,
        positions=POSITIONS,
        detail="Meta's code cannot express this case; the second yardstick is transformers' own rounding. "
        "Listed are the node nearest to its bound, and the logits; all nodes were compared.",
        nodes=outcomes["text"].found.nodes(),
    )
