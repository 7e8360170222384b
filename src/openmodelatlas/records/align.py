"""Bring two maps under common ids: regions of other names are set beside each other.

A model of one kind of block is compared with each kind of a mixed model: its block stands once for every kind then.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from openmodelatlas.records.graph import Graph, Node, Port

ANY = "blocks"
"""What the neighbours of the blocks read from, where the two maps have regions of other names."""


@dataclass(frozen=True)
class Pair:
    """A region of either map, and the name under which both stand."""

    left: str
    right: str
    name: str


def pairs(left: Sequence[str], right: Sequence[str]) -> tuple[Pair, ...]:
    """Regions of one name belong together; of those left over, one stands beside each of the other side's, and several
    go in order."""
    same = [Pair(name, name, name) for name in left if name in right]
    a, b = ([name for name in names if name not in {p.name for p in same}] for names in (left, right))
    if len(a) == 1 or len(b) == 1:
        rest = [Pair(x, y, y if len(a) == 1 else x) for x in a for y in b]
    else:
        rest = [Pair(x, y, y) for x, y in zip(a, b, strict=False)]
    return (*same, *rest)


def align(left: Graph, right: Graph) -> tuple[Graph, Graph]:
    """Both maps with the ids of their pairs; as they are where their regions have the same names."""
    names = [[region.name for region in graph.regions] for graph in (left, right)]
    if set(names[0]) == set(names[1]):
        return left, right
    found = pairs(*names)
    return (
        _renamed(left, [(pair.left, pair.name) for pair in found]),
        _renamed(right, [(pair.right, pair.name) for pair in found]),
    )


def _renamed(graph: Graph, names: Sequence[tuple[str, str]]) -> Graph:
    regions = {region.name for region in graph.regions}
    nodes = tuple(made for node in graph.nodes for made in _copies(node, names, regions))
    return replace(graph, nodes=nodes)


def _copies(node: Node, names: Sequence[tuple[str, str]], regions: set[str]) -> Iterator[Node]:
    """A node of a region once for each pair that the region is in; any other once."""
    own = node.region.name if node.region else None
    if own is None:
        yield _under(node, dict.fromkeys(regions, ANY))
        return
    for region, name in names:
        if region == own:
            yield _under(node, {other: name if other == own else ANY for other in regions}, stream=node.id == own)


def _under(node: Node, names: Mapping[str, str], *, stream: bool = False) -> Node:
    """`stream`: the node is a whole block; what feeds its stream depends on where it stands, and is left out."""
    inputs = tuple(replace(p, from_=None) if stream and p.port == "in" else p for p in node.inputs)
    return replace(
        node,
        id=_id(node.id, names),
        children=tuple(dict.fromkeys(_id(child, names) for child in node.children)),
        inputs=tuple(_port(port, names) for port in inputs),
        outputs=tuple(_port(port, names) for port in node.outputs),
        region=node.region and replace(node.region, name=names[node.region.name]),
    )


def _port(port: Port, names: Mapping[str, str]) -> Port:
    """A cache has a buffer for each kind of block; its port has the kind's name in it."""
    name = next((port.port.replace(f".{old}.", f".{ANY}.") for old in names if f".{old}." in port.port), port.port)
    return replace(port, port=name, from_=port.from_ and _id(port.from_, names))


def _id(name: str, names: Mapping[str, str]) -> str:
    for old, new in names.items():
        if name == old or name.startswith((f"{old}.", f"{old}:")):
            return new + name.removeprefix(old)
        if name.startswith(f":cache.{old}."):
            return name.replace(old, ANY, 1)
    return name
