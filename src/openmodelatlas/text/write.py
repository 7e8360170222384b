"""A tokenizer written in another form: Hugging Face's files, the `tokenizer.*` pairs of GGUF, Meta's file of ranks.

What is written is read back, and must encode as the original does; what a form cannot say is an error."""

import base64
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer as Backend
from tokenizers import processors

from openmodelatlas.errors import AtlasError, CheckpointError, InputError
from openmodelatlas.text import forms
from openmodelatlas.text.byte_level import CUTS
from openmodelatlas.text.gguf_vocabulary import BYTE_LEVEL, PIECES, from_gguf
from openmodelatlas.text.hard_texts import HARD_TEXTS
from openmodelatlas.text.huggingface import CONFIG, FORM
from openmodelatlas.text.library import LibraryMethod
from openmodelatlas.text.pieces import PieceMethod
from openmodelatlas.text.pieces_library import library_form
from openmodelatlas.text.policy import GENERATION
from openmodelatlas.text.sentencepiece import BYTE, CONTROL, NORMAL, UNKNOWN, UNUSED, USER_DEFINED
from openmodelatlas.text.spelling import ByteSpelling
from openmodelatlas.text.tokenizer import Tokenizer

if TYPE_CHECKING:  # tokenizers are written without torch
    from openmodelatlas.models.variant import Variant

RANKS = "tokenizer.model"
FILLER = "[PAD{}]"
"""A row of the embedding table that no token has, as GGUF files name it."""
PROBES = (
    "Hello world, hello  two\n\n three\t! it's 'LL DON'T",
    "3333333 12:12 x1y22 ½ １２３",
    "naïve e\u0301 日本語のテキスト 한국어 مرحبا 🙂👩‍👩‍👧",
    "def f(x):\n    return x**2  # code\r\n\n   \n",
    "wait , what ? <0x41> \u00a0 \u200b …",
)
"""Texts on which ways of cutting differ."""
MOST_ADDED = 8


def is_byte_level(tokenizer: Tokenizer) -> bool:
    """Whether every byte is a character of its own."""
    return isinstance(tokenizer.method, LibraryMethod) and isinstance(tokenizer.spelling, ByteSpelling)


def ends_of(tokenizer: Tokenizer) -> int | list[int] | None:
    """The ids that end a text, as settings state them: a number, several, or null."""
    ends = sorted(tokenizer.special.eos)
    return None if not ends else ends[0] if len(ends) == 1 else ends


def huggingface_files(tokenizer: Tokenizer, end: int | None = None) -> dict[str, bytes]:
    """`tokenizer.json` and what stands beside it. `end`: the id that is meant where one must be named."""
    backend, special = _library_form(tokenizer), tokenizer.special
    if special.add_bos and special.bos is not None and backend.post_processor is None:
        begin = tokenizer.tokens[special.bos]
        backend.post_processor = processors.TemplateProcessing(
            single=f"{begin}:0 $A:0", pair=f"{begin}:0 $A:0 {begin}:1 $B:1", special_tokens=[(begin, special.bos)]
        )
    named = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    end = min(special.eos, default=None) if end is None else end
    settings = {
        **named,
        **({} if special.bos is None else {"bos_token": tokenizer.tokens[special.bos]}),
        **({} if end is None else {"eos_token": tokenizer.tokens[end]}),
        **({} if tokenizer.chat_template is None else {"chat_template": tokenizer.chat_template}),
        "add_bos_token": special.add_bos,
    }
    generation = {"bos_token_id": special.bos, "eos_token_id": ends_of(tokenizer)}
    files = {FORM: backend.to_str().encode(), CONFIG: _json(settings), GENERATION: _json(generation)}
    _check(tokenizer, forms.forms(files, {}).tokenizer(), FORM, around_added=not spaced_apart(tokenizer))
    return files


