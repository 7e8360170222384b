"""The checks of a header against the atlas: which model it is, its tensors, its settings, its counts."""

import itertools
import math
from collections.abc import Iterable, Mapping
from typing import Any

from openmodelatlas.errors import CheckpointError
from openmodelatlas.models.variant import Variant
from openmodelatlas.records.catalog import Checkpoint
from openmodelatlas.records.findings import finding
from openmodelatlas.records.report import Finding, Ledger
from openmodelatlas.records.shown import shown
from openmodelatlas.verify.generation import generation_findings
from openmodelatlas.verify.heads import HEADS, duplicated_heads, heads_for_devices
from openmodelatlas.verify.held import Held
from openmodelatlas.verify.impossible import impossible
from openmodelatlas.verify.outcome import Outcome, outcome
from openmodelatlas.weights.identify import Identity
from openmodelatlas.weights.ledger import tensor_findings
from openmodelatlas.weights.load import constant_findings
from openmodelatlas.weights.naming import name_table
from openmodelatlas.weights.opened import Opened
from openmodelatlas.weights.settings import assumed, disagreements, readings, setting_findings

EMBEDDING = "embed.weight"
STATED_TYPES = ("dtype", "torch_dtype", "text_config.dtype", "text_config.torch_dtype")
TYPES = {"bfloat16": "BF16", "float16": "F16", "float32": "F32"}
HEADERS_ONLY = "values.unreadable"
IN_PART = ("tensors.shape", "tensors.transposed")


def check_model(
    opened: Opened, identity: Identity, held: Held, checkpoint: Checkpoint | None, *, values: bool = False
) -> Outcome:
    """Which model of the atlas it is, or in what it differs from the nearest. With `values`, whether its key heads are
    copies of fewer."""
    nearest = identity.nearest.name
    variant, ledger = held.variant, held.ledger
    copied = duplicated_heads(opened, variant, ledger) if values else heads_for_devices(identity, variant, ledger)
    findings = copied + [
        finding("model.differs", f"{d.field} ({d.key})", expected=f"{d.expected} as in {nearest}", found=d.found)
        for d in identity.differences
        if not copied or d.field != HEADS
    ]
    if not identity.matches:
        return outcome("model", f"no model of the atlas; the nearest is {nearest}", findings)
    if checkpoint is not None and checkpoint.model not in identity.matches:
        findings.append(finding("model.other", checkpoint.id, expected=checkpoint.model, found=nearest))
    also = f", which computes as {', '.join(identity.matches[1:])}" if len(identity.matches) > 1 else ""
    return outcome("model", nearest + also, findings)


def check_tensors(opened: Opened, held: Held, deep: Iterable[Finding] = (), *, values: bool = False) -> Outcome:
    """Every tensor both ways. `deep`: what values told of how tensors are put together; `values`: copies are read."""
    ledger, notes = held.ledger, []
    statuses = [row.status for row in ledger.rows]
    findings = [*_of("tensors", opened.findings), *_against_rows(opened, held)]
    if not findings:
        try:
            findings += constant_findings(opened, held.variant, ledger, copies=values)
        except CheckpointError as error:
            if error.code != HEADERS_ONLY:
                raise
            notes.append("constants are not compared: only headers are there")
    findings += _of("tensors", deep)
    if copies := [
        row for row in ledger.rows if row.steps[:1] and row.steps[0].startswith("must equal ") and _large(row)
    ]:
        notes += [f"{row.stored.name} is a copy; --values compares it" for row in copies if row.stored and not values]
    notes += _ignored(ledger)
    detail = ", ".join(f"{statuses.count(status)} {status}" for status in ("matched", "missing", "surplus"))
    return outcome("tensors", detail, findings, tuple(notes))


def _against_rows(opened: Opened, held: Held) -> list[Finding]:
    """Every row that does not hold; one finding for all parts of tensors whose other parts are in absent shares."""
    found = tensor_findings(held.ledger)
    if held.shares is None:
        return found
    there, meant = held.shares
    parts = [flaw for flaw in found if flaw.code in IN_PART]
    cause = finding(
        "tensors.shares-absent",
        opened.header.path,
        expected=f"{meant} shares",
        found=f"{there}, with parts of {len(parts)} tensors",
    )
    return [cause, *(flaw for flaw in found if flaw not in parts)]


