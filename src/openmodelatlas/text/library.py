"""The `tokenizers` library as a method of encoding, and what it raises as errors of ours."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tokenizers import Tokenizer as Backend

from openmodelatlas.errors import CheckpointError
from openmodelatlas.text.tokenizer import Method

PASSED_ON = (KeyboardInterrupt, SystemExit, GeneratorExit)
LONGEST_REASON = 200


@contextmanager
def refused_as(what: str, where: str, code: str = "tokenizer.unreadable") -> Iterator[None]:
    """Whatever the library raises, as a CheckpointError: it raises bare Exceptions, and panics are BaseExceptions."""
    try:
        yield
    except PASSED_ON:
        raise
    except BaseException as error:
        found = f"{error}"[:LONGEST_REASON] or type(error).__name__
        raise CheckpointError(what, where=where, found=found, code=code) from None


class LibraryMethod(Method):
    """Encoding by the library. `form` is named in errors."""

    def __init__(self, backend: Backend, form: str, *, normalises: str = "") -> None:
        self.backend, self.form, self.normalises = backend, form, normalises

    def encode(self, text: str, *, literal: bool) -> list[int]:
        with refused_as("the tokenizer fails on a text", self.form):
            self.backend.encode_special_tokens = literal
            try:
                ids: list[int] = self.backend.encode(text, add_special_tokens=False).ids
            finally:
                self.backend.encode_special_tokens = False
        return ids

    def cut(self, text: str) -> list[str]:
        with refused_as("the tokenizer fails on a text", self.form):
            if self.backend.normalizer is not None:
                text = self.backend.normalizer.normalize_str(text)
            if self.backend.pre_tokenizer is None:
                return [text] if text else []
            pieces: list[Any] = self.backend.pre_tokenizer.pre_tokenize_str(text)
        return [text[start:end] for _, (start, end) in pieces]
