"""Every kind of finding: its code, what it says, what it means and what to do. One TOML file here for each check.

Messages, reports and the findings page of the documentation are all made from these tables."""

import dataclasses
import functools
import tomllib
from dataclasses import dataclass
from importlib.resources import files

from openmodelatlas.errors import AtlasError, NotACheckpoint
from openmodelatlas.records.report import Finding


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of finding. `code` is `CHECK.NAME`; `title` a clause without a full stop; `meaning` sentences for the
    documentation; `fix` what to do about it."""

    code: str
    title: str
    meaning: str
    fix: str


CHECKS = {
    "files": "Files",
    "hash": "Hash",
    "model": "Model",
    "configuration": "Configuration",
    "tensors": "Tensors",
    "parameters": "Parameters",
    "tokenizer": "Tokenizer",
    "template": "Template",
    "values": "Values",
    "against": "Against another checkpoint",
}
"""The checks in the order in which they are run, each with its heading on the page of findings."""
_HEAD = """\
# Findings

What `oma verify` can find, by the check that finds it. A finding is printed with its code in brackets; the code is
what you look up here, and what a waiver names ([how to verify a checkpoint](verify-a-checkpoint.md)). Kinds under
*Files* may also end the command at once with one line, where nothing more of a checkpoint can be read.

This page is made from the tables that messages are made from, by
`python -m openmodelatlas.records.findings docs/findings.md`.
"""


@functools.cache
def kinds() -> dict[str, Kind]:
    """Every kind by its code, in the order of the tables."""
    found = {}
    for table in sorted(files(__package__).iterdir(), key=lambda entry: entry.name):
        if table.name.endswith(".toml"):
            check = table.name.removesuffix(".toml")
            for name, row in tomllib.loads(table.read_text(encoding="utf-8")).items():
                code = f"{check}.{name}"
                found[code] = Kind(code=code, **row)
    return found


def page() -> str:
    """The page of the documentation that explains every kind, in Markdown."""
    parts = [_HEAD]
    for check in sorted({kind.code.partition(".")[0] for kind in kinds().values()}, key=list(CHECKS).index):
        parts.append(f"\n## {CHECKS[check]}\n\n| code | finding | what it means | what to do |\n|---|---|---|---|\n")
        for kind in kinds().values():
            if kind.code.startswith(f"{check}."):
                cells = (f"`{kind.code}`", *map(_cell, (kind.title, kind.meaning, kind.fix)))
                parts.append(f"| {' | '.join(cells)} |\n")
    return "".join(parts)


def _cell(text: str) -> str:
    return _line(text).replace("|", "\\|").replace("<", "&lt;") or "–"


def finding(code: str, where: str, *, expected: object = "", found: object = "") -> Finding:
    """A finding of that kind. KeyError for a kind that no table has: a mistake of ours."""
    kind = kinds()[code]
    return Finding(code=code, title=kind.title, where=where, expected=_line(expected), found=_line(found), fix=kind.fix)


def refusal(code: str, where: str, *, expected: object = None, found: object = None) -> NotACheckpoint:
    """The same as an error to raise, where nothing more can be looked at."""
    row = kinds()[code]
    return NotACheckpoint(row.title, where=where, expected=expected, found=found, fix=row.fix or None, code=code)


def of_error(error: AtlasError, code: str, where: str) -> Finding:
    """An error as a finding: of its own kind if it has one, else of the kind `code`."""
    own = error.code or code
    expected = "" if error.expected is None else error.expected
    found = error.what if error.found is None else error.found if error.code else f"{error.what}: {error.found}"
    made = finding(own, error.where or where, expected=expected, found=found)
    return dataclasses.replace(made, fix=error.fix) if error.fix else made


def _line(value: object) -> str:
    return " ".join(str(value).split())
