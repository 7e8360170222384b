"""Key heads that are stored more than once, as a model is saved that was served on more devices than it has of them."""

import torch
from torch import Tensor

from openmodelatlas.errors import CheckpointError
from openmodelatlas.models.variant import Variant
from openmodelatlas.records.findings import finding
from openmodelatlas.records.report import Finding, Ledger
from openmodelatlas.weights.identify import Identity
from openmodelatlas.weights.opened import Opened

HEADS = "num_key_value_heads"
CODE = "model.duplicated-heads"
KEYS = (".attention.k.weight", ".attention.v.weight")


def heads_for_devices(identity: Identity, variant: Variant, ledger: Ledger) -> list[Finding]:
    """A model that is the nearest one but for a multiple of its key heads. With tensors that fit other numbers, those
    of `variant`, it is a wrong setting instead."""
    if len(identity.differences) != 1 or identity.differences[0].field != HEADS:
        return []
    [difference] = identity.differences
    stored, own = difference.found, getattr(identity.nearest.config, HEADS, 0)
    if not stored.isdigit() or not own or int(stored) <= own or int(stored) % own:
        return []
    fits = any(row.status == "matched" and (row.parameter or "").endswith(KEYS) for row in ledger.rows)
    if fits and getattr(variant.config, HEADS, 0) != int(stored):
        return []
    expected = f"{own} as in {identity.nearest.name}"
    found = f"{stored}, which are {int(stored) // own} copies of each if it was saved for {stored} devices"
    return [finding(CODE, f"{HEADS} ({difference.key})", expected=expected, found=found)]


def duplicated_heads(opened: Opened, variant: Variant, ledger: Ledger) -> list[Finding]:
    """The same, told by the values: in every block, neighbouring heads are equal."""
    heads, width = getattr(variant.config, HEADS, 0), getattr(variant.config, "head_dim", 0)
    rows = [row for row in ledger.rows if row.parameter is not None and row.parameter.endswith(KEYS)]
    copies = heads
    for row in rows:
        if copies < 2 or row.stored is None or row.stored.shape[:1] != (heads * width,):
            return []
        try:
            copies = min(copies, _copies(opened.values(row.stored.name), heads))
        except CheckpointError:
            return []  # the check of values says so
    if copies < 2 or not rows:
        return []
    found = f"{heads}, {copies} neighbours equal in every block"
    return [finding(CODE, HEADS, expected=f"{heads // copies} heads that differ", found=found)]


def _copies(weight: Tensor, heads: int) -> int:
    """How many neighbours of each head are equal to it, itself among them."""
    each = weight.reshape(heads, -1)
    differs = [index for index in range(1, heads) if not torch.equal(each[index], each[index - 1])]
    size = differs[0] if differs else heads
    return size if heads % size == 0 and differs == list(range(size, heads, size)) else 1
