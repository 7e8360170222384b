"""A checkpoint that shows whole tensors where the files hold parts of them: shares, packed words, fused matrices."""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from openmodelatlas.records.report import Finding, StoredTensor
from openmodelatlas.weights.opened import Opened

if TYPE_CHECKING:
    from torch import Tensor

Read = Callable[[int, int | None], "Tensor"]


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A tensor as it is shown: made of `tensor.parts`, and how its rows are had."""

    tensor: StoredTensor
    read: Read


class View(Opened):
    """Another checkpoint with some of its tensors hidden, and others shown in the place of the first of their parts."""

    def __init__(
        self,
        inner: Opened,
        shown: Iterable[Shown],
        *,
        findings: Iterable[Finding] = (),
        notes: Iterable[str] = (),
        by_values: Callable[[], list[Finding]] = list,
    ) -> None:
        self._inner, self._by_values = inner, by_values
        self._shown = {made.tensor.name: made for made in shown}
        self.scheme, self.beside = inner.scheme, inner.beside
        self.findings, self.notes = (*inner.findings, *findings), (*inner.notes, *notes)
        places: dict[str, list[StoredTensor]] = {}
        self._hidden = {part for made in self._shown.values() for part in made.tensor.parts}
        for made in self._shown.values():
            places.setdefault(made.tensor.parts[0], []).append(made.tensor)
        tensors: list[StoredTensor] = []
        for tensor in inner.header.tensors:
            tensors += places.get(tensor.name, []) if tensor.name in self._hidden else [tensor]
        self.header = dataclasses.replace(inner.header, tensors=tuple(tensors))

    def values(self, name: str, start: int = 0, end: int | None = None) -> "Tensor":
        if name in self._shown:
            return self._shown[name].read(start, end)
        if name in self._hidden:
            raise KeyError(name)
        return self._inner.values(name, start, end)

    def by_values(self) -> list[Finding]:
        return [*self._inner.by_values(), *self._by_values()]

    def section(self, prefix: str) -> dict[str, Any]:
        return self._inner.section(prefix)

    def close(self) -> None:
        self._inner.close()


def whole(name: str, shape: tuple[int, ...], kind: str, parts: Iterable[StoredTensor]) -> StoredTensor:
    """The record of a tensor that is put together from stored ones."""
    parts = tuple(parts)
    return StoredTensor(
        name=name,
        shape=shape,
        type=kind,
        bytes=sum(part.bytes for part in parts),
        offset=parts[0].offset,
        shard=parts[0].shard,
        parts=tuple(part.name for part in parts),
    )


def renamed(inner: Opened, names: Mapping[str, str], *, notes: Iterable[str] = ()) -> Opened:
    """The same tensors, some of them by another name."""
    stored = {tensor.name: tensor for tensor in inner.header.tensors}
    shown = []
    for old, new in names.items():
        made = dataclasses.replace(stored[old], name=new, parts=(old,))
        shown.append(Shown(tensor=made, read=functools.partial(inner.values, old)))
    return View(inner, shown, notes=notes) if shown else inner
