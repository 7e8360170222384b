"""Settings that no program can take; and how settings and architectures that do not fit are told."""

import json
from pathlib import Path
from typing import Any

import made_checkpoints as made
import pytest
import tiny

from openmodelatlas.records.report import Finding
from openmodelatlas.verify.checkpoint import verify


def found(path: Path, tokenizer: bool = True, **settings: Any) -> list[Finding]:
    """What verifying finds of a tiny folder with these settings, and not without them."""
    folder = made.huggingface_folder(path / "x", tiny.variant())
    if not tokenizer:
        for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
            (folder / name).unlink()
    usual = {str(flaw) for flaw in verify(folder).report.findings}
    config = json.loads((folder / "config.json").read_text()) | settings
    (folder / "config.json").write_text(json.dumps(config))
    return [flaw for flaw in verify(folder).report.findings if str(flaw) not in usual]


@pytest.mark.parametrize("value", [tiny.VOCAB, -2, "1", 1.0, True, [1]])
def test_padding_is_a_token(tmp_path: Path, value: Any) -> None:
    [flaw] = found(tmp_path, pad_token_id=value)
    assert (flaw.code, flaw.where) == ("configuration.token-id", "'pad_token_id'")
    assert (flaw.expected, flaw.found) == (f"an id below {tiny.VOCAB}", "'1'" if value == "1" else str(value))


@pytest.mark.parametrize("value", [None, -1, 0, tiny.VOCAB - 1])
def test_padding_that_is_one(tmp_path: Path, value: Any) -> None:
    assert found(tmp_path, pad_token_id=value) == []


@pytest.mark.parametrize("key", ["bos_token_id", "eos_token_id"])
@pytest.mark.parametrize("value", [tiny.VOCAB, -1, "1", [0, tiny.VOCAB]])
def test_without_a_tokenizer_beginnings_and_ends_are_held_to_the_table(tmp_path: Path, key: str, value: Any) -> None:
    [flaw] = found(tmp_path, tokenizer=False, **{key: value})
    assert (flaw.code, flaw.where) == ("configuration.token-id", f"'{key}'")


@pytest.mark.parametrize("value", ["bfloat61", "", 16, ["float32"]])
@pytest.mark.parametrize("key", ["torch_dtype", "dtype"])
def test_a_type_that_is_none(tmp_path: Path, key: str, value: Any) -> None:
    [flaw] = found(tmp_path, **{key: value})
    assert (flaw.code, flaw.where) == ("configuration.type", f"'{key}'")


@pytest.mark.parametrize("value", ["float16", "torch.bfloat16", "auto", None])
def test_a_type_that_is_one(tmp_path: Path, value: Any) -> None:
    assert found(tmp_path, torch_dtype=value) == []


@pytest.mark.parametrize(("value", "said"), [("2", "'2'"), ("", "''"), ("true", "'true'"), (2.5, "2.5")])
def test_a_text_that_reads_as_a_number_is_told_from_one(tmp_path: Path, value: Any, said: str) -> None:
    flaws = found(tmp_path, num_key_value_heads=value)
    assert {flaw.found for flaw in flaws if flaw.where.startswith("'num_key")} == {said}


@pytest.mark.parametrize(
    ("settings", "expected", "said"),
    [
        ({"model_type": "lama"}, "llama", "model_type lama"),
        ({"architectures": ["LamaForCausalLM"]}, "['LlamaForCausalLM']", "architectures ['LamaForCausalLM']"),
        ({"model_type": "olmo2"}, "", "architectures ['LlamaForCausalLM'], model_type olmo2"),
        ({"model_type": None, "architectures": None}, "['LlamaForCausalLM']", "no architectures"),
    ],
)
def test_the_key_that_names_a_stranger_is_named(tmp_path: Path, settings: Any, expected: str, said: str) -> None:
    [flaw] = [flaw for flaw in found(tmp_path, **settings) if flaw.code == "model.unknown"]
    assert expected in flaw.expected
    assert flaw.found == f"not an architecture of the atlas: {said}"
