"""Evidence located by running: the reference's own file, at its pinned revision."""

from openmodelatlas.catalog import find
from openmodelatlas.fetch.progress import Progress
from openmodelatlas.records.catalog import Model
from openmodelatlas.records.verification import Tier, VerificationRecord
from openmodelatlas.verify import located, parity_run

TITLE = "each node's line in the reference, found by running it, lies inside its pin"
TIER: Tier = parity_run.TINY


def applies(model: Model) -> str | None:
    """A reference that lacks an op of the model computes something else, and has no line for what comes behind it."""
    home = find.reference(model.reference).home
    for deviation in model.deviations:
        claim = find.claim(deviation.claim) if deviation.claim else None
        if claim and home.source not in {pin.place.source for pin in (claim.pin, *claim.also)}:
            return f"the reference at this revision lacks {deviation.summary}; see located_package"
    return None


def run(model: Model, progress: Progress) -> VerificationRecord:
    """Run the reference's home."""
    home = find.reference(model.reference).home
    return located.run(model, __name__, TITLE, home, progress, located.patches(model) if home.kind == "wheel" else {})
