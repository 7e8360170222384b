"""The full-size model on the meta device has as many parameters as its publisher counts."""

from openmodelatlas import models
from openmodelatlas.fetch.progress import Progress
from openmodelatlas.records.catalog import Model
from openmodelatlas.records.verification import Measurement, Tier, VerificationRecord
from openmodelatlas.verify import parity_run as run_
from openmodelatlas.verify.published import counts

TITLE = "the full-size model has exactly the published number of parameters"
TIER: Tier = "full-size on the meta device"


def applies(model: Model) -> str | None:
    """Where a count is published."""
    return None if model.id in counts() else "no exact count is published"


def run(model: Model, progress: Progress) -> VerificationRecord:
    """Built without storage, every distinct parameter counted once."""
    progress("building on the meta device", 0, 0)
    total = sum(p.numel() for p in models.find(model.variant).build("meta").parameters())
    published = counts()[model.id]
    apart = abs(total - published["count"])
    found = (
        Measurement(where="", what="parameters", value=float(total), bound=None),
        Measurement(where="", what="away from the published count", value=float(apart), bound=0.0),
    )
    return run_.record(
        model,
        __name__,
        TITLE,
        found,
        references=(),
        positions=0,
        tier=TIER,
        dtype="none",
        detail=f"{total:,} parameters here; {published['count']:,} published: {published['source']}.",
        nodes=("",),
    )
