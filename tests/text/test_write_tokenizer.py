"""A tokenizer in another form gives the same ids, and comes back as it was."""

import zipfile
from typing import Any

import pytest
import tiny
from tokenizers import Tokenizer as Backend

from openmodelatlas.catalog.load import references
from openmodelatlas.errors import CheckpointError, FetchError
from openmodelatlas.fetch import wheels
from openmodelatlas.models import find
from openmodelatlas.text import write
from openmodelatlas.text.byte_level import CUTS
from openmodelatlas.text.forms import forms
from openmodelatlas.text.gguf_vocabulary import from_gguf
from openmodelatlas.text.sentencepiece import BYTE, CONTROL, NORMAL, UNKNOWN, USER_DEFINED

TEXTS = (
    "hello hello  hell\n\n\tthe 3333333 years",
    "<|start|>he said: <|end|>",
    "naïve e\u0301 日本語 🙂 \u00a0x\r\n",
    "",
    " ",
)


@pytest.mark.parametrize("pre", ["smollm", "gpt-2", "qwen2", "llama-bpe"])
def test_byte_level_there_and_back(pre: str) -> None:
    settings = tiny.tokenizer() | {"tokenizer.ggml.pre": pre, "tokenizer.ggml.add_bos_token": pre == "llama-bpe"}
    original = from_gguf(settings)
    files = write.huggingface_files(original)
    between = forms(files, {}).tokenizer()
    library = Backend.from_str(files["tokenizer.json"].decode())
    back = write.gguf_settings(between, tiny.VOCAB)
    assert CUTS[back["tokenizer.ggml.pre"]] == CUTS[pre]
    for key, value in settings.items():
        assert back[key] == value, key
    for text in TEXTS:
        ids = original.encode(text)
        assert between.encode(text) == ids
        assert from_gguf(back).encode(text) == ids
        assert library.encode(text, add_special_tokens=True).ids == ids


def test_rows_without_a_token_are_filled() -> None:
    original = from_gguf(tiny.tokenizer())
    back = write.gguf_settings(original, tiny.VOCAB + 3)
    assert back["tokenizer.ggml.tokens"][-1] == f"[PAD{tiny.VOCAB + 2}]"
    assert back["tokenizer.ggml.token_type"][-3:] == [5, 5, 5]
    assert len(back["tokenizer.ggml.tokens"]) == tiny.VOCAB + 3


def test_more_tokens_than_rows_are_refused() -> None:
    with pytest.raises(CheckpointError, match=f"more tokens than rows .* expected 200, found {tiny.VOCAB}"):
        write.gguf_settings(from_gguf(tiny.tokenizer()), 200)


def test_ids_that_end_a_text_keep_their_roles() -> None:
    original = from_gguf(tiny.tokenizer() | {"tokenizer.ggml.eot_token_id": 270})
    assert write.ends_of(original) == [0, 270]
    back = write.gguf_settings(original, tiny.VOCAB, 270)
    assert (back["tokenizer.ggml.eos_token_id"], back["tokenizer.ggml.eot_token_id"]) == (270, 0)
    assert b'"eos_token_id": [\n    0,\n    270\n  ]' in write.huggingface_files(original)["generation_config.json"]


def pieces() -> dict[str, Any]:
    """A SentencePiece vocabulary as a GGUF file has it."""
    words = ["\u2581", "h", "e", "l", "o", "he", "ll", "hell", "hello", "\u2581hello"]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *words, "<extra>"]
    types = [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256, *[NORMAL] * len(words), USER_DEFINED]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.scores": [0.0] * 259 + [-float(n) for n in range(len(words))] + [0.0],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.add_bos_token": True,
        "tokenizer.ggml.add_space_prefix": True,
    }


def test_pieces_stay_pieces_in_gguf() -> None:
    settings = pieces()
    assert write.gguf_settings(from_gguf(settings), len(settings["tokenizer.ggml.tokens"])) == settings


def test_pieces_become_merges() -> None:
    original = from_gguf(without_extra())
    files = write.huggingface_files(original)
    library = Backend.from_str(files["tokenizer.json"].decode())
    for text in (*TEXTS[2:], "hello hello  hell", "hell\n\nhello", "he</s>llo"):
        assert library.encode(text).ids == original.encode(text), text


def without_extra() -> dict[str, Any]:
    """The same without the token that stands for itself: the library puts no space before one at the start."""
    return {key: value[:-1] if isinstance(value, list) else value for key, value in pieces().items()}


def test_a_space_behind_tokens_that_text_can_name_is_the_one_difference() -> None:
    original = from_gguf(pieces())
    assert write.spaced_apart(original)
    assert not write.spaced_apart(from_gguf(without_extra()))
    name = original.tokens[min(original.vocabulary.added)]
    library = Backend.from_str(write.huggingface_files(original)["tokenizer.json"].decode())
    assert library.encode("he hell").ids == original.encode("he hell")
    assert library.encode(f"he {name}he").ids != original.encode(f"he {name}he")


def test_a_form_that_does_otherwise_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "spaced_apart", lambda _: False)
    with pytest.raises(CheckpointError, match=r"no way to write this tokenizer as tokenizer\.json; .* as it does here"):
        write.huggingface_files(from_gguf(pieces()))


def test_what_a_form_cannot_say_is_one_error() -> None:
    with pytest.raises(CheckpointError, match=r"no way to write this tokenizer as tokenizer\.model"):
        write.ranks_file(from_gguf(tiny.tokenizer()), None)


@pytest.mark.network
def test_the_ranks_of_llama_3_through_every_form() -> None:
    """The vendor's own file, from the pinned package, comes back byte for byte."""
    places = {p.place for r in references().values() for c in r.claims for p in (c.pin, *c.also)}
    source, version, sha256 = next(
        (p.source, p.revision, p.wheel_sha256 or "") for p in places if p.kind == "wheel" and p.source == "llama-models"
    )
    try:
        wheel = wheels.wheel(source, version, sha256)
    except FetchError as error:
        pytest.skip(f"needs {source}=={version}: {error}")
    with zipfile.ZipFile(wheel) as archive:
        raw = archive.read("llama_models/llama3/tokenizer.model")
    of = find("llama-3.1-8b")
    original = forms({"tokenizer.model": raw}, {}, of).tokenizer()
    files = write.huggingface_files(original)
    settings = write.gguf_settings(forms(files, {}).tokenizer(), of.config.vocab_size)
    assert CUTS[settings["tokenizer.ggml.pre"]] == CUTS["llama-bpe"]
    assert len(settings["tokenizer.ggml.tokens"]) == 128256
    assert write.ranks_file(from_gguf(settings), of) == {"tokenizer.model": raw}
