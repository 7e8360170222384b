"""A checkpoint accounted for against a definition: every tensor both ways, every metadata key in one column."""

from collections import Counter
from collections.abc import Mapping
from typing import Literal

from torch import nn

from openmodelatlas.models.variant import Variant
from openmodelatlas.records.findings import finding
from openmodelatlas.records.report import Finding, Header, Ledger, StoredTensor, TensorRow
from openmodelatlas.weights.naming import (
    EXPERT,
    INDEX,
    NameTable,
    Scheme,
    TensorName,
    block_pattern,
    fill,
    name_table,
    pieces,
)
from openmodelatlas.weights.settings import setting_findings, setting_rows
from openmodelatlas.weights.shown import shown
from openmodelatlas.weights.steps import STACK

Status = Literal["matched", "missing", "surplus", "shape"]


def account(header: Header, variant: Variant, scheme: Scheme = "gguf") -> Ledger:
    """The ledger of a header against a variant. Nothing is read but the header; nothing in it goes unmentioned."""
    table = name_table(variant.family, scheme)
    model = variant.build("meta")
    rows = _tensor_rows(header, model, table)
    counted = {id(p): p.numel() for p in model.parameters()}
    return Ledger(
        model=variant.name,
        rows=rows,
        metadata=setting_rows(header.metadata, variant, table),
        parameters=sum(counted.values()),
        stored_bytes=sum(t.bytes for t in header.tensors),
    )


def _tensor_rows(header: Header, model: nn.Module, table: NameTable) -> tuple[TensorRow, ...]:
    stored = {t.name: t for t in header.tensors}
    owners: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        owners.setdefault(id(parameter), []).append(name)
    names = {row.parameter: row for row in table.tensors}
    rows: list[TensorRow] = []
    for name, parameter in model.named_parameters():
        by = tuple(owner.rpartition(".")[0] for owner in owners[id(parameter)])
        rows += _parameter_rows(name, by, tuple(parameter.shape), names, stored)
    blocks = len(getattr(model, "blocks", ()))
    rows += _constant_rows(stored, model, table, blocks)
    return (*rows, *(_surplus(tensor) for tensor in stored.values()))


def _parameter_rows(
    name: str,
    owners: tuple[str, ...],
    shape: tuple[int, ...],
    names: Mapping[str, TensorName],
    stored: dict[str, StoredTensor],
) -> list[TensorRow]:
    """The rows of one parameter: one, or one an expert where the file stores experts apart. Takes from `stored`."""
    pattern, index = block_pattern(name)
    if pattern not in names:
        return [TensorRow(parameter=name, owners=owners, stored=None, shape=shape, steps=(), status="missing")]
    row = names[pattern]
    form = _form(row, index, shape, stored)
    apart = EXPERT in form
    size, steps = (shape[1:], (*row.steps, STACK)) if apart else (shape, row.steps)
    rows = []
    for piece in pieces(form, index, shape[0]):
        found = stored.pop(piece, None)
        state: Status = "missing" if found is None else "matched" if found.shape == size else "shape"
        rows.append(TensorRow(parameter=name, owners=owners, stored=found, shape=size, steps=steps, status=state))
    return rows


def _form(row: TensorName, index: int | None, shape: tuple[int, ...], stored: Mapping[str, StoredTensor]) -> str:
    """The form of a parameter's name that the file has; the usual one if it has none."""
    there = (form for form in row.forms if any(piece in stored for piece in pieces(form, index, shape[0])))
    return next(there, row.stored)


def _constant_rows(stored: dict[str, StoredTensor], model: nn.Module, table: NameTable, blocks: int) -> list[TensorRow]:
    modules = {path for path, _ in model.named_modules()}
    rows = []
    for constant in table.constants:
        for index in range(blocks) if INDEX in constant.stored else (None,):
            name = fill(constant.stored, index)
            if name not in stored or (constant.owner is not None and constant.owner not in modules):
                continue
            held = constant.equals or constant.copy_of
            step = f"must equal {held}" if held else f"ignored: {constant.ignored}"
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


def tensor_findings(ledger: Ledger) -> list[Finding]:
    """One finding for every tensor that is missing, surplus or of another shape."""
    found: list[Finding] = []
    seen = Counter[str]()
    for row in ledger.rows:
        parameter = row.parameter or ""
        place = f"{parameter}[{seen[parameter]}]" if STACK in row.steps else parameter
        seen[parameter] += 1
        if row.status == "missing":
            expected = f"a tensor of shape {_shape(row.shape)}"
            found.append(finding("tensors.missing", place, expected=expected, found="nothing stored"))
        elif row.status == "surplus" and row.stored is not None:
            got = f"shape {_shape(row.stored.shape)}, {row.stored.type}"
            place = shown(row.stored.name)
            found.append(finding("tensors.surplus", place, expected="a tensor that the definition has", found=got))
        elif row.status == "shape" and row.stored is not None and row.shape is not None:
            turned = len(row.shape) > 1 and row.stored.shape == row.shape[::-1]
            where, expected = f"{row.stored.name} ({place})", f"shape {_shape(row.shape)}"
            code = "tensors.transposed" if turned else "tensors.shape"
            found.append(finding(code, where, expected=expected, found=f"shape {_shape(row.stored.shape)}"))
    return found


def metadata_findings(ledger: Ledger) -> list[Finding]:
    """One finding for every metadata key that contradicts the definition or that nothing accounts for."""
    return setting_findings(ledger.metadata)


def _shape(shape: tuple[int, ...] | None) -> str:
    return "[" + ", ".join(str(size) for size in shape or ()) + "]"
