"""Wires: right-angled, one horizontal track per value in the channel between two ranks.

The tracks of a channel are ordered so that as few wires as possible cross and no two run over each other. The second
input of a box comes in from the side where the way is free: a residual update meets the stream at a right angle.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, permutations
from typing import Protocol

from openmodelatlas.site.ranks import Grid
from openmodelatlas.site.scopes import IN, OUT, End, Net

Point = tuple[float, float]

LABEL, TRACK, ARRIVE, PLAIN = 24.0, 11.0, 18.0, 36.0
_TRIED = 6  # so many tracks are ordered by trying all orders


class HasFrame(Protocol):
    """A placed box, as far as wires care."""

    x: float
    y: float
    w: float
    h: float
    anchor: float


@dataclass(frozen=True)
class Wire:
    """One value's way through a scope: a path to each target, and where its symbol stands: the baseline, and the end of
    the symbol if it is on the `left` of the wire, else its start."""

    net: Net
    paths: tuple[tuple[End, tuple[Point, ...]], ...]
    label: Point
    left: bool


@dataclass
class Run:
    """One value inside one channel: the x it comes from above, and the x it goes to below."""

    index: int
    source: float
    targets: tuple[float, ...]
    track: float | None = None

    @property
    def straight(self) -> bool:
        """No track needed."""
        return all(abs(x - self.source) < 0.5 for x in self.targets)

    @property
    def span(self) -> tuple[float, float]:
        """Leftmost and rightmost x."""
        return min(self.source, *self.targets), max(self.source, *self.targets)


@dataclass
class Ports:
    """Where values leave and enter closed boxes, from the anchor; `side` are the ends entered from the right,
    `left` the ends whose symbol stands left of the wire, for another is on its right."""

    leave: dict[End, float] = field(default_factory=dict)
    enter: dict[End, float] = field(default_factory=dict)
    side: set[End] = field(default_factory=set)
    left: set[End] = field(default_factory=set)


def ports_of(grid: Grid) -> Ports:
    """Spread the ports of closed boxes so that no two wires share one."""
    ports = Ports()
    leaving: dict[str, list[End]] = {}
    for net in grid.scope.nets:
        leaving.setdefault(net.source[0], []).append(net.source)
    for name, ends in leaving.items():
        if name != IN:
            cell = grid.cells[name, ""]
            step = min(30.0, (cell.left + cell.edge) / (len(ends) + 1))
            start = 0 if (name, "") in grid.trunk else -(len(ends) - 1) / 2
            for place, end in enumerate(ends):
                ports.leave[end] = cell.exits.get(end[1], round((place + start) * step))
            ports.left.update(ends[:1] if len(ends) > 1 else [])
    for child in grid.scope.children:
        _enter(grid, child.id, [p.port for p in child.inputs], ports)
    _straight_exits(grid, ports)
    return ports


def _straight_exits(grid: Grid, ports: Ports) -> None:
    """The scope's own outputs may move along its border; they do where that makes a wire straight."""
    for index, net in enumerate(grid.scope.nets):
        for target in net.targets:
            if target[0] == OUT and target not in grid.trunk:
                before = grid.steps(index, target)[-2]
                leave = ports.leave.get(net.source, 0.0) if before == grid.key(net.source) else 0.0
                goal = grid.x[before] + leave
                others = [grid.x[OUT, port] for port in grid.outputs if port != target[1]]
                if all(abs(goal - x) > 12 for x in others):
                    grid.x[target] = goal


def _enter(grid: Grid, name: str, names: Sequence[str], ports: Ports) -> None:
    cell = grid.cells[name, ""]
    came: list[tuple[End, float]] = []
    for index, net in enumerate(grid.scope.nets):
        for target in net.targets:
            if target[0] == name:
                before = grid.steps(index, target)[-2]
                leave = ports.leave.get(net.source, 0.0) if before == grid.key(net.source) else 0.0
                came.append((target, grid.x[before] + leave - grid.x[name, ""]))
    came.sort(key=lambda item: names.index(item[0][1]))
    for end, _ in came:
        ports.enter[end] = cell.entries.get(end[1], 0.0)
    if cell.entries:
        return
    others = sorted(came[1:], key=lambda item: item[1])
    row = grid.rows[grid.rank[name, ""]]
    if len(others) == 1 and cell.side and others[0][1] > cell.edge + 14 and row[-1] == (name, ""):
        ports.side.add(others[0][0])
        return
    right = [end for end, x in others if x >= 0]
    left = [end for end, x in reversed(others) if x < 0]
    if len(right) == 1 and not left and 18 < others[0][1] < cell.edge - 10:
        ports.enter[right[0]] = others[0][1]  # straight down
        return
    if len(others) == 1 and (name, "") not in grid.trunk and 0 < others[0][1] < cell.edge - 10:
        # The first bends in any case: it makes room for the second to come straight down.
        ports.enter[others[0][0]] = others[0][1]
        ports.enter[came[0][0]] = max(others[0][1] - 26, 10 - cell.left)
        return
    for ends, sign, room in ((right, 1, cell.edge), (left, -1, cell.left)):
        step = min(26.0, (room - 8) / max(1, len(ends)))
        for place, end in enumerate(ends, 1):
            ports.enter[end] = sign * round(place * step)


