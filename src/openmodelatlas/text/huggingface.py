"""A `tokenizer.json` and the files that Hugging Face's layout puts beside it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tokenizers import Tokenizer as Backend

from openmodelatlas.errors import AtlasError, CheckpointError
from openmodelatlas.records import strict_json
from openmodelatlas.records.findings import finding
from openmodelatlas.records.report import Finding
from openmodelatlas.records.shown import shown
from openmodelatlas.text.library import LibraryMethod, refused_as
from openmodelatlas.text.merge_order import merge_notes
from openmodelatlas.text.spelling import MARK, ByteSpelling, MarkSpelling, Spelling
from openmodelatlas.text.tokenizer import SpecialTokens, Tokenizer, Vocabulary

FORM = "tokenizer.json"
CONFIG = "tokenizer_config.json"
MOST_IDS = 1 << 22
MOST_FINDINGS = 5


@dataclass(frozen=True, kw_only=True)
class AddedEntry:
    """A token that a file adds at an id. `special` None: the file does not say."""

    file: str
    id: int
    content: str
    special: bool | None


@dataclass
class Built:
    """A tokenizer with what is wrong with its files, though it could be built."""

    tokenizer: Tokenizer
    findings: list[Finding] = field(default_factory=list)


def json_object(beside: Mapping[str, bytes], name: str) -> dict[str, Any]:
    """The content of a file beside; nothing if it is not there. CheckpointError if it is no object."""
    if name not in beside:
        return {}
    content = strict_json.parse(beside[name], name)
    if not isinstance(content, dict):
        raise CheckpointError("not a JSON object", where=name, found=type(content).__name__, code="tokenizer.damaged")
    return content


def from_huggingface(beside: Mapping[str, bytes], special: SpecialTokens | None = None) -> Built:
    """The tokenizer of a `tokenizer.json`. `special` are the ids that all files together give roles; without them the
    file's own."""
    raw = beside[FORM]
    content = json_object(beside, FORM)
    with refused_as("the tokenizer cannot be built", FORM):
        backend = Backend.from_str(raw.decode())
        backend.no_truncation()
        backend.no_padding()
        random = getattr(backend.model, "dropout", None)
        if random is not None:
            backend.model.dropout = None
    vocabulary, findings = _vocabulary(backend, content)
    spelling = _spelling(content)
    normalises = "NFC" if '"NFC"' in repr(content.get("normalizer")).replace("'", '"') else ""
    tokenizer = Tokenizer(
        LibraryMethod(backend, FORM, normalises=normalises),
        vocabulary,
        spelling,
        special or SpecialTokens(bos=None, eos=frozenset(), add_bos=False),
        form=FORM,
        notes=(*_dropout(random), *(_merge_notes(content, vocabulary) if isinstance(spelling, ByteSpelling) else ())),
    )
    findings += _added_elsewhere(beside, tokenizer)
    return Built(tokenizer=tokenizer, findings=findings[: 4 * MOST_FINDINGS])


def _dropout(share: float | None) -> Iterator[str]:
    if share is not None:
        yield f"dropout of {share} is for training: merges are not left out here"


def _merge_notes(content: Mapping[str, Any], vocabulary: Vocabulary) -> Iterator[str]:
    """Of the merges that the library took, in either of the two ways to write them."""
    rows = content["model"].get("merges") or []
    merges = [tuple(row) if isinstance(row, list) else row.partition(" ")[::2] for row in rows]
    return merge_notes(merges, vocabulary.ids, vocabulary.control | vocabulary.added)


