"""The check of a checkpoint's chat template: it renders, as the family's does, and begins and ends turns rightly."""

from collections.abc import Mapping
from typing import Any

from openmodelatlas.errors import AtlasError, CheckpointError
from openmodelatlas.records.findings import finding, of_error
from openmodelatlas.records.report import Finding
from openmodelatlas.records.shown import shown
from openmodelatlas.text.chat import Conversation, render_all
from openmodelatlas.text.known import Known
from openmodelatlas.text.templates import Template, default, templates
from openmodelatlas.text.tokenizer import Tokenizer
from openmodelatlas.verify.outcome import Outcome, not_run, outcome

NAME = "template"
ANSWER = "Fine, thanks."
PLAIN = ({"role": "user", "content": "How are you?"},)
ANSWERED = (*PLAIN, {"role": "assistant", "content": ANSWER})
EXCERPT = 30


def check_template(
    beside: Mapping[str, bytes],
    settings: Mapping[str, Any],
    tokenizer: Tokenizer,
    known: Known | None,
    stops: frozenset[int],
) -> Outcome:
    """The one that programs prefer, rendered in the sandbox; `stops`: where generation ends."""
    try:
        found = templates(beside, settings)
    except AtlasError as error:
        return outcome(NAME, "cannot be read", [of_error(error, "template.damaged", NAME)])
    used = default(found)
    if used is None:
        named = ", ".join(shown(template.name) for template in found)
        return not_run(NAME, f"there is none to use by default, only {named}" if found else "the checkpoint has none")
    findings = _several(found, used)
    renderings = () if known is None else known.renderings
    known_ones = [Conversation(messages=r.messages, generation=r.generation, variables=r.variables) for r in renderings]
    wanted = [
        Conversation(messages=PLAIN),
        Conversation(messages=PLAIN, generation=False),
        Conversation(messages=ANSWERED, generation=False),
        *known_ones,
    ]
    try:
        plain, closed, answered, *others = render_all(tokenizer, used.text, wanted)
    except CheckpointError as error:
        return outcome(NAME, f"{used.where} was stopped", [*findings, of_error(error, "template.fails", used.where)])
    if isinstance(plain, CheckpointError):
        return outcome(NAME, f"{used.where} fails", [*findings, of_error(plain, "template.fails", used.where)])
    notes: list[str] = []
    findings += _beginning(plain, used, tokenizer, known, notes)
    if plain == closed:  # some families' have no way of opening it, as what ends a question opens an answer
        notes.append("it writes the same whether or not it is asked to open the assistant's turn")
    if isinstance(answered, str):
        findings += _turn_end(answered, used, tokenizer, stops, notes)
    for rendering, text in zip(renderings, others, strict=True):
        findings += _as_known(rendering.name, rendering.any_of, text, used.where)
    detail = f"{used.where} renders"
    if renderings:
        detail += f", {len(renderings)} conversations held against {known.title if known is not None else ''}"
    else:
        notes.append("not verified: no source says what this model's template must write")
    notes += [f"a further template in {t.where}: {shown(t.name)}" for t in found if t.name != used.name]
    return outcome(NAME, detail, findings, tuple(notes))


def _several(found: list[Template], used: Template) -> list[Finding]:
    """Other files with a template of the same name and another text."""
    return [
        finding("template.several", f"{used.where} and {other.where}", expected="the same text", found="they differ")
        for other in found
        if other.name == used.name and other.text.strip() != used.text.strip()
    ]


def _beginning(text: str, used: Template, tokenizer: Tokenizer, known: Known | None, notes: list[str]) -> list[Finding]:
    """Exactly one beginning, where the model has one: with and without the one that encoding adds."""
    bos = tokenizer.special.bos
    if bos is None:
        return []
    name, where = shown(tokenizer.tokens[bos]), used.where
    own = _leading(tokenizer.encode(text, add_bos=False), bos)
    right = _leading(tokenizer.encode_rendered(text), bos)
    if own > 1:
        return [finding("template.two-beginnings", where, expected=f"{name} once", found=f"it writes {own} of them")]
    if known is not None and known.begins and right == 0:
        found = "neither template nor encoding writes one"
        return [finding("template.two-beginnings", where, expected=f"{name} once", found=found)]
    if own == 1 and tokenizer.special.add_bos:
        notes.append(
            f"the template writes {name}, and encoding adds it: a program that does both begins twice; here it is once"
        )
    return []


def _leading(ids: list[int], bos: int) -> int:
    """How many beginnings a text starts with."""
    return next((count for count, number in enumerate(ids) if number != bos), len(ids))


def _turn_end(
    text: str, used: Template, tokenizer: Tokenizer, stops: frozenset[int], notes: list[str]
) -> list[Finding]:
    """The control token behind an answer must be one at which generation stops."""
    _, answer, rest = text.rpartition(ANSWER)
    control = tokenizer.vocabulary.control
    ids = tokenizer.encode(rest, add_bos=False) if answer else []
    end = next((number for number in ids if number in control), None)
    if end is None:
        notes.append("the template ends an assistant's turn without a control token")
        return []
    if end in stops:
        return []
    here = ", ".join(map(str, sorted(stops))) or "nothing"
    expected = f"{end} {shown(tokenizer.tokens[end])}, with which the template ends a turn"
    return [finding("template.turn-end-not-stop", used.where, expected=expected, found=f"stops at {here}")]


def _as_known(name: str, right: tuple[str, ...], text: str | CheckpointError, where: str) -> list[Finding]:
    """Byte for byte; the first difference is shown."""
    place = f"{where}, {name}"
    if isinstance(text, CheckpointError):
        return [of_error(text, "template.fails", place)]
    if text in right:
        return []
    at, nearest = max((_same(text, candidate), candidate) for candidate in right)
    start = max(0, at - 10)
    return [
        finding(
            "template.differs",
            f"{place}, character {at}",
            expected=shown(nearest[start : at + EXCERPT]),
            found=shown(text[start : at + EXCERPT] or "the end"),
        )
    ]


def _same(first: str, second: str) -> int:
    """How many characters two texts begin with alike."""
    pairs = zip(first, second, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second)))
