"""A checkpoint accounted for against a definition: every tensor both ways, every metadata key in one column."""

from collections import Counter
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Literal

from torch import nn

from openmodelatlas.models.variant import Variant
from openmodelatlas.records.findings import finding
from openmodelatlas.records.report import Finding, Header, Ledger, StoredTensor, TensorRow
from openmodelatlas.records.shown import shown
from openmodelatlas.weights.ledger_causes import blocks_beyond, missing_blocks, other_names
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
from openmodelatlas.weights.steps import STACK

ANY = "*"
NO_WEIGHTS = {"BOOL", "U8", "I8", "U16", "I16", "U32", "I32", "U64", "I64", "C64", "F8_E8M0"}
"""Types of words, masks and scales; where words stand for packed weights, the matrix has a type of its own."""
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
        names = [fill(constant.stored, i) for i in (range(blocks) if INDEX in constant.stored else (None,))]
        if ANY in constant.stored:
            names = [name for name in stored for pattern in names if fnmatchcase(name, pattern)]
        for name in names:
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
    """What is missing, surplus or of another shape: one finding a tensor, or one for all that have one cause."""
    if alien := other_names(ledger):
        return alien
    missing, (beyond, found) = missing_blocks(ledger), blocks_beyond(ledger)
    for index, count in sorted(missing.items()):
        where, expected = f"blocks.{index}", f"{count} tensors"
        found.append(finding("tensors.block-missing", where, expected=expected, found="nothing stored"))
    seen = Counter[str]()
    for row in ledger.rows:
        parameter = row.parameter or ""
        place = f"{parameter}[{seen[parameter]}]" if STACK in row.steps else parameter
        seen[parameter] += 1
        if block_pattern(parameter)[1] not in missing and (row.stored is None or row.stored.name not in beyond):
            found += _row_finding(row, place)
    return found


def _row_finding(row: TensorRow, place: str) -> list[Finding]:
    if row.status == "missing":
        expected = f"a tensor of shape {_shape(row.shape)}"
        return [finding("tensors.missing", place, expected=expected, found="nothing stored")]
    if row.status == "surplus" and row.stored is not None:
        got = f"shape {_shape(row.stored.shape)}, {row.stored.type}"
        where = shown(row.stored.name)
        return [finding("tensors.surplus", where, expected="a tensor that the definition has", found=got)]
    if row.status == "shape" and row.stored is not None and row.shape is not None:
        turned = len(row.shape) > 1 and row.stored.shape == row.shape[::-1]
        where, expected = f"{row.stored.name} ({place})", f"shape {_shape(row.shape)}"
        code = "tensors.transposed" if turned else "tensors.shape"
        return [finding(code, where, expected=expected, found=f"shape {_shape(row.stored.shape)}")]
    if row.parameter is not None and row.stored is not None and row.stored.type in NO_WEIGHTS:
        where = f"{shown(row.stored.name)} ({place})"
        return [finding("tensors.type", where, expected="numbers that can be weights", found=row.stored.type)]
    return []


def metadata_findings(ledger: Ledger) -> list[Finding]:
    """One finding for every metadata key that contradicts the definition or that nothing accounts for."""
    return setting_findings(ledger.metadata)


def _shape(shape: tuple[int, ...] | None) -> str:
    return "[" + ", ".join(str(size) for size in shape or ()) + "]"
