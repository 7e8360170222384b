"""The tokenizer: equal to transformers' on the same file, exact in bytes, and honest about what it cannot read."""

import unicodedata
from pathlib import Path
from typing import Any

import pytest
import tiny
import transformers

from openmodelatlas.errors import CheckpointError, InputError
from openmodelatlas.text.gguf_vocabulary import from_gguf
from openmodelatlas.text.tokenizer import Tokenizer
from openmodelatlas.weights.reading.gguf import open_gguf

FRACTION = "add ½ cup"
TEXTS = [
    "",
    " ",
    "Hello world",
    "The capital of France is Paris.",
    "  two  spaces   three \t tab\n\nlines\r\n end ",
    "I'm sure they've said it's what we'd do; DON'T",
    "2024-01-22 12:12:53, 3.14159 and 1,000,000",
    "naïve café — Ünïcödé ﬁ",
    FRACTION,
    "日本語のテキスト。中文字符，한국어",
    "مرحبا بالعالم שלום",
    "🙂👩‍👩‍👧‍👦🏳️‍🌈 emoji",
    "def f(x):\n    return {'a': [x**2 for x in range(10)]}  # code\n",
    "a\u0000b\u200bc\ufeffd\u00a0e\u3000f",
    "<|im_start|>user\nhi<|im_end|>\n<|endoftext|>",
    "<|im_start|>x<|im_end|><|im_end|>  <|im_start |>",
    "ſ ẞ İ ı Ǆ e\u0301 \U0001d54f",
    "http://example.org/?q=a+b&c=%20#frag",
    "\n\n\n   \n x",
    "word" * 50,
    "…“quotes” ‘single’ – dash",
]


@pytest.fixture(scope="module")
def demo(demo_checkpoint: Path) -> Tokenizer:
    with open_gguf(demo_checkpoint) as file:
        return from_gguf(file.section("tokenizer."))


@pytest.fixture
def small() -> Tokenizer:
    return from_gguf(tiny.metadata(tiny.variant()))


@pytest.mark.slow
def test_equals_transformers(demo: Tokenizer, demo_checkpoint: Path) -> None:
    theirs: Any = transformers.AutoTokenizer.from_pretrained(demo_checkpoint.parent, gguf_file=demo_checkpoint.name)
    for text in TEXTS:
        if text == FRACTION:  # transformers drops the file's `pre`, by which every number character stands alone
            continue
        assert demo.encode(text) == theirs(text, add_special_tokens=False)["input_ids"], text
    ids = list(range(0, demo.vocab_size, 37))
    ours = demo.decode(ids, special=True)
    assert ours == theirs.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)


@pytest.mark.parametrize("text", TEXTS)
def test_text_comes_back(demo: Tokenizer, text: str) -> None:
    ids = demo.encode(text)
    assert demo.decode(ids, special=True) == text
    stream = demo.stream()
    streamed = "".join(stream.push(token) for token in ids) + stream.finish()
    assert streamed == demo.decode(ids)


def test_every_digit_is_a_token(demo: Tokenizer) -> None:
    assert [demo.decode([token]) for token in demo.encode("year 2024")][-4:] == ["2", "0", "2", "4"]
    assert demo.encode(FRACTION) == [*demo.encode("add "), *demo.encode("½"), *demo.encode(" cup")]


def test_special_tokens_are_ids_of_their_own(demo: Tokenizer) -> None:
    assert demo.encode("<|im_start|>") == [1]
    assert demo.special.eos == {2}
    assert demo.decode([1, 2]) == ""
    assert demo.decode([1, 2], special=True) == "<|im_start|><|im_end|>"


def test_a_character_split_over_tokens_comes_out_whole(small: Tokenizer) -> None:
    ids = small.encode("é🙂")
    assert len(ids) == 6  # the tiny vocabulary has single bytes only
    stream = small.stream()
    assert [stream.push(token) for token in ids] == ["", "é", "", "", "", "🙂"]
    assert stream.finish() == ""
    stream.push(ids[2])
    assert stream.finish() == "\N{REPLACEMENT CHARACTER}"


def test_merges_and_beginning(small: Tokenizer) -> None:
    assert [small.tokens[token] for token in small.encode("hello hello")] == ["hello", "Ġhello"]
    assert small.encode("x", add_bos=True)[0] == small.special.bos == 1
    assert small.encode("x")[0] != 1


