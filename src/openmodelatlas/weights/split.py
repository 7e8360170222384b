"""Shares of a model that was saved from several devices, as one: by rules that stand beside the family's names."""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Literal

import torch
from torch import Tensor

from openmodelatlas.models import variants
from openmodelatlas.records.findings import finding
from openmodelatlas.records.report import Finding, Ledger, StoredTensor, TensorRow
from openmodelatlas.records.shown import shown
from openmodelatlas.weights.naming import NameTable, block_pattern, has_names, name_table, numberless
from openmodelatlas.weights.opened import Opened
from openmodelatlas.weights.view import Shown, View, whole

Rule = Literal["rows", "columns", "vocabulary", "copy"]
SHARE = ":"
"""Between the name of a share's file and that of its tensor."""
ROWS_AT_ONCE = 4096


def merge(opened: Opened) -> Opened:
    """The checkpoint with every tensor whole. One that was saved as a whole stays as it is.

    Each share has a part of every matrix (some of its rows, or of its columns) and a copy of everything else. What
    doesn't fit together is a finding, and the tensor is shown with the shape that its parts would make."""
    shares: dict[str, dict[str, StoredTensor]] = {}
    for tensor in opened.header.tensors:
        file, mark, name = tensor.name.partition(SHARE)
        if mark:
            shares.setdefault(name, {})[file] = tensor
    files = sorted({file for parts in shares.values() for file in parts})
    if not files:
        return opened
    rules, width = _rules(shares), _width(opened, shares)
    made, findings, copies = [], [], []
    for name, by_file in shares.items():
        parts = [by_file[file] for file in files if file in by_file]
        rule = _axis(rules.get(numberless(name), "copy"), parts, width)
        findings += _wrong(name, parts, rule, len(files))
        if rule == "copy":
            copies.append(parts)
        made.append(_shown(opened, name, parts, rule))
    return View(opened, made, findings=findings, by_values=lambda: _unequal(opened, copies))


def _tables() -> list[NameTable]:
    families = {variant.family for variant in variants().values()}
    return [name_table(family, "meta") for family in sorted(families) if has_names(family, "meta")]


def _rules(names: Mapping[str, object]) -> dict[str, Rule]:
    """How each tensor is shared out, by its name without numbers, in the family that knows most of the names."""
    table = max(_tables(), key=lambda table: sum(table.knows(name) for name in names))
    return {numberless(form): row.split for row in table.tensors for form in row.forms if row.split is not None}


def _width(opened: Opened, shares: Mapping[str, Mapping[str, StoredTensor]]) -> int | None:
    """The model's width: that of its last norm, which every share has whole; what the settings say if there is none."""
    for table in _tables():
        name = next((row.stored for row in table.tensors if row.parameter == "norm.weight"), "")
        for tensor in shares.get(name, {}).values():
            return tensor.shape[-1] if tensor.shape else None
    stated = opened.header.metadata.get("dim")
    return stated if isinstance(stated, int) else None


def _axis(rule: Rule, parts: Sequence[StoredTensor], width: int | None) -> Literal["rows", "columns", "copy"]:
    """Tables of tokens were split by columns once and by rows later: what has the model's full width was split by
    rows."""
    if rule != "vocabulary":
        return rule
    narrow = width is not None and len(parts[0].shape) == 2 and parts[0].shape[1] * len(parts) == width
    return "columns" if narrow else "rows"


def _wrong(name: str, parts: Sequence[StoredTensor], rule: str, files: int) -> list[Finding]:
    where = shown(name)
    if len(parts) < files:
        return [finding("files.share-incomplete", where, expected=f"in {files} shares", found=f"in {len(parts)}")]
    shapes = {part.shape for part in parts}
    if len({part.type for part in parts}) > 1:
        found = ", ".join(sorted({part.type for part in parts}))
        return [finding("files.share-type", where, expected="one type in all shares", found=found)]
    if len(shapes) > 1:
        expected = "the same copy in every share" if rule == "copy" else f"equal parts by {rule}"
        found = ", ".join(str(list(shape)) for shape in sorted(shapes))
        return [finding("files.share-shape", where, expected=expected, found=found)]
    return []


