"""Far positions with a full cache, beside both references."""

from openmodelatlas.fetch.progress import Progress
from openmodelatlas.records.catalog import Model
from openmodelatlas.records.verification import VerificationRecord
from openmodelatlas.verify import parity
from openmodelatlas.verify import parity_run as run_

TITLE = "at positions 20,000 and 131,071, every node's values equal both references'"
TIER = run_.TINY
REPEATED = ("repeat_k", "repeat_v")  # copies of the whole cache

applies = run_.runs_here


def run(model: Model, progress: Progress) -> VerificationRecord:
    """One block, a cache of random keys and values up to the positions in question, and a few tokens after them."""
    variant = parity.twin(model.variant, num_hidden_layers=1)
    cases = {
        "position 20,000": parity.case(4, calls=(3, 1), start=19_997),
        "position 131,071": parity.case(4, start=131_068),
    }
    wanted = [node.replace("block.", "blocks.0.") for node in parity.ORDER if not node.endswith(REPEATED)]
    for case in cases.values():
        case["keep"] = wanted
    outcomes, yardsticks = run_.against_both(variant, cases, progress)
    return run_.record(
        model,
        __name__,
        TITLE,
        [m for label, outcome in outcomes.items() for m in run_.summary(outcome, label)],
        references=yardsticks,
        positions=131_072,
        detail="One block, whatever the model's context; all slots before are filled with random keys and values. "
        "Listed are the node nearest to its bound, and the logits; all nodes were compared.",
        nodes=[n for n in outcomes["position 131,071"].found.nodes() if not n.endswith(REPEATED)],
    )
