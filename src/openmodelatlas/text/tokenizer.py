"""Text to tokens and back, by the byte-level BPE vocabulary that a GGUF file carries."""

import codecs
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend

from openmodelatlas.errors import CheckpointError, InputError

CONTROL, USER_DEFINED = 3, 4  # token types of GGUF: never made from text by merging
LONGEST_PROMPT = 1 << 24  # characters; far beyond any context, so that a mistaken file is refused at once

_DIGITS = {"llama-bpe": "{1,3}", "llama3": "{1,3}", "llama-v3": "{1,3}", "qwen2": ""}
"""Ways of cutting text that differ in nothing but how many digits stay together."""


def _split(pre: str) -> Regex:
    return Regex(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + _DIGITS[pre] + r"| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    )


def _bytes_by_character() -> dict[str, int]:
    """The byte that each character of a byte-level vocabulary stands for: printable ones for themselves, the others
    moved past 255 in order."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    moved = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + n): byte for n, byte in enumerate(moved)}


_BYTES = _bytes_by_character()


@dataclass(frozen=True, kw_only=True)
class SpecialTokens:
    """Ids with a role. `eos`: every id that ends a text."""

    bos: int | None
    eos: frozenset[int]
    add_bos: bool


class Tokenizer:
    """A vocabulary with its rules. `tokens` are the entries as stored, by id."""

    def __init__(self, backend: Backend, tokens: Sequence[str], control: frozenset[int], added: frozenset[int],
                 special: SpecialTokens, chat_template: str | None) -> None:  # fmt: skip
        self.tokens, self.special, self.chat_template = tokens, special, chat_template
        self._backend, self._control, self._added = backend, control, added

    @property
    def vocab_size(self) -> int:
        """How many ids there are."""
        return len(self.tokens)

    def encode(self, text: str, *, add_bos: bool | None = None) -> list[int]:
        """Token ids of a text, names of special tokens in it included; `add_bos` None does as the checkpoint says.

        InputError for text that is not valid Unicode."""
        if len(text) > LONGEST_PROMPT:
            raise InputError("text too long", expected=f"at most {LONGEST_PROMPT} characters", found=len(text))
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InputError("text is not valid Unicode", where=f"character {error.start}") from None
        ids: list[int] = self._backend.encode(text, add_special_tokens=False).ids
        bos = self.special.add_bos if add_bos is None else add_bos
        return [self.special.bos, *ids] if bos and self.special.bos is not None else ids

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """The bytes that a token adds to a text; a control token adds none unless `special`."""
        text = self.tokens[token]
        if token in self._control:
            return text.encode() if special else b""
        if token in self._added or any(character not in _BYTES for character in text):
            return text.encode()
        return bytes(_BYTES[character] for character in text)

    def decode(self, ids: Iterable[int], *, special: bool = False) -> str:
        """The text of tokens; bytes that make no character become U+FFFD."""
        return b"".join(self.piece(token, special=special) for token in ids).decode(errors="replace")

    def stream(self) -> "Stream":
        """A decoder for tokens as they come."""
        return Stream(self)


class Stream:
    """Decodes token by token: a character split over tokens comes out when its last byte does."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, token: int) -> str:
        """The text that is complete now and was not before."""
        return self._decoder.decode(self._tokenizer.piece(token))

    def finish(self) -> str:
        """What is left: U+FFFD if the last character never came to its end."""
        return self._decoder.decode(b"", final=True)


def from_gguf(metadata: Mapping[str, Any]) -> Tokenizer:
    """The tokenizer that the `tokenizer.*` pairs of a GGUF file describe, arrays decoded in full.

    CheckpointError if they are incomplete, contradict each other, or describe a kind that is not read here."""
    kind = metadata.get("tokenizer.ggml.model")
    if kind != "gpt2":
        found = repr(kind) + (" (SentencePiece)" if kind == "llama" else "")
        raise CheckpointError("a kind of tokenizer that is not read", expected="'gpt2' (byte-level BPE)", found=found)
    tokens = _strings(metadata, "tokenizer.ggml.tokens")
    vocabulary = {token: number for number, token in enumerate(tokens)}
    if len(vocabulary) != len(tokens):
        raise CheckpointError("the vocabulary has a token twice", expected=len(tokens), found=len(vocabulary))
    types = metadata.get("tokenizer.ggml.token_type", [1] * len(tokens))
    if not isinstance(types, list) or len(types) != len(tokens):
        raise CheckpointError("token types do not match the tokens", expected=len(tokens), found=_size(types))
    control = frozenset(number for number, kind in enumerate(types) if kind == CONTROL)
    added = frozenset(number for number, kind in enumerate(types) if kind == USER_DEFINED)
    backend = _backend(vocabulary, _merges(metadata), metadata.get("tokenizer.ggml.pre"))
    backend.add_special_tokens([AddedToken(tokens[n], normalized=False, special=True) for n in sorted(control)])
    backend.add_tokens([AddedToken(tokens[n], normalized=False) for n in sorted(added)])
    if backend.get_vocab_size() != len(tokens):  # an empty special token, say, is dropped without a word
        raise CheckpointError("special tokens do not fit", expected=len(tokens), found=backend.get_vocab_size())
    template = metadata.get("tokenizer.chat_template")
    special = _special(metadata, len(tokens))
    return Tokenizer(backend, tokens, control, added, special, template if isinstance(template, str) else None)


def _size(value: object) -> object:
    return len(value) if isinstance(value, list) else repr(value)


def _strings(metadata: Mapping[str, Any], key: str) -> list[str]:
    value = metadata.get(key)
    if not isinstance(value, list) or not value or not all(isinstance(entry, str) for entry in value):
        raise CheckpointError(
            "the tokenizer is incomplete", where=key, expected="an array of strings", found=_size(value)
        )
    return value


def _merges(metadata: Mapping[str, Any]) -> list[tuple[str, str]]:
    merges = []
    for number, line in enumerate(_strings(metadata, "tokenizer.ggml.merges")):
        left, space, right = line.partition(" ")
        if not (left and space and right) or " " in right:
            raise CheckpointError(
                "not a merge of two parts", where=f"tokenizer.ggml.merges, entry {number}", found=repr(line[:40])
            )
        merges.append((left, right))
    return merges


def _backend(vocabulary: dict[str, int], merges: list[tuple[str, str]], pre: object) -> Backend:
    """Byte-level BPE that first cuts text as the checkpoint's `pre` names it."""
    if pre == "smollm":  # every digit by itself
        cut = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    elif pre == "gpt-2":
        cut = [pre_tokenizers.ByteLevel(add_prefix_space=False)]
    elif isinstance(pre, str) and pre in _DIGITS:
        split = pre_tokenizers.Split(_split(pre), behavior="isolated")
        cut = [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    else:
        raise CheckpointError(
            "a way of cutting text that is not known",
            where="tokenizer.ggml.pre",
            expected="smollm, llama-bpe, qwen2 or gpt-2",
            found=repr(pre),
        )
    try:
        # Llama 3 takes a whole word that is in the vocabulary before it looks at merges.
        model = models.BPE(vocab=vocabulary, merges=merges, ignore_merges=pre in ("llama-bpe", "llama3", "llama-v3"))
    except Exception as error:  # the package raises a bare Exception
        raise CheckpointError("merges do not fit the vocabulary", where="tokenizer.ggml.merges", found=error) from None
    backend = Backend(model)
    if pre == "qwen2":  # a letter and its accent become one character first; decoding does not undo it
        backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = pre_tokenizers.Sequence(cut)
    backend.decoder = decoders.ByteLevel()
    return backend


def _special(metadata: Mapping[str, Any], size: int) -> SpecialTokens:
    def token(name: str) -> int | None:
        key = f"tokenizer.ggml.{name}"
        value = metadata.get(key)
        if value is not None and (type(value) is not int or not 0 <= value < size):
            raise CheckpointError(
                "a special token outside the vocabulary", where=key, expected=f"0 to {size - 1}", found=repr(value)
            )
        return value

    ends = (token("eos_token_id"), token("eot_token_id"))
    # Programs that read the format add a beginning for Llama 3's tokenizer if the key is absent, for no other here.
    assumed = metadata.get("tokenizer.ggml.pre") in ("llama-bpe", "llama3", "llama-v3")
    add_bos = metadata.get("tokenizer.ggml.add_bos_token", assumed)
    if not isinstance(add_bos, bool):
        raise CheckpointError("not a bool", where="tokenizer.ggml.add_bos_token", found=repr(add_bos))
    eos = frozenset(end for end in ends if end is not None)
    return SpecialTokens(bos=token("bos_token_id"), eos=eos, add_bos=add_bos)