@dataclass
class Channel:
    """The room between a rank and the next, with what runs through it."""

    runs: list[Run]
    height: float

    @classmethod
    def of(cls, grid: Grid, rank: int, ports: Ports) -> "Channel":
        """All values that pass from `rank` to the next."""
        runs = []
        for index, net in enumerate(grid.scope.nets):
            targets = []
            source: float | None = None
            for target in net.targets:
                cells = grid.steps(index, target)
                for a, b in pairwise(cells):
                    if grid.rank[a] == rank:
                        source = grid.x[a] + (ports.leave.get(net.source, 0.0) if a == cells[0] else 0.0)
                        here = b == cells[-1]
                        goal = grid.x[b] + (ports.enter.get(target, 0.0) if here else 0.0)
                        targets.append(source if here and target in ports.side else goal)
            if source is not None:
                runs.append(Run(index, source, tuple(targets)))
        bent = sum(not run.straight for run in runs)
        return cls(runs, LABEL + TRACK * (bent - 1) + ARRIVE if bent else PLAIN)

    def place(self, top: float) -> None:
        """Give every bent run its track, from `top` on."""
        bent = [run for run in self.runs if not run.straight]
        if len(bent) <= _TRIED:
            order = min(permutations(bent), key=_cost)
        else:
            order = tuple(sorted(bent, key=lambda run: (run.source > run.targets[0], run.span)))
        for place, run in enumerate(order):
            run.track = top + LABEL + TRACK * place

    def track(self, index: int) -> float | None:
        """The height of a value's track here."""
        return next((run.track for run in self.runs if run.index == index), None)


def _cost(order: Sequence[Run]) -> int:
    """Crossings, and a hundred for wires that would run over each other, of tracks in this order from the top."""
    total = 0
    for upper, run in enumerate(order):
        low, high = run.span
        for lower in order[upper + 1 :]:
            # What comes from above to a lower track crosses this one; so does what leaves this one, the lower one.
            total += low < lower.source < high
            total += sum(lower.span[0] < x < lower.span[1] for x in run.targets if x != run.source)
            total += 100 * sum(abs(lower.source - x) < 3 for x in run.targets)
    return total


def route(net_index: int, grid: Grid, boxes: Mapping[str, HasFrame], run: "Routing") -> Wire:
    """The wire of one net."""
    net = grid.scope.nets[net_index]
    x, y = run.start(net.source, boxes)
    paths = []
    for target in net.targets:
        points = [(x, y)]
        cells = grid.steps(net_index, target)
        for a, b in pairwise(cells):
            last = b == cells[-1]
            if last and target in run.ports.side:
                break
            goal = grid.x[b] + run.shift + (run.ports.enter.get(target, 0.0) if last else 0.0)
            if abs(goal - points[-1][0]) >= 0.5:
                track = run.channels[grid.rank[a]].track(net_index)
                assert track is not None, "a bent run has a track"
                points += [(points[-1][0], track), (goal, track)]
        points.append(run.end(target, boxes, points[-1][0]))
        if target in run.ports.side:
            box = boxes[target[0]]
            points.append((box.x + box.w, points[-1][1]))
        paths.append((target, tuple(points)))
    left = net.source in run.ports.left
    return Wire(net, tuple(paths), (x - 7 if left else x + 8, y + (15 if net.source[0] != IN else -8)), left)


@dataclass
class Routing:
    """What routing needs beside the grid: ports, channels, the shift to the box's corner, its height."""

    ports: Ports
    channels: list[Channel]
    shift: float
    height: float
    entries: dict[str, float]

    def start(self, source: End, boxes: Mapping[str, HasFrame]) -> Point:
        """Where a value comes out."""
        if source[0] == IN:
            return self.entries[source[1]], 0.0
        box = boxes[source[0]]
        return box.x + box.anchor + self.ports.leave[source], box.y + box.h

    def end(self, target: End, boxes: Mapping[str, HasFrame], x: float) -> Point:
        """Where a value arrives; for an entry from the side, the corner before it."""
        if target[0] == OUT:
            return x, self.height
        box = boxes[target[0]]
        return x, box.y + box.h / 2 if target in self.ports.side else box.y
