"""A tokenizer in another form: `tokenizer.json` with its settings, the pairs of a GGUF file, or a file of ranks.

Whatever is written is read again and must give the same ids for every hard text, and the same bytes for every id."""

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import AddedToken, decoders, models, normalizers, processors
from tokenizers import Tokenizer as Backend

from openmodelatlas.errors import AtlasError, CheckpointError
from openmodelatlas.text import huggingface
from openmodelatlas.text.byte_level import CUTS, cutter
from openmodelatlas.text.gguf_vocabulary import BYTE_LEVEL, PIECES, from_gguf
from openmodelatlas.text.hard_texts import HARD_TEXTS
from openmodelatlas.text.known import RankRules
from openmodelatlas.text.library import LibraryMethod, refused_as
from openmodelatlas.text.pieces import PieceMethod
from openmodelatlas.text.sentencepiece import BYTE, CONTROL, NORMAL, UNKNOWN, UNUSED, USER_DEFINED
from openmodelatlas.text.shown import shown
from openmodelatlas.text.spelling import MARK, ByteSpelling
from openmodelatlas.text.tiktoken import from_tiktoken
from openmodelatlas.text.tokenizer import Tokenizer

MOST_NAMES = 32
"""Control tokens that are compared by name; all are compared by id."""


def tokenizer_files(tokenizer: Tokenizer) -> dict[str, bytes]:
    """`tokenizer.json` and `tokenizer_config.json`. CheckpointError if the library cannot do what it does."""
    backend = _backend(tokenizer)
    special, tokens = tokenizer.special, tokenizer.tokens
    settings: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "bos_token": None if special.bos is None else tokens[special.bos],
        "eos_token": tokens[min(special.eos)] if special.eos else None,
        "add_bos_token": special.add_bos,
    }
    if tokenizer.chat_template is not None:
        settings["chat_template"] = tokenizer.chat_template
    written = {
        huggingface.FORM: backend.to_str().encode(),
        huggingface.CONFIG: (json.dumps(settings, indent=2, ensure_ascii=False) + "\n").encode(),
    }
    _same(tokenizer, huggingface.from_huggingface(written).tokenizer, huggingface.FORM)
    return written


def _backend(tokenizer: Tokenizer) -> Backend:
    """The library's own form, with the beginning that encoding adds."""
    method = tokenizer.method
    if isinstance(method, PieceMethod):
        backend = _of_pieces(tokenizer, method)
    elif isinstance(method, LibraryMethod):
        backend = Backend.from_str(method.backend.to_str())
    else:
        raise _unwritten(tokenizer, "tokenizer.json", f"a method of its own, {type(method).__name__}")
    bos = tokenizer.special.bos
    if tokenizer.special.add_bos and bos is not None and backend.post_processor is None:
        name = tokenizer.tokens[bos]
        backend.post_processor = processors.TemplateProcessing(
            single=[name, "$A"], pair=[name, "$A", name, "$B"], special_tokens=[(name, bos)]
        )
    return backend


def _of_pieces(tokenizer: Tokenizer, method: PieceMethod) -> Backend:
    """SentencePiece's joining as merges: every pair of pieces that makes a piece, the best score first."""
    pieces, vocabulary = method.pieces, tokenizer.vocabulary
    if pieces.kind != "bpe":
        raise _unwritten(tokenizer, huggingface.FORM, "a unigram vocabulary")
    pairs = []
    for whole, number in pieces.plain.items():
        for at in range(1, len(whole)):
            left, right = whole[:at], whole[at:]
            if left in pieces.plain and right in pieces.plain:
                pairs.append((-pieces.scores[number], number, at, left, right))
    unknown = None if pieces.unknown is None else vocabulary.tokens[pieces.unknown]
    with refused_as("the vocabulary cannot be written", huggingface.FORM):
        backend = Backend(
            models.BPE(
                vocab=dict(vocabulary.ids),
                merges=[(left, right) for *_, left, right in sorted(pairs)],
                unk_token=unknown,
                fuse_unk=True,
                byte_fallback=bool(pieces.byte),
            )
        )
    steps: list[Any] = [normalizers.Prepend(MARK)] if pieces.space_at_start else []
    backend.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", MARK)])
    undo: list[Any] = [decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse()]
    backend.decoder = decoders.Sequence(undo + ([decoders.Strip(" ", 1, 0)] if pieces.space_at_start else []))
    tokens = vocabulary.tokens
    names = [tokens[number] for number in sorted(vocabulary.control) if tokens[number]]
    backend.add_special_tokens([AddedToken(name, normalized=False, special=True) for name in names])
    # Marks are found in text only after spaces have become marks.
    added = [tokens[number] for number in sorted(vocabulary.added)]
    backend.add_tokens([AddedToken(token, normalized=MARK in token) for token in added])
    return backend


