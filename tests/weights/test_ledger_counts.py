"""How many tensors published GGUF files have, and flaws of single tensors by their kinds."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tiny
from gguf_writer import File, f32

from openmodelatlas.catalog import checkpoints
from openmodelatlas.models import find
from openmodelatlas.records.report import Header, StoredTensor
from openmodelatlas.verify.checkpoint import verify
from openmodelatlas.weights.ledger import account, tensor_findings
from openmodelatlas.weights.naming import block_pattern, name_table, pieces

Write = Callable[..., Path]


def stored(name: str, shape: tuple[int, ...]) -> StoredTensor:
    return StoredTensor(name=name, shape=shape, type="F32", bytes=4, offset=0, shard="")


def header(model: str, *more: StoredTensor) -> Header:
    """The names and shapes of a published file, and no byte of it."""
    of = find(model)
    names = {row.parameter: row.stored for row in name_table(of.family, "gguf").tensors}
    tensors = []
    for parameter, meant in of.build("meta").named_parameters():
        pattern, index = block_pattern(parameter)
        tensors += [stored(name, tuple(meant.shape)) for name in pieces(names[pattern], index, meant.shape[0])]
    return Header(format="GGUF", path="", file_bytes=0, metadata={}, tensors=(*tensors, *more))


@pytest.mark.parametrize(
    ("model", "scaled", "count"),
    [
        ("llama-3-8b", False, 32 * 9 + 3),
        ("llama-3.1-8b", True, 32 * 9 + 3 + 1),
        ("llama-3.2-3b", True, 28 * 9 + 2 + 1),
    ],
)
def test_counts_of_published_files(model: str, scaled: bool, count: int) -> None:
    """Faults of programs that expect one tensor less or more: divisors of frequencies are derived, and no weight."""
    divisors = [stored("rope_freqs.weight", (64,))] if scaled else []
    made = header(model, *divisors)
    assert len(made.tensors) == count
    ledger = account(made, find(model), "gguf")
    assert tensor_findings(ledger) == []
    assert sum(row.parameter is not None for row in ledger.rows) == count - scaled


def test_rotary_buffers_left_over_from_a_conversion_are_ignored() -> None:
    left = [stored(f"blk.{block}.attn_rot_embd", (64,)) for block in range(32)]
    ledger = account(header("llama-3-8b", *left), find("llama-3-8b"), "gguf")
    assert tensor_findings(ledger) == []
    assert (
        sum(row.steps[:1] == ("ignored: rotary frequencies, computed anew from rope_theta",) for row in ledger.rows)
        == 32
    )


def codes(path: Path, like: str) -> set[str]:
    """Held against the tiny model itself, so that no other explains the flaw."""
    from openmodelatlas.weights.open import open_checkpoint

    with open_checkpoint(path) as opened:
        return {flaw.code for flaw in tensor_findings(account(opened.header, tiny.variant(like), "gguf"))}


def replaced(like: str, name: str, change: Callable[[np.ndarray], np.ndarray]) -> File:
    of = tiny.variant(like)
    arrays = tiny.arrays(of)
    arrays[name] = change(arrays[name])
    return File(tiny.metadata(of), [f32(key, array) for key, array in arrays.items()])


def test_kinds_of_a_wrong_tensor(write: Write) -> None:
    down = "blk.1.ffn_down.weight"
    assert codes(write(replaced("llama-3-8b", down, lambda a: np.ascontiguousarray(a.T))), "llama-3-8b") == {
        "tensors.transposed"
    }
    assert codes(write(replaced("llama-3-8b", down, lambda a: a[:, :32])), "llama-3-8b") == {"tensors.shape"}


def test_divisors_that_the_settings_do_not_give(write: Write) -> None:
    of = tiny.variant("llama-3.1-8b")
    made = tiny.file(of)
    made.tensors = [*made.tensors, f32("rope_freqs.weight", np.full(8, 3.0))]
    assert "tensors.constant" in {flaw.code for flaw in verify(write(made)).report.findings}


def test_another_model_than_the_catalogue_says(write: Write) -> None:
    of = find("smollm2-135m")
    path = write(File(tiny.metadata(of), tiny.kinds(of)))
    entry = dataclasses.replace(checkpoints.find("smollm2-135m-instruct"), model="llama-3-8b")
    [flaw] = [flaw for flaw in verify(path, checkpoint=entry).report.findings if flaw.code == "model.other"]
    assert (flaw.expected, flaw.found) == ("llama-3-8b", "smollm2-135m")
