"""A SentencePiece `tokenizer.model`: the few fields of its protobuf that say how text is encoded, and no others."""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from openmodelatlas.errors import CheckpointError
from openmodelatlas.text.pieces import PieceMethod, Pieces, spelling
from openmodelatlas.text.tokenizer import SpecialTokens, Tokenizer, Vocabulary

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
"""Types of pieces; GGUF numbers its token types alike."""

UNIGRAM, BPE = 1, 2
MOST_PIECES = 1 << 22
KIND = "sentencepiece"

# Field numbers of the messages ModelProto, SentencePiece, TrainerSpec and NormalizerSpec.
PIECES, TRAINER, NORMALIZER = 1, 2, 3
TEXT, SCORE, TYPE = 1, 2, 3
MODEL_TYPE, BYTE_FALLBACK, UNK_ID, BOS_ID, EOS_ID = 3, 35, 40, 41, 42
CHARACTER_MAP, DUMMY_PREFIX, EXTRA_SPACES, ESCAPE_SPACES = 2, 3, 4, 5

VARINT, EIGHT, LENGTH, FOUR = 0, 1, 2, 5


@dataclass(frozen=True, kw_only=True)
class PieceFile:
    """What such a file says. `flags` of the normaliser and ids of the trainer that are not stated have the values that
    their format gives them."""

    entries: Sequence[str]
    scores: Sequence[float]
    types: Sequence[int]
    kind: Literal["bpe", "unigram"]
    unknown: int
    bos: int
    eos: int
    dummy_prefix: bool


def looks_like(raw: bytes) -> bool:
    """Whether it starts as such a file does: with a piece."""
    return raw[:1] == bytes([PIECES << 3 | LENGTH])


def read(raw: bytes, where: str) -> PieceFile:
    """The pieces of a file. CheckpointError for one that is damaged or encodes in ways that are not read here."""
    entries, scores, types = [], [], []
    trainer: dict[int, Any] = {}
    normalizer: dict[int, Any] = {}
    for number, value in _fields(raw, where):
        if number == PIECES:
            piece = _message(value, where)
            entries.append(_text(piece.get(TEXT, b""), where))
            scores.append(_float(piece.get(SCORE, b"\0\0\0\0"), where))
            types.append(_whole(piece.get(TYPE, NORMAL), where))
            if len(entries) > MOST_PIECES:
                raise _damaged(where, f"more than {MOST_PIECES:,} pieces")
        elif number == TRAINER:
            trainer = _message(value, where)
        elif number == NORMALIZER:
            normalizer = _message(value, where)
    if not entries:
        raise _damaged(where, "no pieces")
    kinds: dict[int, Literal["bpe", "unigram"]] = {UNIGRAM: "unigram", BPE: "bpe"}
    kind = _whole(trainer.get(MODEL_TYPE, UNIGRAM), where)
    if kind not in kinds:
        raise _not_read(where, "unigram or BPE", f"model type {kind}")
    if normalizer.get(CHARACTER_MAP):
        raise _not_read(where, "no table of characters", f"one of {len(normalizer[CHARACTER_MAP]):,} bytes")
    if normalizer.get(EXTRA_SPACES, 1):
        raise _not_read(where, "spaces kept as they are", "extra spaces removed")
    if not normalizer.get(ESCAPE_SPACES, 1):
        raise _not_read(where, "spaces written as marks", "spaces written as they are")
    return PieceFile(
        entries=entries,
        scores=scores,
        types=types,
        kind=kinds[kind],
        unknown=_id(trainer.get(UNK_ID, 0), where),
        bos=_id(trainer.get(BOS_ID, 1), where),
        eos=_id(trainer.get(EOS_ID, 2), where),
        dummy_prefix=bool(normalizer.get(DUMMY_PREFIX, 1)),
    )


def from_sentencepiece(raw: bytes, where: str = "tokenizer.model") -> Tokenizer:
    """The tokenizer of such a file. It never adds a beginning by itself; programs do where they know the model."""
    file = read(raw, where)
    size = len(file.entries)
    pieces, vocabulary = build(
        file.entries,
        file.scores,
        file.types,
        kind=file.kind,
        space_at_start=file.dummy_prefix,
        unknown=file.unknown if 0 <= file.unknown < size else None,
        where=where,
    )
    special = SpecialTokens(
        bos=file.bos if 0 <= file.bos < size else None,
        eos=frozenset({file.eos} if 0 <= file.eos < size else ()),
        add_bos=False,
    )
    return Tokenizer(PieceMethod(pieces), vocabulary, spelling(pieces), special, form=where)


