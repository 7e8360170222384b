"""The library's front door: one catalogue model with its map, its numbers and its definition."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from openmodelatlas import maps
from openmodelatlas.catalog import find
from openmodelatlas.records.graph import Constant, Graph

if TYPE_CHECKING:
    import torch
    from torch import nn

    from openmodelatlas.models.variant import Variant
    from openmodelatlas.records.diff import GraphDiff


@dataclass(frozen=True)
class AtlasModel:
    """A catalogue model. `graph` and `config` need no torch once the map is cached; `build` does."""

    name: str

    @cached_property
    def graph(self) -> Graph:
        """The derived map."""
        return maps.graph(self.name)

    @cached_property
    def config(self) -> Mapping[str, Constant]:
        """The numbers of the model, named as in Hugging Face configurations."""
        return self.graph.config

    def build(self, device: "str | torch.device" = "meta", dtype: "torch.dtype | None" = None) -> "nn.Module":
        """The executable definition with uninitialised parameters; `dtype` defaults to the released one."""
        from openmodelatlas import models

        return models.find(find.model(self.name).variant).build(device, dtype)

    def __repr__(self) -> str:
        return f"<AtlasModel {self.name}: {self.graph.counts.total:,} parameters>"

    def _repr_html_(self) -> str:
        return self.graph._repr_html_()


def load(name: str) -> AtlasModel:
    """The catalogue model of that name; UnknownName lists the nearest."""
    return AtlasModel(find.model(name).id)


def derive(of: "str | AtlasModel | Variant") -> Graph:
    """The map, derived anew (not from the cache): of a catalogue model, or of a variant that no catalogue has."""
    from openmodelatlas import models
    from openmodelatlas.trace.derive import derive

    if isinstance(of, str):
        of = load(of)
    return derive(models.find(find.model(of.name).variant) if isinstance(of, AtlasModel) else of)


def diff(left: str | AtlasModel | Graph, right: str | AtlasModel | Graph) -> "GraphDiff":
    """Two maps held against each other, node by node; each is given by its model's name, the model, or the map."""
    from openmodelatlas.records.compare import diff

    return diff(_graph(left), _graph(right))


def _graph(of: str | AtlasModel | Graph) -> Graph:
    if isinstance(of, str):
        of = load(of)
    return of.graph if isinstance(of, AtlasModel) else of
