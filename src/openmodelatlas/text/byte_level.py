"""Byte-level BPE: the ways of cutting text by the names that GGUF files use for them, and the encoder they make."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend

from openmodelatlas.errors import CheckpointError
from openmodelatlas.text.library import LibraryMethod, refused_as
from openmodelatlas.text.tokenizer import Vocabulary


@dataclass(frozen=True, kw_only=True)
class Cut:
    """A way of cutting text before anything is merged. `digits`: how many stay together in a pattern of the kind that
    cl100k began (`{1,3}` or one), None for GPT-2's; `apart`: every digit is cut off first. `whole_words`: a piece that
    is in the vocabulary is taken without looking at merges."""

    digits: str | None = None
    apart: bool = False
    nfc: bool = False
    whole_words: bool = False
    adds_bos: bool = False


GPT_2, APART = Cut(), Cut(apart=True)
THREES = Cut(digits="{1,3}", whole_words=True, adds_bos=True)
ONES = Cut(digits="", nfc=True)

CUTS: dict[str, Cut] = {
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3"), THREES),
    "smaug-bpe": Cut(digits="{1,3}", whole_words=True),
    "dbrx": Cut(digits="{1,3}"),
    "qwen2": ONES,
    **dict.fromkeys(("gpt-2", "olmo", "mpt", "jais"), GPT_2),
    **dict.fromkeys(("smollm", "starcoder", "refact", "codeshell", "command-r"), APART),
}
"""By the value of `tokenizer.ggml.pre`."""

LABELS = {"smaug-bpe": "llama-bpe"}
"""Names that were given by mistake to vocabularies of another name, which cuts the same."""


def pattern(digits: str) -> str:
    """The pattern of cl100k's kind."""
    return (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + digits + r"| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    )


def cutter(cut: Cut) -> pre_tokenizers.PreTokenizer:
    """The library's form of a way of cutting."""
    if cut.digits is not None:
        split = pre_tokenizers.Split(Regex(pattern(cut.digits)), behavior="isolated")
        steps = [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    elif cut.apart:
        steps = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    else:
        steps = [pre_tokenizers.ByteLevel(add_prefix_space=False)]
    return pre_tokenizers.Sequence(steps)


def method(vocabulary: Vocabulary, merges: Sequence[tuple[str, str]], cut: Cut, where: str) -> LibraryMethod:
    """The encoder. CheckpointError if merges or special tokens do not fit the vocabulary."""
    tokens = vocabulary.tokens
    with refused_as("merges do not fit the vocabulary", where, "tokenizer.merges"):
        model = models.BPE(vocab=dict(vocabulary.ids), merges=list(merges), ignore_merges=cut.whole_words)
        backend = Backend(model)
    if cut.nfc:  # a letter and its accent become one character first; decoding does not undo it
        backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = cutter(cut)
    backend.decoder = decoders.ByteLevel()
    add_tokens(backend, tokens, vocabulary.control, vocabulary.added)
    if backend.get_vocab_size() != len(tokens):  # an empty special token, say, is dropped without a word
        found = backend.get_vocab_size()
        raise CheckpointError(
            "special tokens do not fit", where=where, expected=len(tokens), found=found, code="tokenizer.merges"
        )
    return LibraryMethod(backend, where, normalises="NFC" if cut.nfc else "")


def add_tokens(backend: Backend, tokens: Sequence[str], control: frozenset[int], added: frozenset[int]) -> None:
    """Tokens that text is searched for before it is cut."""
    backend.add_special_tokens([AddedToken(tokens[n], normalized=False, special=True) for n in sorted(control)])
    backend.add_tokens([AddedToken(tokens[n], normalized=False) for n in sorted(added)])


def merges_by_rank(ranks: Mapping[bytes, int]) -> list[tuple[bytes, bytes]]:
    """Every pair of tokens that makes a token, by the rank of what it makes: joining pairs by rank does the same as
    joining by this list. Of the pairs that make one token the longest left part comes first, as published lists have
    it."""
    found = []
    for token, _ in sorted(ranks.items(), key=lambda pair: pair[1]):
        for at in range(1, len(token)):
            left, right = token[:at], token[at:]
            if left in ranks and right in ranks:
                found.append((left, right))
    return found
