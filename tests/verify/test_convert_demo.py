"""The real checkpoint through every format: the same numbers, and the same text by transformers and by the atlas."""

from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
import transformers

from openmodelatlas.infer.generate import generate
from openmodelatlas.models import find
from openmodelatlas.models.variant import Variant
from openmodelatlas.verify.convert import Wanted, convert
from openmodelatlas.weights.ledger import account
from openmodelatlas.weights.load import load
from openmodelatlas.weights.open import open_checkpoint

PROMPT = [504, 3575, 282, 4649, 314]  # "The capital of France is"
COUNT = 12


def model(path: Path, of: Variant) -> torch.nn.Module:
    with open_checkpoint(path) as opened:
        return load(opened, of, account(opened.header, of, opened.scheme))


@pytest.fixture(scope="module")
def folder(demo_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint as a Hugging Face folder, in float32."""
    target = tmp_path_factory.mktemp("demo") / "folder"
    done = convert(demo_checkpoint, target, Wanted(scheme="huggingface", tokenizer=False))
    assert done.compared == "272 parameters: 272 equal to the bit"
    assert "210 of type Q4_1 dequantised to float32" in done.notes
    return target


def test_back_in_gguf_it_holds_the_same_numbers(demo_checkpoint: Path, folder: Path) -> None:
    back = folder.parent / "back.gguf"
    convert(folder, back, Wanted(scheme="gguf", tokenizer=False))
    first, last = (
        {t.name: gguf.dequantize(t.data, t.tensor_type) for t in gguf.GGUFReader(path).tensors}
        for path in (demo_checkpoint, back)
    )
    assert first.keys() == last.keys()
    assert all(np.array_equal(first[name], last[name]) for name in first)


def test_transformers_goes_on_with_the_same_tokens(demo_checkpoint: Path, folder: Path) -> None:
    ours = list(generate(model(demo_checkpoint, find("smollm2-135m")), PROMPT, max_tokens=COUNT, stop=frozenset()))
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    out = theirs.generate(torch.tensor([PROMPT]), max_new_tokens=COUNT, do_sample=False, eos_token_id=None)
    assert out[0, len(PROMPT) :].tolist() == ours
