"""Ranks, order and columns of a scope's boxes.

Longest-path ranks; a value that passes a rank gets a cell of no width there; order by barycentre with call order as
tie-break; columns by least squares, then by weighted medians, each row kept apart by pooling neighbours that collide.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from openmodelatlas.site.scopes import IN, OUT, End, Scope

GAP = 24.0
_FIRM = 1e9


@dataclass(frozen=True)
class Cell:
    """What a box needs: room left and right of its anchor, its right edge, and the ports of an open container."""

    left: float
    right: float
    edge: float
    height: float
    entries: Mapping[str, float] = field(default_factory=dict)
    exits: Mapping[str, float] = field(default_factory=dict)
    side: bool = False


_THIN = Cell(left=0, right=0, edge=0, height=0)
_Link = tuple[End, float, End, float]
"""Two cells of neighbouring ranks and where, from their anchors, a wire leaves and arrives."""


class Grid:
    """Cells in ranks. Keys are ends with an empty port for boxes, a border port, or `(net index~, rank)` for passing
    values; `x` is the column of each key's anchor."""

    def __init__(self, scope: Scope, cells: Mapping[str, Cell]) -> None:
        self.scope = scope
        self.cells: dict[End, Cell] = {(key, ""): cell for key, cell in cells.items()}
        self.inputs = list(dict.fromkeys(net.source[1] for net in scope.nets if net.source[0] == IN))
        self.outputs = list(dict.fromkeys(t[1] for net in scope.nets for t in net.targets if t[0] == OUT))
        self.call = {child.id: index for index, child in enumerate(scope.children)}
        self.rank = self._ranks()
        self.last = max(self.rank.values())
        self.passing: dict[int, list[End]] = {}
        self._pass_through()
        self.trunk = self._trunk_cells()
        self.rows = self._rows()
        self.heights = [max((self.cells[key].height for key in row), default=0.0) for row in self.rows]
        self.x: dict[End, float] = dict.fromkeys(self.cells, 0.0)

    def place(self) -> None:
        """Order the rows, then give every cell its column."""
        links = self._links()
        self._sort(links)
        self._columns(links)
        if self.scope.least:
            self._close_up()
        self.x = {key: float(round(x)) for key, x in self.x.items()}

    def extent(self) -> tuple[float, float]:
        """Leftmost and rightmost x."""
        return (
            min(self.x[key] - cell.left for key, cell in self.cells.items()),
            max(self.x[key] + cell.right for key, cell in self.cells.items()),
        )

    @staticmethod
    def key(end: End) -> End:
        """The cell of an end: a box has one, whatever the port."""
        return end if end[0] in (IN, OUT) else (end[0], "")

    def source_offset(self, end: End) -> float:
        """Where a value leaves its cell, from the anchor."""
        return self.cells[self.key(end)].exits.get(end[1], 0.0)

    def target_offset(self, end: End) -> float:
        """Where a value enters its cell, from the anchor."""
        return self.cells[self.key(end)].entries.get(end[1], 0.0)

    def steps(self, index: int, target: End) -> list[End]:
        """The cells that a net passes on its way to a target, its source first."""
        net = self.scope.nets[index]
        first, until = self.rank[self.key(net.source)], self.rank[self.key(target)]
        between = [key for key in self.passing[index] if first < self.rank[key] < until]
        return [self.key(net.source), *between, self.key(target)]

    # --- ranks --------------------------------------------------------------------------------------------------------

    def _ranks(self) -> dict[End, int]:
        rank: dict[End, int] = {(IN, port): 0 for port in self.inputs}
        rank |= {key: self.scope.least.get(key[0], 1) for key in self.cells}
        edges = [(self.key(n.source), self.key(t)) for n in self.scope.nets for t in n.targets if t[0] != OUT]
        for _ in rank:
            for source, target in edges:
                rank[target] = max(rank[target], rank[source] + 1)
        last = max(rank.values()) + 1
        rank |= {(OUT, port): last for port in self.outputs}
        for key in rank:
            self.cells.setdefault(key, _THIN)
        return rank

    def _pass_through(self) -> None:
        for index, net in enumerate(self.scope.nets):
            first = self.rank[self.key(net.source)]
            until = max(self.rank[self.key(target)] for target in net.targets)
            self.passing[index] = [(f"{index}~", str(rank)) for rank in range(first + 1, until)]
            for rank, key in enumerate(self.passing[index], first + 1):
                self.cells[key], self.rank[key] = _THIN, rank

    def _trunk_cells(self) -> frozenset[End]:
        keys = {self.key(end) for end in self.scope.trunk}
        for index, net in enumerate(self.scope.nets):
            for target in net.targets:
                if self.key(net.source) in keys and self.key(target) in keys and self._next(net.source, target):
                    keys.update(self.steps(index, target))
        return frozenset(keys)

    def _next(self, source: End, target: End) -> bool:
        chain = [self.key(end) for end in self.scope.trunk]
        a, b = chain.index(self.key(source)), chain.index(self.key(target))
        return b == a + 1

    def _rows(self) -> list[list[End]]:
        rows: list[list[End]] = [[] for _ in range(self.last + 1)]
        for key in self.cells:
            rows[self.rank[key]].append(key)
        for row in rows:
            row.sort(key=self._by_call)
        return rows

    def _by_call(self, key: End) -> tuple[int, float]:
        if key[0].endswith("~"):
            net = self.scope.nets[int(key[0][:-1])]
            calls = [self.call[t[0]] for t in net.targets if t[0] in self.call]
            return (0 if key in self.trunk else 1, min(calls, default=0) + 0.5)
        if key[0] in self.call:
            return (0 if key in self.trunk else 1, float(self.call[key[0]]))
        ports = self.inputs if key[0] == IN else self.outputs
        return (0 if key in self.trunk else 1, float(ports.index(key[1])))

    # --- order --------------------------------------------------------------------------------------------------------

    def _links(self) -> dict[tuple[End, End], tuple[float, float]]:
        """Neighbouring cells and their offsets; each pair of cells once per port."""
        links: dict[tuple[End, End], tuple[float, float]] = {}
        for index, net in enumerate(self.scope.nets):
            for target in net.targets:
                cells = self.steps(index, target)
                for a, b in itertools.pairwise(cells):
                    leave = self.source_offset(net.source) if a == cells[0] else 0.0
                    arrive = self.target_offset(target) if b == cells[-1] else 0.0
                    links.setdefault((a, b), (leave, arrive))
        return links

    def _sort(self, links: Iterable[tuple[End, End]]) -> None:
        above: dict[End, list[End]] = {key: [] for key in self.cells}
        below: dict[End, list[End]] = {key: [] for key in self.cells}
        for a, b in links:
            below[a].append(b)
            above[b].append(a)
        best, fewest = [list(row) for row in self.rows], self._crossings(links)
        for sweep in range(8):
            down = sweep % 2 == 0
            near = above if down else below
            for rank in range(1, self.last + 1) if down else range(self.last - 1, -1, -1):
                other = self.rows[rank - 1 if down else rank + 1]
                self._sort_row(self.rows[rank], near, {key: index for index, key in enumerate(other)})
            if (count := self._crossings(links)) < fewest:
                best, fewest = [list(row) for row in self.rows], count
        self.rows = best

    def _sort_row(self, row: list[End], near: Mapping[End, Sequence[End]], place: Mapping[End, int]) -> None:
        own = {key: index for index, key in enumerate(row)}

        def middle(key: End) -> tuple[int, float, tuple[int, float]]:
            seen = [place[other] for other in near[key] if other in place]
            mean = sum(seen) / len(seen) if seen else float(own[key])
            return (0 if key in self.trunk else 1, round(mean, 6), self._by_call(key))

        row.sort(key=middle)

    def _crossings(self, links: Iterable[tuple[End, End]]) -> int:
        place = {key: index for row in self.rows for index, key in enumerate(row)}
        pairs = [(self.rank[a], place[a], place[b]) for a, b in links]
        return sum(r == s and (a - c) * (b - d) < 0 for i, (r, a, b) in enumerate(pairs) for s, c, d in pairs[:i])

    # --- columns ------------------------------------------------------------------------------------------------------

    def _columns(self, links: Mapping[tuple[End, End], tuple[float, float]]) -> None:
        """`near`: for each cell, what it wants to stand at: another cell, an offset and a weight."""
        near: dict[End, list[tuple[End, float, float]]] = {key: [] for key in self.cells}
        fan_out: dict[End, int] = dict.fromkeys(self.cells, 0)
        fan_in: dict[End, int] = dict.fromkeys(self.cells, 0)
        for a, b in links:
            fan_out[a] += 1
            fan_in[b] += 1
        for (a, b), (leave, arrive) in links.items():
            weight = 8.0 if fan_out[a] == fan_in[b] == 1 else 1.0
            weight *= 6.0 if a[0].endswith("~") or b[0].endswith("~") else 1.0
            near[a].append((b, arrive - leave, weight))
            near[b].append((a, leave - arrive, weight))
        for step in range(120):
            for row in self.rows if step % 2 == 0 else reversed(self.rows):
                self._settle(row, near, median=step >= 60)
        self._straighten(_chains(links, fan_out, fan_in, self.trunk))

    def _close_up(self) -> None:
        """Bring all that stands beside the trunk to it; where nothing ties it down, the columns let it drift."""
        slack = [
            self.x[b] - self.cells[b].left - self.cells[a].right - self.x[a] - GAP
            for row in self.rows
            for a, b in itertools.pairwise(row)
            if a in self.trunk and b not in self.trunk
        ]
        for key in self.cells if slack else ():
            self.x[key] -= 0.0 if key in self.trunk else min(slack)

    def _straighten(self, chains: Sequence[Sequence[tuple[End, float]]]) -> None:
        """Cells that follow one another get one column, that of the rightmost; neighbours make room to the right."""
        moved = True
        while moved:
            moved = False
            for chain in chains:
                goal = max(self.x[key] + offset for key, offset in chain)
                for key, offset in chain:
                    if goal - offset > self.x[key] + 0.01:
                        self.x[key], moved = goal - offset, True
            for row in self.rows:
                for a, b in itertools.pairwise(row):
                    least = self.x[a] + self.cells[a].right + self.cells[b].left + GAP
                    if self.x[b] < least - 0.01:
                        self.x[b], moved = least, True

    def _settle(self, row: Sequence[End], near: Mapping[End, list[tuple[End, float, float]]], *, median: bool) -> None:
        wants, weights = [], []
        for key in row:
            pulls = sorted((self.x[other] + offset, weight) for other, offset, weight in near[key])
            if key in self.trunk:
                wants.append(0.0)
                weights.append(_FIRM)
                continue
            wants.append((_median(pulls) if median else _mean(pulls)) if pulls else self.x[key])
            weights.append(sum(weight for _, weight in pulls) or 1.0)
        gaps = [self.cells[a].right + self.cells[b].left + GAP for a, b in itertools.pairwise(row)]
        for key, x in zip(row, _apart(wants, weights, gaps), strict=True):
            self.x[key] = x


