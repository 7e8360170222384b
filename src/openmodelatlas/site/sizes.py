"""The sizes of a release side by side; what no size has, or what division gives in all, takes no column."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from openmodelatlas.site.cache import parts
from openmodelatlas.site.experts import CHOSEN, EXPERTS
from openmodelatlas.site.facts import tied
from openmodelatlas.site.inputs import ModelPage


@dataclass(frozen=True)
class SizeRow:
    """One size: its page, and a text for each column."""

    size: str
    file: str
    here: bool
    cells: tuple[str, ...]


@dataclass(frozen=True)
class SizeTable:
    """Columns with their names and whether they hold numbers; then the sizes."""

    columns: tuple[tuple[str, bool], ...]
    rows: tuple[SizeRow, ...]


Column = tuple[str, bool, Callable[[ModelPage], str], Callable[[ModelPage], bool]]
"""A name, whether it holds numbers, the text, and which sizes call for the column."""


def _always(_page: ModelPage) -> bool:
    return True


def _own_head_width(page: ModelPage) -> bool:
    axes = page.graph.axes
    return axes["H"] * axes["E"] != axes["D"]


def _windows(page: ModelPage) -> str:
    return ", ".join(f"{part.window:,}" for part in parts(page.graph) if part.window is not None)


def _blocks(page: ModelPage) -> str:
    counts = [f"{region.count}" for region in page.graph.regions]
    return f"{page.graph.axes['L']}" + (f" = {' + '.join(counts)}" if len(counts) > 1 else "")


def _experts(page: ModelPage) -> str:
    axes = page.graph.axes
    return f"{axes[CHOSEN]} of {axes[EXPERTS]}" if EXPERTS in axes else ""


COLUMNS: tuple[Column, ...] = (
    ("parameters", True, lambda p: f"{p.graph.counts.total:,}", _always),
    (
        "active per token",
        True,
        lambda p: f"{p.graph.counts.active:,}",
        lambda p: p.graph.counts.active != p.graph.counts.total,
    ),
    ("without embedding", True, lambda p: f"{p.graph.counts.without_embedding:,}", _always),
    ("blocks", True, _blocks, _always),
    ("width", True, lambda p: f"{p.graph.axes['D']:,}", _always),
    ("heads", True, lambda p: f"{p.graph.axes['H']}", _always),
    ("kv heads", True, lambda p: f"{p.graph.axes['K']}", _always),
    ("head width", True, lambda p: f"{p.graph.axes['E']}", _own_head_width),
    ("feed-forward", True, lambda p: f"{p.graph.axes['F']:,}", _always),
    ("experts", True, _experts, lambda p: EXPERTS in p.graph.axes),
    ("window", True, _windows, lambda p: bool(_windows(p))),
    ("context", True, lambda p: f"{p.model.context.config.positions:,}", _always),
    ("output matrix", False, lambda p: "the embedding, shared" if tied(p.graph) else "its own", _always),
)


def size_table(pages: Sequence[ModelPage], root: str, here: str) -> SizeTable:
    """The models of one release; links start at `root`."""
    shown = [column for column in COLUMNS if any(map(column[3], pages))]
    return SizeTable(
        columns=tuple((name, number) for name, number, _, _ in shown),
        rows=tuple(
            SizeRow(
                size=page.model.size,
                file=f"{root}{page.model.id}/index.html",
                here=page.model.id == here,
                cells=tuple(text(page) for _, _, text, _ in shown),
            )
            for page in pages
        ),
    )
