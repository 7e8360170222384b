"""A placed scope as SVG. Every box, value and pill is a link with a name, so the picture works without a script."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from openmodelatlas.records.graph import Graph, Node
from openmodelatlas.records.shapes import shape_text
from openmodelatlas.site.experts import stacked_experts
from openmodelatlas.site.layout import (
    COLUMN,
    PILL_GAP,
    PILL_HEIGHT,
    PILL_STEP,
    ROUND,
    Box,
    Placed,
    lay_out,
    note_of,
    pill_width,
    times,
)
from openmodelatlas.site.routes import Point, Wire
from openmodelatlas.site.schedule import mixed, ranges, short_ranges
from openmodelatlas.site.scopes import IN, OUT, RESIDUAL, STACK, Pill, stream
from openmodelatlas.site.symbols import symbol_svg, symbol_width
from openmodelatlas.site.words import file_of, region_words

MARGIN, CORNER = 8.0, 7.0
ABOVE, BELOW = 26.0, 24.0


@dataclass
class Pen:
    """What drawing needs to know: the map, how to link to a node, what is the stream, which node is marked."""

    graph: Graph
    link: Callable[[str], str]
    here: str = ""
    foldable: bool = False

    def __post_init__(self) -> None:
        self.stream = stream(self.graph)


def draw(pen: Pen, name: str, opened: frozenset[str] = frozenset()) -> str:
    """The diagram of a scope as an `<svg>` element."""
    placed = lay_out(pen.graph, name, opened)
    width, height = placed.w + 2 * MARGIN, placed.h + ABOVE + BELOW
    body = _scope(pen, placed, MARGIN, ABOVE, depth=0)
    title = f"Diagram of {placed.scope.node.title}"
    return (
        f'<svg class="map" viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" role="group" '
        f'aria-label="{escape(title)}" data-scope="{escape(name)}"{_zoom(placed)}>{body}</svg>'
    )


def _zoom(placed: Placed) -> str:
    """Where the box of each region stands in the picture of a model: the block's own picture enlarges it."""
    if placed.scope.node.kind != "model":
        return ""
    found = []
    for box in placed.boxes:
        for named in box.stack.names if box.stack else (box,):
            if named.node.region is not None and named.node.id == named.node.region.name:
                x, y = (MARGIN + box.x, ABOVE + box.y) if box.stack else (MARGIN, ABOVE)
                x, y = x + named.x, y + named.y
                found.append(f"{named.node.id} {x + named.w:g} {y:g} {y + named.h:g}")
    return f' data-zoom="{";".join(found)}"'


def _scope(pen: Pen, placed: Placed, x: float, y: float, depth: int) -> str:
    """Frame, wires, boxes, then what is written on them."""
    node = placed.scope.node
    kind = "whole" if node.kind == "model" else f"d{min(depth, 3)}"
    parts = [f'<rect class="frame {kind}" x="{x:g}" y="{y:g}" width="{placed.w:g}" height="{placed.h:g}" rx="12"/>']
    parts += [_wire(pen, wire, x, y, depth) for wire in placed.wires]
    parts.append(_heading(pen, node, placed, x, y, depth))
    for box in placed.boxes:
        if box.inside is not None:
            parts.append(_opened(pen, box, x + box.x, y + box.y, depth + 1))
        elif box.stack is not None:
            parts.append(_stack(pen, box, x + box.x, y + box.y))
        else:
            parts.append(_box(pen, box, x + box.x, y + box.y))
        parts += [_pill(pen, pill, box, i, x + box.x, y + box.y) for i, pill in enumerate(box.all_pills)]
    return "".join(parts)


def _heading(pen: Pen, node: Node, placed: Placed, x: float, y: float, depth: int) -> str:
    if depth or node.kind == "model":
        return ""
    label = node.title
    if node.region is not None and node.id == node.region.name and node.region.count > 1:
        label = f"{node.title} n" if mixed(pen.graph) else f"{node.title} n of {node.region.count}"
    return f'<text class="head" x="{x + placed.title_x:g}" y="{y + 21:g}">{escape(label)}</text>'


