"""Probabilities of two checkpoints on one text."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tiny
import torch
from gguf_writer import File, f32

from openmodelatlas.errors import InputError
from openmodelatlas.records.report import Check, Finding
from openmodelatlas.verify.against_logits import compare_logits, divergence
from openmodelatlas.weights.open import open_checkpoint

Write = Callable[..., Path]
TOKENS = [1, 7, 30, 41, 5, 99, 200, 3]


def compared(write: Write, change: Callable[[dict[str, np.ndarray]], None]) -> tuple[Check, list[Finding]]:
    arrays = tiny.arrays(tiny.variant())
    change(arrays)
    made = File(tiny.metadata(tiny.variant()), [f32(name, array) for name, array in arrays.items()])
    a, b = write(tiny.file(), "a.gguf"), write(made, "b.gguf")
    with open_checkpoint(a) as left, open_checkpoint(b) as right:
        return compare_logits(left, right, TOKENS)


def test_the_same_numbers_do_not_diverge(write: Write) -> None:
    check, findings = compared(write, lambda _: None)
    assert findings == []
    assert check.detail == ("over 8 positions: KL 0 nats on average, 0 at most; the likeliest token agrees at 100.0%")
    assert check.notes == ()


def test_the_first_node_that_parts_is_named(write: Write) -> None:
    def other_values(arrays: dict[str, np.ndarray]) -> None:
        arrays["blk.1.attn_v.weight"] = -arrays["blk.1.attn_v.weight"]

    check, [finding] = compared(write, other_values)
    assert check.state == "failed"
    assert finding.code == "against.logits"
    assert finding.where == "blocks.1.attention.v:out"


def test_divergence_by_hand_and_a_constant_shift() -> None:
    a = torch.tensor([[0.0, 0.0], [1.0, 0.0]])
    b = torch.tensor([[np.log(3.0), 0.0], [6.0, 5.0]])
    found = divergence(a, b)
    # 0.5 ln(0.5 / 0.75) + 0.5 ln(0.5 / 0.25) at the first position, nothing at the second
    assert found.largest == pytest.approx(0.5 * np.log(0.5 / 0.75) + 0.5 * np.log(2), rel=1e-6)
    assert found.mean == pytest.approx(found.largest / 2)
    assert found.agree == 1.0


def test_a_text_of_one_token_is_refused(write: Write) -> None:
    path = write()
    with open_checkpoint(path) as left, open_checkpoint(path) as right:  # noqa: SIM117
        with pytest.raises(InputError, match="too short a text"):
            compare_logits(left, right, [1])
