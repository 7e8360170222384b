"""The report of a checkpoint as one page that stands alone: no request leaves it, and it works without its script."""

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from openmodelatlas.cli.render_report import counts, facts, place, printable, sections, verdict
from openmodelatlas.verify.report_groups import grouped, pattern, shape_of

if TYPE_CHECKING:
    from openmodelatlas.records.report import Check, Finding, Ledger, Report, TensorRow

MOST_ROWS = 2000
"""Rows of a ledger up to which each has a line; longer ones are folded by the pattern of their names."""
MOST_PLACES = 1000
STATE = {"ok": "holds", "failed": "fails", "not run": "not run"}


def text(words: str) -> str:
    """Words from anywhere as HTML."""
    return escape(printable(words), quote=True)


def page(report: "Report", ledger: "Ledger | None") -> str:
    """The whole page."""
    style, script = _own("report.css"), _own("report.js")
    policy = f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; base-uri 'none'"
    body = [*_top(report), *_checks(report), *_ledger(ledger), *_settings(ledger)]
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{text(verdict(report))}</title>",
            f"<style>{style}</style></head><body>",
            *body,
            f"<script>{script}</script></body></html>",
            "",
        ]
    )


def _own(name: str) -> str:
    return files("openmodelatlas.cli").joinpath(name).read_text(encoding="utf-8")


