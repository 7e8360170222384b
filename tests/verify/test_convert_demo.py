"""The real checkpoint through every format: the same numbers, and the same text by transformers and by the atlas."""

from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
import transformers

from openmodelatlas.infer.checkpoint import load_checkpoint
from openmodelatlas.infer.generate import generate
from openmodelatlas.verify.convert import Wanted, convert

PROMPT = "The capital of France is"
COUNT = 12


@pytest.fixture(scope="module")
def folder(demo_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint as a Hugging Face folder, in float32."""
    target = tmp_path_factory.mktemp("demo") / "folder"
    done = convert(demo_checkpoint, target, Wanted(scheme="huggingface"))
    assert done.compared == "272 parameters: 272 equal to the bit"
    assert "210 of type Q4_1 dequantised to float32" in done.notes
    return target


@pytest.fixture(scope="module")
def back(folder: Path) -> Path:
    """That folder as a GGUF file again."""
    target = folder.parent / "back.gguf"
    convert(folder, target, Wanted(scheme="gguf"))
    return target


def test_back_in_gguf_it_holds_the_same_numbers(demo_checkpoint: Path, back: Path) -> None:
    first, last = (
        {t.name: gguf.dequantize(t.data, t.tensor_type) for t in gguf.GGUFReader(path).tensors}
        for path in (demo_checkpoint, back)
    )
    assert first.keys() == last.keys()
    assert all(np.array_equal(first[name], last[name]) for name in first)


def test_back_in_gguf_it_has_the_same_tokenizer(demo_checkpoint: Path, back: Path) -> None:
    first, last = (gguf.GGUFReader(path).fields for path in (demo_checkpoint, back))
    for name in ("tokens", "token_type", "merges", "pre", "model", "bos_token_id", "eos_token_id", "add_bos_token"):
        key = f"tokenizer.ggml.{name}"
        assert last[key].contents() == first[key].contents(), key
    assert last["tokenizer.chat_template"].contents() == first["tokenizer.chat_template"].contents()


def test_transformers_goes_on_with_the_same_text(demo_checkpoint: Path, folder: Path, back: Path) -> None:
    texts = {_ours(path) for path in (demo_checkpoint, folder, back)}
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    given = tokenizer(PROMPT, return_tensors="pt")
    out = model.generate(**given, max_new_tokens=COUNT, do_sample=False)
    assert texts == {tokenizer.decode(out[0, given["input_ids"].shape[1] :], skip_special_tokens=True)}


def _ours(path: Path) -> str:
    loaded = load_checkpoint(path)
    prompt = loaded.tokenizer.encode(PROMPT)
    tokens = generate(loaded.model, prompt, max_tokens=COUNT, stop=loaded.tokenizer.special.eos)
    return loaded.tokenizer.decode(tokens)
