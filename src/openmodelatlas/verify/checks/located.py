"""Evidence located by running: the reference's own repository, at the pinned revision."""

from openmodelatlas.fetch.progress import Progress
from openmodelatlas.records.catalog import Model
from openmodelatlas.records.verification import Tier, VerificationRecord
from openmodelatlas.verify import located, parity_run

TITLE = "each node's line in the reference, found by running it, lies inside its pin"
TIER: Tier = parity_run.TINY


def applies(model: Model) -> str | None:
    """The code of Llama 3 has no scaling, so that it computes no model that scales."""
    if located.scaled(model):
        return "the reference at this revision scales no frequencies; see located_package"
    return parity_run.runs_here(model)


def run(model: Model, progress: Progress) -> VerificationRecord:
    """Run the file of the repository."""
    return located.run(model, __name__, TITLE, "git", progress)
