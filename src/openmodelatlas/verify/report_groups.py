"""Findings that say the same of many places, together: a report of thousands stays one to read."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from openmodelatlas.records.report import Finding

_NUMBER = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, kw_only=True)
class Group:
    """Findings of one kind whose places differ in their numbers alone. `where`: the pattern of the places, the numbers
    that vary as a range (`blocks.{0..31}.attention.q.weight`)."""

    code: str
    where: str
    findings: tuple[Finding, ...]

    @property
    def first(self) -> Finding:
        """The one to show for all."""
        return self.findings[0]


def grouped(findings: Iterable[Finding]) -> list[Group]:
    """Every finding in one group, in the order in which they came."""
    found: dict[tuple[str, str], list[Finding]] = {}
    for flaw in findings:
        found.setdefault((flaw.code, shape_of(flaw.where)), []).append(flaw)
    return [
        Group(code=code, where=pattern([flaw.where for flaw in flaws]), findings=tuple(flaws))
        for (code, _), flaws in found.items()
    ]


def shape_of(text: str) -> str:
    """What texts that differ in their numbers alone have in common."""
    return _NUMBER.sub("#", text)


def pattern(texts: list[str]) -> str:
    """Texts that differ in their numbers alone as one: `blocks.{0..3,7}.norm`. A single text stays as it is."""
    columns = zip(*(_NUMBER.findall(text) for text in texts), strict=True)
    varying = iter([sorted({int(number) for number in column}) for column in columns])
    return _NUMBER.sub(lambda match: _range(next(varying), match[0]), texts[0])


def _range(numbers: list[int], alone: str) -> str:
    if len(numbers) == 1:
        return alone
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    ends = [str(run[0]) if len(run) == 1 else f"{run[0]}..{run[-1]}" for run in runs]
    shown = ends if len(ends) <= 6 else [*ends[:5], "…", ends[-1]]
    return "{" + ",".join(shown) + "}"
