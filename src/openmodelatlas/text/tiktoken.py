"""Meta's `tokenizer.model` of Llama 3: every line a token in base64 and its rank. Names of special tokens are not in
it; they come from the family's table."""

import base64
import binascii
import re

from openmodelatlas.errors import CheckpointError
from openmodelatlas.text.byte_level import CUTS, merges_by_rank, method
from openmodelatlas.text.known import RankRules
from openmodelatlas.text.spelling import ByteSpelling, spelled
from openmodelatlas.text.tokenizer import SpecialTokens, Tokenizer, Vocabulary

LINE = re.compile(rb"([A-Za-z0-9+/]+={0,2}) (\d{1,7})")
LONGEST_TOKEN = 256
MOST_TOKENS = 1 << 20
KIND = "tiktoken"


def looks_like(raw: bytes) -> bool:
    """Whether the file's first line is one of these."""
    return LINE.fullmatch(raw[:1024].partition(b"\n")[0].rstrip(b"\r")) is not None


def read_ranks(raw: bytes, where: str) -> dict[bytes, int]:
    """Tokens and their ranks, which must be 0, 1, 2 and so on. CheckpointError for a damaged file."""
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(raw.split(b"\n")):
        line = line.rstrip(b"\r")
        if not line:
            continue
        match = LINE.fullmatch(line)
        place = f"{where}, line {number + 1}"
        if match is None:
            raise _damaged(place, "a token in base64 and its rank", repr(line[:40]))
        try:
            token = base64.b64decode(match[1], validate=True)
        except binascii.Error:
            raise _damaged(place, "base64", repr(match[1][:40])) from None
        if not 0 < len(token) <= LONGEST_TOKEN:
            raise _damaged(place, f"a token of 1 to {LONGEST_TOKEN} bytes", f"{len(token)} bytes")
        if int(match[2]) != len(ranks):
            raise _damaged(place, f"rank {len(ranks)}", f"rank {int(match[2])}")
        if token in ranks:
            raise _damaged(place, "a token that no line before has", repr(token[:40]))
        ranks[token] = len(ranks)
        if len(ranks) > MOST_TOKENS:
            raise _damaged(place, f"at most {MOST_TOKENS:,} tokens", "more")
    absent = [byte for byte in range(256) if bytes([byte]) not in ranks]
    if absent:
        raise _damaged(where, "a token for every byte", f"none for 0x{absent[0]:02X}")
    return ranks


def from_tiktoken(raw: bytes, rules: RankRules, where: str = "tokenizer.model") -> Tokenizer:
    """The tokenizer of such a file, with the special tokens of a release."""
    ranks = read_ranks(raw, where)
    if len(ranks) != rules.ranks:
        raise CheckpointError(
            "a file of ranks of another release", where=where, expected=f"{rules.ranks:,} ranks",
            found=f"{len(ranks):,}", code="tokenizer.unknown-kind",
        )  # fmt: skip
    tokens = [spelled(token) for token in ranks] + list(rules.special)
    vocabulary = Vocabulary(tokens=tokens, control=frozenset(range(len(ranks), len(tokens))), added=frozenset())
    merges = [(spelled(left), spelled(right)) for left, right in merges_by_rank(ranks)]
    ids = vocabulary.ids
    special = SpecialTokens(
        bos=ids[rules.begin], eos=frozenset(ids[name] for name in rules.ends), add_bos=True, add_eos=False
    )
    return Tokenizer(
        method(vocabulary, merges, CUTS[rules.cut], where),
        vocabulary,
        ByteSpelling(),
        special,
        form=where,
        notes=(f"names of special tokens are not in the file: those of {rules.title}",),
    )


def _damaged(where: str, expected: str, found: str) -> CheckpointError:
    return CheckpointError(
        "not a whole file of ranks", where=where, expected=expected, found=found, code="tokenizer.damaged"
    )
