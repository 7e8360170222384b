"""Compare two maps node by node.

A node that one map lacks is looked through where it has one input and one output, so that its neighbours, which compute
the same as before, are not reported as changed too.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from openmodelatlas.records.align import align
from openmodelatlas.records.diff import Change, DiffStatus, GraphDiff, NodeDiff
from openmodelatlas.records.graph import Graph, Node, Port

_RANK: tuple[DiffStatus, ...] = ("equal", "same structure, other sizes", "changed", "only here")


def diff(left: Graph, right: Graph) -> GraphDiff:
    """Every node of either map with how it compares, in map order; tensors are compared as their op's ports."""
    counts = _regions(left, right)
    left, right = align(left, right)
    ids = {n.id: n for g in (left, right) for n in g.nodes if n.kind != "tensor"}
    order = _merged([n.id for n in left.nodes if n.id in ids], [n.id for n in right.nodes if n.id in ids])
    only = (set(right.by_id) - set(left.by_id)) | (set(left.by_id) - set(right.by_id))
    titles = right if len(right.regions) > len(left.regions) else left
    nodes = tuple(_node(left, right, node_id, only, titles) for node_id in order)
    config = tuple(_config(left.config, right.config))
    status = max((n.status for n in nodes), key=_RANK.index)
    if status == "equal" and config:
        status = "changed"
    return GraphDiff(
        left=left.model, right=right.model, status=status, config=config, regions=counts, nodes=nodes
    )


def _merged(left: list[str], right: list[str]) -> list[str]:
    """One order that keeps both: right's ids are put in behind their predecessor."""
    order = list(left)
    for i, name in enumerate(right):
        if name not in order:
            order.insert(order.index(right[i - 1]) + 1 if i else 0, name)
    return order


def _config(left: Mapping[str, Any], right: Mapping[str, Any]) -> Iterator[Change]:
    for key in dict.fromkeys([*left, *right]):
        if left.get(key) != right.get(key):
            yield Change(what=key, left=_text(left.get(key)), right=_text(right.get(key)))


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _regions(left: Graph, right: Graph) -> tuple[Change, ...]:
    """How many blocks each region has; one entry for all where the regions have other names."""
    counts = [{r.name: str(r.count) for r in g.regions} for g in (left, right)]
    if set(counts[0]) == set(counts[1]):
        return tuple(Change(what=n, left=counts[0][n], right=counts[1][n]) for n in counts[0])
    all_of = [", ".join(f"{count} {name}" for name, count in side.items()) for side in counts]
    return (Change(what="", left=all_of[0], right=all_of[1]),)


def _node(left: Graph, right: Graph, node_id: str, only: set[str], titles: Graph) -> NodeDiff:
    a, b = left.by_id.get(node_id), right.by_id.get(node_id)
    some = titles.by_id.get(node_id) or a or b
    assert some is not None
    region = some.region.name if some.region else ""
    if a is None or b is None:
        side = right.model if a is None else left.model
        return NodeDiff(
            id=node_id, region=region, title=some.title, status="only here", side=side, changes=(), sizes=()
        )
    structure = tuple(_changes(_structure(left, a, only), _structure(right, b, only)))
    sizes = tuple(_changes(_sizes(a), _sizes(b)))
    status: DiffStatus = "changed" if structure else "same structure, other sizes" if sizes else "equal"
    return NodeDiff(
        id=node_id, region=region, title=some.title, status=status, side="", changes=structure, sizes=sizes
    )


def _changes(left: Mapping[str, str], right: Mapping[str, str]) -> Iterator[Change]:
    for what in dict.fromkeys([*left, *right]):
        if left.get(what) != right.get(what):
            yield Change(what=what, left=left.get(what, ""), right=right.get(what, ""))


def _structure(graph: Graph, node: Node, only: set[str]) -> dict[str, str]:
    """What the node computes, sizes aside. A container is its wiring; its class name computes nothing."""
    facts = {} if node.kind in ("container", "model") else {"class": node.class_}
    facts |= {f"constant {k}": str(v) for k, v in node.constants.items() if not _is_size(v)}
    facts["children"] = " ".join(sorted(c for c in node.children if c not in only))  # feeds tell their order
    for port in node.inputs + node.outputs:
        facts[f"port {port.port}"] = f"{'*'.join(port.axes) or 'scalar'} {port.dtype}"
        facts[f"feed of {port.port}"] = _source(graph, port, only)
    facts["ties"] = " ".join(f"{t.name} = {t.tied_to}" for t in node.parameters.tensors if t.tied_to)
    return facts


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _source(graph: Graph, port: Port, only: set[str]) -> str:
    source = port.from_ or ""
    while source.rpartition(":")[0] in only:
        node = graph.by_id[source.rpartition(":")[0]]
        if len(node.inputs) != 1 or len(node.outputs) != 1:
            break
        source = node.inputs[0].from_ or ""
    return source


def _sizes(node: Node) -> dict[str, str]:
    facts = {f"constant {k}": str(v) for k, v in node.constants.items() if _is_size(v)}
    facts |= {f"shape of {p.port}": f"[{', '.join(map(str, p.shape))}]" for p in node.inputs + node.outputs}
    facts |= {"parameters": f"{node.parameters.count:,}", "matmul FLOPs": node.flops}
    return facts
