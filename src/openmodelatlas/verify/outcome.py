"""What one check of a checkpoint gives."""

from openmodelatlas.records.report import Check, Finding

Outcome = tuple[Check, list[Finding]]
"""A check and its findings."""


def outcome(name: str, detail: str, findings: list[Finding], notes: tuple[str, ...] = ()) -> Outcome:
    """A check that was run; one without findings holds."""
    return Check(name=name, state="failed" if findings else "ok", detail=detail, notes=notes), findings


def not_run(name: str, why: str) -> Outcome:
    """A check that was left out."""
    return Check(name=name, state="not run", detail=why), []
