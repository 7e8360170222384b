"""What is drawn in one scope: a container's children, the values that pass between them, and its trunk.

A value made outside the region, or handed to the whole model beside its main inputs, is *context*: every block reads
it. Wires for context would run along everything, so it becomes a pill at each consumer.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from openmodelatlas.records.graph import Graph, Node, Port

End = tuple[str, str]
"""A node of the scope (or IN, OUT for the scope's own border) and one of its ports."""

IN, OUT = "", "-"
RESIDUAL = "ResidualAdd"


@dataclass(frozen=True)
class Pill:
    """Context at a consumer: what to print, which values it stands for, and whether the consumer writes to them."""

    text: str
    tensors: tuple[str, ...]
    written: bool


@dataclass(frozen=True)
class Net:
    """One value inside a scope: where it comes from and every place that takes it."""

    tensor: str
    source: End
    targets: tuple[End, ...]


@dataclass(frozen=True)
class Scope:
    """Children in call order, nets, pills by consumer, and the trunk: the chain of ends that is drawn straight."""

    node: Node
    children: tuple[Node, ...]
    nets: tuple[Net, ...]
    pills: Mapping[str, tuple[Pill, ...]]
    trunk: tuple[End, ...]


def scope_of(graph: Graph, name: str) -> Scope:
    """The scope of the container (or model) of that id."""
    node = graph.by_id[name]
    children = tuple(graph.by_id[child] for child in node.children)
    context = {f"{name}:{p.port}" for p in node.inputs if is_context(node, p)}
    targets: dict[str, list[End]] = {}
    pills: dict[str, list[Port]] = {}
    for child in children:
        for port in child.inputs:
            if port.from_ in context:
                pills.setdefault(child.id, []).append(port)
            elif port.from_ is not None:
                targets.setdefault(port.from_, []).append((child.id, port.port))
    for port in node.outputs:
        if port.from_ is not None:
            targets.setdefault(port.from_, []).append((OUT, port.port))
    nets = tuple(
        Net(graph.aliases.get(source, source), _end(name, source), tuple(ends)) for source, ends in targets.items()
    )
    return Scope(
        node=node,
        children=children,
        nets=nets,
        pills={child: _pills(ports) for child, ports in pills.items()},
        trunk=_trunk(graph, node, context),
    )


def is_context(node: Node, port: Port) -> bool:
    """Is this input of a scope context? In a region: made outside it. For the model: part of a larger argument."""
    if node.region is None:
        return node.kind == "model" and "." in port.port
    return port.tensor.split(":")[0].split(".")[0] != node.region.name


def _end(scope: str, source: str) -> End:
    owner, _, port = source.rpartition(":")
    return (IN, port) if owner == scope else (owner, port)


def _pills(ports: Iterable[Port]) -> tuple[Pill, ...]:
    """Ports of one argument (`rope.cos`, `rope.sin`) share a pill that bears its name."""
    groups: dict[str, list[Port]] = {}
    for port in ports:
        groups.setdefault(port.port.split(".")[0], []).append(port)
    return tuple(
        Pill(name.replace("_", " "), tuple(p.tensor for p in of), any(p.written for p in of))
        for name, of in groups.items()
    )


def _trunk(graph: Graph, node: Node, context: set[str]) -> tuple[End, ...]:
    """From the first output back to an input: through a residual addition along its stream, else by the first input."""
    if not node.outputs or node.outputs[0].from_ is None:
        return ()
    ends: list[End] = [(OUT, node.outputs[0].port)]
    source: str | None = node.outputs[0].from_
    while source is not None:
        end = _end(node.id, source)
        ends.append(end)
        if end[0] == IN:
            break
        ports = [p for p in graph.by_id[end[0]].inputs if p.from_ is not None and p.from_ not in context]
        source = ports[0].from_ if ports else None
    return tuple(reversed(ends))


def stream(graph: Graph) -> frozenset[str]:
    """The values that are the residual stream: region inputs and outputs, residual sums, and what enters a region."""
    tensors = set()
    for region in graph.regions:
        tensors |= {f"{region.name}:in", f"{region.name}:out"}
        entering = [p.from_ for p in graph.by_id[region.name].inputs if p.port == "in"]
        tensors |= {graph.aliases.get(source, source) for source in entering if source}
    tensors |= {p.tensor for n in graph.nodes if n.class_ == RESIDUAL for p in n.outputs}
    return frozenset(tensors)
