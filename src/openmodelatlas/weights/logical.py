"""The tensors that a model has, whatever way a checkpoint keeps them: renamed, in shares, packed, fused."""

import dataclasses
from collections.abc import Iterator

from torch import Tensor

from openmodelatlas.models import variants
from openmodelatlas.records.report import StoredTensor
from openmodelatlas.records.shown import shown
from openmodelatlas.weights import packed, split
from openmodelatlas.weights.identify import belongs
from openmodelatlas.weights.naming import HALF, NameTable, has_names, name_table, numberless
from openmodelatlas.weights.opened import Opened
from openmodelatlas.weights.view import Shown, View, renamed, whole


def logical(opened: Opened) -> Opened:
    """The checkpoint with one tensor for each that a definition could have; what stands in no known way stays as it
    is."""
    if opened.scheme == "meta":
        return split.merge(opened)
    if opened.scheme == "huggingface":
        return halved(packed.unpacked(usual_names(opened)))
    return opened


def _tables(opened: Opened) -> list[NameTable]:
    families = dict.fromkeys(variant.family for variant in variants().values())
    tables = [name_table(family, opened.scheme) for family in families if has_names(family, opened.scheme)]
    return [table for table in tables if belongs(opened.header, table)]


def usual_names(opened: Opened) -> Opened:
    """Names that begin as in checkpoints that hold more than the model, or less, as they begin otherwise."""
    stored = {tensor.name for tensor in opened.header.tensors}
    found: dict[str, str] = {}
    for table in _tables(opened):
        for name in stored - set(found):
            old = next((old for old in table.prefixes if name.startswith(old)), None)
            if old is not None and (new := table.prefixes[old] + name.removeprefix(old)) not in stored:
                found[name] = new
    if not found or len(set(found.values())) < len(found):
        return opened
    first = min(found)
    return renamed(opened, found, notes=[f"{shown(first)} stands for {shown(found[first])}, as do {len(found)} names"])


def halved(opened: Opened) -> Opened:
    """Matrices that are stored as one, apart: those that a table has as `NAME#0/2` and so on."""
    known: dict[str, int] = {}
    for table in _tables(opened):
        for form in (form for row in table.tensors for form in row.forms if HALF in form):
            name, _, part = form.partition(HALF)
            known[numberless(name)] = int(part.partition("/")[2])
    made: list[Shown] = []
    for tensor in opened.header.tensors:
        count = known.get(numberless(tensor.name), 1)
        if count > 1 and len(tensor.shape) > 1 and tensor.shape[-2] % count == 0:
            made += _parts(opened, tensor, count)
    return View(opened, made) if made else opened


def _parts(opened: Opened, tensor: StoredTensor, count: int) -> Iterator[Shown]:
    size = tensor.shape[-2] // count
    shape = (*tensor.shape[:-2], size, tensor.shape[-1])
    for index in range(count):
        name = f"{tensor.name}{HALF}{index}/{count}"
        part = dataclasses.replace(whole(name, shape, tensor.type, [tensor]), bytes=tensor.bytes // count)

        def read(start: int, end: int | None, offset: int = index * size) -> Tensor:
            if len(shape) == 2:
                return opened.values(tensor.name, offset + start, offset + (size if end is None else end))
            return opened.values(tensor.name, start, end)[..., offset : offset + size, :].contiguous()

        yield Shown(tensor=part, read=read)
