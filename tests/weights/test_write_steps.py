"""Every layout step has an inverse, on whole tensors and on runs of whole heads."""

from types import SimpleNamespace

import pytest
import torch

from openmodelatlas.errors import CatalogError
from openmodelatlas.models import variants
from openmodelatlas.weights import steps
from openmodelatlas.weights.naming import has_names, name_table

CONFIG = SimpleNamespace(head_dim=8)


def test_every_step_of_the_name_tables_has_an_inverse() -> None:
    families = {of.family for of in variants().values()}
    for family in families:
        for scheme in ("gguf", "huggingface", "meta"):
            if has_names(family, scheme):
                used = {step for row in name_table(family, scheme).tensors for step in row.steps}
                assert used <= {*steps.INVERSES, steps.STACK}, (family, scheme)
    assert steps.INVERSES.keys() <= steps.STEPS.keys()


@pytest.mark.parametrize("name", list(steps.INVERSES))
def test_undoing_a_step_gives_back_what_was_stored(name: str) -> None:
    stored = torch.arange(24.0 * 5).reshape(24, 5) / 64  # exact under an addition of one
    done = steps.apply(stored, (name,), CONFIG)
    assert not torch.equal(done, stored)
    assert torch.equal(steps.undo(done, (name,), CONFIG), stored)


@pytest.mark.parametrize("name", list(steps.INVERSES))
def test_a_step_works_on_runs_of_whole_heads(name: str) -> None:
    whole = torch.arange(24.0 * 5).reshape(24, 5) / 64
    runs = [steps.undo(whole[start : start + 8], (name,), CONFIG) for start in (0, 8, 16)]
    assert torch.equal(torch.cat(runs), steps.undo(whole, (name,), CONFIG))


def test_rotary_rows_by_hand() -> None:
    """Two heads of four rows: pairs (0, 1), (2, 3) of the definition are rows 0, 2, 1, 3 of the halves' order."""
    rows = torch.arange(8.0)[:, None]
    config = SimpleNamespace(head_dim=4)
    assert steps.undo(rows, ("interleave_rotary_rows",), config).flatten().tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


def test_steps_are_undone_from_the_last() -> None:
    stored = torch.arange(40.0).reshape(8, 5) / 64
    both = tuple(steps.INVERSES)
    assert torch.equal(steps.undo(steps.apply(stored, both, CONFIG), both, CONFIG), stored)


def test_a_step_without_inverse_is_an_error() -> None:
    with pytest.raises(CatalogError, match="no inverse of this layout step"):
        steps.undo(torch.zeros(2, 2), ("shuffle",), CONFIG)
