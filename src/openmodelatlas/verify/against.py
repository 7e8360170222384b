"""One checkpoint against another: every parameter of B held against A's, with the cause named where they part."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from openmodelatlas.errors import CheckpointError
from openmodelatlas.fetch.progress import Progress, silent
from openmodelatlas.models.variant import Variant
from openmodelatlas.records.findings import finding, of_error
from openmodelatlas.records.report import Finding
from openmodelatlas.verify import against_causes
from openmodelatlas.verify.against_causes import OFFSET_ROUNDING
from openmodelatlas.verify.against_tokenizer import compare_tokenizers
from openmodelatlas.verify.held import held
from openmodelatlas.verify.outcome import Outcome, outcome
from openmodelatlas.weights.identify import identify
from openmodelatlas.weights.losses import MOST_LEAN, Loss, loss
from openmodelatlas.weights.naming import name_table
from openmodelatlas.weights.opened import Opened
from openmodelatlas.weights.reading.plain import TYPES
from openmodelatlas.weights.settings import readings, same
from openmodelatlas.weights.units import Unit, Units

WORST = 3  # quantised tensors named in the notes
OFFSET_STEP = "subtract_one"
REQUANTISED = "against.requantised"


@dataclass(frozen=True, kw_only=True)
class Fit:
    """How one unit of B compares with A's: in what way it is the same, or None; and what its type lost."""

    how: str | None
    loss: Loss | None = None


@dataclass(frozen=True, kw_only=True)
class _Side:
    opened: Opened
    variant: Variant
    units: Units


def compare(original: Opened, conversion: Opened, progress: Progress = silent) -> Outcome:
    """Every setting and every parameter of `conversion` against `original`, in the definition's layout.

    Stored in plain types it must hold the same numbers, or those numbers rounded to a type of fewer digits; quantised,
    it may lose what its type is known to lose. CheckpointError if the original is no model of the atlas."""
    a = _side(original)
    try:
        b = _side(conversion)
    except CheckpointError as error:
        return outcome("against", "not comparable", [of_error(error, "against.family", conversion.header.path)])
    if a.variant.family != b.variant.family:
        flaw = finding("against.family", conversion.header.path, expected=a.variant.family, found=f"{b.variant.family}")
        return outcome("against", "not comparable", [flaw])
    findings = _settings(a, b)
    shared, lacking = _shared(a, b)
    findings += lacking
    kinds, losses, apart = Counter[str](), [], []
    total = sum(a.units.stored(unit).bytes for unit in shared)
    done = 0
    for unit in shared:
        try:
            fit = _fit(a, b, unit)
        except CheckpointError as error:
            findings.append(of_error(error, "against.unreadable", str(unit)))
            continue
        if fit.how is None:
            apart.append(unit)
        else:
            kinds[fit.how] += 1
            findings += _requantised(a, b, unit, fit)
        if fit.loss is not None:
            losses.append((fit.loss, unit))
        done += a.units.stored(unit).bytes
        progress("comparing", done, total)
    findings += [_cause(a, b, unit) for unit in apart]
    words = [f"{count:,} {how}" for how, count in kinds.most_common()]
    words += [f"{len(apart):,} different"] if apart else []
    tokens, compared = compare_tokenizers(original, conversion)
    detail = f"{len(shared):,} parameters: {', '.join(words)}"
    return outcome("against", detail, findings + tokens, (*_worst(b, losses), compared))


def _side(opened: Opened) -> _Side:
    found = held(opened, identify(opened.header, opened.scheme))
    units = Units(opened, found.variant, found.ledger)
    return _Side(opened=opened, variant=found.variant, units=units)


def _settings(a: _Side, b: _Side) -> list[Finding]:
    """Numbers that both state, or mean by not stating them, and that are not the same."""
    known = {}
    for side in (a, b):
        table = name_table(side.variant.family, side.opened.scheme)
        known[side is a] = {r.field: r for r in readings(side.opened.header.metadata, side.variant, table)}
    return [
        finding("against.setting", f"{reading.key} ({field})", expected=known[True][field].value, found=reading.value)
        for field, reading in known[False].items()
        if field in known[True] and not same(reading.value, known[True][field].value)
    ]


def _shared(a: _Side, b: _Side) -> tuple[list[Unit], list[Finding]]:
    """The units that both have in one shape, and a finding for every other."""
    a.units.take_apart(b.units)
    b.units.take_apart(a.units)
    shared, lacking = [], []
    for unit in a.units:
        if unit in b.units and a.units.shape(unit) == b.units.shape(unit):
            shared.append(unit)
        else:
            there = f"shape {list(b.units.shape(unit))}" if unit in b.units else "nothing stored that fits"
            expected = f"shape {list(a.units.shape(unit))}"
            lacking.append(finding("against.missing", str(unit), expected=expected, found=there))
    for unit in b.units:
        if unit not in a.units:
            there = b.units.stored(unit).name
            lacking.append(finding("against.surplus", str(unit), expected="no such parameter", found=there))
    return shared, lacking


def _kinds(a: _Side, b: _Side, unit: Unit) -> tuple[str, str]:
    return a.units.stored(unit).type, b.units.stored(unit).type


def _slack(a: _Side, b: _Side, unit: Unit) -> float:
    """What the layout steps between the two may round, absolutely: nothing where both take the same ones."""
    return OFFSET_ROUNDING if OFFSET_STEP in {*a.units.steps(unit)} ^ {*b.units.steps(unit)} else 0.0


def _fit(a: _Side, b: _Side, unit: Unit) -> Fit:
    return fit(a.units.values(unit), b.units.values(unit), _kinds(a, b, unit), _slack(a, b, unit))