def gguf_pairs(tokenizer: Tokenizer) -> dict[str, Any]:
    """The `tokenizer.*` pairs of a GGUF file. CheckpointError for a way of cutting text that has no name there."""
    vocabulary, special = tokenizer.vocabulary, tokenizer.special
    pairs: dict[str, Any] = {}
    method = tokenizer.method
    if isinstance(method, PieceMethod):
        if method.pieces.kind != "bpe":
            raise _unwritten(tokenizer, "GGUF", "a unigram vocabulary")
        pairs |= {
            "tokenizer.ggml.model": PIECES,
            "tokenizer.ggml.scores": [float(score) for score in method.pieces.scores],
            "tokenizer.ggml.add_space_prefix": method.pieces.space_at_start,
        }
        if method.pieces.unknown is not None:
            pairs["tokenizer.ggml.unknown_token_id"] = method.pieces.unknown
    elif isinstance(tokenizer.spelling, ByteSpelling) and isinstance(method, LibraryMethod):
        model = json.loads(method.backend.to_str())["model"]
        pairs |= {
            "tokenizer.ggml.model": BYTE_LEVEL,
            "tokenizer.ggml.pre": _name_of_cut(tokenizer),
            "tokenizer.ggml.merges": [" ".join(merge) for merge in _merges(model)],
        }
    else:
        raise _unwritten(tokenizer, "GGUF", "a vocabulary that is neither of bytes nor SentencePiece's")
    pairs["tokenizer.ggml.tokens"] = [
        f"<|gap {number}|>" if number in vocabulary.gaps else token for number, token in enumerate(vocabulary.tokens)
    ]
    pairs["tokenizer.ggml.token_type"] = _types(tokenizer)
    if special.bos is not None:
        pairs["tokenizer.ggml.bos_token_id"] = special.bos
    ends = sorted(special.eos)
    for name, number in zip(("eos", "eot", "eom"), ends, strict=False):
        pairs[f"tokenizer.ggml.{name}_token_id"] = number
    pairs["tokenizer.ggml.add_bos_token"] = special.add_bos
    if tokenizer.chat_template is not None:
        pairs["tokenizer.chat_template"] = tokenizer.chat_template
    _same(tokenizer, from_gguf(pairs), "GGUF")
    return pairs


def _types(tokenizer: Tokenizer) -> list[int]:
    """The type of each entry, as GGUF numbers them."""
    vocabulary, method = tokenizer.vocabulary, tokenizer.method
    types = [NORMAL] * len(vocabulary.tokens)
    for kind, numbers in (
        (UNUSED, vocabulary.unused | vocabulary.gaps),
        (USER_DEFINED, vocabulary.added),
        (CONTROL, vocabulary.control),
    ):
        for number in numbers:
            types[number] = kind
    if isinstance(method, PieceMethod):
        for number in method.pieces.byte.values():
            types[number] = BYTE
        if method.pieces.unknown is not None:
            types[method.pieces.unknown] = UNKNOWN
    return types


def _merges(model: Mapping[str, Any]) -> Sequence[Sequence[str]]:
    """Merges as pairs; older files have them as text with a space."""
    return [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]


