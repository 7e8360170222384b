"""A left-padded batch, beside transformers."""

import torch

from openmodelatlas.fetch.progress import Progress
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
    variant = parity.twin(model.variant)
    outcomes, yardsticks = run_.against_hub(variant, {"text": padded()}, progress)
    return run_.record(
        model,
        __name__,
        TITLE,
        run_.summary(outcomes["text"]),
        references=yardsticks,
        positions=POSITIONS,
        detail=f"Rows padded by {', '.join(map(str, PADDED))}; calls of {', '.join(map(str, CALLS))}. Meta's code has "
        "no padding; the second yardstick is transformers' own rounding. Listed are the node nearest to its bound, and "
        "the logits; all nodes were compared.",
        nodes=outcomes["text"].found.nodes(),
    )
