"""Numbers of a model for its page, each with what it counts and how it comes about."""

from collections.abc import Mapping
from dataclasses import dataclass

from openmodelatlas.records.catalog import Model
from openmodelatlas.records.evidence import State
from openmodelatlas.records.graph import Graph, Node
from openmodelatlas.site.words import compact, constant_words, size_words

_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "int64": 8}


@dataclass(frozen=True)
class Fact:
    """A figure: what it is called, its short form, and the definition that a reader can open. `state` where the page
    must say at once that the figure is not the only one."""

    name: str
    value: str
    definition: str
    state: State | None = None


def facts(graph: Graph, model: Model) -> list[Fact]:
    """The strip of figures at the head of a model's page."""
    axes, counts = graph.axes, graph.counts
    embedding = counts.total - counts.without_embedding
    kv = kv_bytes(graph)
    context = f"{model.context.config.positions:,}"
    differ = model.context.differ
    return [
        Fact("parameters", compact(counts.total), f"{counts.total:,}: every learned element, shared ones once"),
        Fact(
            "without embedding",
            compact(counts.without_embedding),
            f"{counts.total:,} − {embedding:,} of the token embedding table = {counts.without_embedding:,}",
        ),
        Fact("blocks", f"{axes['L']}", _blocks(graph)),
        Fact("width", f"{axes['D']:,}", "features of the residual stream (d)"),
        Fact(
            "heads",
            f"{axes['H']} / {axes['K']}",
            f"{axes['H']} query heads share {axes['K']} key/value heads: {axes['H'] // axes['K']} to one",
        ),
        Fact("feed-forward", f"{axes['F']:,}", f"width between gate and down projection (f), {_ratio(axes)} times d"),
        Fact("vocabulary", f"{axes['V']:,}", "entries of the embedding table (v)"),
        Fact(
            "context",
            context,
            f"positions by the configuration{', where another source has another number' if differ else ''}: "
            "see below who says what",
            "conflict" if differ else None,
        ),
        Fact(
            "cache per position",
            size_words(kv),
            f"keys and values of all blocks in {graph.dtype}: {kv:,} bytes for each position, growing without a cap",
        ),
    ]


def _blocks(graph: Graph) -> str:
    region = graph.regions[0]
    equal = f"{region.count} blocks whose derived subtrees are equal"
    return f"{equal}; no two share a parameter" if region.independent else f"{equal}; some share parameters"


def _ratio(axes: Mapping[str, int]) -> str:
    return f"{axes['F'] / axes['D']:.3g}"


def kv_bytes(graph: Graph) -> int:
    """Bytes that one more position adds to the cache, over all blocks."""
    total = 0
    for port in graph.by_id[""].inputs:
        if port.written:
            elements = 1
            for size in port.shape:
                elements *= size if isinstance(size, int) else 1
            total += elements * _BYTES[port.dtype]
    return total * sum(region.count for region in graph.regions)


def tied(graph: Graph) -> bool:
    """Does the output projection share the embedding table?"""
    return any(t.tied_to is not None for n in graph.nodes if n.region is None for t in n.parameters.tensors)


def constants(node: Node) -> list[tuple[str, str]]:
    """The constants of an op, as name and value."""
    return [(name.replace("_", " "), constant_words(value)) for name, value in node.constants.items()]


@dataclass(frozen=True)
class Difference:
    """One way in which a model departs from another: where, what it was there, what it is here."""

    where: str
    node: str | None
    before: str
    after: str
    structural: bool


def differences(before: Graph, after: Graph) -> list[Difference]:
    """Both maps held against each other: nodes that only one has, classes, sharing, constants, then sizes."""
    ops = [n for n in after.nodes if n.kind not in ("tensor", "model")]
    rows: list[Difference] = []
    for node in ops:
        other = before.by_id.get(node.id)
        if other is None:
            rows.append(Difference(node.title, node.id, "not there", _gist(node), True))
        elif other.class_ != node.class_:
            rows.append(Difference(node.title, node.id, other.class_, node.class_, True))
        elif _shared(other) != _shared(node):
            rows.append(Difference(node.title, node.id, _owner(other), _owner(node), True))
    for node in before.nodes:
        if node.kind != "tensor" and node.id not in after.by_id:
            rows.append(Difference(node.title, None, _gist(node), "not there", True))
    for node in ops:
        other = before.by_id.get(node.id)
        rows += _constants(other, node) if other is not None else []
    for name in dict.fromkeys([*before.config, *after.config]):
        a, b = before.config.get(name), after.config.get(name)
        if a is not None and b is not None and a != b:
            rows.append(Difference(name, None, constant_words(a), constant_words(b), False))
    return rows


def _constants(before: Node, after: Node) -> list[Difference]:
    if "." in after.id and after.region is not None:
        return []  # head widths and groups follow from the configuration, which is listed
    return [
        Difference(f"{after.title}: {name.replace('_', ' ')}", after.id, constant_words(before.constants[name]),
                   constant_words(value), False)
        for name, value in after.constants.items()
        if name in before.constants and before.constants[name] != value and name not in ("theta", "width", "eps")
    ]  # fmt: skip


def _gist(node: Node) -> str:
    """The first sentence of a node's text."""
    return f"{node.sentence.split('. ')[0].rstrip('.')}." if node.sentence else node.class_


def _shared(node: Node) -> bool:
    return any(t.tied_to is not None for t in node.parameters.tensors)


def _owner(node: Node) -> str:
    tie = next((t.tied_to for t in node.parameters.tensors if t.tied_to is not None), None)
    return f"shares {tie}" if tie else "has a matrix of its own"
