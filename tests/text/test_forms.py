"""Forms of a tokenizer that cannot be read, each refused by its kind; and files of any bytes."""

import base64
import json
import os
import struct
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest
import tiny
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from openmodelatlas.errors import AtlasError, CheckpointError
from openmodelatlas.models import find
from openmodelatlas.records.findings import kinds
from openmodelatlas.text.forms import forms
from openmodelatlas.text.sentencepiece import from_sentencepiece
from openmodelatlas.text.templates import templates

EXAMPLES = int(os.environ.get("OMA_FUZZ", "100"))
fuzzed = settings(
    max_examples=EXAMPLES,
    deadline=4000,
    derandomize="OMA_FUZZ" not in os.environ,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
BYTES = [base64.b64encode(bytes([byte])).decode() for byte in range(256)]


FLAGS = dict.fromkeys(("normalized", "single_word", "lstrip", "rstrip"), False)
SEED_JSON = json.dumps(
    {
        "version": "1.0",
        "added_tokens": [{"id": 2, "content": "<|x|>", "special": True, **FLAGS}],
        "normalizer": {"type": "Replace", "pattern": {"Regex": "a+"}, "content": "b"},
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "<|x|>": 2}, "merges": []},
    }
).encode()


def field(number: int, content: bytes | int) -> bytes:
    """One field of a protobuf message, its lengths below 128."""
    if isinstance(content, int):
        return bytes([*_varint(number << 3), *_varint(content)])
    return bytes([*_varint(number << 3 | 2), *_varint(len(content))]) + content


def _varint(value: int) -> list[int]:
    found = []
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return [*found, value]


def piece(text: str, score: float = 0.0, kind: int = 1) -> bytes:
    score_field = bytes([2 << 3 | 5]) + struct.pack("<f", score)
    return field(1, field(1, text.encode()) + score_field + field(3, kind))


def piece_model(
    pieces: Mapping[str, tuple[float, int]], *, kind: int = 2, prefix: int = 1, extra: int = 0, **more: int
) -> bytes:
    """A SentencePiece model by hand."""
    trainer = field(3, kind) + b"".join(field(int(name[1:]), value) for name, value in more.items())
    body = b"".join(piece(text, score, type_) for text, (score, type_) in pieces.items())
    return body + field(2, trainer) + field(3, field(3, prefix) + field(4, extra))


SMALL = {"<unk>": (0.0, 2), "<s>": (0.0, 3), "</s>": (0.0, 3), "\u2581": (-1.0, 1), "a": (-2.0, 1), "b": (-3.0, 1)}
JOINED = {"ab": (-0.5, 1), "\u2581a": (-0.7, 1), "aab": (-0.9, 1)}


def test_pieces_by_hand() -> None:
    """The best score first, then the leftmost; an unknown character is one token."""
    tokenizer = from_sentencepiece(piece_model(SMALL | JOINED))
    names = list(SMALL | JOINED)
    assert [names[n] for n in tokenizer.encode("ab aab")] == ["\u2581", "ab", "\u2581a", "ab"]
    assert [names[n] for n in tokenizer.encode("aç漢b")] == ["\u2581a", "<unk>", "b"]
    assert [names[n] for n in tokenizer.encode("a</s>")] == ["\u2581a", "</s>"]
    assert tokenizer.decode(tokenizer.encode("ab a")) == "ab a"
    assert (tokenizer.special.bos, tokenizer.special.eos, tokenizer.special.add_bos) == (1, {2}, False)


def test_unigram_by_hand() -> None:
    """The best sum: ab + a (-2.5) is better than a + b + a (-7)."""
    tokenizer = from_sentencepiece(piece_model(SMALL | JOINED, kind=1, prefix=0))
    names = list(SMALL | JOINED)
    assert [names[n] for n in tokenizer.encode("aba")] == ["ab", "a"]
    assert [names[n] for n in tokenizer.encode("aab")] == ["aab"]
    assert [names[n] for n in tokenizer.encode("xy")] == ["<unk>"]


def test_pieces_taken_whole() -> None:
    tokenizer = from_sentencepiece(piece_model(SMALL | JOINED | {"ba": (0.0, 4)}, prefix=0))
    assert [tokenizer.tokens[n] for n in tokenizer.encode("abab")] == ["a", "ba", "b"]


def model(raw: bytes) -> dict[str, bytes]:
    return {"tokenizer.model": raw}


def ranks(lines: list[str]) -> dict[str, bytes]:
    return model("\n".join(f"{line} {rank}" for rank, line in enumerate(lines)).encode())


