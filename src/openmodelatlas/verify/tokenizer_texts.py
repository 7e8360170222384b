"""A tokenizer run over hard texts: what is lost, what user text can forge, and whether two forms give the same ids."""

import unicodedata
from collections.abc import Iterator, Mapping

from openmodelatlas.errors import AtlasError
from openmodelatlas.records.findings import finding, of_error
from openmodelatlas.records.report import Finding
from openmodelatlas.records.shown import shown
from openmodelatlas.text.hard_texts import HARD_TEXTS
from openmodelatlas.text.huggingface import CONFIG, json_object
from openmodelatlas.text.tokenizer import Tokenizer

MOST_FINDINGS = 3
MOST_IDS_SHOWN = 12
NEVER_BYTES = frozenset({0xC0, 0xC1, *range(0xF5, 0x100)})
"""What no UTF-8 has."""
RARE_BYTES = NEVER_BYTES | frozenset({*range(0x20), 0x7F, 0xF1, 0xF2}) - frozenset(b"\t\n\r")
"""Control characters, and the first bytes of characters that nobody has assigned."""


def check_round_trip(tokenizer: Tokenizer) -> list[Finding]:
    """Every hard text comes back as it was, or as the normalisation that the tokenizer states leaves it."""
    found = []
    for text in HARD_TEXTS:
        try:
            back = tokenizer.decode(tokenizer.encode(text, add_bos=False, literal=True), special=True)
        except AtlasError as error:
            found.append(of_error(error, "tokenizer.round-trip", f"{tokenizer.form}, {shown(text)}"))
            continue
        if back != _normal(text, tokenizer):
            found.append(
                finding("tokenizer.round-trip", tokenizer.form, expected=shown(text), found=shown(back or "nothing"))
            )
    return found[:MOST_FINDINGS]


def _normal(text: str, tokenizer: Tokenizer) -> str:
    return unicodedata.normalize("NFC", text) if tokenizer.method.normalises == "NFC" else text


def check_bytes(tokenizer: Tokenizer) -> tuple[list[Finding], list[str]]:
    """An entry for every byte. Findings for bytes of ordinary text; a note for those that are lost and hardly occur."""
    absent = [byte for byte in range(256) if tokenizer.spelling.byte_entry(byte) not in tokenizer.vocabulary.ids]
    if serious := [byte for byte in absent if byte not in RARE_BYTES]:
        found = f"none for {len(serious)} bytes of text, the first 0x{serious[0]:02X}"
        expected = "an entry for every byte of text"
        return [finding("tokenizer.bytes-missing", tokenizer.form, expected=expected, found=found)], []
    lost = [f"0x{byte:02X}" for byte in absent if byte not in NEVER_BYTES]
    return [], [f"bytes without a token, lost where text has them: {', '.join(lost)}"] if lost else []


def control_note(tokenizer: Tokenizer) -> Iterator[str]:
    """What the name of a control token becomes in a user's text, in both modes."""
    special = tokenizer.special
    candidates = [*sorted(special.eos), *([] if special.bos is None else [special.bos])]
    names = [tokenizer.tokens[number] for number in candidates if number in tokenizer.vocabulary.control]
    if not names:
        return
    text = names[-1] if special.bos is None else names[0]
    try:
        control = tokenizer.encode(text, add_bos=False)
        literal = tokenizer.encode(text, add_bos=False, literal=True)
    except AtlasError:
        return
    yield f"{shown(text)} in text becomes {_ids(control)} as control, {_ids(literal)} with --literal"


def clean_up_note(beside: Mapping[str, bytes]) -> Iterator[str]:
    """A setting by which other programs lose spaces when they decode."""
    try:
        on = json_object(beside, CONFIG).get("clean_up_tokenization_spaces") is True
    except AtlasError:  # told where the file is read for what it says of tokens
        return
    if on:
        yield (
            f"clean_up_tokenization_spaces is true in {CONFIG}: programs that follow it decode 'hello !' as 'hello!'; "
            "it is not followed here"
        )


def compare_forms(first: Tokenizer, second: Tokenizer) -> Iterator[Finding]:
    """The first id whose bytes differ, and the first hard text whose ids do. Names of control tokens count too."""
    names = f"{first.form} and {second.form}"
    size = max(first.vocab_size, second.vocab_size)
    differing = [number for number in range(size) if _entry(first, number) != _entry(second, number)]
    if differing:
        number = differing[0]
        yield finding(
            "tokenizer.forms-disagree",
            f"{names}, id {number}",
            expected=_words(first, number),
            found=f"{_words(second, number)}; {len(differing):,} ids differ",
        )
    for text in HARD_TEXTS:
        try:
            here = first.encode(text, add_bos=False, literal=True)
            there = second.encode(text, add_bos=False, literal=True)
        except AtlasError as error:
            yield of_error(error, "tokenizer.forms-disagree", f"{names}, {shown(text)}")
            return
        if here != there:
            where = f"{names}, {shown(text)}"
            yield finding("tokenizer.forms-disagree", where, expected=_ids(here), found=_ids(there))
            return


def _entry(tokenizer: Tokenizer, number: int) -> bytes | None:
    """What an id stands for; None for none, and for entries that only fill the table up."""
    vocabulary = tokenizer.vocabulary
    if number >= len(vocabulary.tokens) or number in vocabulary.gaps or number in vocabulary.unused:
        return None
    return tokenizer.piece(number, special=True)


def _words(tokenizer: Tokenizer, number: int) -> str:
    entry = _entry(tokenizer, number)
    return (
        f"{tokenizer.form}: nothing" if entry is None else f"{tokenizer.form}: {shown(entry.decode(errors='replace'))}"
    )


def _ids(ids: list[int]) -> str:
    more = ", …" if len(ids) > MOST_IDS_SHOWN else ""
    return f"[{', '.join(map(str, ids[:MOST_IDS_SHOWN]))}{more}]"
