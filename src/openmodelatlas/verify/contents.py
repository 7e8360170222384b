"""The checks of a header against the atlas: which model it is, its tensors, its settings, its counts."""

import math

from openmodelatlas.models.variant import Variant
from openmodelatlas.records.catalog import Checkpoint
from openmodelatlas.records.findings import finding
from openmodelatlas.records.report import Ledger
from openmodelatlas.verify.outcome import Outcome, outcome
from openmodelatlas.weights.identify import Identity
from openmodelatlas.weights.ledger import metadata_findings, tensor_findings
from openmodelatlas.weights.load import constant_findings
from openmodelatlas.weights.opened import Opened


def check_model(identity: Identity, checkpoint: Checkpoint | None) -> Outcome:
    """Which model of the atlas it is, or in what it differs from the nearest."""
    nearest = identity.nearest.name
    findings = [
        finding("model.differs", f"{d.field} ({d.key})", expected=f"{d.expected} as in {nearest}", found=d.found)
        for d in identity.differences
    ]
    if not identity.matches:
        return outcome("model", f"no model of the atlas; the nearest is {nearest}", findings)
    if checkpoint is not None and checkpoint.model not in identity.matches:
        findings.append(finding("model.other", checkpoint.id, expected=checkpoint.model, found=nearest))
    also = f", which computes as {', '.join(identity.matches[1:])}" if len(identity.matches) > 1 else ""
    return outcome("model", nearest + also, findings)


def check_tensors(opened: Opened, variant: Variant, ledger: Ledger) -> Outcome:
    """Every tensor both ways."""
    statuses = [row.status for row in ledger.rows]
    findings = tensor_findings(ledger)
    if not findings:
        findings = constant_findings(opened, variant, ledger)
    detail = ", ".join(f"{statuses.count(status)} {status}" for status in ("matched", "missing", "surplus"))
    return outcome("tensors", detail, findings)


def check_configuration(ledger: Ledger) -> Outcome:
    """Every setting in its column."""
    columns: list[str] = [row.column for row in ledger.metadata]
    names = ("read", "must equal", "ignored", "unaccounted")
    return outcome(
        "configuration", ", ".join(f"{columns.count(name)} {name}" for name in names), metadata_findings(ledger)
    )


def check_parameters(ledger: Ledger) -> Outcome:
    """As many stored elements as the definition has parameters."""
    stored = counts(ledger)["stored"]
    findings = []
    if stored != ledger.parameters:
        findings.append(
            finding("parameters.count", ledger.model, expected=f"{ledger.parameters:,}", found=f"{stored:,} stored")
        )
    return outcome("parameters", f"{stored:,} of {ledger.parameters:,}", findings)


def counts(ledger: Ledger) -> dict[str, int]:
    """Counts by their names."""
    owned = (row.stored for row in ledger.rows if row.parameter is not None and row.stored is not None)
    return {"total": ledger.parameters, "stored": sum(math.prod(tensor.shape) for tensor in owned)}
