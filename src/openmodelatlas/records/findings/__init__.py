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
