"""Text to tokens and back: one vocabulary with its rules, whatever form it was read from."""

import codecs
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from openmodelatlas.errors import InputError
from openmodelatlas.text.spelling import Spelling

LONGEST_PROMPT = 1 << 24  # characters; far beyond any context, so that a mistaken file is refused at once


@dataclass(frozen=True, kw_only=True)
class SpecialTokens:
    """Ids with a role. `eos`: every id that ends a text. `add_bos`, `add_eos`: whether encoding puts them around it."""

    bos: int | None
    eos: frozenset[int]
    add_bos: bool
    add_eos: bool = False


class Method(ABC):
    """How text becomes ids."""

    normalises = ""
    """What is done to text first that decoding does not undo, such as `NFC`."""

    @abstractmethod
    def encode(self, text: str, *, literal: bool) -> list[int]:
        """Ids of valid Unicode. `literal`: names of control tokens are text like any other."""

    @abstractmethod
    def cut(self, text: str) -> list[str]:
        """The pieces that no merge crosses."""


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """Every entry as it is stored, by id. `control`: tokens that stand for no text; `added`: text that is one token
    whatever stands around it; `gaps`: ids without an entry; `unused`: entries that only fill the table up."""

    tokens: Sequence[str]
    control: frozenset[int]
    added: frozenset[int]
    gaps: frozenset[int] = frozenset()
    unused: frozenset[int] = frozenset()
    ids: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        ids = {token: number for number, token in enumerate(self.tokens) if number not in self.gaps}
        object.__setattr__(self, "ids", ids)


class Tokenizer:
    """A vocabulary with its rules. `form`: what it was read from; `notes`: what a reader should know of how."""

    def __init__(self, method: Method, vocabulary: Vocabulary, spelling: Spelling, special: SpecialTokens, *,
                 form: str, chat_template: str | None = None, notes: tuple[str, ...] = ()) -> None:  # fmt: skip
        self.vocabulary, self.spelling, self.special = vocabulary, spelling, special
        self.form, self.chat_template, self.notes = form, chat_template, notes
        self.method = method

    @property
    def tokens(self) -> Sequence[str]:
        """The entries as stored, by id."""
        return self.vocabulary.tokens

    @property
    def vocab_size(self) -> int:
        """How many ids there are."""
        return len(self.tokens)

    def encode(self, text: str, *, add_bos: bool | None = None, literal: bool = False) -> list[int]:
        """Token ids of a text; `add_bos` None does as the checkpoint says. Names of control tokens in the text become
        those tokens, unless `literal`.

        InputError for text that is not valid Unicode, or that the vocabulary has no tokens for."""
        if len(text) > LONGEST_PROMPT:
            raise InputError("text too long", expected=f"at most {LONGEST_PROMPT} characters", found=len(text))
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InputError("text is not valid Unicode", where=f"character {error.start}") from None
        ids = self.method.encode(text, literal=literal)
        bos = self.special.add_bos if add_bos is None else add_bos
        return [self.special.bos, *ids] if bos and self.special.bos is not None else ids

    def encode_rendered(self, text: str) -> list[int]:
        """Token ids of a conversation that a chat template wrote: with exactly one beginning where encoding adds one,
        whether or not the template wrote it."""
        ids = self.encode(text, add_bos=False)
        begun = not self.special.add_bos or self.special.bos is None or ids[:1] == [self.special.bos]
        return ids if begun else self.encode(text, add_bos=True)

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """The bytes that a token adds to a text; a control token adds none unless `special`."""
        text = self.tokens[token]
        if token in self.vocabulary.control:
            return text.encode() if special else b""
        return self.spelling.added(text) if token in self.vocabulary.added else self.spelling.joined(text)

    def decode(self, ids: Iterable[int], *, special: bool = False) -> str:
        """The text of tokens; bytes that make no character become U+FFFD."""
        stream = Stream(self, special=special)
        return "".join(map(stream.push, ids)) + stream.finish()

    def stream(self) -> "Stream":
        """A decoder for tokens as they come."""
        return Stream(self)

    def cut(self, text: str) -> list[str]:
        """How text is cut before anything is merged."""
        return self.method.cut(text)


class Stream:
    """Decodes token by token: a character split over tokens comes out when its last byte does."""

    def __init__(self, tokenizer: Tokenizer, *, special: bool = False) -> None:
        self._tokenizer, self._special = tokenizer, special
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._at_start = tokenizer.spelling.space_at_start

    def push(self, token: int) -> str:
        """The text that is complete now and was not before."""
        raw = self._tokenizer.piece(token, special=self._special)
        control = token in self._tokenizer.vocabulary.control
        if self._at_start and raw and not control:  # the space that encoding put before the text
            raw = raw.removeprefix(b" ")
        self._at_start = self._tokenizer.spelling.space_at_start and control
        return self._decoder.decode(raw)

    def finish(self) -> str:
        """What is left: U+FFFD if the last character never came to its end."""
        return self._decoder.decode(b"", final=True)