def _chains(
    links: Mapping[tuple[End, End], tuple[float, float]],
    fan_out: Mapping[End, int],
    fan_in: Mapping[End, int],
    trunk: frozenset[End],
) -> list[list[tuple[End, float]]]:
    """Runs of cells off the trunk in which each has one successor and that one no other predecessor; with each cell the
    offset that its wire needs to be straight."""
    after = {
        a: (b, offsets) for (a, b), offsets in links.items() if fan_out[a] == fan_in[b] == 1 and not {a, b} & trunk
    }
    follows = {b for b, _ in after.values()}
    chains = []
    for start in after:
        if start in follows:
            continue
        chain, key, offset = [(start, 0.0)], start, 0.0
        while key in after:
            key, (leave, arrive) = after[key]
            offset += leave - arrive
            chain.append((key, -offset))
        chains.append(chain)
    return chains


def _mean(pulls: Sequence[tuple[float, float]]) -> float:
    return sum(x * weight for x, weight in pulls) / sum(weight for _, weight in pulls)


def _median(pulls: Sequence[tuple[float, float]]) -> float:
    half, seen = sum(weight for _, weight in pulls) / 2, 0.0
    for index, (x, weight) in enumerate(pulls):
        seen += weight
        if seen == half:
            return (x + pulls[index + 1][0]) / 2
        if seen > half:
            return x
    return pulls[-1][0]


def _apart(wants: Sequence[float], weights: Sequence[float], gaps: Sequence[float]) -> list[float]:
    """The least-squares positions nearest to `wants` with at least the given gaps (pool adjacent violators)."""
    offsets = [0.0]
    for gap in gaps:
        offsets.append(offsets[-1] + gap)
    pools: list[tuple[float, float, int]] = []
    for want, weight, offset in zip(wants, weights, offsets, strict=True):
        pool = ((want - offset) * weight, weight, 1)
        while pools and pools[-1][0] / pools[-1][1] > pool[0] / pool[1]:
            last = pools.pop()
            pool = (last[0] + pool[0], last[1] + pool[1], last[2] + pool[2])
        pools.append(pool)
    flat = [total / weight for total, weight, count in pools for _ in range(count)]
    return [x + offset for x, offset in zip(flat, offsets, strict=True)]
