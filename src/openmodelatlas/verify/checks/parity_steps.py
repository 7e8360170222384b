"""A tiny twin step by step with its cache, beside its references."""

from openmodelatlas.fetch.progress import Progress
from openmodelatlas.models.variant import Variant
from openmodelatlas.records.catalog import Model
from openmodelatlas.records.verification import VerificationRecord
from openmodelatlas.verify import parity
from openmodelatlas.verify import parity_run as run_

TITLE = "step by step with a cache, every node's values equal the references'"
TIER = run_.TINY
CALLS = (16, 1, 1, 1, 4, 1)

applies = run_.runs_here


def run(model: Model, progress: Progress) -> VerificationRecord:
    """A prompt, single steps, and a longer step into a filled cache, in a batch of two."""
    variant = run_.twin(model)
    return run_.shared(__name__, model, variant, lambda: _run(model, variant, progress))


def _run(model: Model, variant: Variant, progress: Progress) -> VerificationRecord:
    positions = sum(CALLS)
    cases = {"steps": parity.case(positions, batch=2, calls=CALLS)}
    outcomes, yardsticks = run_.against(model, variant, cases, progress)
    return run_.record(
        model,
        __name__,
        TITLE,
        run_.summary(outcomes["steps"]),
        references=yardsticks,
        positions=positions,
        detail=f"Calls of {', '.join(map(str, CALLS))} positions; the numbers are the largest over all calls. "
        f"{run_.LISTED}{run_.yardstick_note(model)}",
        nodes=outcomes["steps"].found.sequence,
    )
