"""What packed tensors are made of, found by their names, and what is wrong with how they stand together."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from openmodelatlas.records.findings import finding
from openmodelatlas.records.report import Finding, StoredTensor
from openmodelatlas.records.shown import shown
from openmodelatlas.weights.opened import Opened
from openmodelatlas.weights.view import Shown

Parts = dict[str, StoredTensor]


def _nothing() -> list[Finding]:
    return []


@dataclass(kw_only=True)
class Layout:
    """The tensors that a way of packing has in a checkpoint. `by_values`: what only values can tell."""

    shown: list[Shown] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    by_values: Callable[[], list[Finding]] = _nothing

    def bad_shape(self, base: str, parts: Mapping[str, StoredTensor]) -> None:
        """Parts whose sizes contradict each other."""
        sizes = ", ".join(f"{name} {list(part.shape)}" for name, part in parts.items())
        self.findings.append(finding("tensors.packed-shape", shown(base), expected="parts of one matrix", found=sizes))


class Packed:
    """The stored tensors, by the module that they are parts of."""

    def __init__(self, opened: Opened, ending: str) -> None:
        self._stored = {tensor.name: tensor for tensor in opened.header.tensors}
        self._bases = [name.removesuffix(ending) for name in self._stored if name.endswith(ending)]

    def groups(self, needed: Sequence[str], besides: Sequence[str]) -> Iterator[tuple[str, Parts]]:
        """Each module with the parts that it has of those."""
        for base in self._bases:
            names = {part: f"{base}.{part}" for part in (*needed, *besides)}
            yield base, {part: self._stored[name] for part, name in names.items() if name in self._stored}


def missing_parts(found: Layout, base: str, parts: Mapping[str, StoredTensor], needed: Sequence[str]) -> bool:
    """Whether a part is missing, or is no matrix; a finding for the first."""
    for part in needed:
        if part not in parts:
            found.findings.append(finding("tensors.packed-part", shown(f"{base}.{part}"), expected=part, found="none"))
            return True
        if len(parts[part].shape) != 2 or 0 in parts[part].shape:
            found.bad_shape(base, parts)
            return True
    return False


def disagreement(
    base: str, settings: Mapping[str, Any], key: str, stored: int, whole: int | None = None
) -> list[Finding]:
    """A setting of the packing against what shapes say. `whole`: what -1 stands for, and anything larger."""
    stated = settings.get(key)
    if not isinstance(stated, int) or isinstance(stated, bool):
        return []
    meant = whole if whole is not None and (stated == -1 or stated > whole) else stated
    if meant == stored:
        return []
    where, found = f"quantization_config.{key}", f"{stored} in the shapes of {shown(base)}"
    return [finding("configuration.quantization", where, expected=stated, found=found)]
