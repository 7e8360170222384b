"""The map of a model: nodes, ports, parameters, regions. Derived by `trace`, read by everything else."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from openmodelatlas.records.evidence import CodePin, NodeClaim
from openmodelatlas.records.verification import Proof

Size = int | str
"""One axis length: an integer, or an expression in B (batch), T (positions in the call), S (positions attended to)."""

Constant = int | float | bool | str


@dataclass(frozen=True, kw_only=True)
class Port:
    """One argument or result of a node, and the value that it carries.

    `tensor` is the canonical id of that value; `alias_of` is the same id when this port is not the canonical one, else
    None. `from` is the port that feeds this one: for an input, a sibling's output or the parent's input; for a
    container's output, the output of the child that made it; for an op's own output, None. `to` are the input ports
    (and container outputs) fed by this port in its scope. `written` marks a buffer that the node writes in place.
    """

    port: str
    tensor: str
    symbol: str
    symbol_text: str
    shape: tuple[Size, ...]
    axes: tuple[str, ...]
    dtype: str
    from_: str | None
    to: tuple[str, ...]
    alias_of: str | None
    written: bool


@dataclass(frozen=True, kw_only=True)
class ParameterTensor:
    """One learned tensor. `name` is its path in the definition; `tied_to` names the first owner of a shared tensor."""

    name: str
    shape: tuple[int, ...]
    axes: tuple[str, ...]
    dtype: str
    symbol: str
    symbol_text: str
    count: int
    tied_to: str | None


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """`count`: learned elements under the node, each distinct tensor once; a region counts one block."""

    count: int
    tensors: tuple[ParameterTensor, ...]


@dataclass(frozen=True, kw_only=True)
class Light:
    """A symbol of an equation and what it lights: node ids, region tensors (`block:in`), or `residual` (the stream)."""

    symbol: str
    tensor: str
    targets: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Region:
    """Blocks proven identical: equal subtree hashes. `independent`: no two of them share a parameter."""

    name: str
    count: int
    indices: tuple[int, ...]
    independent: bool
    subtree: str


@dataclass(frozen=True, kw_only=True)
class Definition:
    """Where in this package the node's code is: file relative to the package, first and last line."""

    path: str
    lines: tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Node:
    """One place on the map: the model (id ""), a container, an op, or a tensor (one value, canonical id `op:port`).

    `flops` are matmul FLOPs (2mnk a matmul, full T x S attention, element-wise ops 0) as an expression in B, T, S.
    `expression` is the reference's own line, shortened; `code`, `claims` and `proofs` are filled from the catalogue.
    """

    id: str
    kind: Literal["model", "container", "op", "tensor"]
    class_: str
    title: str
    sentence: str
    expression: str
    equation: str
    equation_text: str
    lights: tuple[Light, ...]
    constants: Mapping[str, Constant]
    dtype_note: str
    parameters: Parameters
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    flops: str
    region: Region | None
    children: tuple[str, ...]
    definition: Definition | None
    code: tuple[CodePin, ...]
    claims: tuple[NodeClaim, ...]
    proofs: tuple[Proof, ...]


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Parameter counts by what they count: every distinct element; the same without the token embedding table; those
    that one position computes with, the whole embedding table included (all, but for experts that are not chosen)."""

    total: int
    without_embedding: int
    active: int


@dataclass(frozen=True, kw_only=True)
class Graph:
    """The whole map of one model. `axes` gives the size of each named axis; `nodes` are in call order, "" first."""

    schema: str
    model: str
    family: str
    config: Mapping[str, Constant]
    axes: Mapping[str, int]
    dtype: str
    counts: Counts
    regions: tuple[Region, ...]
    nodes: tuple[Node, ...]

    @cached_property
    def by_id(self) -> Mapping[str, Node]:
        """Nodes by id."""
        return {node.id: node for node in self.nodes}

    @cached_property
    def aliases(self) -> Mapping[str, str]:
        """Every port id (`node:port`) to the canonical id of the value it carries."""
        return {f"{n.id}:{p.port}": p.tensor for n in self.nodes if n.kind != "tensor" for p in n.inputs + n.outputs}

    def __repr__(self) -> str:
        regions = ", ".join(f"{r.count} x {r.name}" for r in self.regions)
        return f"<Graph {self.model}: {self.counts.total:,} parameters, {len(self.nodes)} nodes, {regions}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td><code>{n.id or self.model}</code></td><td>{n.title}</td><td>{n.parameters.count:,}</td></tr>"
            for n in self.nodes
            if n.kind != "tensor"
        )
        return f"<p>{self!r}</p>".replace("<Graph", "&lt;Graph").replace("block>", "block&gt;") + (
            f"<table><tr><th>node</th><th>title</th><th>parameters</th></tr>{rows}</table>"
        )


GRAPH_SCHEMA = "openmodelatlas/graph/1"
