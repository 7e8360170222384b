"""Against which numbers a checkpoint is held: those of the model that it is, or the ones that explain it best."""

import contextlib
from dataclasses import dataclass

from openmodelatlas.errors import CheckpointError
from openmodelatlas.models.variant import Variant
from openmodelatlas.records.report import Ledger
from openmodelatlas.weights.described import described
from openmodelatlas.weights.identify import Identity
from openmodelatlas.weights.ledger import account, metadata_findings, tensor_findings
from openmodelatlas.weights.naming import name_table
from openmodelatlas.weights.opened import Opened
from openmodelatlas.weights.shaped import shaped
from openmodelatlas.weights.split import lacking


@dataclass(frozen=True, kw_only=True)
class Held:
    """A checkpoint accounted for against a variant. `by_shapes`: the numbers that the tensors show and the settings
    contradict. `shares`: how many of a model's shares there are, and of how many, if some are not."""

    variant: Variant
    ledger: Ledger
    by_shapes: frozenset[str] = frozenset()
    shares: tuple[int, int] | None = None

    @property
    def flaws(self) -> tuple[int, int]:
        """How many tensors do not hold; and how many settings, where numbers were taken from shapes."""
        settings = len(metadata_findings(self.ledger)) if self.by_shapes else 0
        return len(tensor_findings(self.ledger)), settings


def held(opened: Opened, identity: Identity) -> Held:
    """The model that it is. One that is none of the atlas, or whose tensors do not fit, is held against what leaves the
    fewest of them unexplained: the nearest model, what its own settings describe, or either with what shapes show. So a
    wrong number is told as one, and not by every tensor that it shapes. Shapes show nothing where shares are absent."""
    first = _held(opened, identity.nearest)
    if identity.matches and not tensor_findings(first.ledger):
        return first
    candidates = [first]
    if not identity.matches:
        with contextlib.suppress(CheckpointError):  # a number that no model can have
            candidates.append(_held(opened, described(opened.header, opened.scheme, identity.nearest.family)))
    in_part = [candidate for candidate in candidates if candidate.shares]
    if in_part and all(tensor_findings(candidate.ledger) for candidate in candidates):
        return in_part[-1]
    for candidate in list(candidates):
        if any(row.status == "shape" for row in candidate.ledger.rows):
            candidates.append(_shaped(opened, candidate))
    return min(candidates, key=lambda candidate: candidate.flaws)


def _held(opened: Opened, variant: Variant) -> Held:
    ledger = account(opened.header, variant, opened.scheme)
    return Held(variant=variant, ledger=ledger, shares=lacking(ledger, name_table(variant.family, opened.scheme)))


def _shaped(opened: Opened, candidate: Held) -> Held:
    table = name_table(candidate.variant.family, opened.scheme)
    variant, fields = shaped(opened.header, candidate.variant, table)
    return Held(variant=variant, ledger=account(opened.header, variant, opened.scheme), by_shapes=fields)