def _opened(pen: Pen, box: Box, x: float, y: float, depth: int) -> str:
    assert box.inside is not None
    node, inside = box.node, box.inside
    head = (
        f'<text class="head" x="{x + inside.title_x:g}" y="{y + 21:g}">{escape(node.title)}</text>'
        f'<rect class="bar" x="{x + 1:g}" y="{y + 1:g}" width="{box.w - 2:g}" height="28" rx="11"/>'
    )
    fold = _fold(node, x + box.w - 22, y + 16, opened=True) if pen.foldable else ""
    return (
        f'<g class="open">{_scope(pen, inside, x, y, depth)}'
        f'<a class="n box" href="{pen.link(node.id)}" data-id="{escape(node.id)}" '
        f'aria-label="{escape(node.title)}">{head}</a>'
        f"{fold}</g>"
    )


def _box(pen: Pen, box: Box, x: float, y: float) -> str:
    node = box.node
    here = ' aria-current="true"' if node.id == pen.here else ""
    kind = kind_of(node)
    note = note_of(pen.graph, node)
    spoken = escape(f"{node.title}, {node.parameters.count:,} parameters" if note else node.title)
    open_tag = (
        f'<a class="n box {kind}" href="{pen.link(node.id)}" data-id="{escape(node.id)}" aria-label="{spoken}"{here}>'
    )
    if box.round:
        cx, cy = x + ROUND, y + ROUND
        cross = f'<path class="plus" d="M{cx - 5:g} {cy:g}h10M{cx:g} {cy - 5:g}v10"/>'
        return f'{open_tag}<circle cx="{cx:g}" cy="{cy:g}" r="{ROUND:g}"/>{cross}</a>'
    region = node.region if node.region is not None and node.id == node.region.name else None
    behind = [(d, -d) for d in (8, 4)] if region is not None and region.count > 1 else []
    behind = [(d, d) for d in (6, 3)] if stacked_experts(node) > 1 else behind  # arrows end above
    stack = "".join(
        f'<rect class="back" x="{x + right:g}" y="{y + down:g}" width="{box.w:g}" height="{box.h:g}" rx="9"/>'
        for right, down in behind
    )
    label, sub = node.title, note
    if region is not None and region.count > 1:
        label = times(node)
    middle = x + box.w / 2
    base = y + box.h / 2
    text = f'<text class="t" x="{middle:g}" y="{base + (-2.5 if sub else 4.5):g}">{escape(label)}</text>'
    if sub:
        text += f'<text class="s" x="{middle:g}" y="{base + 13.5:g}">{escape(sub)}</text>'
    rect = f'<rect x="{x:g}" y="{y:g}" width="{box.w:g}" height="{box.h:g}" rx="9"/>'
    fold = ""
    if node.children:
        fold = (
            _fold(node, x + box.w - 11, y + 11, opened=False)
            if pen.foldable and node.region is not None and node.id != node.region.name
            else f'<path class="more" d="M{x + box.w - 16:g} {y + 8.5:g}l4 4m0 -4v4h-4"/>'
        )
        if fold.startswith("<path"):
            return f"{open_tag}{stack}{rect}{text}{fold}</a>"
    return f"{open_tag}{stack}{rect}{text}</a>{fold}"


def _stack(pen: Pen, box: Box, x: float, y: float) -> str:
    """A mixed model's blocks, one slab each in their order, all slabs of a kind and its name one link; the stream runs
    through them, and what leaves a block is a link of its own."""
    stack = box.stack
    assert stack is not None
    left, middle, pitch = x + stack.left, x + box.anchor, stack.pitch
    parts = [f'<path class="w stream" d="M{middle:g} {y:g}v{box.h:g}"/>']
    for kind, named in enumerate(stack.names):
        node, nx, ny = named.node, x + named.x, y + named.y
        assert node.region is not None
        own = [i for i, k in enumerate(stack.kinds) if k == kind]
        slabs = "".join(
            f'<rect class="slab" x="{left:g}" y="{y + i * pitch + 0.8:.1f}" width="{COLUMN:g}" '
            f'height="{pitch - 1.6:.1f}" rx="1.5"/>'
            for i in own
        )
        here = ' aria-current="true"' if node.id == pen.here else ""
        spoken = f"{times(node)}, {node.parameters.count:,} parameters each: {ranges(node.region.indices)}"
        nm, base = nx + named.w / 2, ny + named.h / 2
        text = (
            f'<text class="t" x="{nm:g}" y="{base - 11:g}">{escape(times(node))}</text>'
            f'<text class="s" x="{nm:g}" y="{base + 5:g}">{escape(note_of(pen.graph, node))}</text>'
            f'<text class="s" x="{nm:g}" y="{base + 20:g}">{escape(short_ranges(node.region.indices))}</text>'
        )
        frame = f'<rect x="{nx:g}" y="{ny:g}" width="{named.w:g}" height="{named.h:g}" rx="9"/>'
        corner = f'<path class="more" d="M{nx + named.w - 16:g} {ny + 8.5:g}l4 4m0 -4v4h-4"/>'
        parts.append(
            f'<a class="n box group k{kind}" href="{pen.link(node.id)}" data-id="{escape(node.id)}" '
            f'aria-label="{escape(spoken)}"{here}>{frame}{slabs}{text}{corner}</a>'
        )
        parts += [_pill(pen, pill, named, i, nx, ny) for i, pill in enumerate(named.pills)]
        parts.append(_between(pen, node, [y + (i + 1) * pitch for i in own if i + 1 < len(stack.kinds)], middle))
    marks = (f'<text class="mark" x="{left - 7:g}" y="{y + at + 3:.1f}">{text}</text>' for at, text in stack.marks)
    return "".join(parts) + "".join(marks)