def small_json(change: Mapping[str, Any], name: str = "tokenizer.json") -> dict[str, bytes]:
    content = {"version": "1.0", "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}, "decoder": None}
    return {name: json.dumps(content | dict(change)).encode()}


BROKEN = [
    (model(b""), "tokenizer.damaged", "neither ranks nor"),
    (model(b"<html>"), "tokenizer.damaged", "neither ranks nor"),
    (model(piece("a")[:-3]), "tokenizer.damaged", "not a whole SentencePiece model"),
    (model(b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f"), "tokenizer.damaged", "not a whole SentencePiece model"),
    (model(piece("a") + b"\x0b"), "tokenizer.damaged", "wire type 3"),
    (model(field(1, field(1, b"\xff"))), "tokenizer.damaged", "not UTF-8"),
    (model(piece_model(SMALL, kind=4)), "tokenizer.unknown-kind", "model type 4"),
    (model(piece_model(SMALL, extra=1)), "tokenizer.unknown-kind", "extra spaces removed"),
    (model(piece("a") + piece("a")), "tokenizer.unknown-kind", "extra spaces removed"),
    (model(piece("a") + piece("a") + field(3, field(4, 0))), "tokenizer.token-twice", "has a token twice"),
    (ranks(BYTES), "tokenizer.unknown-kind", "ranks whose special tokens are not known"),
    (ranks(["YQ=="]), "tokenizer.unknown-kind", "ranks whose special tokens are not known"),
    (small_json({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]}}), "tokenizer.unreadable", "built"),
    (small_json({"model": {"type": "New"}}), "tokenizer.unreadable", "built"),
    (small_json({}), "tokenizer.unknown-kind", "a decoder that is not read"),
    (small_json({"model": {"type": "BPE", "vocab": {}, "merges": []}}), "tokenizer.incomplete", "empty vocabulary"),
    (
        small_json({"model": {"type": "BPE", "vocab": {"a": 4_000_000_000}, "merges": []}}),
        "tokenizer.incomplete",
        "an id far outside",
    ),
    ({"tokenizer.json": b"[1]"}, "tokenizer.damaged", "not a JSON object"),
    ({"tokenizer.json": b"{"}, "files.json", "not"),
]


@pytest.mark.parametrize(("beside", "code", "words"), BROKEN)
def test_what_cannot_be_read_is_one_error(beside: dict[str, bytes], code: str, words: str) -> None:
    found = forms(beside, {})
    with pytest.raises(CheckpointError, match=words) as caught:
        found.tokenizer()
    assert caught.value.code == code
    assert code in kinds()
    assert len(str(caught.value)) < 500


REGEX = {"type": "Split", "pattern": {"Regex": "((w|o|r|d)+)+$"}, "behavior": "Isolated", "invert": False}
SPECIAL = [{"SpecialToken": {"id": "q", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
PANICS = [
    ({"pre_tokenizer": REGEX}, "encode"),  # more steps than the library's limit
    ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "/////w=="}}, "build"),
    ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "BAAAAGFiY2R4eXo="}}, "encode"),
    ({"post_processor": {"type": "TemplateProcessing", "single": SPECIAL, "pair": [], "special_tokens": {}}}, "around"),
    ({"model": {"type": "Unigram", "unk_id": 5, "vocab": [["a", 0.0]]}}, "build"),
]


@pytest.mark.parametrize(("change", "when"), PANICS)
def test_what_makes_the_library_panic_is_one_of_our_errors(change: dict[str, Any], when: str) -> None:
    """Its panics are no Exceptions."""
    found = forms({"tokenizer.json": json.dumps(json.loads(SEED_JSON) | change).encode()}, {}).found[0]
    if when == "build":
        assert found.error is not None
        assert found.error.code == "tokenizer.unreadable"
        return
    assert found.tokenizer is not None
    if when == "around":
        assert [flaw.code for flaw in found.findings] == ["tokenizer.beside-unreadable"]
    else:
        with pytest.raises(AtlasError, match="the tokenizer fails on a text"):
            found.tokenizer.encode("word" * 50 + "!")


def test_the_seed_is_a_tokenizer() -> None:
    assert forms({"tokenizer.json": SEED_JSON}, {}).tokenizer().encode("ab<|x|>") == [1, 1, 2]


def test_merges_are_not_left_out_at_random() -> None:
    content = json.loads(SEED_JSON)
    content["model"] |= {"dropout": 0.5, "vocab": {"a": 0, "b": 1, "<|x|>": 2, "ab": 3}, "merges": [["a", "b"]]}
    content["normalizer"] = None
    tokenizer = forms({"tokenizer.json": json.dumps(content).encode()}, {}).tokenizer()
    assert all(tokenizer.encode("ab") == [3] for _ in range(20))
    assert tokenizer.notes == ("dropout of 0.5 is for training: merges are not left out here",)


