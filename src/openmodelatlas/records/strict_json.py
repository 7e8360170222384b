"""JSON out of files nobody vouches for: one meaning or an error, and never more depth or digits than sense needs."""

import codecs
import json
import math
import re
from collections.abc import Iterator
from typing import Any, NoReturn

from openmodelatlas.records.findings import refusal

DEEPEST = 127  # as serde_json, which reads these files elsewhere
MOST_DIGITS = 300
BYTE_ORDER_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

_STRINGS = re.compile(rb'"(?:[^"\\]++|\\.)*+\\?(?:"|\Z)', re.DOTALL)
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")
_EMPTY_PAIR = re.compile(rb"\[\]|\{\}")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
LONGEST_EXCERPT = 40


def parse(data: bytes, where: str) -> Any:
    """The value of a JSON text. NotACheckpoint for text that readers could understand differently: a key that stands
    twice, NaN, a number that overflows, half a character; or that is nested or long beyond sense."""
    if data.startswith(BYTE_ORDER_MARKS):
        raise refusal("files.json-encoding", where, expected="UTF-8", found="a byte order mark")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise refusal("files.json-encoding", where, expected="UTF-8", found=f"byte {error.start} is not") from None
    if _deeper(data, DEEPEST):
        raise refusal("files.json-depth", where, expected=f"at most {DEEPEST} levels")
    reader = _Reader(where)
    try:
        value = json.loads(
            text,
            object_pairs_hook=reader.section,
            parse_constant=reader.constant,
            parse_float=reader.real,
            parse_int=reader.whole,
        )
    except json.JSONDecodeError as error:
        found = f"{error.msg} at line {error.lineno}, column {error.colno}"
        raise refusal("files.json", where, expected="a JSON text", found=found) from None
    except RecursionError:  # brackets that do not match can hide the depth from the count above
        raise refusal("files.json-depth", where, expected=f"at most {DEEPEST} levels") from None
    if _SURROGATE.search(text):
        for part in _texts(value):
            try:
                part.encode()
            except UnicodeEncodeError:
                raise refusal("files.json-half-character", where, found=repr(part[:LONGEST_EXCERPT])) from None
    return value


class _Reader:
    """What is made of the parts of a text; `where` is named in errors."""

    def __init__(self, where: str) -> None:
        self.where = where

    def section(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) == len(pairs):
            return found
        seen = set()
        for key, _ in pairs:
            if key in seen:
                raise refusal("files.json-duplicate", self.where, found=repr(key[:LONGEST_EXCERPT]))
            seen.add(key)
        raise AssertionError("a dictionary is shorter than its pairs only if a key stands twice")

    def constant(self, name: str) -> NoReturn:
        raise refusal("files.json-number", self.where, expected="a finite number", found=name)

    def real(self, digits: str) -> float:
        number = float(digits) if len(digits) <= MOST_DIGITS else math.inf
        if math.isinf(number):
            raise refusal("files.json-number", self.where, expected="a finite number", found=digits[:LONGEST_EXCERPT])
        return number

    def whole(self, digits: str) -> int | float:
        if len(digits) > MOST_DIGITS:
            expected = f"at most {MOST_DIGITS} digits"
            raise refusal("files.json-number", self.where, expected=expected, found=f"{len(digits)}")
        return -0.0 if digits == "-0" else int(digits)


def _deeper(data: bytes, limit: int) -> bool:
    """Whether brackets are nested deeper than that. One pass over what is left takes off the innermost level."""
    left = _STRINGS.sub(b"", data).translate(None, _NO_BRACKETS)
    for _ in range(limit):
        if not left:
            return False
        left, before = _EMPTY_PAIR.sub(b"", left), left
        if left == before:  # they don't match; the parser will say where
            return False
    return bool(left)


def _texts(value: Any) -> Iterator[str]:
    """Every text in a value, keys too."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, list):
            waiting += part
        elif isinstance(part, dict):
            yield from part
            waiting += part.values()