def _between(pen: Pen, node: Node, heights: Sequence[float], x: float) -> str:
    """The stream where it leaves the blocks of a kind for the next block."""
    tensor = node.outputs[0].tensor
    spoken = _spoken(pen.graph.by_id[tensor])
    line = "".join(f"M{x:g} {y - 1:.1f}v2" for y in heights)
    here = ' aria-current="true"' if tensor == pen.here else ""
    return (
        f'<a class="n net" href="{pen.link(tensor)}" data-id="{escape(tensor)}" data-from="{escape(node.id)}" '
        f'aria-label="{escape(spoken)}"{here}><title>{escape(spoken)}</title>'
        f'<path class="hit" d="{line}"/><path class="w stream" d="{line}"/></a>'
    )


def _fold(node: Node, x: float, y: float, *, opened: bool) -> str:
    """The button that opens a container in place, or closes it; only shown where a script can do so."""
    sign = f"M{x - 3.5:g} {y:g}h7" + ("" if opened else f"M{x:g} {y - 3.5:g}v7")
    word = "Close" if opened else "Open in place:"
    return (
        f'<g class="fold" role="button" tabindex="0" data-fold="{escape(node.id)}" '
        f'aria-expanded="{str(opened).lower()}" aria-label="{word} {escape(node.title)}">'
        f'<circle cx="{x:g}" cy="{y:g}" r="7.5"/><path d="{sign}"/></g>'
    )


def kind_of(node: Node) -> str:
    """The colour class of a box, from what the record says of it: what it holds and what it writes."""
    if node.class_ == RESIDUAL:
        return "add"
    if node.children:
        return "group"
    if any(len(t.shape) > 1 for t in node.parameters.tensors):
        return "matrix"
    if node.parameters.tensors:
        return "gain"
    if any(port.written for port in node.inputs):
        return "state"
    return "op"


def _pill(pen: Pen, pill: Pill, box: Box, index: int, x: float, y: float) -> str:
    width = pill_width(pill)
    left = x + box.w + PILL_GAP
    pills = len(box.all_pills)
    top = y + box.h / 2 - PILL_STEP * pills / 2 + PILL_STEP * index + (PILL_STEP - PILL_HEIGHT) / 2
    middle = top + PILL_HEIGHT / 2
    names = ", ".join(_title(pen.graph, tensor) for tensor in pill.tensors)
    given = pill is box.given
    tail = f"given by {box.node.title}" if given else f"read by {box.node.title}"
    if pill.written:
        tail = f"read and written by {box.node.title}"
    tip = f'<path class="tip" d="M{left:g} {middle:g}l-6 -3v6z"/>' if given else ""
    return (
        f'<a class="n pill{" state" if pill.written else ""}" href="{pen.link(pill.tensors[0])}" '
        f'data-id="{escape(pill.tensors[0])}" data-also="{escape(" ".join(pill.tensors))}" '
        f'aria-label="{escape(names)}, {escape(tail)}"><title>{escape(names)}</title>'
        f'<path d="M{left:g} {middle:g}H{x + box.w + 1:g}"/>{tip}'
        f'<rect x="{left:g}" y="{top:g}" width="{width:g}" height="{PILL_HEIGHT:g}" rx="10"/>'
        f'<text class="s" x="{left + width / 2:g}" y="{middle + 3.8:g}">{escape(pill.text)}</text></a>'
    )


def _title(graph: Graph, tensor: str) -> str:
    node = graph.by_id.get(tensor)
    return node.title if node is not None else tensor


# --- wires ------------------------------------------------------------------------------------------------------------


