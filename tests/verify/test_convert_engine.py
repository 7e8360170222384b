"""llama.cpp computes from a written GGUF file what the definition does."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from gguf_writer import f32

from openmodelatlas.models.variant import Variant
from openmodelatlas.verify.convert import Wanted, convert
from openmodelatlas.verify.references import engine
from openmodelatlas.weights.ledger import account
from openmodelatlas.weights.load import frequency_divisors, load
from openmodelatlas.weights.naming import name_table
from openmodelatlas.weights.open import open_checkpoint

TOP = 5
FARTHEST = 2e-3
"""Of log-probabilities: llama.cpp looks up one activation in a table of 16-bit numbers (measured: 1.0e-3 with it, 2e-5
elsewhere)."""
CHARACTERS = range(34, 129)
"""Tokens that are one printable character; llama.cpp says nothing of others, which end in the middle of one."""
FIXED: dict[str, Any] = {"query_pre_attn_scalar": 16, "sliding_window_pattern": 6, "num_hidden_layers": 6}
"""Numbers that llama.cpp has written into it, by the width of a head, for models that have a window."""


def like(name: str) -> Variant:
    of = tiny.variant(name)
    fields = {field.name for field in dataclasses.fields(of.config)}
    changes = FIXED if set(FIXED) <= fields else {}
    return dataclasses.replace(of, config=dataclasses.replace(of.config, **changes))


def source(path: Path, of: Variant) -> Path:
    file = tiny.file(of)
    modules = {name for name, _ in of.build("meta").named_modules()}
    held = [row for row in name_table(of.family, "gguf").constants if row.equals and row.owner in modules]
    file.tensors = [*file.tensors, *(f32(row.stored, frequency_divisors(of).numpy()) for row in held)]
    path.write_bytes(file.bytes())
    return path


@pytest.mark.parametrize("name", tiny.representatives())
def test_llama_cpp_agrees(tmp_path: Path, name: str) -> None:
    of = like(name)
    first, written = source(tmp_path / "in.gguf", of), tmp_path / "out.gguf"
    numbers = {field: str(value) for field, value in vars(of.config).items() if field not in tiny.SIZES}
    convert(first, tmp_path / "between", Wanted(scheme="huggingface", numbers=numbers))
    convert(tmp_path / "between", written, Wanted(scheme="gguf"))
    with open_checkpoint(first) as opened:
        model = load(opened, of, account(opened.header, of, opened.scheme))
    prompt, ours = _prompt(model)
    theirs = engine._run(engine._server(str(written)), {"tokens": [prompt[0]]}, {"generate": 1, "top": TOP})
    top = theirs["top"][0]
    assert int(top[0]) == int(ours.argmax())
    assert float((ours[top] - theirs["logprobs"][0]).abs().max()) < FARTHEST


def _prompt(model: torch.nn.Module) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens after which a printable character is the likeliest, and the log-probabilities of all."""
    draw = torch.Generator().manual_seed(1)
    for _ in range(100):
        tokens = torch.randint(34, 129, (1, 12), generator=draw)
        with torch.no_grad():
            scores = model(tokens, torch.arange(12)[None])[0, -1].log_softmax(-1)
        if int(scores.argmax()) in CHARACTERS:
            return tokens, scores
    raise AssertionError("no such prompt")
