"""A checkpoint accounted for against a definition: every tensor both ways, every metadata key in one column."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from torch import nn

from openmodelatlas.models.variant import Variant
from openmodelatlas.records.report import Finding, Header, Ledger, MetadataRow, StoredTensor, TensorRow
from openmodelatlas.weights.gguf import shown
from openmodelatlas.weights.identify import same
from openmodelatlas.weights.naming import INDEX, NameTable, Scheme, block_pattern, fill, name_table

LONGEST_VALUE = 120


def account(header: Header, variant: Variant, scheme: Scheme = "gguf") -> Ledger:
    """The ledger of a header against a variant. Nothing is read but the header; nothing in it goes unmentioned."""
    table = name_table(variant.family, scheme)
    model = variant.build("meta")
    rows = _tensor_rows(header, model, table)
    counted = {id(p): p.numel() for p in model.parameters()}
    return Ledger(
        model=variant.name,
        rows=rows,
        metadata=_metadata_rows(header, variant, table),
        parameters=sum(counted.values()),
        stored_bytes=sum(t.bytes for t in header.tensors),
    )


def _tensor_rows(header: Header, model: nn.Module, table: NameTable) -> tuple[TensorRow, ...]:
    stored = {t.name: t for t in header.tensors}
    owners: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        owners.setdefault(id(parameter), []).append(name)
    names = {row.parameter: row for row in table.tensors}
    rows = []
    for name, parameter in model.named_parameters():
        pattern, index = block_pattern(name)
        row = names.get(pattern)
        found = None if row is None else stored.pop(fill(row.stored, index), None)
        shape = tuple(parameter.shape)
        rows.append(
            TensorRow(
                parameter=name,
                owners=tuple(owner.rpartition(".")[0] for owner in owners[id(parameter)]),
                stored=found,
                shape=shape,
                steps=() if row is None else row.steps,
                status="missing" if found is None else "matched" if found.shape == shape else "shape",
            )
        )
    blocks = len(getattr(model, "blocks", ()))
    rows += _constant_rows(stored, model, table, blocks)
    return (*rows, *(_surplus(tensor) for tensor in stored.values()))


def _constant_rows(stored: dict[str, StoredTensor], model: nn.Module, table: NameTable, blocks: int) -> list[TensorRow]:
    modules = {path for path, _ in model.named_modules()}
    rows = []
    for constant in table.constants:
        for index in range(blocks) if INDEX in constant.stored else (None,):
            name = fill(constant.stored, index)
            if name not in stored or (constant.owner is not None and constant.owner not in modules):
                continue
            step = f"must equal {constant.equals}" if constant.equals else f"ignored: {constant.ignored}"
            tensor = stored.pop(name)
            rows.append(
                TensorRow(
                    parameter=None,
                    owners=() if constant.owner is None else (constant.owner,),
                    stored=tensor,
                    shape=tensor.shape,
                    steps=(step,),
                    status="matched",
                )
            )
    return rows


def _surplus(tensor: StoredTensor) -> TensorRow:
    return TensorRow(parameter=None, owners=(), stored=tensor, shape=None, steps=(), status="surplus")


def _metadata_rows(header: Header, variant: Variant, table: NameTable) -> tuple[MetadataRow, ...]:
    rows = [_metadata_row(key, value, variant, table) for key, value in header.metadata.items()]
    for key in table.required:
        if key not in header.metadata:
            rows.append(MetadataRow(key=key, value="absent", column="read", reason="must be stated", ok=False))
    for key, default in table.absent.items():
        if key not in header.metadata:
            row = _metadata_row(key, default, variant, table)
            rows.append(dataclasses.replace(row, value=f"absent, which means {row.value}"))
    return tuple(rows)


def _metadata_row(key: str, value: Any, variant: Variant, table: NameTable) -> MetadataRow:
    text = printable(value)
    if key in table.read:
        field = table.read[key]
        expected = getattr(variant.config, field, None)
        ok = expected is None or same(value, expected)
        reason = field if ok else f"{field} must be {expected}"
        return MetadataRow(key=key, value=text, column="read", reason=reason, ok=ok)
    if key in table.must_equal:
        expected = table.must_equal[key]
        return MetadataRow(
            key=key, value=text, column="must equal", reason=printable(expected), ok=same(value, expected)
        )
    reason_why = table.ignored_because(key)
    if reason_why is not None:
        return MetadataRow(key=key, value=text, column="ignored", reason=reason_why, ok=True)
    return MetadataRow(key=key, value=text, column="unaccounted", reason="no table knows this key", ok=False)


def printable(value: Any) -> str:
    """A metadata value in one line: a long array as its length, a long text cut, control characters escaped."""
    if isinstance(value, Mapping):
        return f"{value['length']} × {value['array']}"
    text = value if isinstance(value, str) and value.isprintable() else repr(value)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"


def tensor_findings(ledger: Ledger) -> list[Finding]:
    """One finding for every tensor that is missing, surplus or of another shape."""
    found = []
    for row in ledger.rows:
        if row.status == "missing":
            where, expected, got = row.parameter or "", f"a tensor of shape {_shape(row.shape)}", "nothing stored"
        elif row.status == "surplus" and row.stored is not None:
            where, expected = shown(row.stored.name), "a tensor that the definition has a place for"
            got = f"shape {_shape(row.stored.shape)}, {row.stored.type}"
        elif row.status == "shape" and row.stored is not None:
            where, expected = f"{row.stored.name} ({row.parameter})", f"shape {_shape(row.shape)}"
            got = f"shape {_shape(row.stored.shape)}"
        else:
            continue
        found.append(Finding(check="tensors", where=where, expected=expected, found=got))
    return found


def metadata_findings(ledger: Ledger) -> list[Finding]:
    """One finding for every metadata key that contradicts the definition or that nothing accounts for."""
    found = []
    for row in ledger.metadata:
        if row.ok:
            continue
        expected = "a key that a table accounts for" if row.column == "unaccounted" else row.reason
        found.append(Finding(check="metadata", where=shown(row.key), expected=expected, found=row.value))
    return found


def _shape(shape: tuple[int, ...] | None) -> str:
    return "[" + ", ".join(str(size) for size in shape or ()) + "]"
