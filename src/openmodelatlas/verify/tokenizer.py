"""The check of a checkpoint's tokenizer: against the model's rows, the family's known one, and its own other forms."""

from collections.abc import Iterator
from dataclasses import dataclass

from openmodelatlas.errors import AtlasError
from openmodelatlas.infer.tokenizer import tokenizer_forms
from openmodelatlas.models.variant import Variant
from openmodelatlas.records.findings import finding, of_error
from openmodelatlas.records.report import Finding
from openmodelatlas.records.shown import shown
from openmodelatlas.text import policy
from openmodelatlas.text.forms import Forms
from openmodelatlas.text.known import Known, known
from openmodelatlas.text.policy import ENDS, Stated
from openmodelatlas.text.tokenizer import Tokenizer
from openmodelatlas.verify.outcome import Outcome, not_run, outcome
from openmodelatlas.verify.template import check_template
from openmodelatlas.verify.tokenizer_texts import (
    check_bytes,
    check_round_trip,
    clean_up_note,
    compare_forms,
    control_note,
)
from openmodelatlas.weights.naming import name_table
from openmodelatlas.weights.opened import Opened

MOST_FINDINGS = 5
COMPANIONS = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
"""Files that say something of a tokenizer, and are none."""
NAMES = {"bos": "beginning", "eos": "end", "eot": "end of turn", "eom": "end of message"}


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What is checked: a tokenizer with the model that it must fit, what is known of it, and what files say."""

    opened: Opened
    variant: Variant
    tokenizer: Tokenizer
    known: Known | None
    stated: list[Stated]


def check_text(opened: Opened, variant: Variant) -> list[Outcome]:
    """The checks `tokenizer` and `template`."""
    try:
        forms = tokenizer_forms(opened, variant)
        used = forms.used
    except AtlasError as error:
        flaw = of_error(error, "tokenizer.unreadable", opened.header.path)
        return [outcome("tokenizer", "cannot be read", [flaw]), not_run("template", "there is no tokenizer")]
    if used is None:
        return [_none(opened, forms), not_run("template", "there is no tokenizer")]
    broken = [of_error(form.error, "tokenizer.unreadable", form.name) for form in forms.found if form.error is not None]
    if used.tokenizer is None:
        return [outcome("tokenizer", "does not build", broken), not_run("template", "there is no tokenizer")]
    settings = {**opened.header.metadata, **opened.section("tokenizer.")}
    try:
        stated = policy.stated(opened.beside, settings, used.tokenizer.vocabulary)
    except AtlasError as error:
        stated = []
        broken.append(of_error(error, "tokenizer.beside-unreadable", used.name))
    subject = Subject(opened=opened, variant=variant, tokenizer=used.tokenizer, known=known(variant), stated=stated)
    broken += [flaw for form in forms.found for flaw in form.findings]
    stops = policy.stops(stated) or used.tokenizer.special.eos
    return [
        _check(subject, forms, broken),
        check_template(opened.beside, settings, used.tokenizer, subject.known, stops),
    ]


def check_tokenizer(opened: Opened, variant: Variant) -> Outcome:
    """The first of the two alone."""
    return check_text(opened, variant)[0]


def _none(opened: Opened, forms: Forms) -> Outcome:
    if forms.unread:
        return not_run("tokenizer", f"{', '.join(forms.unread)}: a form that is not read")
    if opened.scheme == "gguf" and "tokenizer.ggml.model" not in opened.header.metadata:
        expected = "a vocabulary among the settings"
        return outcome(
            "tokenizer", "none", [finding("tokenizer.none", opened.header.path, expected=expected, found="none")]
        )
    if companions := [name for name in COMPANIONS if name in opened.beside]:
        where, found = opened.header.path, f"only {companions[0]}"
        expected = "tokenizer.json or tokenizer.model"
        return outcome("tokenizer", "none", [finding("tokenizer.none", where, expected=expected, found=found)])
    return not_run("tokenizer", "none stands with the checkpoint")


def _check(subject: Subject, forms: Forms, broken: list[Finding]) -> Outcome:
    tokenizer = subject.tokenizer
    findings, notes = [*broken], [*tokenizer.notes]
    detail = _sizes(subject, findings, notes)
    findings += _special(subject)
    findings += _cut(subject)
    _policy(subject, findings, notes)
    missing, lost = check_bytes(tokenizer)
    findings += missing
    notes += lost
    findings += check_round_trip(tokenizer)
    if tokenizer.method.normalises:
        notes.append(f"text is normalised to {tokenizer.method.normalises} first; decoding does not undo that")
    notes += control_note(tokenizer)
    notes += clean_up_note(subject.opened.beside)
    others = [form.tokenizer for form in forms.found if form.tokenizer is not None and form.tokenizer is not tokenizer]
    for other in others:
        findings += compare_forms(tokenizer, other)
    agree = [form.name for form in forms.found if form.tokenizer is not None]
    if len(agree) > 1:
        notes.append(f"forms that were compared: {', '.join(agree)}")
    notes += [f"{name} is a form that is not read" for name in forms.unread]
    if subject.known is None:
        notes.append("not verified: no table says what this model's tokenizer must be")
    else:
        notes += _unknown(subject.known)
    return outcome("tokenizer", f"{tokenizer.form}: {detail}", findings, tuple(notes))


def _unknown(entry: Known) -> Iterator[str]:
    """What is not known of the family's tokenizer, in words."""
    parts = (
        ("how many tokens there are", entry.tokens),
        ("special tokens at their ids", entry.special),
        ("whether a text begins with a token", entry.begins is not None),
    )
    missing = [words for words, there in parts if not there]
    if missing:
        yield f"not verified, no source for {entry.title}: {', '.join(missing)}"


