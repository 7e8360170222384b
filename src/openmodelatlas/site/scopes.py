"""What is drawn in one scope: a container's children, the values that pass between them, and its trunk.

A value made outside the region, or handed to the whole model beside its main inputs, is *context*: every block reads
it. Wires for context would run along everything, so it becomes a pill at each consumer.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from openmodelatlas.records.graph import Graph, Node, Parameters, Port
from openmodelatlas.site.schedule import kinds, mixed

End = tuple[str, str]
"""A node of the scope (or IN, OUT for the scope's own border) and one of its ports."""

IN, OUT = "", "-"
RESIDUAL = "ResidualAdd"
STACK = "blocks"
"""The child that stands for all blocks of a mixed model in their order; no node has this id, their list's own."""

_NOTHING = Parameters(count=0, tensors=())


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
    """Children in call order, nets, pills by consumer, and the trunk: the chain of ends that is drawn straight.

    A mixed model's blocks are one child, `STACK`; `readers` are the pills of its kinds of block. What other children
    make for blocks goes on as a pill, too: `gives`, by the child that makes it. `least` are ranks that children must
    not stand above: what different kinds of block read stands one below the other, the stack below them all.
    """

    node: Node
    children: tuple[Node, ...]
    nets: tuple[Net, ...]
    pills: Mapping[str, tuple[Pill, ...]]
    trunk: tuple[End, ...]
    readers: Mapping[str, tuple[Pill, ...]] = field(default_factory=dict)
    gives: Mapping[str, Pill] = field(default_factory=dict)
    least: Mapping[str, int] = field(default_factory=dict)


def scope_of(graph: Graph, name: str) -> Scope:
    """The scope of the container (or model) of that id."""
    node = graph.by_id[name]
    stacked = node.kind == "model" and mixed(graph)
    children = _stacked(graph, node) if stacked else tuple(graph.by_id[child] for child in node.children)
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
    tensors = {f"{c.id}:{p.port}": p.tensor for c in children for p in c.outputs}
    nets = tuple(
        Net(graph.aliases.get(source, tensors.get(source, source)), _end(name, source), tuple(ends))
        for source, ends in targets.items()
    )
    plain = Scope(
        node=node,
        children=children,
        nets=nets,
        pills={child: _pills(ports) for child, ports in pills.items()},
        trunk=_trunk({child.id: child for child in children}, node, context),
    )
    return _with_context(graph, plain) if stacked else plain


def _with_context(graph: Graph, scope: Scope) -> Scope:
    """A mixed model's scope with what its blocks read as pills at both ends."""
    readers = {region.name: _pills(_beside(graph.by_id[region.name])) for region in graph.regions}
    rows = {pill.text: (row, pill) for row, pills in reversed([*enumerate(readers.values())]) for pill in pills}
    gives, least = {}, {STACK: 1}
    for child in scope.children:
        row, pill = rows.get(child.id.replace("_", " "), (0, None))
        if pill is not None:
            gives[child.id], least[child.id] = pill, row + 1
            least[STACK] = max(least[STACK], row + 2)
    return replace(scope, readers=readers, gives=gives, least=least)


def _stacked(graph: Graph, node: Node) -> tuple[Node, ...]:
    """A mixed model's children, all blocks as one."""
    regions = [graph.by_id[region.name] for region in graph.regions]
    names = {region.id for region in regions}
    first, last = (regions[kind] for kind in (kinds(graph)[0], kinds(graph)[-1]))
    stack = replace(
        first,
        id=STACK,
        class_="",
        children=(),
        parameters=_NOTHING,
        inputs=tuple(port for port in first.inputs if port not in _beside(first)),
        outputs=last.outputs[:1],
    )
    children: list[Node] = []
    for child in (graph.by_id[name] for name in dict.fromkeys(node.children)):
        if child.id == first.id:
            children.append(stack)
        if child.id in names:
            continue
        inputs = (replace(p, from_=f"{STACK}:out") if _owner(p.from_) in names else p for p in child.inputs)
        children.append(replace(child, inputs=tuple(inputs)))
    return tuple(children)


def _owner(source: str | None) -> str:
    return (source or "").rpartition(":")[0]


def _beside(region: Node) -> tuple[Port, ...]:
    """What a region reads beside the stream."""
    return tuple(port for port in region.inputs if is_context(region, port))


def is_context(node: Node, port: Port) -> bool:
    """Is this input of a scope context? In a region: made outside it. For the model: part of a larger argument."""
    if node.region is None:
        return node.kind == "model" and "." in port.port
    return port.tensor.split(":")[0].split(".")[0] != node.region.name


def _end(scope: str, source: str) -> End:
    owner, _, port = source.rpartition(":")
    return (IN, port) if owner == scope else (owner, port)


def _pills(ports: Iterable[Port]) -> tuple[Pill, ...]:
    """What one module made (`rope.table:cos`, `rope.table:sin`) shares a pill that bears the module's name; what comes
    from outside the model, one that bears the argument's."""
    groups: dict[str, list[Port]] = {}
    for port in ports:
        groups.setdefault(made_by(port), []).append(port)
    return tuple(
        Pill(name.replace("_", " "), tuple(p.tensor for p in of), any(p.written for p in of))
        for name, of in groups.items()
    )


def made_by(port: Port) -> str:
    """The outermost module that made what a port reads; the argument's name if it is the model's own input."""
    return _owner(port.tensor).split(".")[0] or port.port.split(".")[0]


def _trunk(children: Mapping[str, Node], node: Node, context: set[str]) -> tuple[End, ...]:
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
        ports = [p for p in children[end[0]].inputs if p.from_ is not None and p.from_ not in context]
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