def spaced_apart(tokenizer: Tokenizer) -> bool:
    """Whether `tokenizer.json` puts the space of a text's beginning behind each token that stands for itself as well,
    which SentencePiece does not. The library knows no form that does as it does."""
    method = tokenizer.method
    return isinstance(method, PieceMethod) and method.pieces.space_at_start and bool(tokenizer.vocabulary.added)


def _library_form(tokenizer: Tokenizer) -> Backend:
    method = tokenizer.method
    if isinstance(method, LibraryMethod):
        return Backend.from_str(method.backend.to_str())
    if isinstance(method, PieceMethod) and method.pieces.kind == "bpe":
        return library_form(method.pieces, tokenizer.vocabulary, tokenizer.form)
    raise _cannot(tokenizer, FORM, "a vocabulary of merges")


def gguf_settings(tokenizer: Tokenizer, rows: int, end: int | None = None) -> dict[str, Any]:
    """The `tokenizer.*` pairs, with a token for each of the `rows` of the embedding table."""
    size = tokenizer.vocab_size
    if size > rows:
        raise CheckpointError("more tokens than rows of the embedding table", expected=rows, found=size)
    gaps = tokenizer.vocabulary.gaps
    tokens = [FILLER.format(n) if n in gaps else token for n, token in enumerate(tokenizer.tokens)]
    found = {
        "tokenizer.ggml.tokens": tokens + [FILLER.format(n) for n in range(size, rows)],
        "tokenizer.ggml.token_type": _types(tokenizer) + [UNUSED] * (rows - size),
        "tokenizer.ggml.add_bos_token": tokenizer.special.add_bos,
        **_roles(tokenizer, end),
    }
    if tokenizer.chat_template is not None:
        found["tokenizer.chat_template"] = tokenizer.chat_template
    method = tokenizer.method
    if isinstance(method, PieceMethod):
        found |= _pieces(method, rows)
        _check(tokenizer, from_gguf(found), PIECES)
        return found
    if not isinstance(method, LibraryMethod) or not is_byte_level(tokenizer):
        raise _cannot(tokenizer, "a GGUF file", "byte-level merges, or SentencePiece's own file with scores")
    found |= {"tokenizer.ggml.model": BYTE_LEVEL, "tokenizer.ggml.merges": _merges(method, tokenizer)}
    return found | {"tokenizer.ggml.pre": _cut(method, tokenizer, found)}


def ranks_file(tokenizer: Tokenizer, variant: "Variant | None") -> dict[str, bytes]:
    """Meta's `tokenizer.model`: every token before the special ones, in the order of its rank."""
    if not is_byte_level(tokenizer):
        raise _cannot(tokenizer, RANKS, "byte-level merges")
    count = min(tokenizer.vocabulary.control, default=tokenizer.vocab_size)
    entries = (tokenizer.spelling.joined(token) for token in tokenizer.tokens[:count])
    raw = b"".join(b"%s %d\n" % (base64.b64encode(entry), rank) for rank, entry in enumerate(entries))
    try:
        back = forms.forms({RANKS: raw}, {}, variant).tokenizer()
    except AtlasError as error:
        raise _cannot(tokenizer, RANKS, "tokens by rank, then the special ones of a known release") from error
    if list(back.tokens) != list(tokenizer.tokens):
        raise _cannot(tokenizer, RANKS, "the special tokens of a known release")
    _check(tokenizer, back, RANKS)
    return {RANKS: raw}


def _types(tokenizer: Tokenizer) -> list[int]:
    vocabulary, method = tokenizer.vocabulary, tokenizer.method
    found = [NORMAL] * tokenizer.vocab_size
    for numbers, kind in (
        (vocabulary.unused | vocabulary.gaps, UNUSED),
        (vocabulary.control, CONTROL),
        (vocabulary.added, USER_DEFINED),
    ):
        for number in numbers:
            found[number] = kind
    if isinstance(method, PieceMethod):
        for number in method.pieces.byte.values():
            found[number] = BYTE
        if method.pieces.unknown is not None:
            found[method.pieces.unknown] = UNKNOWN
    return found


