"""A row of a family's table of variants: numbers, and the classes that they go into."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import nn

from openmodelatlas.errors import DefinitionError

Config = TypeVar("Config")


def from_row(kind: type[Config], row: Sequence[Any]) -> Config:
    """A configuration from its numbers in the order of its fields; DefinitionError for a row of another length."""
    names = list(inspect.signature(kind).parameters)
    if len(names) != len(row):
        raise DefinitionError(
            f"a row of {kind.__name__} has the wrong length",
            where=", ".join(map(str, row)),
            expected=f"{len(names)} numbers ({', '.join(names)})",
            found=len(row),
        )
    return kind(**dict(zip(names, row, strict=True)))


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One model: its configuration, the model class, and the classes of the parts that vary within the family."""

    config: Any
    model: type[nn.Module]
    parts: Mapping[str, type[nn.Module]]
    dtype: torch.dtype = torch.bfloat16
    name: str = field(default="", init=True)
    family: str = field(default="", init=True)

    def build(self, device: str | torch.device = "meta", dtype: torch.dtype | None = None) -> nn.Module:
        """The model with uninitialised parameters, in evaluation mode; `dtype` defaults to the released one."""
        before = torch.get_default_dtype()
        torch.set_default_dtype(dtype or self.dtype)
        try:
            with torch.device(device):
                return self.model(self.config, **self.parts).eval()
        finally:
            torch.set_default_dtype(before)
