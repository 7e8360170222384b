"""The same place in a mixed model's other kinds of block, and what is different there."""

from collections.abc import Iterable
from dataclasses import dataclass

from openmodelatlas.records.graph import Graph, Node
from openmodelatlas.site.schedule import mixed, short_title
from openmodelatlas.site.scopes import made_by
from openmodelatlas.site.words import constant_words


@dataclass(frozen=True)
class Kin:
    """A node's counterpart in another region: `words` lead up to the link on `where`, `rest` follow it."""

    id: str
    words: str
    where: str
    rest: str


def kin(graph: Graph, node: Node) -> tuple[Kin, ...]:
    """One for each other region; none for a node outside regions, or in a model with one kind of block."""
    own = node.region
    if own is None or not mixed(graph):
        return ()
    found = []
    for other in graph.regions:
        twin = graph.by_id.get(other.name + node.id.removeprefix(own.name))
        if other.name != own.name and twin is not None:
            found.append(_kin(graph, node, twin, f"in {short_title(graph, other)} blocks", (own.name, other.name)))
    return tuple(found)


def counterpart(graph: Graph, node: Node, region: str) -> str:
    """The node at the same place in that region; the region itself where it has none."""
    name = region + node.id.removeprefix(node.region.name) if node.region else region
    return name if name in graph.by_id else region


def _kin(graph: Graph, node: Node, twin: Node, where: str, names: tuple[str, str]) -> Kin:
    if node.kind == "tensor":
        return Kin(twin.id, "The same place", where, "")
    here, there = (_beside(n, name) for n, name in zip((node, twin), names, strict=True))
    reads = [name for name in here if name not in there], [name for name in there if name not in here]
    other = _inside(graph, node, twin, names)
    if any(reads):
        words = f"Reads {_listed(reads[0])};" if reads[0] else "Reads nothing that is not read there;"
        return Kin(twin.id, words, where, f" it reads {_listed(reads[1]) or 'nothing else'}{_also(other)}.")
    if other:
        return Kin(twin.id, "Not the same", where, f": {'; '.join(other)}.")
    own = ", with parameters of its own" if node.parameters.count else ""
    return Kin(twin.id, "Computes the same", where, f"{own}.")


def _also(other: list[str]) -> str:
    return f"; {'; '.join(other)}" if other else ""


def _beside(node: Node, region: str) -> list[str]:
    """What the node reads from outside its block, but for the block's own part of the cache, by who made it."""
    found = dict.fromkeys(
        made_by(port)
        for port in node.inputs
        if not port.tensor.startswith((f"{region}:", f"{region}.", ":"))
    )
    return list(found)


def _inside(graph: Graph, node: Node, twin: Node, names: tuple[str, str]) -> list[str]:
    """What differs in the node itself, and under their titles in all that it contains."""
    found = _facts(node, names[0], twin, names[1])
    for child in node.children:
        other = graph.by_id.get(names[1] + child.removeprefix(names[0]))
        inner = graph.by_id[child]
        found += [f"{inner.title}: {fact}" for fact in _inside(graph, inner, other, names)] if other else []
    return found


def _facts(node: Node, own: str, twin: Node, other: str) -> list[str]:
    """Classes, numbers and equations that differ, once the names of the regions are taken as one."""
    found = []
    if node.kind == "op" and node.class_ != twin.class_:
        found.append(f"{node.class_}, there {twin.class_}")
    found += [
        f"{name.replace('_', ' ')} {constant_words(value)}, there {constant_words(twin.constants[name])}"
        for name, value in node.constants.items()
        if name in twin.constants and twin.constants[name] != value
    ]
    shapes = [[(p.port, p.shape, p.dtype) for p in n.inputs + n.outputs] for n in (node, twin)]
    if shapes[0] != shapes[1]:
        found.append("other shapes")
    inner = [[c.removeprefix(name) for c in n.children] for n, name in ((node, own), (twin, other))]
    if inner[0] != inner[1]:
        found.append("other parts")
    return found


def _listed(names: Iterable[str]) -> str:
    items = list(names)
    return " and ".join([", ".join(items[:-1]), items[-1]]) if len(items) > 1 else "".join(items)