def build(
    entries: Sequence[str],
    scores: Sequence[float],
    types: Sequence[int],
    *,
    kind: Literal["bpe", "unigram"],
    space_at_start: bool,
    unknown: int | None,
    where: str,
) -> tuple[Pieces, Vocabulary]:
    """A vocabulary out of pieces with scores and types. CheckpointError for one that contradicts itself."""
    if len(set(entries)) != len(entries):
        raise CheckpointError(
            "the vocabulary has a token twice", where=where, expected=len(entries), found=len(set(entries)),
            code="tokenizer.token-twice",
        )  # fmt: skip

    def of(*wanted: int) -> dict[str, int]:
        return {entry: n for n, (entry, type_) in enumerate(zip(entries, types, strict=True)) if type_ in wanted}

    values = {f"<0x{byte:02X}>": byte for byte in range(256)}
    bytes_there = of(BYTE)
    if alien := [entry for entry in bytes_there if entry not in values]:
        raise _damaged(where, f"a byte piece {alien[0][:20]!r}")
    control = {entry: number for entry, number in of(CONTROL).items() if entry}
    pieces = Pieces(
        kind=kind,
        scores=scores,
        plain={entry: number for entry, number in of(NORMAL).items() if entry},
        whole={entry: number for entry, number in of(USER_DEFINED).items() if entry},
        control=control,
        byte={values[entry]: number for entry, number in bytes_there.items()},
        unknown=unknown,
        space_at_start=space_at_start,
    )
    vocabulary = Vocabulary(
        tokens=entries,
        control=frozenset({*of(CONTROL).values(), *of(UNKNOWN).values()}),
        added=frozenset(pieces.whole.values()),
        unused=frozenset(of(UNUSED).values()),
    )
    return pieces, vocabulary


def _fields(raw: bytes, where: str) -> Iterator[tuple[int, Any]]:
    """Every field of a message: number and value (an int of a varint, else the bytes)."""
    at = 0
    while at < len(raw):
        key, at = _varint(raw, at, where)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, at = _varint(raw, at, where)
            yield number, value
            continue
        if kind == LENGTH:
            length, at = _varint(raw, at, where)
        elif kind in (EIGHT, FOUR):
            length = 8 if kind == EIGHT else 4
        else:
            raise _damaged(where, f"a field of wire type {kind} at byte {at}")
        if length > len(raw) - at:
            raise _damaged(where, f"a field of {length:,} bytes at byte {at}, {len(raw) - at:,} left")
        yield number, raw[at : at + length]
        at += length


def _varint(raw: bytes, at: int, where: str) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(raw):
            raise _damaged(where, "the file ends inside a number")
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise _damaged(where, f"a number of more than 10 bytes at byte {at}")


def _message(value: Any, where: str) -> dict[int, Any]:
    if not isinstance(value, bytes):
        raise _damaged(where, "a number where a message must be")
    return dict(_fields(value, where))


def _text(value: Any, where: str) -> str:
    try:
        return str(value, "utf-8") if isinstance(value, bytes) else _refuse_text(where)
    except UnicodeDecodeError:
        raise _damaged(where, "a piece that is not UTF-8") from None


def _refuse_text(where: str) -> str:
    raise _damaged(where, "a number where text must be")


def _float(value: Any, where: str) -> float:
    if not isinstance(value, bytes) or len(value) != 4:
        raise _damaged(where, "a score that is no float32")
    score: float = struct.unpack("<f", value)[0]
    if score != score:
        raise _damaged(where, "a score that is no number")
    return score


def _whole(value: Any, where: str) -> int:
    if not isinstance(value, int):
        raise _damaged(where, "bytes where a number must be")
    return value


def _id(value: Any, where: str) -> int:
    """An int32: -1, for none, is stored as the 64-bit complement."""
    number = _whole(value, where)
    return number - (1 << 64) if number >= 1 << 63 else number


def _damaged(where: str, found: str) -> CheckpointError:
    return CheckpointError("not a whole SentencePiece model", where=where, found=found, code="tokenizer.damaged")


def _not_read(where: str, expected: str, found: str) -> CheckpointError:
    return CheckpointError(
        "a way of preparing text that is not read", where=where, expected=expected, found=found,
        code="tokenizer.unknown-kind",
    )  # fmt: skip