def _large(row: Any) -> bool:
    return row.stored is not None and len(row.stored.shape) > 1


def _ignored(ledger: Ledger) -> list[str]:
    """How many tensors are left out, by the reason."""
    whys = [row.steps[0].removeprefix("ignored: ") for row in ledger.rows if row.parameter is None and row.steps]
    counted = itertools.groupby(sorted(why for why in whys if not why.startswith("must equal ")))
    return [f"{len(list(group))} tensors are ignored: {why}" for why, group in counted]


def _of(check: str, findings: Iterable[Finding]) -> list[Finding]:
    return [flaw for flaw in findings if flaw.check == check]


def check_configuration(opened: Opened, identity: Identity, held: Held) -> Outcome:
    """Every setting in its column, none against another or against what is stored; those of generation too."""
    ledger, settings = held.ledger, opened.header.metadata
    table = name_table(held.variant.family, opened.scheme)
    columns: list[str] = [row.column for row in ledger.metadata]
    names = ("read", "must equal", "ignored", "unaccounted")
    findings = disagreements(settings, held.variant, table)
    told = {flaw.where for flaw in findings}
    findings += [flaw for flaw in setting_findings(ledger.metadata, held.by_shapes) if flaw.where not in told]
    notes = []
    for reading in assumed(settings, held.variant, table):
        if reading.ok and not identity.matches:
            guessed = f"absent, taken as {reading.value}"
            findings.append(finding("configuration.guessed", shown(reading.key), expected="a value", found=guessed))
    if meant := [r for r in readings(settings, held.variant, table) if not r.stated and r.ok and identity.matches]:
        values = ", ".join(f"{reading.key} ({reading.value})" for reading in meant)
        notes.append(f"not stated, and by default as {identity.nearest.name} has it: {values}")
    findings += _of("configuration", opened.findings)
    if opened.scheme == "huggingface":
        findings += generation_findings(opened) + impossible(opened)
        notes += _types(opened, settings)
    detail = ", ".join(f"{columns.count(name)} {name}" for name in names)
    return outcome("configuration", detail, findings, tuple(notes))


def _types(opened: Opened, settings: Mapping[str, Any]) -> list[str]:
    """A note where the type that is stated is not the one that most of the numbers have."""
    stated = next((settings[key] for key in STATED_TYPES if isinstance(settings.get(key), str)), None)
    sizes: dict[str, int] = {}
    for tensor in opened.header.tensors:
        sizes[tensor.type] = sizes.get(tensor.type, 0) + tensor.bytes
    most = max(sizes, key=lambda kind: sizes[kind], default=None)
    if stated not in TYPES or most not in TYPES.values() or TYPES[stated] == most:
        return []
    return [f"the settings say {stated}, and most numbers are stored as {most}"]


def check_parameters(held: Held) -> Outcome:
    """As many stored elements as the definition has parameters."""
    counted = counts(held.ledger, held.variant)
    stored, ledger = counted["stored"], held.ledger
    findings = []
    if stored != ledger.parameters:
        findings.append(
            finding("parameters.count", ledger.model, expected=f"{ledger.parameters:,}", found=f"{stored:,} stored")
        )
    return outcome("parameters", f"{stored:,} of {ledger.parameters:,}", findings)


def counts(ledger: Ledger, variant: Variant) -> dict[str, int]:
    """Counts by their names: parameters of the definition, those without the table of tokens, those that one position
    computes with; the elements stored for them, and the bytes that these take."""
    owned = [row.stored for row in ledger.rows if row.parameter is not None and row.stored is not None]
    config = variant.config
    experts, chosen = getattr(config, "num_local_experts", 1), getattr(config, "num_experts_per_tok", 1)
    embedding, idle = 0, 0
    for name, parameter in variant.build("meta").named_parameters():
        if name == EMBEDDING:
            embedding = parameter.numel()
        elif parameter.dim() == 3 and parameter.shape[0] == experts:  # a matrix for each expert
            idle += parameter.numel() * (experts - chosen) // experts
    return {
        "total": ledger.parameters,
        "without embeddings": ledger.parameters - embedding,
        "active per token": ledger.parameters - idle,
        "stored": sum(math.prod(tensor.shape) for tensor in owned),
        "stored bytes": sum(tensor.bytes for tensor in owned),
    }
