"""A comparison of two maps as lines of text."""

import textwrap
from collections.abc import Iterable, Iterator

from openmodelatlas.records.diff import Change, GraphDiff, NodeDiff
from openmodelatlas.records.folding import BLOCK, alike, folded, kinds, outermost

SHOWN = 6
"""How many nodes the headline names."""


def render(diff: GraphDiff) -> str:
    """Headline, configuration, then the nodes by status; nodes that differ in the same way stand together."""
    return "\n".join(_lines(diff))


def _lines(diff: GraphDiff) -> Iterator[str]:
    nodes = folded(diff)
    yield f"{diff.left}  against  {diff.right}: {_headline(diff, nodes)}"
    yield from _regions(diff, nodes)
    if diff.config:
        yield "configuration"
        yield from _changes(diff.config)
    only = [n for n in nodes if n.status == "only here"]
    for side in (diff.left, diff.right):
        names = [n for n in only if n.side == side]
        if names:
            yield f"only in {side} ({len(names)})"
            yield from (f"  {n.id}  ({n.title})" for n in names)
    changed = [n for n in nodes if n.status == "changed"]
    if changed:
        yield f"changed ({len(changed)})"
        for changes, group in alike(changed):
            yield f"  {_names(group)}"
            yield from ("  " + line for line in _changes(changes))
    yield from _resized([n for n in nodes if n.status == "same structure, other sizes"])
    yield f"equal: {sum(n.status == 'equal' for n in nodes)} of {len(nodes)} nodes"


def _headline(diff: GraphDiff, nodes: list[NodeDiff]) -> str:
    outer = [n.id for n in outermost(n for n in nodes if n.id and n.status in ("only here", "changed"))]
    resized = sum(n.status == "same structure, other sizes" for n in nodes)
    if not outer and not resized:
        return "equal" if not diff.config else "equal maps, configuration differs"
    names = ", ".join(outer[:SHOWN]) + (", …" if len(outer) > SHOWN else "")
    parts = [f"differ in {names}"] if names else ["same structure"]
    if resized:
        parts.append(f"other sizes at {resized} nodes")
    if diff.config:
        parts.append("configuration")
    return "; ".join(parts)


def _regions(diff: GraphDiff, nodes: list[NodeDiff]) -> Iterator[str]:
    for region in diff.regions:
        both = region.left if region.left == region.right else f"{region.left} against {region.right}"
        yield f"  region {region.what}: {both} blocks" if region.what else f"  blocks: {both}"
    if any(n.id.startswith(f"{BLOCK}.") and n.region != BLOCK for n in nodes):
        yield f"  `{BLOCK}` below stands for {' and '.join(kinds(diff))} alike"


def _names(nodes: list[NodeDiff]) -> str:
    if len(nodes) == 1:
        return f"{nodes[0].id or 'the model'}  ({nodes[0].title})"
    return ", ".join(n.id or "the model" for n in nodes)


def _resized(nodes: list[NodeDiff]) -> Iterator[str]:
    """Nodes whose parameters are more or fewer, one a line; of the others, the names."""
    if not nodes:
        return
    yield f"same structure, other sizes ({len(nodes)})"
    counted = [(n, c) for n in nodes for c in n.sizes if c.what == "parameters"]
    width = max((len(n.id or "the model") for n, _ in counted), default=0)
    for node, change in counted:
        yield f"  {node.id or 'the model':<{width}}  {change.left} → {change.right} parameters"
    others = [n.id for n in nodes if n not in [n for n, _ in counted]]
    if others:
        names = f"other shapes: {', '.join(others)}"
        yield from textwrap.wrap(names, 110, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)


def _changes(changes: Iterable[Change]) -> Iterator[str]:
    for change in changes:
        yield f"  {change.what}: {change.left or 'none'} → {change.right or 'none'}"
