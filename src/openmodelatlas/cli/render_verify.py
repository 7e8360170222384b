"""The outcome of a model's checks, and the matrix of models and checks, as text."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openmodelatlas.records.verification import Measurement, VerificationRecord
    from openmodelatlas.verify.model import Ran

SHOWN = 3  # places of a record whose numbers are printed; --json has all
INFINITE = 1e300
MARK = {"passed": "ok  ", "failed": "FAIL", "not applicable": "-   "}


def rows(ran: "Ran", seconds: float, kept: "VerificationRecord | None", stale: Sequence[str]) -> Iterator[str]:
    """A line for the verdict, one for each place whose numbers matter, and what a reader must know. Where the check
    could not run here: what its `kept` record says, if there is one, and why that may be `stale`."""
    if ran.reason is not None:
        yield f"-     {ran.check:<18}  does not apply: {ran.reason}"
    elif ran.error is not None:
        yield f"----  {ran.check:<18}  not run: {ran.error}"
        yield f"        {kept_words(kept, stale)}"
        if kept is not None and kept.detail:
            yield f"        it says: {one_line(kept.detail)}"
    elif ran.record is not None:
        yield f"{MARK[ran.record.outcome]}  {ran.check:<18}  {ran.title}  [{ran.record.tier}, {seconds:.1f} s]"
        for where in _places(ran.record):
            numbers = [_number(m) for m in ran.record.measurements if m.where == where]
            yield f"        {where or 'model'}: " + "; ".join(numbers)
        for sentence in ran.record.detail.split(". "):
            if "CONFLICT" in sentence:
                yield f"        {sentence}"


def kept_words(kept: "VerificationRecord | None", stale: Sequence[str]) -> str:
    """What a record that was kept from an earlier run is worth, never to be taken for a run of now."""
    if kept is None:
        return "no record of an earlier run is kept"
    aged = f", and stale: {'; '.join(stale)}" if stale else ""
    return f"kept, not re-run: {kept.outcome} on {kept.date} [{kept.tier}]{aged}"


def one_line(text: str) -> str:
    """The same words without line breaks."""
    return " ".join(text.split())


def _places(record: "VerificationRecord") -> list[str]:
    """Where it fails; else where it is nearest to failing, and the first places."""
    bounded = [m for m in record.measurements if m.bound is not None]
    failed = [m.where for m in bounded if m.bound is not None and m.value > m.bound]
    nearest = sorted(bounded, key=lambda m: m.value / m.bound if m.bound else 0.0, reverse=True)[:1]
    last = [m.where for m in record.measurements if m.where == "logits"]
    wheres = failed or [*(m.where for m in nearest), *last, *(m.where for m in record.measurements)]
    return list(dict.fromkeys(wheres))[: SHOWN if failed else 2]


def _number(m: "Measurement") -> str:
    value = "no number" if m.value >= INFINITE else f"{m.value:.3g}"
    if float(m.value).is_integer() and abs(m.value) < 1e15:
        value = f"{int(m.value):,}"
    return f"{m.what} {value}" + ("" if m.bound is None else f" (at most {m.bound:.3g})")


def matrix(table: Mapping[str, Mapping[str, str | None]]) -> Iterator[str]:
    """Models down, checks across: `x` where a check applies, a letter where not, with its reason below."""
    names = list(next(iter(table.values())))
    width = max(map(len, table))
    reasons: dict[str, str] = {}
    for number, name in enumerate(names, 1):
        yield f"{number:>2}  {name}"
    yield ""
    yield " " * width + "".join(f"{number:>4}" for number in range(1, len(names) + 1))
    for model, row in table.items():
        cells = []
        for reason in row.values():
            cells.append("x" if reason is None else reasons.setdefault(reason, _letter(len(reasons))))
        yield model.ljust(width) + "".join(f"{cell:>4}" for cell in cells)
    yield ""
    yield "x  applies"
    for reason, letter in reasons.items():
        yield f"{letter}  {reason}"


def _letter(index: int) -> str:
    return "abcdefghijklmnopqrstuvwyz"[index]