def _wire(pen: Pen, wire: Wire, x: float, y: float, depth: int) -> str:
    tensor = wire.net.tensor
    node = pen.graph.by_id.get(tensor)
    lines, heads = [], []
    for target, points in wire.paths:
        moved = [(px + x, py + y) for px, py in points]
        bold = tensor in pen.stream and _carries(pen, target)
        ends_in_box = target[0] != OUT
        lines.append(f'<path class="w{" stream" if bold else ""}" d="{_rounded(moved, short=ends_in_box)}"/>')
        if ends_in_box:
            heads.append(f'<path class="tip{" stream" if bold else ""}" d="{_tip(moved)}"/>')
    lines.sort(key=lambda line: "stream" in line)
    label = _symbol(pen, wire, x, y, depth)
    if node is None:
        return f'<g class="net">{"".join(lines + heads)}</g>'
    spoken = _spoken(node)
    here = ' aria-current="true"' if tensor == pen.here else ""
    whole = [_rounded([(a + x, b + y) for a, b in points], short=False) for _, points in wire.paths]
    hit = f'<path class="hit" d="{"".join(whole)}"/>'
    source = wire.net.source[0]
    return (
        f'<a class="n net" href="{pen.link(tensor)}" data-id="{escape(tensor)}" data-from="{escape(source)}" '
        f'aria-label="{escape(spoken)}"{here}><title>{escape(spoken)}</title>'
        f"{hit}{''.join(lines + heads)}{label}</a>"
    )


def _spoken(tensor: Node) -> str:
    port = (tensor.outputs + tensor.inputs)[0]
    return f"{tensor.title}, {port.symbol_text} {shape_text(port)}"


def _carries(pen: Pen, target: tuple[str, str]) -> bool:
    """Does the stream itself go this way (rather than being read by something beside it)?"""
    if target[0] in (OUT, STACK):
        return True
    node = pen.graph.by_id[target[0]]
    if node.class_ == RESIDUAL or any(target[0] == region.name for region in pen.graph.regions):
        return node.inputs[0].port == target[1]
    return False


def _symbol(pen: Pen, wire: Wire, x: float, y: float, depth: int) -> str:
    """The symbol beside a wire's start. What enters or leaves an open container is labelled outside it."""
    leaves = all(target[0] == OUT for target in wire.net.targets)
    if depth and (wire.net.source[0] == IN or leaves):
        return ""
    node = pen.graph.by_id.get(wire.net.tensor)
    if node is None:
        return ""
    port = (node.outputs + node.inputs)[0]
    px, py = wire.label
    px -= symbol_width(port.symbol, 13) if wire.left else 0
    return symbol_svg(port.symbol, px + x, py + y, 13)


def _rounded(points: list[Point], *, short: bool) -> str:
    """A path through right-angled points with round corners; `short` stops before the arrow's tip."""
    points = list(points)
    if short:
        (ax, ay), (bx, by) = points[-2:]
        points[-1] = (bx - 4 * _sign(bx - ax), by - 4 * _sign(by - ay))
    out = f"M{points[0][0]:g} {points[0][1]:g}"
    for before, at, after in zip(points, points[1:], points[2:], strict=False):
        r = min(CORNER, _length(before, at) / 2, _length(at, after) / 2)
        a = (at[0] - r * _sign(at[0] - before[0]), at[1] - r * _sign(at[1] - before[1]))
        b = (at[0] + r * _sign(after[0] - at[0]), at[1] + r * _sign(after[1] - at[1]))
        out += f"L{a[0]:g} {a[1]:g}Q{at[0]:g} {at[1]:g} {b[0]:g} {b[1]:g}"
    return out + f"L{points[-1][0]:g} {points[-1][1]:g}"


def _tip(points: list[Point]) -> str:
    (ax, ay), (x, y) = points[-2:]
    dx, dy = _sign(x - ax), _sign(y - ay)
    backs = [(x - 7 * dx + side * dy, y - 7 * dy + side * dx) for side in (3.4, -3.4)]
    return f"M{x:g} {y:g}" + "".join(f"L{a:g} {b:g}" for a, b in backs) + "z"


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


def _length(a: Point, b: Point) -> float:
    return abs(a[0] - b[0]) + abs(a[1] - b[1])


def region_heading(graph: Graph) -> str:
    """The line over a block's picture; of several kinds of block, one after another."""
    return " and ".join(region_words(region, graph.by_id[region.name].title) for region in graph.regions)


__all__ = ["Pen", "draw", "file_of", "kind_of", "region_heading"]