def _digest(source: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()


def _top(report: "Report") -> Iterator[str]:
    yield f"<h1>{text(report.target)}</h1>"
    yield f'<p class="state {"ok" if report.ok else "failed"}">{text(verdict(report))}</p>'
    if report.format:
        yield f'<p class="mute">{text(report.format)}</p>'
    rows = [(check.name, _state(check), text(check.detail)) for check in report.checks]
    yield from _table(("check", "state", "what"), ([f"<td>{text(n)}</td>", s, f"<td>{d}</td>"] for n, s, d in rows))
    if report.counts:
        yield f"<p>{text(counts(report))}</p>"


def _state(check: "Check") -> str:
    return f'<td class="state {check.state.replace(" ", "-")}">{STATE[check.state]}</td>'


def _checks(report: "Report") -> Iterator[str]:
    """Findings, waivers and notes, section by section."""
    known = {check.name for check in report.checks}
    parts = {title: [check.name for check in checks] for title, checks in sections(report).items()}
    parts |= {"Other findings": sorted({finding.check for finding in report.findings} - known)}
    notes = {check.name: check.notes for check in report.checks}
    for title, names in parts.items():
        inside = [line for name in names for line in _check(report, name, notes.get(name, ()))]
        if inside:
            yield f"<h2>{text(title)}</h2>"
            yield from inside


def _check(report: "Report", name: str, notes: Sequence[str]) -> Iterator[str]:
    by_kind: dict[str, list[Finding]] = {}
    for finding in report.findings:
        if finding.check == name:
            by_kind.setdefault(finding.code, []).append(finding)
    for code, found in by_kind.items():
        yield f'<div class="finding"><h3>{text(found[0].title)} <code>{text(code)}</code></h3><ul>'
        groups = grouped(found)
        for group in groups[:MOST_PLACES]:
            said = facts(group.first)
            yield f"<li><code>{escape(place(group))}</code>{': ' if said else ''}{escape(said)}</li>"
        if len(groups) > MOST_PLACES:
            yield f"<li>and {len(groups) - MOST_PLACES:,} kinds of places more</li>"
        yield f"</ul>{f'<p>{text(found[0].fix)}</p>' if found[0].fix else ''}</div>"
    for waived in report.waived:
        if waived.finding.check == name:
            flaw = waived.finding
            yield f'<div class="waived"><h3>waived until {text(waived.expires)}: {text(flaw.title)}'
            yield f" <code>{text(flaw.code)}</code></h3><p><code>{text(flaw.where)}</code>: {escape(facts(flaw))}"
            yield f"</p><p>{text(waived.reason)}</p></div>"
    if notes:
        yield f"<p>{text(name)}:</p><ul>" + "".join(f"<li>{text(note)}</li>" for note in notes) + "</ul>"


def _ledger(ledger: "Ledger | None") -> Iterator[str]:
    if ledger is None:
        return
    yield f"<h2>Ledger against {text(ledger.model)}</h2>"
    yield f"<p>{ledger.parameters:,} parameters; {ledger.stored_bytes:,} bytes stored</p>"
    rows = _rows(ledger.rows) if len(ledger.rows) <= MOST_ROWS else _folded(ledger.rows)
    yield from _searched("ledger", ("status", "parameter", "stored as", "shape", "type", "bytes", "steps"), rows)


def _rows(rows: "Iterable[TensorRow]") -> Iterator[list[str]]:
    for row in rows:
        stored = row.stored
        yield _row(
            row,
            row.parameter or "",
            "" if stored is None else stored.name,
            0 if stored is None else stored.bytes,
        )


def _folded(rows: "Iterable[TensorRow]") -> Iterator[list[str]]:
    """One line for rows alike in all but the numbers of their names; what does not match first."""
    groups: dict[tuple[object, ...], list[TensorRow]] = {}
    for row in rows:
        stored = row.stored
        names = shape_of(row.parameter or ""), "" if stored is None else shape_of(stored.name)
        kind = (None, None) if stored is None else (stored.shape, stored.type)
        groups.setdefault((row.status, *names, *kind, row.shape), []).append(row)
    ordered = sorted(groups.values(), key=lambda group: group[0].status == "matched")
    for group in ordered[:MOST_ROWS]:
        kept = [row.stored for row in group if row.stored is not None]
        many = f" ({len(group):,})" if len(group) > 1 else ""
        parameter = pattern([row.parameter or "" for row in group]) + many
        yield _row(group[0], parameter, pattern([s.name for s in kept]) if kept else "", sum(s.bytes for s in kept))
    if len(ordered) > MOST_ROWS:
        yield [f'<td colspan="7">and {len(ordered) - MOST_ROWS:,} kinds of rows more</td>']


def _row(row: "TensorRow", parameter: str, name: str, size: int) -> list[str]:
    stored, kind = row.stored, "ok" if row.status == "matched" else "failed"
    shape = row.shape if stored is None else stored.shape
    return [
        f'<td class="{kind}">{row.status}</td>',
        f'<td class="name">{text(parameter)}</td>',
        f'<td class="name">{text(name)}</td>',
        f"<td>{'×'.join(map(str, shape or ()))}</td>",
        f"<td>{text(stored.type) if stored is not None else ''}</td>",
        f'<td class="number">{size:,}</td>',
        f"<td>{text(', '.join(row.steps))}</td>",
    ]


def _settings(ledger: "Ledger | None") -> Iterator[str]:
    if ledger is None or not ledger.metadata:
        return
    yield "<h2>Settings</h2>"
    rows = (
        [
            f'<td class="{"ok" if row.ok else "failed"}">{text(row.column)}</td>',
            f'<td class="name">{text(row.key)}</td>',
            f'<td class="name">{text(row.value)}</td>',
            f"<td>{text(row.reason)}</td>",
        ]
        for row in ledger.metadata
    )
    yield from _searched("settings", ("column", "key", "value", "into what, or why"), rows)


def _searched(name: str, titles: Sequence[str], rows: Iterable[list[str]]) -> Iterator[str]:
    """A table under a box that filters it; the script shows the box."""
    yield f'<p hidden><input type="search" data-table="{name}" placeholder="filter" aria-label="filter {name}"></p>'
    yield from _table(titles, rows, name)


def _table(titles: Sequence[str], rows: Iterable[list[str]], name: str | None = None) -> Iterator[str]:
    yield f'<div class="scroll"><table{f" id={chr(34)}{name}{chr(34)}" if name else ""}><thead><tr>'
    yield "".join(f"<th>{title}</th>" for title in titles) + "</tr></thead><tbody>"
    yield from (f"<tr>{''.join(row)}</tr>" for row in rows)
    yield "</tbody></table></div>"