def _sizes(subject: Subject, findings: list[Finding], notes: list[str]) -> str:
    """Tokens, rows and the stated size, three numbers."""
    tokenizer, size = subject.tokenizer, subject.tokenizer.vocab_size
    rows = embedding_rows(subject.opened, subject.variant)
    if size > rows:
        where = "tokenizer.ggml.tokens" if tokenizer.form == "tokenizer.ggml" else tokenizer.form
        findings.append(finding("tokenizer.too-large", where, expected=f"at most {rows:,} tokens", found=f"{size:,}"))
    stated = next((subject.opened.header.metadata.get(key) for key in ("vocab_size", "text_config.vocab_size")), None)
    if subject.opened.scheme == "huggingface" and type(stated) is int and stated != rows:
        findings.append(
            finding("tokenizer.vocabulary-size", "config.json", expected=f"{rows:,} rows", found=f"{stated:,}")
        )
    filled = size - len(tokenizer.vocabulary.unused)
    if filled < rows:
        notes.append(f"{filled:,} tokens, {rows:,} rows: {rows - filled:,} rows of padding")
    entry = subject.known
    if entry is not None and entry.tokens and filled < entry.tokens:
        expected = f"{entry.tokens:,} as {entry.title}"
        findings.append(finding("tokenizer.too-few", tokenizer.form, expected=expected, found=f"{filled:,}"))
    return f"{filled:,} tokens for {rows:,} rows"


def embedding_rows(opened: Opened, variant: Variant) -> int:
    """Rows of the stored embedding; the model's number where it is not there as one tensor."""
    table = name_table(variant.family, opened.scheme)
    names = {name for row in table.tensors if row.parameter == "embed.weight" for name in row.forms}
    stored = next((tensor for tensor in opened.header.tensors if tensor.name in names), None)
    rows: int = variant.config.vocab_size
    return stored.shape[0] if stored is not None and len(stored.shape) == 2 else rows


