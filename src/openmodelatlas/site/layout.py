"""Place a scope: sized boxes in ranks, the trunk straight down the left, everything else to its right.

Each open container is laid out on its own first and then is one box of its parent's scope. Coordinates of a placed box
are relative to its parent's corner. Nothing here depends on a browser, a random number or the order of a set.
"""

from dataclasses import dataclass, field

from openmodelatlas.records.graph import Graph, Node
from openmodelatlas.site.experts import active, stacked_experts
from openmodelatlas.site.metrics import text_width
from openmodelatlas.site.ranks import Cell, Grid
from openmodelatlas.site.routes import Channel, Ports, Routing, Wire, ports_of, route
from openmodelatlas.site.schedule import kinds, runs
from openmodelatlas.site.scopes import IN, OUT, RESIDUAL, STACK, End, Pill, Scope, scope_of
from openmodelatlas.site.words import compact

TITLE, NOTE = 13.0, 11.0
PAD, HEAD, GAP = 18.0, 34.0, 22.0
ROUND = 13.0
PILL_HEIGHT, PILL_GAP, PILL_STEP = 20.0, 14.0, 24.0
COLUMN, MARKS, ASIDE = 64.0, 36.0, 30.0
"""Of a mixed model's stack: the width of its column, the room for indices left of it, the gap to what it is called."""
SLAB, LEAST, TALLEST = 10.0, 6.0, 330.0
"""The height of a block in the stack, its least, and the height of all that the least gives way to."""


@dataclass
class Box:
    """A node with its size. `anchor` is where, from its left edge, the trunk passes through it."""

    node: Node
    w: float
    h: float
    anchor: float
    pills: tuple[Pill, ...] = ()
    x: float = 0.0
    y: float = 0.0
    inside: "Placed | None" = None
    stack: "Stack | None" = None
    given: Pill | None = None

    @property
    def round(self) -> bool:
        """Residual additions are circles."""
        return self.node.class_ == RESIDUAL

    @property
    def all_pills(self) -> tuple[Pill, ...]:
        """What the box reads, then what it gives."""
        return (*self.pills, self.given) if self.given else self.pills

    @property
    def pills_width(self) -> float:
        """The room that pills take to the right of the box."""
        return max((pill_width(p) for p in self.all_pills), default=-PILL_GAP) + PILL_GAP


@dataclass(frozen=True)
class Stack:
    """All blocks of a mixed model from top to bottom: the left edge of the column, the height of one block, the kind of
    each, a box for each kind to the right, and the indices of neighbours of one kind to the left, with their height."""

    left: float
    pitch: float
    kinds: tuple[int, ...]
    names: tuple[Box, ...]
    marks: tuple[tuple[float, str], ...]


@dataclass
class Placed:
    """A scope laid out: its boxes, its wires, and where values cross its border (x from the left edge, by port)."""

    scope: Scope
    w: float
    h: float
    anchor: float
    boxes: tuple[Box, ...]
    wires: tuple[Wire, ...]
    entries: dict[str, float]
    exits: dict[str, float]
    title_x: float
    pills: tuple[Pill, ...] = field(default=())


def pill_width(pill: Pill) -> float:
    """Width of a pill."""
    return text_width(pill.text, NOTE) + 20


def note_of(graph: Graph, node: Node) -> str:
    """The second line of a box: how many parameters, if any; of experts, how many and of what size, and of what holds
    experts, how many parameters are active."""
    count = node.parameters.count
    if experts := stacked_experts(node):
        return f"{experts} × {compact(count // experts)}"
    each = " each" if node.region is not None and node.id == node.region.name and node.region.count > 1 else ""
    read = active(node, graph.axes)
    tail = f", {compact(read)} active" if read != count else ""
    return f"{compact(count)}{each}{tail}" if count else ""


def lay_out(graph: Graph, name: str, opened: frozenset[str] = frozenset()) -> Placed:
    """The scope `name` with the containers in `opened` shown in place."""
    scope = scope_of(graph, name)
    boxes = {child.id: _box(graph, child, scope, opened) for child in scope.children}
    grid = Grid(scope, {key: _cell(box) for key, box in boxes.items()})
    grid.place()
    return _finish(scope, boxes, grid)


def _box(graph: Graph, node: Node, scope: Scope, opened: frozenset[str]) -> Box:
    pills = scope.pills.get(node.id, ())
    if node.id == STACK:
        return _stack(graph, node, scope)
    given = scope.gives.get(node.id)
    if node.children and node.id in opened:
        inside = lay_out(graph, node.id, opened)
        return Box(node, inside.w, inside.h, inside.anchor, inside=inside, given=given)
    if node.class_ == RESIDUAL:
        return Box(node, 2 * ROUND, 2 * ROUND, ROUND, pills)
    note = note_of(graph, node)
    title = node.title if node.region is None or node.id != node.region.name else f"{node.title}s"
    width = max(84.0, text_width(title, TITLE, bold=True) + 28, text_width(note, NOTE) + 28)
    width += 40 if node.children else 0
    width, height = 2 * round(width / 2), 46.0 if note else 34.0
    height = max(height, PILL_STEP * (len(pills) + (given is not None)) + 2)
    return Box(node, width, height, width / 2, pills, given=given)


