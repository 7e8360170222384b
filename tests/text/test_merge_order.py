"""Merges and ids that do not go together are noted, whichever form has them."""

import json
from typing import Any

import pytest
import tiny

from openmodelatlas.text.forms import forms

WORDS = [f"{a}{b}" for a in "abcdefghijklmnopqrstuvwxyz" for b in "qrstuvwxyz"]
"""Made by one merge each, in the order of their ids: 260 of them."""
BYTES = tiny.byte_characters()


def notes(tokens: list[str], merges: list[str], form: str) -> list[str]:
    if form == "gguf":
        metadata: dict[str, Any] = {
            "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": "smollm",
            "tokenizer.ggml.tokens": ["<|end|>", *tokens],
            "tokenizer.ggml.token_type": [3, *[1] * len(tokens)],
            "tokenizer.ggml.merges": merges,
        }
        return list(forms({}, metadata).tokenizer().notes)
    written = [merge.split(" ") for merge in merges] if form == "pairs" else merges
    content = {
        "version": "1.0",
        "added_tokens": [
            {"id": 0, "content": "<|end|>", "special": True}
            | dict.fromkeys(("normalized", "single_word", "lstrip", "rstrip"), False)
        ],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "vocab": {"<|end|>": 0, **{token: number for number, token in enumerate(tokens, 1)}},
            "merges": written,
        },
    }
    return list(forms({"tokenizer.json": json.dumps(content).encode()}, {}).tokenizer().notes)


SWAPPED = "2 of 260 merges are not in the order of the ids, the first at 'er': ids or merges may have been exchanged"


@pytest.mark.parametrize("form", ["gguf", "pairs", "lines"])
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda *_: None, []),
        (lambda tokens, _: exchange(tokens, 256 + 40, 256 + 90), [SWAPPED]),
        (lambda _, merges: exchange(merges, 40, 90), [SWAPPED]),
        (lambda _, merges: merges.pop(17), ["1 entries are made by no merge, the first 'bx' at 274"]),
        (lambda tokens, _: tokens.__setitem__(slice(256, 516), tokens[256:516][::-1]), []),  # another order
    ],
)
def test_a_few_exceptions_are_noted(change: Any, expected: list[str], form: str) -> None:
    tokens, merges = [*BYTES, *WORDS], [f"{word[0]} {word[1]}" for word in WORDS]
    change(tokens, merges)
    assert notes(tokens, merges, form) == expected


def exchange(entries: list[str], one: int, two: int) -> None:
    entries[one], entries[two] = entries[two], entries[one]
