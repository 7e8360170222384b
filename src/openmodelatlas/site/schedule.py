"""Blocks in their order: which kind stands at which index, and that in few words."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from openmodelatlas.records.graph import Graph, Region

SHOWN = 3
"""Ranges of indices that a short list names before it breaks off."""


@dataclass(frozen=True)
class Run:
    """Neighbouring blocks of one kind: the kind's place among the regions, the first and the last index."""

    kind: int
    first: int
    last: int

    @property
    def count(self) -> int:
        """How many blocks."""
        return self.last - self.first + 1


def mixed(graph: Graph) -> bool:
    """Are there blocks of more than one kind?"""
    return len(graph.regions) > 1


def kinds(graph: Graph) -> tuple[int, ...]:
    """For each block, in order, the place of its region among the regions."""
    found = {index: kind for kind, region in enumerate(graph.regions) for index in region.indices}
    return tuple(found[index] for index in sorted(found))


def runs(graph: Graph) -> tuple[Run, ...]:
    """The blocks in order, neighbours of one kind together."""
    return _runs(kinds(graph))


def _runs(order: Sequence[int]) -> tuple[Run, ...]:
    found = []
    for kind, group in groupby(enumerate(order), key=lambda item: item[1]):
        indices = [index for index, _ in group]
        found.append(Run(kind, indices[0], indices[-1]))
    return tuple(found)


def folded(indices: Iterable[int]) -> list[str]:
    """Indices as ranges: `0–4`, `6–10`, `12`."""
    by_gap = groupby(enumerate(sorted(indices)), key=lambda item: item[1] - item[0])
    groups = ([index for _, index in group] for _, group in by_gap)
    return [f"{group[0]}" if len(group) == 1 else f"{group[0]}–{group[-1]}" for group in groups]


def ranges(indices: Iterable[int]) -> str:
    """`blocks 0–4, 6–10, 12`, or `block 5`."""
    indices = tuple(indices)
    return f"block{'s' if len(indices) > 1 else ''} {', '.join(folded(indices))}"


def short_ranges(indices: Iterable[int]) -> str:
    """The same, broken off where it is long: `blocks 5, 11, 17, …`."""
    indices = tuple(indices)
    parts = folded(indices)
    shown = parts if len(parts) <= SHOWN + 1 else [*parts[:SHOWN], "…"]
    return f"block{'s' if len(indices) > 1 else ''} {', '.join(shown)}"


def short_title(graph: Graph, region: Region) -> str:
    """What tells a region's title from the others': `local` of `Local transformer block`. The whole of a single one."""
    titles = {r.name: _words(graph, r) for r in graph.regions}
    own = titles[region.name]
    if not mixed(graph):
        return " ".join(own)
    common = 0
    shortest = min(map(len, titles.values()))
    while common < shortest - 1 and len({words[-1 - common] for words in titles.values()}) == 1:
        common += 1
    return " ".join(own[: len(own) - common])


def _words(graph: Graph, region: Region) -> list[str]:
    title = graph.by_id[region.name].title
    return f"{title[:1].lower()}{title[1:]}".split()


def rhythm(graph: Graph) -> str:
    """How kinds follow one another: `5 local, then 1 global, 4 times; then 2 local`. Nothing for one kind."""
    if not mixed(graph):
        return ""
    order = kinds(graph)
    names = [short_title(graph, region) for region in graph.regions]

    def told(part: Sequence[int]) -> str:
        return ", then ".join(f"{run.count} {names[run.kind]}" for run in _runs(part))

    period = next(p for p in range(1, len(order) + 1) if all(k == order[i % p] for i, k in enumerate(order)))
    times, rest = divmod(len(order), period)
    if times < 2:
        return told(order)
    return f"{told(order[:period])}, {times} times" + (f"; then {told(order[:rest])}" if rest else "")
