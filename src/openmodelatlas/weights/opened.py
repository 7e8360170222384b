"""What every format's reader gives: a checkpoint whose headers are read, tensor by tensor readable."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Self

from openmodelatlas.records.report import Finding, Header

if TYPE_CHECKING:  # headers are read without torch
    from torch import Tensor

    from openmodelatlas.weights.naming import Scheme


class Opened(ABC):
    """A checkpoint whose headers have been read, and nothing else. Keep it open while tensors are read; a context
    manager.

    `scheme`: whose names its tensors and settings have. `header.metadata`: its settings, flat. `findings`: what is
    wrong with the files themselves, though they could be read; `notes`: what is odd and no fault. `beside`: the small
    files that stand with it (tokenizer, settings of generation), by name, read when asked for."""

    scheme: "Scheme"
    header: Header
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    beside: Mapping[str, bytes] = MappingProxyType({})

    @abstractmethod
    def values(self, name: str, start: int = 0, end: int | None = None) -> "Tensor":
        """A stored tensor, or its rows from `start` to `end`, in memory of its own: in its stored type where torch has
        that type as plain numbers, else dequantised to float32. KeyError if there is no such tensor.

        CheckpointError if its values cannot be had here (a type that is not read; only headers were fetched)."""

    def by_values(self) -> list[Finding]:
        """What is wrong with how tensors are put together and only their values can tell; reads what it needs."""
        return []

    def section(self, prefix: str) -> dict[str, Any]:
        """Every setting whose key starts with `prefix`, long arrays in full."""
        return {key: value for key, value in self.header.metadata.items() if key.startswith(prefix)}

    @abstractmethod
    def close(self) -> None:
        """Let go of the files."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
