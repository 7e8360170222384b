"""A left-padded batch, beside transformers."""

import torch

from openmodelatlas.fetch.progress import Progress
from openmodelatlas.models.variant import Variant
from openmodelatlas.records.catalog import Model
from openmodelatlas.records.verification import VerificationRecord
from openmodelatlas.verify import parity
from openmodelatlas.verify import parity_run as run_
from openmodelatlas.verify.references.exchange import Case

TITLE = "in a left-padded batch, every real position's values equal transformers'"
TIER = run_.TINY
POSITIONS, PADDED, CALLS = 40, (0, 7, 25), (38, 1, 1)

applies = run_.runs_here


def padded() -> Case:
    """Three rows of unequal length, then two single steps."""
    case = parity.case(POSITIONS, batch=len(PADDED), calls=CALLS)
    for row, before in enumerate(PADDED):
        case["positions"][row] = torch.cat([torch.full((before,), -1), torch.arange(POSITIONS - before)])
    return case


def run(model: Model, progress: Progress) -> VerificationRecord:
    """Only real positions count; what stands at padding is nobody's business."""
    variant = run_.twin(model)
    return run_.shared(__name__, model, variant, lambda: _run(model, variant, progress))


def _run(model: Model, variant: Variant, progress: Progress) -> VerificationRecord:
    outcomes, yardsticks = run_.against_hub(variant, {"text": padded()}, progress)
    alone = "Meta's code has no padding; the" if run_.by_meta(model) else "The"
    return run_.record(
        model,
        __name__,
        TITLE,
        run_.summary(outcomes["text"]),
        references=yardsticks,
        positions=POSITIONS,
        detail=f"Rows padded by {', '.join(map(str, PADDED))}; calls of {', '.join(map(str, CALLS))}. {alone} second "
        f"yardstick is transformers' own rounding. {run_.LISTED}",
        nodes=outcomes["text"].found.sequence,
    )
