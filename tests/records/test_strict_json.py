"""JSON that can mean one thing only; all else is an error of ours, soon and cheaply."""

import json
import time
from typing import Any

import pytest

from openmodelatlas.errors import NotACheckpoint
from openmodelatlas.records.strict_json import DEEPEST, MOST_DIGITS, parse

TAKEN = [
    "null",
    "[]",
    "0",
    "-1.5e-3",
    '"[[[[ \\" ]"',
    '{"a": {"b": [1, 2, {"c": null}]}, "d": "\\ud83d\\ude00 \\\\ud800"}',
    "1000000000000000019884624838656",
    '{"": true}',
    "[" * DEEPEST + "]" * DEEPEST,
    "[" + ",".join(["[{}]"] * 1000) + "]",
]


@pytest.mark.parametrize("text", TAKEN)
def test_sound_texts_have_pythons_meaning(text: str) -> None:
    assert parse(text.encode(), "x") == json.loads(text)


REFUSED: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "files.json"),
    "cut off": (b'{"a": [1, 2', "files.json"),
    "two values": (b"1 2", "files.json"),
    "a comma at the end": (b"[1,]", "files.json"),
    "single quotes": (b"{'a': 1}", "files.json"),
    "a comment": (b"// a\n1", "files.json"),
    "a leading zero": (b"01", "files.json"),
    "a control character": (b'"\x01"', "files.json"),
    "a byte order mark": (b"\xef\xbb\xbf1", "files.json-encoding"),
    "UTF-16": ('{"a": 1}'.encode("utf-16"), "files.json-encoding"),
    "an overlong form": (b'"\xc0\xaf"', "files.json-encoding"),
    "an encoded surrogate": (b'"\xed\xa0\x80"', "files.json-encoding"),
    "NaN": (b"[NaN]", "files.json-number"),
    "Infinity": (b"[-Infinity]", "files.json-number"),
    "1e999": (b"[1e999]", "files.json-number"),
    "many digits": (b"1" * (MOST_DIGITS + 1), "files.json-number"),
    "many more digits": (b"1" * 1_000_000, "files.json-number"),
    "many decimals": (b"0." + b"1" * (MOST_DIGITS + 1), "files.json-number"),
    "a key twice": (b'{"a": 1, "b": 2, "a": 1}', "files.json-duplicate"),
    "a key twice by an escape": (b'{"a": 1, "\\u0061": 1}', "files.json-duplicate"),
    "a key twice below": (b'[{"x": {"a": 1, "a": 2}}]', "files.json-duplicate"),
    "half a character": (b'["\\ud800"]', "files.json-half-character"),
    "half a character as a key": (b'{"\\udfff": 1}', "files.json-half-character"),
    "too deep": (b"[" * (DEEPEST + 1) + b"]" * (DEEPEST + 1), "files.json-depth"),
    "too deep in turn": (b'[{"a":' * DEEPEST + b"1" + b"}]" * DEEPEST, "files.json-depth"),
    "a bomb": (b"[" * 10_000_000, "files.json-depth"),
    "a bomb behind a quote": (b'"a' + b"[" * 1_000_000, "files.json"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_unsound_texts_are_refused_soon(case: str) -> None:
    data, code = REFUSED[case]
    start = time.perf_counter()
    with pytest.raises(NotACheckpoint) as error:
        parse(data, "config.json")
    assert error.value.code == code
    assert "config.json" in str(error.value)
    assert str(error.value).isprintable()
    assert time.perf_counter() - start < 3


@pytest.mark.parametrize("piece", [b'"', b'\\"', b'"\\', b'"a', b'{"', b"[]", b'[""'])
def test_no_text_takes_more_than_its_length(piece: bytes) -> None:
    """What repeats must not cost its square."""

    def seconds(count: int) -> float:
        start = time.perf_counter()
        with pytest.raises(NotACheckpoint):
            parse(piece * count, "x")
        return time.perf_counter() - start

    seconds(100)
    assert seconds(400_000) < 1


def test_numbers_keep_their_kind() -> None:
    found: Any = parse(b"[1, 1.0, -0, -0.0, true]", "x")
    assert [type(value) for value in found] == [int, float, float, float, bool]
