"""The report of a checkpoint for machines that build: GitHub's workflow commands and job summary, JUnit's XML."""

from collections.abc import Iterator
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from openmodelatlas.cli.render_report import MARK, facts, place, printable, verdict
from openmodelatlas.verify.report_groups import Group, grouped

if TYPE_CHECKING:
    from openmodelatlas.records.report import Check, Report

MOST_COMMANDS = 50
MOST_SUMMARY = 200


def github(report: "Report") -> Iterator[str]:
    """One error for each group of findings, one notice for each that is waived, and the verdict."""
    groups = grouped(report.findings)
    for group in groups[:MOST_COMMANDS]:
        yield _command("error", report.target, f"{group.first.title} [{group.code}]", _said(group))
    if len(groups) > MOST_COMMANDS:
        yield _command("error", report.target, "more findings", f"and {len(groups) - MOST_COMMANDS:,} more")
    for waived in report.waived[:MOST_COMMANDS]:
        what = f"{waived.finding.where}: {waived.reason}"
        yield _command("notice", report.target, f"waived until {waived.expires} [{waived.finding.code}]", what)
    yield f"verdict: {verdict(report)}"


def _said(group: Group) -> str:
    said, fix = facts(group.first), group.first.fix
    return place(group) + (f": {said}" if said else "") + (f"; {fix}" if fix else "")


def _command(kind: str, target: str, title: str, message: str) -> str:
    """A workflow command; what would end it or one of its properties is written as GitHub's runner reads it back."""
    return f"::{kind} file={_property(target)},title={_property(title)}::{_data(message)}"


def _data(text: str) -> str:
    return printable(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def summary(report: "Report") -> str:
    """The report for the page of a workflow run, in Markdown whose every foreign word is code or escaped."""
    rows = ["| | check | |", "|---|---|---|"]
    rows += [f"| {MARK[check.state].strip()} | {check.name} | {_cell(check.detail)} |" for check in report.checks]
    groups = grouped(report.findings)
    found = [f"- {_cell(g.first.title)} `{g.code}`: {_cell(_said(g))}" for g in groups[:MOST_SUMMARY]]
    if len(groups) > MOST_SUMMARY:
        found.append(f"- and {len(groups) - MOST_SUMMARY:,} more")
    waived = [
        f"- waived until {w.expires}: `{w.finding.code}` {_cell(w.finding.where)}: {_cell(w.reason)}"
        for w in report.waived[:MOST_SUMMARY]
    ]
    return "\n".join([f"### {_cell(verdict(report))}", "", *rows, "", *found, *waived, ""])


def _cell(text: str) -> str:
    r"""Words that Markdown and HTML leave as they are."""
    plain = escape(printable(text))
    return "".join(f"\\{c}" if c in r"\`*_{}[]()#+!|~@:" else c for c in plain)


def junit(report: "Report") -> str:
    """A suite with one case a check: failed with its findings, skipped where it was not run."""
    cases = [_case(report, check) for check in report.checks]
    states = [check.state for check in report.checks]
    total = f'tests="{len(states)}" failures="{states.count("failed")}" errors="0" skipped="{states.count("not run")}"'
    head = f"<testsuite name={_attribute('oma verify ' + report.target)} {total}>"
    return "\n".join(
        [
            '<?xml version="1.0" encoding="UTF-8"?>',
            f"<testsuites {total}>",
            head,
            *cases,
            f"<system-out>{escape(printable(verdict(report)))}</system-out>",
            "</testsuite>",
            "</testsuites>",
            "",
        ]
    )


def _case(report: "Report", check: "Check") -> str:
    start = f"<testcase classname={_attribute('oma.verify.' + report.target)} name={_attribute(check.name)}"
    if check.state == "not run":
        return f"{start}><skipped message={_attribute(check.detail)}/></testcase>"
    out = escape("\n".join(printable(line) for line in (check.detail, *check.notes)))
    failures = ""
    if check.state == "failed":
        groups = [group for group in grouped(report.findings) if group.first.check == check.name]
        said = "\n".join(f"{printable(g.first.title)} [{g.code}] at {_said(g)}" for g in groups)
        codes = ", ".join(dict.fromkeys(group.code for group in groups))
        message = groups[0].first.title if groups else check.detail
        failures = f"<failure message={_attribute(message)} type={_attribute(codes)}>{escape(said)}</failure>"
    return f"{start}>{failures}<system-out>{out}</system-out></testcase>"


def _attribute(text: str) -> str:
    return quoteattr(printable(text))