def _special(subject: Subject) -> list[Finding]:
    """Known special tokens: at their ids, and control."""
    tokens, entry, found = subject.tokenizer.tokens, subject.known, []
    vocabulary = subject.tokenizer.vocabulary
    for number, name in {} if entry is None else entry.special.items():
        assert entry is not None
        expected = f"{shown(name)} at {number}, as {entry.title}"
        there = tokens[number] if number < len(tokens) else None
        if there != name:
            other = vocabulary.ids.get(name)
            place = "" if other is None else f"; it is at {other}"
            words = f"{shown(there)} at {number}{place}" if there is not None else f"no token {number}{place}"
            found.append(finding("tokenizer.special-elsewhere", subject.tokenizer.form, expected=expected, found=words))
        elif number not in vocabulary.control and number not in vocabulary.added:
            found.append(
                finding("tokenizer.special-flag", subject.tokenizer.form, expected=expected, found="marked as text")
            )
    return found[:MOST_FINDINGS]


def _cut(subject: Subject) -> list[Finding]:
    """How text is cut, by what it does: no name and no pattern is compared."""
    found = []
    for text, parts in {} if subject.known is None else subject.known.cut.items():
        try:
            actual = subject.tokenizer.cut(text)
        except AtlasError as error:
            return [of_error(error, "tokenizer.unreadable", subject.tokenizer.form)]
        if actual != list(parts):
            found.append(
                finding(
                    "tokenizer.cut",
                    f"{subject.tokenizer.form}, {shown(text)}",
                    expected="|".join(map(shown, parts)),
                    found="|".join(map(shown, actual)),
                )
            )
    return found


def _policy(subject: Subject, findings: list[Finding], notes: list[str]) -> None:
    """Beginnings and ends: every file's word, and whether they go together."""
    rows, tokenizer, entry = subject.stated, subject.tokenizer, subject.known
    special = tokenizer.special
    notes += _said(rows)
    for row in rows:
        if row.ids is None:
            expected = f"{NAMES[row.role]} that is in the vocabulary"
            findings.append(finding("tokenizer.role-unknown", row.where, expected=expected, found=row.text))
    begins = "none is added" if not special.add_bos else f"{special.bos} is added"
    notes.append(f"beginning: {begins} by encoding" + (", and an end after it" if special.add_eos else ""))
    if entry is not None and entry.begins and (special.bos is None or not special.add_bos):
        expected = f"a beginning before every text, as {entry.title}"
        findings.append(
            finding("tokenizer.beginning-missing", tokenizer.form, expected=expected, found="none is added")
        )
    findings += _disagreement(rows)
    if entry is not None and entry.stop and rows:
        stops = policy.stops(rows)
        names = ", ".join(map(str, sorted(entry.stop)))
        here = ", ".join(map(str, sorted(stops))) or "nothing"
        if not entry.stop <= stops:
            notes.append(f"the chat models of {entry.title} stop at {names}; this checkpoint at {here}")


def _said(rows: list[Stated]) -> Iterator[str]:
    """What each place states, those that state the same in one line."""
    places: dict[str, list[str]] = {}
    for row in rows:
        places.setdefault(f"{row.role} {row.text}", []).append(row.where)
    for text, where in places.items():
        yield f"{text}: {', '.join(where)}"


def _disagreement(rows: list[Stated]) -> Iterator[Finding]:
    """Files whose ends are not one within the other, or whose beginnings differ."""
    for roles, code in ((ENDS, "tokenizer.ends-disagree"), (("bos",), "tokenizer.beginnings-disagree")):
        said: dict[str, frozenset[int]] = {}
        for row in rows:
            if row.role in roles and row.ids:
                file = row.where.split(" ")[0] if not row.where.startswith("tokenizer.ggml") else "tokenizer.ggml"
                said[file] = said.get(file, frozenset()) | row.ids
        for first, second in _pairs(list(said)):
            if not (said[first] <= said[second] or said[second] <= said[first]):
                yield finding(
                    code,
                    f"{first} and {second}",
                    expected=f"{first}: {', '.join(map(str, sorted(said[first])))}",
                    found=f"{second}: {', '.join(map(str, sorted(said[second])))}",
                )
                break


def _pairs(names: list[str]) -> Iterator[tuple[str, str]]:
    for at, first in enumerate(names):
        for second in names[at + 1 :]:
            yield first, second
