"""A row of a family's table of variants: numbers, and the classes that they go into."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn


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
