"""Evidence located by running: the later version of the reference, which a package carries."""

from openmodelatlas.catalog import find
from openmodelatlas.fetch.progress import Progress
from openmodelatlas.records.catalog import Model
from openmodelatlas.records.verification import Tier, VerificationRecord
from openmodelatlas.verify import located, parity_run

TITLE = "each node's line in the packaged reference, found by running it, lies inside its pin"
TIER: Tier = parity_run.TINY


def applies(model: Model) -> str | None:
    """A reference that stands in a repository, and in a package besides."""
    if find.reference(model.reference).home.kind == "wheel":
        return "the reference's own file stands in a package; see located"
    if all(place.kind != "wheel" for place in located.places(model)):
        return "no package carries the reference"
    return None


def run(model: Model, progress: Progress) -> VerificationRecord:
    """Run the file of the package, with the model's own scale factor."""
    place = located.packaged(model)
    return located.run(model, __name__, TITLE, place, progress, located.patches(model))
