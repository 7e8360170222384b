"""What sets a model apart at a glance, read off its map: norms, windows, experts, sharing, width of heads."""

from dataclasses import dataclass

from openmodelatlas.records.graph import Graph, Node
from openmodelatlas.site.cache import parts
from openmodelatlas.site.experts import CHOSEN, EXPERTS
from openmodelatlas.site.facts import tied
from openmodelatlas.site.schedule import mixed
from openmodelatlas.site.scopes import RESIDUAL, stream

MULTIPLY = "Multiply"
"""The op in which a gate scales the other branch; what comes to its first port is the activation."""


@dataclass(frozen=True)
class Traits:
    """`before` and `after`: the stream is normed before a mechanism reads it, its update before it is added. `heads`:
    queries or keys are normed. `ratio`: the width of all query heads over the model's. `windows`: by kind of block."""

    before: bool
    after: bool
    heads: bool
    ratio: float
    windows: tuple[int | None, ...]
    experts: tuple[int, int] | None
    activation: str
    rescaled: bool
    tied: bool


def traits(graph: Graph) -> Traits:
    """The traits of a model; those of its first kind of block, where they must be told of one."""
    axes = graph.axes
    gains = [node for node in graph.nodes if node.region == graph.regions[0] and _gain_axes(node)]
    flows = stream(graph)
    return Traits(
        before=any(_gain_axes(n) == ("D",) and n.inputs[0].tensor in flows for n in gains),
        after=any(_gain_axes(n) == ("D",) and _goes_to_sum(graph, n) for n in gains),
        heads=any(set("HKE") & set("".join(_gain_axes(n))) for n in gains),
        ratio=axes["H"] * axes["E"] / axes["D"],
        windows=tuple(part.window for part in parts(graph)),
        experts=(axes[EXPERTS], axes[CHOSEN]) if EXPERTS in axes else None,
        activation=_activation(graph),
        rescaled="rope" in graph.by_id and len(graph.by_id["rope"].children) > 2,
        tied=tied(graph),
    )


def _gain_axes(node: Node) -> tuple[str, ...]:
    """The axes of the only parameter of an op, if that is a vector."""
    tensors = node.parameters.tensors
    return tensors[0].axes if node.kind == "op" and len(tensors) == 1 and len(tensors[0].shape) == 1 else ()


def _goes_to_sum(graph: Graph, node: Node) -> bool:
    readers = (graph.by_id.get(port.rpartition(":")[0]) for port in node.outputs[0].to)
    return any(reader is not None and reader.class_ == RESIDUAL for reader in readers)


def _activation(graph: Graph) -> str:
    for node in graph.nodes:
        if node.class_ == MULTIPLY and node.inputs[0].from_:
            return graph.by_id[node.inputs[0].from_.rpartition(":")[0]].title
    return ""


def tags(graph: Graph) -> tuple[str, ...]:
    """What is unlike the plain decoder: norms before each mechanism only, heads as wide as division gives, every block
    alike and open to all earlier positions, one feed-forward, an output matrix of its own."""
    found = traits(graph)
    out = []
    if found.experts:
        out.append(f"{found.experts[0]} experts, {found.experts[1]} chosen")
    seen = [f"{window:,}" for window in found.windows if window is not None]
    if seen:
        out.append(f"window of {', '.join(seen)}" + (" in most blocks" if mixed(graph) and _most(graph) else ""))
    if found.heads:
        out.append("q and k normed")
    if found.after:
        out.append("normed after, too" if found.before else "normed after")
    if found.ratio != 1:
        out.append(f"heads {found.ratio:.2g} × width")
    if found.rescaled:
        out.append("scaled rope")
    if found.activation not in ("", "SiLU"):
        out.append(found.activation)
    if found.tied:
        out.append("one embedding matrix")
    return tuple(out)


def _most(graph: Graph) -> bool:
    """Do most blocks, though not all, have a window?"""
    windowed = sum(part.blocks for part in parts(graph) if part.window is not None)
    return graph.axes["L"] / 2 < windowed < graph.axes["L"]
