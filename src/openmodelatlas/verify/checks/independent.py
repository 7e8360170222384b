"""That a model's blocks are one computation each with weights of its own, at full size without storage."""

from openmodelatlas import models
from openmodelatlas.fetch.progress import Progress
from openmodelatlas.records.catalog import Model
from openmodelatlas.records.verification import Measurement, Tier, VerificationRecord
from openmodelatlas.trace.regions import BLOCKS, census
from openmodelatlas.verify import parity_run

TITLE = "the blocks of a region compute the same, and share no parameter"
TIER: Tier = "full-size on the meta device"


def applies(_model: Model) -> str | None:
    """Every model has blocks."""
    return None


def run(model: Model, progress: Progress) -> VerificationRecord:
    """Subtree hashes of all blocks, and the owners of all their parameters."""
    progress("running every block on the meta device", 0, 0)
    variant = models.find(model.variant)
    regions = census(variant).regions
    blocks = getattr(variant.build("meta"), BLOCKS)
    owners = [id(p) for block in blocks for p in {id(p): p for p in block.parameters()}.values()]
    left = len(blocks) - sum(region.count for region in regions)
    found = [
        *(
            Measurement(where=r.name, what="blocks with equal subtree hashes", value=float(r.count), bound=None)
            for r in regions
        ),
        Measurement(
            where="", what="parameters that two blocks share", value=float(len(owners) - len(set(owners))), bound=0.0
        ),
        Measurement(where="", what="blocks in no region", value=float(left), bound=0.0),
        Measurement(
            where="",
            what="regions that are not independent",
            value=float(sum(not r.independent for r in regions)),
            bound=0.0,
        ),
    ]
    said = "; ".join(f"{r.name}: {r.count} blocks, subtree {r.subtree[:12]}" for r in regions)
    return parity_run.record(
        model,
        __name__,
        TITLE,
        found,
        references=(),
        positions=3,
        tier=TIER,
        dtype="bfloat16",
        detail=f"{said}. A hash covers paths, classes, constants, parameter and port shapes, dtypes, edges and FLOPs.",
        nodes=[r.name for r in regions],
    )
