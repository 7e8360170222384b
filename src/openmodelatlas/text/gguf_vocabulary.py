"""The vocabulary that a GGUF file carries in its `tokenizer.*` pairs."""

from collections.abc import Mapping
from typing import Any

from openmodelatlas.errors import CheckpointError
from openmodelatlas.text import sentencepiece
from openmodelatlas.text.byte_level import CUTS, LABELS, method
from openmodelatlas.text.known import recognised
from openmodelatlas.text.merge_order import merge_notes
from openmodelatlas.text.pieces import PieceMethod, spelling
from openmodelatlas.text.sentencepiece import BYTE, CONTROL, NORMAL, UNUSED, USER_DEFINED
from openmodelatlas.text.spelling import ByteSpelling
from openmodelatlas.text.tokenizer import SpecialTokens, Tokenizer, Vocabulary

FORM = "tokenizer.ggml"
BYTE_LEVEL, PIECES = "gpt2", "llama"
DEFAULTS = {"bos_token_id": 1, "eos_token_id": 2, "unknown_token_id": 0}
"""Of vocabularies of the kind `llama` that do not say them, as programs that read the format assume."""


def present(metadata: Mapping[str, Any]) -> bool:
    """Whether there is a vocabulary at all."""
    return metadata.get("tokenizer.ggml.model") not in (None, "none") or "tokenizer.ggml.tokens" in metadata


def from_gguf(metadata: Mapping[str, Any]) -> Tokenizer:
    """The tokenizer that the `tokenizer.*` pairs of a GGUF file describe, arrays decoded in full.

    CheckpointError if they are incomplete, contradict each other, or describe a kind that is not read here."""
    kind = metadata.get("tokenizer.ggml.model")
    if kind == PIECES:
        return _pieces(metadata)
    if kind == BYTE_LEVEL:
        return _byte_level(metadata)
    raise CheckpointError(
        "a kind of tokenizer that is not read",
        where="tokenizer.ggml.model",
        expected=f"{BYTE_LEVEL!r} (byte-level BPE) or {PIECES!r} (SentencePiece)",
        found=repr(kind)[:60],
        code="tokenizer.unknown-kind",
    )


def _byte_level(metadata: Mapping[str, Any]) -> Tokenizer:
    tokens, types = _tokens(metadata), _types(metadata)
    vocabulary = Vocabulary(
        tokens=tokens,
        control=frozenset(n for n, kind in enumerate(types) if kind == CONTROL),
        added=frozenset(n for n, kind in enumerate(types) if kind == USER_DEFINED),
        unused=frozenset(n for n, kind in enumerate(types) if kind == UNUSED),
    )
    pre, note = _pre(metadata, tokens)
    cut = CUTS[pre]
    # Programs that read the format add a beginning for Llama 3's way of cutting if the key is absent, for no other.
    special = _special(metadata, len(tokens), assumed=cut.adds_bos)
    merges = _merges(metadata)
    apart = vocabulary.control | vocabulary.added | vocabulary.unused
    return Tokenizer(
        method(vocabulary, merges, cut, FORM),
        vocabulary,
        ByteSpelling(),
        special,
        form=FORM,
        chat_template=_template(metadata),
        notes=(*note, *merge_notes(merges, vocabulary.ids, apart)),
    )


def _pre(metadata: Mapping[str, Any], tokens: list[str]) -> tuple[str, tuple[str, ...]]:
    """The name of the way of cutting, and what is odd about it."""
    pre = metadata.get("tokenizer.ggml.pre")
    if pre is None or pre == "default":
        rules = recognised(tokens)
        if rules is not None:
            ids = ", ".join(map(str, rules.recognised_by))
            note = f"tokenizer.ggml.pre is not there; recovered as {rules.cut} from the tokens at {ids}"
            return rules.cut, (note,)
    if not isinstance(pre, str) or pre not in CUTS:
        raise CheckpointError(
            "a way of cutting text that is not known",
            where="tokenizer.ggml.pre",
            expected=", ".join(sorted(CUTS)),
            found="absent" if pre is None else repr(pre)[:60],
            code="tokenizer.unknown-cut",
        )
    right = LABELS.get(pre)
    return pre, () if right is None else (f"tokenizer.ggml.pre is {pre}, which cuts as {right} does",)


