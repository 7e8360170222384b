"""Evidence located by running: the later version of the reference, which a package carries."""

from openmodelatlas.fetch.progress import Progress
from openmodelatlas.records.catalog import Model
from openmodelatlas.records.verification import Tier, VerificationRecord
from openmodelatlas.verify import located, parity_run

TITLE = "each node's line in the packaged reference, found by running it, lies inside its pin"
TIER: Tier = parity_run.TINY

applies = parity_run.runs_here


def run(model: Model, progress: Progress) -> VerificationRecord:
    """Run the file of the package, with the model's own scale factor."""
    return located.run(model, __name__, TITLE, "wheel", progress, located.patches(model))
