"""A mixed model's blocks as a strip: a cell for each in order, coloured by kind, and the same in words."""

from collections.abc import Callable
from dataclasses import dataclass
from html import escape

from markupsafe import Markup

from openmodelatlas.records.graph import Graph
from openmodelatlas.site.schedule import folded, kinds, mixed, rhythm, runs
from openmodelatlas.site.words import region_words

CELL, GAP, TALL = 14, 2, 18
APART = 3
"""Cells between two numbers under the strip."""


@dataclass(frozen=True)
class Kind:
    """One kind of block: its place among the kinds, how many, the ranges of their indices, where its name leads."""

    place: int
    id: str
    words: str
    indices: tuple[str, ...]
    file: str
    here: bool


@dataclass(frozen=True)
class Tick:
    """An index under the strip, and how far along it stands, in percent."""

    text: str
    left: str


@dataclass(frozen=True)
class Strip:
    """The strip and its text form: `rhythm` is what repeats, `rows` name every block of each kind."""

    blocks: int
    rhythm: str
    cells: Markup
    ticks: tuple[Tick, ...]
    rows: tuple[Kind, ...]


def strip(graph: Graph, link: Callable[[str], tuple[str, str]], here: str = "") -> Strip | None:
    """None for a model whose blocks are all of one kind. `link`: for a region, the node that its cells lead to and its
    file; `here`: the region that the page is about."""
    if not mixed(graph):
        return None
    rows = []
    for place, region in enumerate(graph.regions):
        node, file = link(region.name)
        words = region_words(region, graph.by_id[region.name].title)
        rows.append(Kind(place, node, words, tuple(folded(region.indices)), file, region.name == here))
    return Strip(len(kinds(graph)), rhythm(graph), Markup(_cells(graph, rows)), _ticks(graph), tuple(rows))


def _cells(graph: Graph, rows: list[Kind]) -> str:
    """One link a kind, whose dashes are the cells; its name in the list is the one that the keyboard reaches."""
    width = CELL * len(kinds(graph))
    links = []
    for row in rows:
        own = [run for run in runs(graph) if run.kind == row.place]
        path = "".join(f"M{run.first * CELL} {TALL / 2:g}h{run.count * CELL}" for run in own)
        named = escape(f"{row.words}: {', '.join(row.indices)}")
        links.append(
            f'<a class="go k{row.place}" href="{row.file}" data-id="{escape(row.id)}" tabindex="-1" '
            f'aria-label="{named}"><title>{escape(row.words)}</title>'
            f'<path d="{path}"/></a>'
        )
    return (
        f'<svg viewBox="0 0 {width} {TALL}" preserveAspectRatio="none" role="group" '
        f'aria-label="{escape(rhythm(graph))}">{"".join(links)}</svg>'
    )


def _ticks(graph: Graph) -> tuple[Tick, ...]:
    """The first block, the last, and where the rarer kinds stand, as far as there is room."""
    order = kinds(graph)
    common = max(range(len(graph.regions)), key=lambda kind: (order.count(kind), -kind))
    wanted = [run.first for run in runs(graph) if run.kind != common]
    shown: list[int] = []
    for index in sorted({0, *wanted, len(order) - 1}):
        if not shown or index - shown[-1] >= APART:
            shown.append(index)
    return tuple(Tick(f"{index}", f"{100 * (index + 0.5) / len(order):.2f}%") for index in shown)