def _pieces(metadata: Mapping[str, Any]) -> Tokenizer:
    tokens, types = _tokens(metadata), _types(metadata)
    scores = metadata.get("tokenizer.ggml.scores")
    if "tokenizer.ggml.merges" in metadata and BYTE not in types:
        raise CheckpointError(
            "the kind of tokenizer is mislabelled",
            where="tokenizer.ggml.model",
            expected=f"{BYTE_LEVEL!r}: the vocabulary has merges and no byte pieces",
            found=repr(PIECES),
            code="tokenizer.wrong-kind",
        )
    if not isinstance(scores, list) or len(scores) != len(tokens) or not all(_number(score) for score in scores):
        raise CheckpointError(
            "the tokenizer is incomplete",
            where="tokenizer.ggml.scores",
            expected=f"{len(tokens)} numbers",
            found=_size(scores),
            code="tokenizer.incomplete",
        )
    special = _special(metadata, len(tokens), assumed=True, defaults=DEFAULTS)
    pieces, vocabulary = sentencepiece.build(
        tokens,
        scores,
        types,
        kind="bpe",
        space_at_start=_flag(metadata, "add_space_prefix", True),
        unknown=_token(metadata, "unknown_token_id", len(tokens), DEFAULTS),
        where=FORM,
    )
    return Tokenizer(
        PieceMethod(pieces), vocabulary, spelling(pieces), special, form=FORM, chat_template=_template(metadata)
    )


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value


def _template(metadata: Mapping[str, Any]) -> str | None:
    template = metadata.get("tokenizer.chat_template")
    return template if isinstance(template, str) else None


def _types(metadata: Mapping[str, Any]) -> list[Any]:
    size = len(metadata["tokenizer.ggml.tokens"])
    types = metadata.get("tokenizer.ggml.token_type", [NORMAL] * size)
    if not isinstance(types, list) or len(types) != size:
        raise CheckpointError(
            "token types do not match the tokens",
            where="tokenizer.ggml.token_type",
            expected=size,
            found=_size(types),
            code="tokenizer.incomplete",
        )
    return types


def _size(value: object) -> object:
    return len(value) if isinstance(value, list) else repr(value)[:60]


def _tokens(metadata: Mapping[str, Any]) -> list[str]:
    tokens = _strings(metadata, "tokenizer.ggml.tokens")
    if len(set(tokens)) != len(tokens):
        raise CheckpointError(
            "the vocabulary has a token twice",
            where="tokenizer.ggml.tokens",
            expected=len(tokens),
            found=len(set(tokens)),
            code="tokenizer.token-twice",
        )
    return tokens


def _strings(metadata: Mapping[str, Any], key: str) -> list[str]:
    value = metadata.get(key)
    if not isinstance(value, list) or not value or not all(isinstance(entry, str) for entry in value):
        raise CheckpointError(
            "the tokenizer is incomplete",
            where=key,
            expected="an array of strings",
            found=_size(value),
            code="tokenizer.incomplete",
        )
    return value


def _merges(metadata: Mapping[str, Any]) -> list[tuple[str, str]]:
    merges = []
    for number, line in enumerate(_strings(metadata, "tokenizer.ggml.merges")):
        left, space, right = line.partition(" ")
        if not (left and space and right) or " " in right:
            where = f"tokenizer.ggml.merges, entry {number}"
            raise CheckpointError(
                "not a merge of two parts", where=where, found=repr(line[:40]), code="tokenizer.merges"
            )
        merges.append((left, right))
    return merges


def _token(metadata: Mapping[str, Any], name: str, size: int, defaults: Mapping[str, int]) -> int | None:
    key = f"tokenizer.ggml.{name}"
    value = metadata.get(key)
    if value is None:
        value = defaults.get(name)
        return value if value is not None and value < size else None
    if type(value) is not int or not 0 <= value < size:
        raise CheckpointError(
            "a special token outside the vocabulary",
            where=key,
            expected=f"0 to {size - 1}",
            found=repr(value)[:60],
            code="tokenizer.special-outside",
        )
    return value


def _flag(metadata: Mapping[str, Any], name: str, assumed: bool) -> bool:
    key = f"tokenizer.ggml.{name}"
    value = metadata.get(key, assumed)
    if not isinstance(value, bool):
        raise CheckpointError("not a bool", where=key, found=repr(value)[:60], code="tokenizer.incomplete")
    return value


def _special(
    metadata: Mapping[str, Any], size: int, *, assumed: bool, defaults: Mapping[str, int] | None = None
) -> SpecialTokens:
    ends = (_token(metadata, name, size, defaults or {}) for name in ("eos_token_id", "eot_token_id", "eom_token_id"))
    return SpecialTokens(
        bos=_token(metadata, "bos_token_id", size, defaults or {}),
        eos=frozenset(end for end in ends if end is not None),
        add_bos=_flag(metadata, "add_bos_token", assumed),
        add_eos=_flag(metadata, "add_eos_token", False),
    )