def test_llama_3_rules() -> None:
    metadata = tiny.metadata(tiny.variant()) | {"tokenizer.ggml.pre": "llama-bpe"}
    tokenizer = from_gguf(metadata)
    assert tokenizer.special.add_bos  # assumed where the key is absent
    assert [tokenizer.tokens[token] for token in tokenizer.encode("hello")] == ["<|start|>", "hello"]
    # A whole word of the vocabulary is one token even where no merge leads to it.
    metadata["tokenizer.ggml.merges"] = ["h e"]
    assert from_gguf(metadata).encode("hello", add_bos=False) == [metadata["tokenizer.ggml.tokens"].index("hello")]


def qwen2() -> dict[str, Any]:
    """A byte vocabulary with merges for what the splits tell apart: digits, contractions, spaces, newlines."""
    metadata = tiny.metadata(tiny.variant())
    merges = ["2 0", "20 2", "202 4", "' m", "' re", "r e", "Ġ Ġ", "ĠĠ ĠĠ", "Ċ Ċ", "! !", "! Ċ", "Ã ©", "l l", "ĠĠ x"]
    merged = [merge.replace(" ", "") for merge in merges]
    tokens = ["<|end|>", "<|start|>", *tiny.byte_characters(), *merged, *(f"<|unused{n}|>" for n in range(4))]
    types = [3 if token.startswith("<|") else 1 for token in tokens]
    return metadata | {
        "tokenizer.ggml.pre": "qwen2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": [merge for merge in merges if all(part in tokens for part in merge.split())],
    }


@pytest.mark.parametrize("text", [*TEXTS, "2024 20245", "I'M we're\n\n\n x", "!!\n!!", "    x   \n y", "cafe\u0301 é"])
def test_qwen_2_cuts_as_its_own_tokenizer_does(text: str) -> None:
    metadata = qwen2()
    vocabulary = {token: n for n, token in enumerate(metadata["tokenizer.ggml.tokens"])}
    merges = [tuple(merge.split()) for merge in metadata["tokenizer.ggml.merges"]]
    special = dict.fromkeys(("unk_token", "eos_token", "pad_token"), "<|end|>")
    theirs: Any = transformers.Qwen2Tokenizer(vocab=vocabulary, merges=merges, **special)
    ours = from_gguf(metadata)
    text = text.replace("<|", "< |")  # names of special tokens are another matter
    ids = ours.encode(text)
    assert ids == theirs(text, add_special_tokens=False)["input_ids"]
    assert ours.decode(ids) == unicodedata.normalize("NFC", text)
    assert not ours.special.add_bos


def test_digits_stay_apart_or_by_threes() -> None:
    """Fault F81: one split taken for the other."""
    metadata = qwen2()
    for pre, expected in (("qwen2", ["2", "0", "2", "4"]), ("llama-bpe", ["202", "4"]), ("gpt-2", ["2024"])):
        tokenizer = from_gguf(metadata | {"tokenizer.ggml.pre": pre})
        assert [tokenizer.tokens[token] for token in tokenizer.encode("2024", add_bos=False)] == expected


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"tokenizer.ggml.model": "llama"}, "the kind of tokenizer is mislabelled"),
        ({"tokenizer.ggml.model": "bert"}, "a kind of tokenizer that is not read.*found 'bert'$"),
        ({"tokenizer.ggml.model": None}, "a kind of tokenizer that is not read"),
        ({"tokenizer.ggml.pre": "falcon"}, "a way of cutting text that is not known.*found 'falcon'"),
        ({"tokenizer.ggml.pre": None}, "a way of cutting text that is not known"),
        ({"tokenizer.ggml.tokens": []}, "incomplete"),
        ({"tokenizer.ggml.tokens": [1, 2]}, "incomplete"),
        ({"tokenizer.ggml.tokens": ["a", "a"]}, "twice"),
        ({"tokenizer.ggml.token_type": [1]}, "do not match"),
        ({"tokenizer.ggml.merges": ["ab"]}, "not a merge"),
        ({"tokenizer.ggml.merges": ["a b c"]}, "not a merge"),
        ({"tokenizer.ggml.merges": ["q z"]}, "merges do not fit"),
        ({"tokenizer.ggml.merges": None}, "incomplete"),
        ({"tokenizer.ggml.eos_token_id": 100000}, "outside the vocabulary"),
        ({"tokenizer.ggml.bos_token_id": "1"}, "outside the vocabulary"),
        ({"tokenizer.ggml.add_bos_token": 1}, "not a bool"),
    ],
)
def test_what_cannot_be_read_is_an_error(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(CheckpointError, match=reason):
        from_gguf(tiny.metadata(tiny.variant()) | change)


def test_text_that_is_not_unicode_is_refused(small: Tokenizer) -> None:
    with pytest.raises(InputError, match="not valid Unicode: character 1"):
        small.encode("a\udcff")
