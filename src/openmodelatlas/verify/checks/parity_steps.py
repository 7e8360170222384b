"""A tiny twin step by step with its cache, beside both references."""

from openmodelatlas.fetch.progress import Progress
from openmodelatlas.records.catalog import Model
from openmodelatlas.records.verification import VerificationRecord
from openmodelatlas.verify import parity
from openmodelatlas.verify import parity_run as run_

TITLE = "step by step with a cache, every node's values equal both references'"
TIER = run_.TINY
CALLS = (16, 1, 1, 1, 4, 1)

applies = run_.runs_here


def run(model: Model, progress: Progress) -> VerificationRecord:
    """A prompt, single steps, and a longer step into a filled cache, in a batch of two."""
    variant = parity.twin(model.variant)
    positions = sum(CALLS)
    outcomes, yardsticks = run_.against_both(variant, {"steps": parity.case(positions, batch=2, calls=CALLS)}, progress)
    return run_.record(
        model,
        __name__,
        TITLE,
        run_.summary(outcomes["steps"]),
        references=yardsticks,
        positions=positions,
        detail=f"Calls of {', '.join(map(str, CALLS))} positions; the numbers are the largest over all calls. "
        "Listed are the node nearest to its bound, and the logits; all nodes were compared.",
        nodes=outcomes["steps"].found.nodes(),
    )
