"""Far positions with a full cache, beside the model's references."""

from typing import Any

from openmodelatlas import models
from openmodelatlas.fetch.progress import Progress
from openmodelatlas.models.variant import Variant
from openmodelatlas.records.catalog import Model
from openmodelatlas.records.verification import VerificationRecord
from openmodelatlas.verify import parity
from openmodelatlas.verify import parity_run as run_

TITLE = "at positions 20,000 and 131,071, every node's values equal the references'"
TIER = run_.TINY
REPEATED = ("repeat_k", "repeat_v")  # copies of the whole cache

SHORTEST_PATTERN = 2  # one block of each kind, so that few caches of that length are held

applies = run_.runs_here


def run(model: Model, progress: Progress) -> VerificationRecord:
    """A block of each kind, a cache of random keys and values up to the positions in question, and a few tokens after
    them. A window is as long as the model's."""
    variant = short(model)
    return run_.shared(__name__, model, variant, lambda: _run(model, variant, progress))


def short(model: Model) -> Variant:
    """The twin with no more blocks than it has kinds: a pattern of blocks is shortened to one of each."""
    config, changes = models.find(model.variant).config, dict[str, Any]()
    if hasattr(config, "sliding_window"):
        changes["sliding_window"] = config.sliding_window
    if hasattr(config, "sliding_window_pattern"):
        changes["sliding_window_pattern"] = SHORTEST_PATTERN
    variant = run_.twin(model, **changes)
    return parity.variant_with(variant, num_hidden_layers=parity.depth(variant))


def _run(model: Model, variant: Variant, progress: Progress) -> VerificationRecord:
    cases = {
        "position 20,000": parity.case(4, calls=(3, 1), start=19_997),
        "position 131,071": parity.case(4, start=131_068),
    }
    ops = [path for path, module in variant.build("meta").named_modules() if path and not list(module.children())]
    for case in cases.values():
        case["keep"] = [path for path in ops if not path.endswith(REPEATED)]
    outcomes, yardsticks = run_.against(model, variant, cases, progress)
    blocks = (
        "One block"
        if variant.config.num_hidden_layers == 1
        else "A block of each kind, their pattern shortened to that, the window as it is"
    )
    return run_.record(
        model,
        __name__,
        TITLE,
        [m for label, outcome in outcomes.items() for m in run_.summary(outcome, label)],
        references=yardsticks,
        positions=131_072,
        detail=f"{blocks}, whatever the model's context; all slots before are filled with random keys and values. "
        f"{run_.LISTED}{run_.yardstick_note(model)}",
        nodes=outcomes["position 131,071"].found.sequence,
    )