def _shown(opened: Opened, name: str, parts: Sequence[StoredTensor], rule: str) -> Shown:
    first = parts[0].shape
    if rule == "copy" or len(first) != 2:
        tensor = whole(name, first, parts[0].type, parts)
        return Shown(tensor=tensor, read=lambda start, end: opened.values(parts[0].name, start, end))
    axis = 0 if rule == "rows" else 1
    sizes = [part.shape[axis] if len(part.shape) == 2 else 0 for part in parts]
    shape = (sum(sizes), first[1]) if axis == 0 else (first[0], sum(sizes))
    tensor = whole(name, shape, parts[0].type, parts)
    if axis == 1:
        return Shown(tensor=tensor, read=lambda start, end: _beside(opened, parts, start, end))
    return Shown(tensor=tensor, read=lambda start, end: _below(opened, parts, sizes, start, end))


def _beside(opened: Opened, parts: Sequence[StoredTensor], start: int, end: int | None) -> Tensor:
    return torch.cat([opened.values(part.name, start, end) for part in parts], dim=1)


def _below(opened: Opened, parts: Sequence[StoredTensor], sizes: Sequence[int], start: int, end: int | None) -> Tensor:
    """Some rows, from the shares that have them."""
    last, found, offset = sum(sizes) if end is None else end, [], 0
    for part, size in zip(parts, sizes, strict=True):
        low, high = max(start - offset, 0), min(last - offset, size)
        if low < high:
            found.append(opened.values(part.name, low, high))
        offset += size
    return found[0] if len(found) == 1 else torch.cat(found)


def _unequal(opened: Opened, copies: Sequence[Sequence[StoredTensor]]) -> list[Finding]:
    """Copies that are not the same in every share, bit for bit."""
    found = []
    for first, *others in copies:
        for other in others:
            if other.shape == first.shape and other.type == first.type and not _equal(opened, first, other):
                file, _, name = other.name.partition(SHARE)
                expected = f"the values that {first.name.partition(SHARE)[0]} has"
                found.append(finding("files.share-copy", shown(name), expected=expected, found=f"others in {file}"))
    return found


def _equal(opened: Opened, first: StoredTensor, other: StoredTensor) -> bool:
    rows = first.shape[0] if first.shape else 1
    step = max(1, ROWS_AT_ONCE * 1024 // max(1, math.prod(first.shape[1:]))) if first.shape else 1
    for start in range(0, rows, step):
        mine = opened.values(first.name, start, min(start + step, rows))
        theirs = opened.values(other.name, start, min(start + step, rows))
        if not torch.equal(_raw(mine), _raw(theirs)):
            return False
    return True


def _raw(values: Tensor) -> Tensor:
    """The bytes, in which NaN is equal to itself."""
    return values.contiguous().reshape(-1).view(torch.uint8)


def lacking(ledger: Ledger, table: NameTable) -> tuple[int, int] | None:
    """How many shares there are, and of how many, where some are not: everything that is shared out has the same part
    of its rows or columns, and everything else is whole. None if it is not so."""
    rules = {row.parameter: row.split for row in table.tensors}
    rows = [(row, rules.get(block_pattern(row.parameter)[0])) for row in ledger.rows if row.parameter is not None]
    shared = [row for row, rule in rows if rule is not None and row.stored is not None]
    found = {(_part(row), len(row.stored.parts) or 1) for row in shared if row.stored is not None}
    if len(found) != 1 or any(row.status == "shape" for row, rule in rows if rule is None):
        return None
    [(part, files)] = found
    meant = None if part is None else files / part
    return (files, meant.numerator) if meant is not None and meant.denominator == 1 and meant > files else None


def _part(row: TensorRow) -> Fraction | None:
    """Which part of a parameter is stored, along the one axis on which some of it is not."""
    if row.stored is None or row.shape is None or len(row.shape) != len(row.stored.shape) or 0 in row.shape:
        return None
    parts = [Fraction(there, meant) for there, meant in zip(row.stored.shape, row.shape, strict=True) if there != meant]
    return parts[0] if len(parts) == 1 else None