def _name_of_cut(tokenizer: Tokenizer) -> str:
    """The name of the way of cutting that does the same to every hard text, and normalises the same."""
    method = tokenizer.method
    assert isinstance(method, LibraryMethod)
    whole = json.loads(method.backend.to_str())["model"].get("ignore_merges", False)
    cuts = [tokenizer.cut(text) for text in HARD_TEXTS]
    for name, cut in CUTS.items():
        same = cut.nfc == (method.normalises == "NFC") and cut.whole_words == whole
        if same and [_cut_by(cutter(cut), text, cut.nfc) for text in HARD_TEXTS] == cuts:
            return name
    raise _unwritten(tokenizer, "GGUF", "a way of cutting text that has no name there")


def _cut_by(way: Any, text: str, nfc: bool) -> list[str]:
    text = normalizers.NFC().normalize_str(text) if nfc else text
    return [text[start:end] for _, (start, end) in way.pre_tokenize_str(text)]


def rank_file(tokenizer: Tokenizer, rules: RankRules) -> bytes:
    """A file of ranks. CheckpointError if the tokenizer is not of bytes, has merges out of the order of its ids, or
    other special tokens than the release's."""
    spelling, tokens = tokenizer.spelling, tokenizer.tokens
    if not isinstance(spelling, ByteSpelling):
        raise _unwritten(tokenizer, "a file of ranks", "a vocabulary that is not of bytes")
    if tuple(tokens[rules.ranks :]) != rules.special:
        here = tokens[rules.ranks :]
        differing = next((pair for pair in zip(here, rules.special, strict=False) if pair[0] != pair[1]), None)
        words = f"{len(here)} of them" if differing is None else f"{shown(differing[0])} for {shown(differing[1])}"
        raise _unwritten(tokenizer, "a file of ranks", f"special tokens other than those of {rules.title}: {words}")
    lines = [
        f"{base64.b64encode(spelling.joined(token)).decode()} {rank}\n"
        for rank, token in enumerate(tokens[: rules.ranks])
    ]
    written = "".join(lines).encode()
    _same(tokenizer, from_tiktoken(written, rules), "a file of ranks")
    return written


def _same(tokenizer: Tokenizer, written: Tokenizer, form: str) -> None:
    """CheckpointError names the first text whose ids, or the first id whose bytes, became others."""
    for literal in (True, False):
        for text in HARD_TEXTS:
            if _outcome(tokenizer, text, literal) != _outcome(written, text, literal):
                raise _unwritten(tokenizer, form, f"other ids for {shown(text)}")
    unknown = tokenizer.method.pieces.unknown if isinstance(tokenizer.method, PieceMethod) else None
    control = sorted(tokenizer.vocabulary.control - {unknown})  # whose name is text in one library and not in the other
    for name in [tokenizer.tokens[number] for number in control[:MOST_NAMES]]:
        if tokenizer.encode(name, add_bos=False) != written.encode(name, add_bos=False):
            raise _unwritten(tokenizer, form, f"other ids for {shown(name)}")
    for number in range(tokenizer.vocab_size):
        if number in tokenizer.vocabulary.gaps or number in tokenizer.vocabulary.unused:
            continue
        if number >= written.vocab_size or tokenizer.piece(number, special=True) != written.piece(number, special=True):
            raise _unwritten(tokenizer, form, f"another token at {number}")


def _outcome(tokenizer: Tokenizer, text: str, literal: bool) -> list[int] | str:
    """Ids, or the word that there are none."""
    try:
        return tokenizer.encode(text, add_bos=False, literal=literal)
    except AtlasError as error:
        return error.what


def _unwritten(tokenizer: Tokenizer, form: str, found: str) -> CheckpointError:
    return CheckpointError(
        f"the tokenizer cannot be written as {form}", where=tokenizer.form, found=found, code="tokenizer.unwritten",
        fix="--no-tokenizer leaves it out",
    )  # fmt: skip
