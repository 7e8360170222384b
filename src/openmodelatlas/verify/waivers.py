"""Findings that somebody accepts for a reason and for a time: a file of waivers, and what checks say after it."""

import dataclasses
import datetime
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openmodelatlas.errors import UsageError
from openmodelatlas.records.findings import kinds
from openmodelatlas.records.report import Check, Finding, Waived
from openmodelatlas.verify.outcome import Outcome

USUAL = "oma-waivers.toml"
KEYS = ("finding", "where", "target", "reason", "expires")
FREE = ("where", "target")
"""Keys that may be left out: any place, any checkpoint."""
LARGEST = 1 << 20
_HEADING = re.compile(r"^[ \t]*\[\[[ \t]*waiver[ \t]*\]\]", re.M)


@dataclass(frozen=True, kw_only=True)
class Waiver:
    """`finding` of that code at places like `where` in checkpoints like `target` counts for nothing up to and including
    the day `expires`. `*` stands for any text, `?` for any character. `at`: where the waiver stands."""

    finding: str
    where: str
    target: str
    reason: str
    expires: datetime.date
    at: str

    def covers(self, flaw: Finding, target: str) -> bool:
        """Whether it is about this finding of that checkpoint."""
        return flaw.code == self.finding and _like(self.where, flaw.where) and _like(self.target, target)


def _like(wanted: str, text: str) -> bool:
    """Plain matching but for `*` and `?`; brackets, which places are full of, stand for themselves.

    Of a star that went too short only the last is ever tried again, so that no pattern takes longer than the product of
    both lengths."""
    at, here, star, after = 0, 0, -1, 0
    while here < len(text):
        if at < len(wanted) and wanted[at] == "*":
            star, after = at, here
            at += 1
        elif at < len(wanted) and wanted[at] in ("?", text[here]):
            at, here = at + 1, here + 1
        elif star >= 0:
            after += 1
            at, here = star + 1, after
        else:
            return False
    return not wanted[at:].strip("*")


def usual(folder: Path) -> tuple[Waiver, ...]:
    """The waivers of the folder that a command runs in; none if there is no such file.

    A checkpoint's own folder is never looked at: what comes with a file must not silence what is wrong with it."""
    path = folder / USUAL
    return read(path) if path.exists() else ()


def read(path: Path) -> tuple[Waiver, ...]:
    """Every waiver of a file. UsageError names the line that is wrong."""
    text = _text(path)
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError("not TOML", where=str(path), found=error) from None
    except RecursionError:
        raise UsageError("nested too deeply", where=str(path)) from None
    if surplus := sorted(set(content) - {"waiver"}):
        raise UsageError("not a key of a file of waivers", where=str(path), expected="[[waiver]]", found=surplus[0])
    rows = content.get("waiver", [])
    if not isinstance(rows, list):
        raise UsageError("waivers are a list", where=str(path), expected="[[waiver]]", found=type(rows).__name__)
    lines = [text.count("\n", 0, match.start()) + 1 for match in _HEADING.finditer(text)]
    places = lines if len(lines) == len(rows) else [f"waiver {number}" for number in range(1, len(rows) + 1)]
    return tuple(_waiver(row, f"{path}:{place}") for row, place in zip(rows, places, strict=True))


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST + 1)
    except OSError as error:
        raise UsageError("cannot read the waivers", where=str(path), found=error.strerror) from None
    if len(raw) > LARGEST:
        raise UsageError("too large for a file of waivers", where=str(path), expected=f"at most {LARGEST:,} bytes")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError("not UTF-8", where=str(path)) from None


def _waiver(row: Any, at: str) -> Waiver:
    if not isinstance(row, dict):
        raise UsageError("a waiver is a table", where=at, expected="[[waiver]]", found=type(row).__name__)
    if surplus := sorted(set(row) - set(KEYS)):
        raise UsageError("not a key of a waiver", where=at, expected=", ".join(KEYS), found=surplus[0])
    for key in KEYS:
        if key not in row and key not in FREE:
            raise UsageError(f"a waiver without {key}", where=at, expected=_expected(key))
        if key in row and key != "expires" and not (isinstance(row[key], str) and row[key].strip()):
            raise UsageError(f"{key} is a text that is not empty", where=at, found=repr(row[key])[:80])
    if type(row["expires"]) is not datetime.date:
        raise UsageError("expires is a date", where=at, expected=_expected("expires"), found=repr(row["expires"])[:80])
    if row["finding"] not in kinds():
        raise UsageError("no such kind of finding", where=at, found=row["finding"], fix="docs/findings.md lists them")
    return Waiver(**{**dict.fromkeys(FREE, "*"), **row}, at=at)


def _expected(key: str) -> str:
    return {"expires": "a date such as 2027-01-31, without quotes"}.get(key, f'{key} = "…"')


def apply(
    outcomes: list[Outcome], target: str, waivers: tuple[Waiver, ...], today: datetime.date
) -> tuple[list[Outcome], list[Waived]]:
    """The outcomes of checks with waived findings set apart; each check notes what has become of its waivers.

    Of an expired one the finding counts again; one that matches nothing is noted, if its check was run."""
    aimed = tuple(waiver for waiver in waivers if _like(waiver.target, target))
    waived: list[Waived] = []
    used: set[str] = set()
    found = []
    for check, flaws in outcomes:
        kept = []
        for flaw in flaws:
            about = [waiver for waiver in aimed if waiver.covers(flaw, target)]
            used |= {waiver.at for waiver in about}
            holding = next((waiver for waiver in about if waiver.expires >= today), None)
            if holding is None:
                kept.append(flaw)
            else:
                waived.append(Waived(finding=flaw, reason=holding.reason, expires=holding.expires.isoformat()))
        found.append((_state(check, flaws, kept), kept))
    return [(_noted(check, aimed, used, today), kept) for check, kept in found], waived


def _state(check: Check, flaws: list[Finding], kept: list[Finding]) -> Check:
    """A check holds once all that it found is waived."""
    return dataclasses.replace(check, state="ok") if flaws and not kept else check


def _noted(check: Check, aimed: tuple[Waiver, ...], used: set[str], today: datetime.date) -> Check:
    notes = list(check.notes)
    for waiver in (w for w in aimed if w.finding.partition(".")[0] == check.name and check.state != "not run"):
        if waiver.at not in used:
            notes.append(f"a waiver of {waiver.finding} matches nothing: {waiver.at}")
        elif waiver.expires < today:
            notes.append(f"a waiver of {waiver.finding} has expired on {waiver.expires}: {waiver.at}")
    return dataclasses.replace(check, notes=tuple(notes))