def _roles(tokenizer: Tokenizer, end: int | None) -> dict[str, int]:
    """Ids by role. Programs stop at three of them at most."""
    ends = sorted(tokenizer.special.eos)
    if end in ends:
        ends.remove(end)
        ends.insert(0, end)
    roles = ("eos_token_id", "eot_token_id", "eom_token_id")
    found = {} if tokenizer.special.bos is None else {"tokenizer.ggml.bos_token_id": tokenizer.special.bos}
    if len(ends) > len(roles):
        raise CheckpointError("more ids that end a text than a GGUF file has keys for", expected=3, found=len(ends))
    return found | {f"tokenizer.ggml.{role}": number for role, number in zip(roles, ends, strict=False)}


def _pieces(method: PieceMethod, rows: int) -> dict[str, Any]:
    pieces = method.pieces
    if pieces.kind != "bpe":
        raise CheckpointError("no way to write this kind of tokenizer", expected="BPE", found=pieces.kind)
    found = {
        "tokenizer.ggml.model": PIECES,
        "tokenizer.ggml.scores": [*map(float, pieces.scores), *[0.0] * (rows - len(pieces.scores))],
        "tokenizer.ggml.add_space_prefix": pieces.space_at_start,
    }
    return found if pieces.unknown is None else found | {"tokenizer.ggml.unknown_token_id": pieces.unknown}


def _merges(method: LibraryMethod, tokenizer: Tokenizer) -> list[str]:
    model = json.loads(method.backend.to_str())["model"]
    if model.get("type") != "BPE" or not model.get("merges"):
        raise _cannot(tokenizer, "a GGUF file", "byte-level merges")
    return [" ".join(merge) if isinstance(merge, Sequence) and not isinstance(merge, str) else merge
            for merge in model["merges"]]  # fmt: skip


def _cut(method: LibraryMethod, tokenizer: Tokenizer, settings: Mapping[str, Any]) -> str:
    """The name of the way of cutting with which text is cut and encoded as it was."""
    whole_words = json.loads(method.backend.to_str())["model"].get("ignore_merges") is True
    first_names = {cut: name for name, cut in reversed(CUTS.items())}
    candidates = [name for name in CUTS if name in first_names.values()]
    for name in sorted(candidates, key=lambda name: CUTS[name].whole_words != whole_words):
        other = from_gguf({**settings, "tokenizer.ggml.pre": name})
        if all(other.cut(text) == tokenizer.cut(text) for text in PROBES) and _same(tokenizer, other):
            return name
    raise _cannot(tokenizer, "a GGUF file", "a way of cutting text that has a name there: " + ", ".join(CUTS))


def _same(a: Tokenizer, b: Tokenizer, *, around_added: bool = True) -> bool:
    """On hard texts, and around tokens that stand for themselves."""
    apart = [*sorted(a.special.eos), *(sorted(a.vocabulary.added)[:MOST_ADDED] if around_added else ())]
    texts = (*PROBES, *HARD_TEXTS, *(f"{a.tokens[number]}he {a.tokens[number]} x" for number in apart))
    return all(_ids(a, text) == _ids(b, text) for text in texts)


def _ids(tokenizer: Tokenizer, text: str) -> list[int] | None:
    """The ids; None where the vocabulary has none for some character."""
    try:
        return tokenizer.encode(text)
    except InputError:
        return None


def _check(original: Tokenizer, back: Tokenizer, form: str, *, around_added: bool = True) -> None:
    if not _same(original, back, around_added=around_added):
        raise _cannot(original, form, "a tokenizer that encodes there as it does here")


def _cannot(tokenizer: Tokenizer, form: str, expected: str) -> CheckpointError:
    return CheckpointError(f"no way to write this tokenizer as {form}", expected=expected, found=tokenizer.form,
                           fix="--no-tokenizer leaves it out")  # fmt: skip


def _json(content: Any) -> bytes:
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()