def _stack(graph: Graph, node: Node, scope: Scope) -> Box:
    """The blocks as slabs in their order, and beside them a box for each kind with what it reads."""
    names = [_name(graph, graph.by_id[region.name], scope.readers[region.name]) for region in graph.regions]
    order = kinds(graph)
    room = sum(box.h for box in names) + GAP * (len(names) - 1)
    pitch = max(min(SLAB, max(LEAST, TALLEST / len(order))), room / len(order))
    height = float(round(pitch * len(order)))
    pitch = height / len(order)
    left, y = MARKS, (height - room) / 2
    for box in names:
        box.x, box.y = left + COLUMN + ASIDE, y
        y += box.h + GAP
    marks = ((pitch * (r.first + r.last + 1) / 2, f"{r.first}–{r.last}" if r.count > 1 else f"{r.first}")
             for r in runs(graph))
    width = max(box.x + box.w + box.pills_width for box in names)
    stack = Stack(left, pitch, order, tuple(names), tuple(marks))
    return Box(node, width, height, left + COLUMN / 2, stack=stack)  # fmt: skip


def _name(graph: Graph, region: Node, pills: tuple[Pill, ...]) -> Box:
    width = max(text_width(times(region), TITLE, bold=True), text_width(note_of(graph, region), NOTE)) + 40
    return Box(region, 2 * round(width / 2), max(46.0, PILL_STEP * len(pills) + 2), width / 2, pills)


def times(region: Node) -> str:
    """`22 × local transformer block`."""
    assert region.region is not None
    return f"{region.region.count} × {region.title[:1].lower()}{region.title[1:]}"


def _cell(box: Box) -> Cell:
    inside = box.inside
    entries = {port: x - box.anchor for port, x in inside.entries.items()} if inside else {}
    exits = {port: x - box.anchor for port, x in inside.exits.items()} if inside else {}
    return Cell(
        left=box.anchor,
        right=box.w - box.anchor + box.pills_width,
        edge=COLUMN / 2 if box.stack else box.w - box.anchor,
        height=box.h,
        entries=entries,
        exits=exits,
        side=inside is None and not box.all_pills and not box.stack,
    )


def _finish(scope: Scope, boxes: dict[str, Box], grid: Grid) -> Placed:
    """From ranks and columns to coordinates: channels get the height that their tracks need."""
    low, high = grid.extent()
    shift = PAD - low
    ports = ports_of(grid)
    tops, channels = _rows(grid, ports)
    height = float(round(tops[-1]))
    entries = {port: grid.x[IN, port] + shift for port in grid.inputs}
    exits = {port: grid.x[OUT, port] + shift for port in grid.outputs}
    for key, box in boxes.items():
        rank = grid.rank[key, ""]
        box.x = grid.x[key, ""] + shift - box.anchor
        box.y = tops[rank] + (grid.heights[rank] - box.h) / 2
    routing = Routing(ports, channels, shift, height, entries)
    order = sorted(range(len(scope.nets)), key=lambda index: scope.nets[index].source in scope.trunk)
    wires = tuple(route(index, grid, boxes, routing) for index in order)
    anchor = (grid.x[Grid.key(scope.trunk[-1])] if scope.trunk else low) + shift
    title = text_width(scope.node.title, TITLE, bold=True)
    title_x, width = _title_place(anchor, list(entries.values()), title, high + shift + PAD)
    return Placed(scope, round(width), height, anchor, tuple(boxes.values()), wires, entries, exits, title_x)


def _rows(grid: Grid, ports: Ports) -> tuple[list[float], list[Channel]]:
    """The top of each rank, and the channel below each rank with its tracks placed. Rank 0 is the upper border."""
    tops, channels = [0.0], list[Channel]()
    for rank in range(grid.last):
        channel = Channel.of(grid, rank, ports)
        bottom = tops[rank] + grid.heights[rank]
        start = HEAD - 14 if rank == 0 else bottom
        channel.place(start)
        channels.append(channel)
        tops.append(start + channel.height)
    return tops, channels


def _title_place(anchor: float, entries: list[float], title: float, width: float) -> tuple[float, float]:
    """Where a container's title fits between the wires that enter at its top, and the width that the box then needs."""
    for x in sorted({anchor, *entries}):
        start = x + 14
        following = [e for e in entries if e > x + 1]
        if not following or min(following) > start + title + 10:
            return start, max(width, start + title + 44)
    raise AssertionError("the last entry has nothing to its right")


__all__ = ["Box", "End", "Placed", "lay_out", "note_of", "pill_width"]