def test_lines_of_ranks() -> None:
    """Ranks of a release, with one line broken in each way."""
    of = find("llama-3-8b")
    right = [f"{base64.b64encode(bytes([n]) if n < 256 else b'%06d' % n).decode()} {n}" for n in range(128000)]

    def read(**lines: str) -> str:
        text = list(right)
        for at, line in lines.items():
            text[int(at[1:])] = line
        with pytest.raises(CheckpointError, match="not a whole file of ranks") as caught:
            forms(model("\n".join(text).encode()), {}, of).tokenizer()
        assert caught.value.code == "tokenizer.damaged"
        return str(caught.value)

    tokenizer = forms(model("\r\n".join(right).encode()), {}, of).tokenizer()
    assert tokenizer.encode("ab", add_bos=False) == [97, 98]
    assert "line 301; expected rank 300, found rank 301" in read(n300="MDAwMzAw 301")
    assert "line 8; expected a token in base64" in read(n7="*** 7")
    assert "line 8; expected a token that no line before has" in read(n7="AA== 7")
    assert "line 8; expected base64" in read(n7="AAA 7")
    assert "expected a token for every byte, found none for 0x07" in read(n7="AAAAAA== 7")


def test_an_empty_checkpoint_has_no_tokenizer() -> None:
    with pytest.raises(CheckpointError, match="no tokenizer that is read") as caught:
        forms({"vocab.json": b"{}"}, {}).tokenizer()
    assert caught.value.code == "tokenizer.none"
    assert "found vocab.json" in str(caught.value)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"tokenizer.ggml.model": "bert"}, "tokenizer.unknown-kind"),
        ({"tokenizer.ggml.pre": "new"}, "tokenizer.unknown-cut"),
        ({"tokenizer.ggml.tokens": ["a", "a"]}, "tokenizer.token-twice"),
        ({"tokenizer.ggml.token_type": [1]}, "tokenizer.incomplete"),
        ({"tokenizer.ggml.merges": ["q z"]}, "tokenizer.merges"),
        ({"tokenizer.ggml.eos_token_id": -1}, "tokenizer.special-outside"),
        ({"tokenizer.ggml.model": "llama"}, "tokenizer.wrong-kind"),
        ({"tokenizer.ggml.model": "llama", "tokenizer.ggml.token_type": [6] * tiny.VOCAB}, "tokenizer.incomplete"),
    ],
)
def test_settings_that_cannot_be_read(change: dict[str, Any], code: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        forms({}, tiny.tokenizer() | change).tokenizer()
    assert caught.value.code == code


def tried(beside: Mapping[str, bytes], settings: Mapping[str, Any]) -> None:
    """Whatever is in them: a tokenizer that encodes and decodes, or our errors."""
    found = forms(beside, settings)
    for form in found.found:
        if form.tokenizer is not None:
            with suppress(AtlasError):
                form.tokenizer.decode(form.tokenizer.encode("a b\u00e9 1 <|x|>"), special=True)
    with suppress(AtlasError):
        templates(beside, settings)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**65), 2**65) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@fuzzed
@given(st.binary(max_size=400))
@example(SEED_JSON)
@example(b"{" * 100_000)
def test_any_bytes_as_each_file(raw: bytes) -> None:
    for name in ("tokenizer.json", "tokenizer.model"):
        tried({name: raw}, {})
    tried({"tokenizer.json": SEED_JSON, "tokenizer_config.json": raw, "chat_template.jinja": raw}, {})


@fuzzed
@given(st.integers(0, len(SEED_JSON) - 1), st.binary(min_size=1, max_size=4))
def test_a_tokenizer_json_with_bytes_changed(at: int, new: bytes) -> None:
    tried({"tokenizer.json": SEED_JSON[:at] + new + SEED_JSON[at + len(new) :]}, {})


@fuzzed
@given(
    st.sampled_from(["model", "decoder", "normalizer", "pre_tokenizer", "post_processor", "added_tokens"]), json_values
)
def test_a_part_of_tokenizer_json_replaced(part: str, value: Any) -> None:
    tried({"tokenizer.json": json.dumps(json.loads(SEED_JSON) | {part: value}).encode()}, {})


@fuzzed
@given(
    st.dictionaries(st.sampled_from(["bos_token", "eos_token", "added_tokens_decoder", "chat_template"]), json_values)
)
def test_settings_of_any_kind(content: dict[str, Any]) -> None:
    raw = json.dumps(content).encode()
    names = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "generation_config.json")
    for name in names:
        tried({"tokenizer.json": SEED_JSON, name: raw}, {"eos_token_id": content.get("eos_token")})


@fuzzed
@given(
    st.dictionaries(st.sampled_from(sorted(tiny.tokenizer())), json_values, min_size=1, max_size=3),
    st.sampled_from(["gpt2", "llama"]),
)
def test_vocabularies_of_any_kind(change: dict[str, Any], kind: str) -> None:
    tried({}, tiny.tokenizer() | {"tokenizer.ggml.model": kind} | change)


@fuzzed
@given(st.integers(0, 200), st.binary(min_size=1, max_size=8))
def test_a_piece_model_with_bytes_changed(at: int, new: bytes) -> None:
    raw = piece_model(SMALL | JOINED)
    tried(model(raw[:at] + new + raw[at + len(new) :]), {})
