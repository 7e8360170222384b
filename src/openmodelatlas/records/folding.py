"""A comparison in short: nodes of several kinds of blocks that compare alike stand once, and so do equal changes."""

from collections.abc import Iterable
from dataclasses import replace

from openmodelatlas.records.diff import Change, GraphDiff, NodeDiff

BLOCK = "block"
"""What a folded node stands under, for all kinds of blocks."""


def kinds(diff: GraphDiff) -> tuple[str, ...]:
    """The kinds of blocks that were compared."""
    return tuple(dict.fromkeys(node.region for node in diff.nodes if node.region))


def folded(diff: GraphDiff) -> list[NodeDiff]:
    """The nodes in map order; those that compare alike in every kind of block once, under `block`."""
    regions = kinds(diff)
    if len(regions) < 2:
        return list(diff.nodes)
    inside: dict[str, list[NodeDiff]] = {}
    for node in diff.nodes:
        if node.region:
            inside.setdefault(node.id.removeprefix(node.region), []).append(node)
    alike = {rest for rest, nodes in inside.items() if len(nodes) == len(regions) and len(set(map(_facts, nodes))) == 1}
    found = []
    for node in diff.nodes:
        rest = node.id.removeprefix(node.region)
        if not node.region or rest not in alike:
            found.append(node)
        elif node.region == regions[0]:
            found.append(replace(node, id=BLOCK + rest))
    return found


def _facts(node: NodeDiff) -> tuple[object, ...]:
    return node.status, node.side, node.changes, node.sizes


def outermost(nodes: Iterable[NodeDiff]) -> list[NodeDiff]:
    """Without those that stand inside another of them."""
    nodes = list(nodes)
    names = {node.id for node in nodes}
    return [n for n in nodes if not any(n.id.startswith(f"{other}.") for other in names)]


def alike(nodes: Iterable[NodeDiff]) -> list[tuple[tuple[Change, ...], list[NodeDiff]]]:
    """Nodes by their changes, in order of first appearance."""
    groups: dict[tuple[Change, ...], list[NodeDiff]] = {}
    for node in nodes:
        groups.setdefault(node.changes, []).append(node)
    return list(groups.items())