def fit(original: Tensor, stored: Tensor, kinds: tuple[str, str], slack: float = 0.0) -> Fit:
    """Whether `stored` is `original`, by their storage types: a plain one holds the original's numbers or the nearest
    of its own, whatever the original was stored in. `slack` is what a layout step may round, absolutely."""
    if original.dtype == stored.dtype and _bits_equal(original, stored):
        return Fit(how="equal to the bit")
    exact, other = original.to(torch.float32), stored.to(torch.float32)
    if torch.equal(original.double(), stored.double()):
        return Fit(how="equal")
    if kinds[1] not in TYPES:
        lost = loss(exact, other, kinds[1])
        return Fit(how=f"within what {kinds[1]} loses" if lost.explained else None, loss=lost)
    if torch.equal(original.to(stored.dtype).double(), stored.double()):
        return Fit(how=f"rounded to {kinds[1]}")
    if slack and bool(((exact - other).abs() <= slack).all()):
        return Fit(how="equal but for the rounding of a layout step")
    return Fit(how=None)


def _bits_equal(a: Tensor, b: Tensor) -> bool:
    return torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))


def _requantised(a: _Side, b: _Side, unit: Unit, found: Fit) -> list[Finding]:
    """A quantised tensor of the original's own type that is no copy: its type explains no difference at all."""
    kinds = _kinds(a, b, unit)
    if found.loss is None or kinds[0] != kinds[1]:
        return []
    wrong = a.units.values(unit) != b.units.values(unit)
    words = f"{_differ(wrong)}, the first at {_first(wrong)}"
    where = f"{unit} ({b.units.stored(unit).name})"
    return [finding(REQUANTISED, where, expected=f"the original's {kinds[0]} blocks", found=words)]


def _cause(a: _Side, b: _Side, unit: Unit) -> Finding:
    """Why a unit is not the original's: the first known cause whose recomputation gives B's values."""
    kinds, slack = _kinds(a, b, unit), _slack(a, b, unit)
    original, stored = a.units.values(unit), b.units.values(unit)

    def fits(candidate: Tensor, rounding: float = 0.0) -> bool:
        return candidate.shape == stored.shape and fit(candidate, stored, kinds, slack + rounding).how is not None

    where = f"{unit} ({b.units.stored(unit).name})"
    if (found := against_causes.layout(original, stored, a.variant.config, fits)) is not None:
        return finding(found.code, where, expected="the original's values", found=found.words)
    if (other := _exchanged(a, b, unit, stored, fits)) is not None:
        return finding("against.swapped", where, expected=f"the values of {unit}", found=f"those of {other}")
    if (found := against_causes.numbers(original, stored, fits)) is not None:
        return finding(found.code, where, expected="the original's values", found=found.words)
    return _unexplained(original, stored, kinds, where)


def _exchanged(a: _Side, b: _Side, unit: Unit, stored: Tensor, fits: Callable[[Tensor], bool]) -> Unit | None:
    """The unit of A whose values stand in B under this name."""
    first = b.units.first_row(unit).to(torch.float32)
    for other in a.units:
        if other == unit or a.units.shape(other) != tuple(stored.shape):
            continue
        if against_causes.alike(a.units.first_row(other).to(torch.float32), first) and fits(a.units.values(other)):
            return other
    return None


def _unexplained(original: Tensor, stored: Tensor, kinds: tuple[str, str], where: str) -> Finding:
    exact, other = original.to(torch.float32), stored.to(torch.float32)
    if kinds[1] not in TYPES:
        return _not_lost(loss(exact, other, kinds[1]), kinds[1], where)
    wrong = exact != other
    at = tuple(wrong.nonzero()[0].tolist())
    values = f"{float(exact[at])!r} at {_first(wrong)}", f"{float(other[at])!r}"
    near = torch.allclose(exact, other, rtol=2.0**-6, atol=0.0) and original.dtype != stored.dtype
    code = "against.rounding" if near else "against.differs"
    return finding(code, where, expected=values[0], found=f"{values[1]}; {_differ(wrong)}")


def _not_lost(lost: Loss, kind: str, where: str) -> Finding:
    """What is wrong with a quantised tensor beside what its type loses."""
    expected = f"errors that {kind} explains"
    if not lost.share <= 1.0:
        found = f"{lost.share:.3g} times as much in the block at [{lost.row}, {lost.column}]"
        found += f"; relative {lost.relative:.3g}"
        return finding("against.beyond-bound", where, expected=expected, found=found)
    if abs(lost.lean) > MOST_LEAN:
        side = "larger" if lost.lean > 0 else "smaller"
        found = f"values that are {side}: the mean of the errors is {abs(lost.lean):.2f} of their root mean square"
        return finding("against.one-sided", where, expected=expected, found=found)
    found = f"the original's values times {lost.factor:.3g}, and rounded"
    return finding("against.scaled", where, expected=expected, found=found)


def _first(wrong: Tensor) -> str:
    return str(wrong.nonzero()[0].tolist())


def _differ(wrong: Tensor) -> str:
    return f"{int(wrong.sum()):,} of {wrong.numel():,} differ"


def _worst(b: _Side, losses: list[tuple[Loss, Unit]]) -> tuple[str, ...]:
    """The quantised tensors that lost most of what their type may lose."""
    ranked = sorted(losses, key=lambda entry: entry[0].share, reverse=True)[:WORST]
    return tuple(
        f"{unit}: {b.units.stored(unit).type}, {lost.share:.0%} of what it may lose in the block at "
        f"[{lost.row}, {lost.column}]; relative error {lost.relative:.2g}"
        for lost, unit in ranked
    )
