"""A comparison of two maps as lines of text."""

from collections.abc import Iterable, Iterator

from openmodelatlas.records.diff import Change, GraphDiff, NodeDiff


def render(diff: GraphDiff) -> str:
    """Headline, configuration, then the nodes by status and region."""
    return "\n".join(_lines(diff))


def _lines(diff: GraphDiff) -> Iterator[str]:
    yield f"{diff.left}  against  {diff.right}: {_headline(diff)}"
    for region in diff.regions:
        left, right = region.left or "none", region.right or "none"
        yield f"  region {region.what}: {left if left == right else f'{left} against {right}'} blocks"
    if diff.config:
        yield "configuration"
        yield from _changes(diff.config)
    for status in ("only here", "changed", "same structure, other sizes"):
        nodes = [n for n in diff.nodes if n.status == status]
        if nodes:
            yield f"{status} ({len(nodes)})"
            for node in nodes:
                yield from _node(node, short=status == "same structure, other sizes")
    yield f"equal: {sum(n.status == 'equal' for n in diff.nodes)} of {len(diff.nodes)} nodes"


def _headline(diff: GraphDiff) -> str:
    different = [n for n in diff.nodes if n.status in ("only here", "changed")]
    resized = sum(n.status == "same structure, other sizes" for n in diff.nodes)
    if not different and not resized:
        return "equal" if not diff.config else "equal maps, configuration differs"
    names = ", ".join(n.id or "model" for n in different[:6]) + (", …" if len(different) > 6 else "")
    parts = [f"differ in {names}"] if names else ["same structure"]
    if resized:
        parts.append(f"other sizes at {resized} nodes")
    if diff.config:
        parts.append("configuration")
    return "; ".join(parts)


def _node(node: NodeDiff, *, short: bool) -> Iterator[str]:
    side = f"  only in {node.side}" if node.side else ""
    yield f"  {node.id or 'the model'}  ({node.title}){side}"
    shown = [c for c in node.changes if c.what == "parameters"] if short else node.changes
    yield from ("  " + line for line in _changes(shown))


def _changes(changes: Iterable[Change]) -> Iterator[str]:
    for change in changes:
        yield f"  {change.what}: {change.left or 'none'} → {change.right or 'none'}"