def around(tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """The ids that the file's post-processor puts before and after a text."""
    method = tokenizer.method
    assert isinstance(method, LibraryMethod)
    with refused_as("the tokenizer fails on a text", tokenizer.form):
        bare = method.backend.encode("a", add_special_tokens=False).ids
        full = method.backend.encode("a", add_special_tokens=True).ids
    at = next((n for n in range(len(full) - len(bare) + 1) if full[n : n + len(bare)] == bare), 0)
    return full[:at], full[at + len(bare) :]


def _vocabulary(backend: Backend, content: Mapping[str, Any]) -> tuple[Vocabulary, list[Finding]]:
    with refused_as("the tokenizer cannot be built", FORM):
        ids: dict[str, int] = backend.get_vocab(with_added_tokens=True)
    if not ids:
        raise CheckpointError("an empty vocabulary", where=FORM, code="tokenizer.incomplete")
    size = max(ids.values()) + 1
    if size > MOST_IDS or size > 4 * len(ids) + 4096:
        expected = f"ids of {len(ids):,} tokens"
        raise CheckpointError(
            "an id far outside the vocabulary", where=FORM, expected=expected, found=f"{size - 1:,}",
            code="tokenizer.incomplete",
        )  # fmt: skip
    tokens: list[str | None] = [None] * size
    findings = []
    for token, number in ids.items():
        if (other := tokens[number]) is not None:
            both = " and ".join(sorted((shown(other), shown(token))))
            findings.append(
                finding("tokenizer.id-twice", FORM, expected="one token at an id", found=f"{both} at {number}")
            )
        tokens[number] = token
    gaps = frozenset(number for number, token in enumerate(tokens) if token is None)
    if gaps:
        found = f"{len(gaps)} ids without a token, the first {min(gaps)}"
        findings.append(finding("tokenizer.gap", FORM, expected="a token at every id", found=found))
    control: set[int] = set()
    added: set[int] = set()
    for entry in _stated(content, FORM):
        actual = ids.get(entry.content)
        if actual != entry.id:
            found = f"at {actual}" if actual is not None else "no such token"
            expected = f"{shown(entry.content)} at {entry.id}"
            findings.append(finding("tokenizer.added-elsewhere", FORM, expected=expected, found=found))
        if actual is not None:
            (control if entry.special else added).add(actual)
    return (
        Vocabulary(
            tokens=["" if token is None else token for token in tokens],
            control=frozenset(control),
            added=frozenset(added - control),
            gaps=gaps,
        ),
        findings[:MOST_FINDINGS],
    )


def _stated(content: Mapping[str, Any], file: str) -> Iterator[AddedEntry]:
    """The entries of `added_tokens`, checked: the library reads them more freely."""
    rows = content.get("added_tokens") or []
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, dict) and type(row.get("id")) is int and isinstance(row.get("content"), str):
            yield AddedEntry(file=file, id=row["id"], content=row["content"], special=row.get("special") is True)


def added_entries(beside: Mapping[str, bytes]) -> Iterator[AddedEntry]:
    """What the other files say of added tokens."""
    rows = json_object(beside, CONFIG).get("added_tokens_decoder")
    for number, row in rows.items() if isinstance(rows, dict) else ():
        if isinstance(row, dict) and number.isdecimal() and len(number) < 10 and isinstance(row.get("content"), str):
            special = row.get("special")
            yield AddedEntry(
                file=CONFIG, id=int(number), content=row["content"],
                special=special if isinstance(special, bool) else None,
            )  # fmt: skip
    for content, number in json_object(beside, "added_tokens.json").items():
        if type(number) is int:
            yield AddedEntry(file="added_tokens.json", id=number, content=content, special=None)


def _added_elsewhere(beside: Mapping[str, bytes], tokenizer: Tokenizer) -> list[Finding]:
    """Added tokens of other files that `tokenizer.json` has at another id, or with another flag."""
    found = []
    try:
        entries = list(added_entries(beside))
    except AtlasError:
        return []  # who reads the file for its own sake says what is wrong with it
    ids, control = tokenizer.vocabulary.ids, tokenizer.vocabulary.control
    for entry in entries:
        actual = ids.get(entry.content)
        if actual != entry.id:
            there = f"{FORM} has it at {actual}" if actual is not None else f"{FORM} has no such token"
            expected = f"{shown(entry.content)} at {entry.id}"
            found.append(finding("tokenizer.added-elsewhere", entry.file, expected=expected, found=there))
        elif entry.special is not None and entry.special != (actual in control):
            words = ("text", "control")
            found.append(
                finding(
                    "tokenizer.added-flag",
                    entry.file,
                    expected=f"{shown(entry.content)} as {words[entry.special]}",
                    found=f"{FORM} has it as {words[actual in control]}",
                )
            )
    return found[:MOST_FINDINGS]


def _steps(part: Any) -> Iterator[Mapping[str, Any]]:
    """The steps of a normaliser, pre-tokenizer or decoder, sequences opened."""
    if isinstance(part, dict):
        if part.get("type") == "Sequence":
            for key in ("normalizers", "pretokenizers", "decoders", "processors"):
                for inner in part.get(key) or []:
                    yield from _steps(inner)
        else:
            yield part


def _spelling(content: Mapping[str, Any]) -> Spelling:
    """By what the decoder does. CheckpointError for one that is not read."""
    steps = list(_steps(content.get("decoder")))
    kinds = [str(step.get("type")) for step in steps]
    if kinds == ["ByteLevel"]:
        return ByteSpelling()
    if set(kinds) <= {"Replace", "ByteFallback", "Fuse", "Strip", "Metaspace"} and kinds:
        marks = [step for step in steps if step.get("type") == "Replace"]
        if all(step.get("pattern") == {"String": MARK} and step.get("content") == " " for step in marks):
            metaspace = any(s.get("type") == "Metaspace" and s.get("prepend_scheme") != "never" for s in steps)
            return MarkSpelling(space_at_start="Strip" in kinds or metaspace)
    raise CheckpointError(
        "a decoder that is not read",
        where=FORM,
        expected="ByteLevel, or the steps of SentencePiece",
        found=", ".join(kinds)[:80] or "none",
        code="tokenizer.unknown-kind",
    )
