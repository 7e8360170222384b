"""The report of a checkpoint for people: five sections on one screen, findings of a kind together."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from openmodelatlas.verify.report_groups import Group, grouped

if TYPE_CHECKING:
    from openmodelatlas.records.report import Check, Finding, Report

SECTIONS = {
    "Files": ("files", "hash"),
    "Configuration": ("model", "configuration"),
    "Ledger": ("tensors", "parameters", "values"),
    "Tokenizer": ("tokenizer", "template"),
    "Against": ("against",),
}
"""What the sections are called, and the checks that stand in each; a check of another name has one of its own."""
MARK = {"ok": "ok  ", "failed": "FAIL", "not run": "-   "}
MOST_GROUPS = 4
MOST_NOTES = 8


def printable(text: str) -> str:
    r"""The same text on one line, safe for a terminal and for XML: what is not printed (controls, marks that turn the
    direction of writing, halves of characters) as `\xNN`."""
    return "".join(c if c.isprintable() else " " if c in "\n\t\r" else _escape(c) for c in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def sections(report: "Report") -> dict[str, list["Check"]]:
    """The checks by section; sections without any are left out."""
    found: dict[str, list[Check]] = {title: [] for title in SECTIONS}
    homes = {check: title for title, checks in SECTIONS.items() for check in checks}
    for check in report.checks:
        found.setdefault(homes.get(check.name, check.name.capitalize()), []).append(check)
    return {title: checks for title, checks in found.items() if checks}


def facts(finding: "Finding") -> str:
    """What was expected and what was found; nothing where the kind says it all."""
    said = (("expected", finding.expected), ("found", finding.found))
    return printable("; ".join(f"{word} {text}" for word, text in said if text))


def place(group: Group) -> str:
    """Where, and for several places how many."""
    many = f" ({len(group.findings):,} places)" if len(group.findings) > 1 else ""
    return printable(group.where) + many


def lines(report: "Report") -> Iterator[str]:
    """The report as text."""
    number = 0
    homeless = {finding.check for finding in report.findings} - {check.name for check in report.checks}
    for number, (title, checks) in enumerate(sections(report).items(), 1):
        yield f"{number} {title}"
        for check in checks:
            yield f"  {MARK[check.state]}  {check.name:<13}  {printable(check.detail)}"
            yield from _below(report, check.name, check.notes)
        if title == "Ledger" and report.counts:
            yield f"        {counts(report)}"
    yield f"{number + 1} Verdict"
    for name in sorted(homeless):
        yield from _below(report, name, ())
    yield f"  {verdict(report)}"


def counts(report: "Report") -> str:
    """The counts by their names, and how many bits a number takes."""
    named = [f"{name} {count:,}" for name, count in report.counts.items()]
    if report.counts.get("stored") and "stored bytes" in report.counts:
        named.append(f"bits per number {8 * report.counts['stored bytes'] / report.counts['stored']:.2f}")
    return "; ".join(named)


def _below(report: "Report", check: str, notes: Sequence[str]) -> Iterator[str]:
    """What stands under a check's line: findings by kind, what is waived, notes."""
    by_kind: dict[str, list[Finding]] = {}
    for finding in report.findings:
        if finding.check == check:
            by_kind.setdefault(finding.code, []).append(finding)
    for code, found in by_kind.items():
        yield f"        {found[0].title} [{code}]"
        groups = grouped(found)
        for group in groups[:MOST_GROUPS]:
            said = facts(group.first)
            yield f"          at {place(group)}" + (f": {said}" if said else "")
        if len(groups) > MOST_GROUPS:
            rest = sum(len(group.findings) for group in groups[MOST_GROUPS:])
            yield f"          and {rest:,} more (--json lists all)"
        if found[0].fix:
            yield f"          {found[0].fix}"
    for waived in report.waived:
        if waived.finding.check == check:
            what = printable(f"{waived.finding.where}: {waived.reason}")
            yield f"        waived until {waived.expires}: {what} [{waived.finding.code}]"
    for note in notes[:MOST_NOTES]:
        yield f"        note: {printable(note)}"
    if len(notes) > MOST_NOTES:
        yield f"        and {len(notes) - MOST_NOTES} notes more (--json lists all)"


def verdict(report: "Report") -> str:
    """What comes of it, in one line."""
    target, count = printable(report.target), len(report.findings)
    waived = f", with {len(report.waived):,} waived" if report.waived else ""
    if count:
        return f"{target} does not hold: {count:,} finding{'s' if count > 1 else ''}{waived}"
    if report.model is not None:
        return f"{target} is {report.model}{waived}"
    return f"{target} holds, and is no model of the atlas; the nearest is {report.nearest}{waived}"
