"""Numbers of a model for its page, each with what it counts and how it comes about."""

from collections.abc import Mapping
from dataclasses import dataclass

from openmodelatlas.records.catalog import Model
from openmodelatlas.records.evidence import State
from openmodelatlas.records.graph import Graph, Node
from openmodelatlas.site.cache import capped, capped_words, growing, growing_words, parts
from openmodelatlas.site.experts import CHOSEN, EXPERTS
from openmodelatlas.site.schedule import mixed, rhythm, short_title
from openmodelatlas.site.words import compact, constant_words, size_words


@dataclass(frozen=True)
class Fact:
    """A figure: what it is called, its short form, and the definition that a reader can open. `state` where the page
    must say at once that the figure is not the only one."""

    name: str
    value: str
    definition: str
    state: State | None = None


def facts(graph: Graph, model: Model) -> list[Fact]:
    """The strip of figures at the head of a model's page."""
    axes, counts = graph.axes, graph.counts
    embedding = counts.total - counts.without_embedding
    context = f"{model.context.config.positions:,}"
    differ = model.context.differ
    return [
        Fact("parameters", compact(counts.total), f"{counts.total:,}: every learned element, shared ones once"),
        *_active(graph),
        Fact(
            "without embedding",
            compact(counts.without_embedding),
            f"{counts.total:,} − {embedding:,} of the token embedding table = {counts.without_embedding:,}",
        ),
        Fact("blocks", f"{axes['L']}", _blocks(graph)),
        Fact("width", f"{axes['D']:,}", "features of the residual stream (d)"),
        Fact(
            "heads",
            f"{axes['H']} / {axes['K']}",
            f"{axes['H']} query heads share {axes['K']} key/value head{'s' if axes['K'] > 1 else ''}: "
            f"{axes['H'] // axes['K']} to one",
        ),
        *_head_width(axes),
        Fact("feed-forward", f"{axes['F']:,}", f"width between gate and down projection (f), {_ratio(axes)} times d"),
        *_experts(axes),
        Fact("vocabulary", f"{axes['V']:,}", "entries of the embedding table (v)"),
        Fact(
            "context",
            context,
            f"positions by the configuration{', where another source has another number' if differ else ''}: "
            "see below who says what",
            "conflict" if differ else None,
        ),
        *_windows(graph),
        *([Fact("cache per position", size_words(growing(graph)), growing_words(graph))] if growing(graph) else []),
        *([Fact("cache of windows", f"≤ {size_words(capped(graph))}", capped_words(graph))] if capped(graph) else []),
    ]


def _active(graph: Graph) -> list[Fact]:
    """Of a mixture of experts, the parameters that one position computes with."""
    total, active, axes = graph.counts.total, graph.counts.active, graph.axes
    if active == total:
        return []
    unread = f"the {axes[EXPERTS] - axes[CHOSEN]} of {axes[EXPERTS]} experts of each block that are not chosen for it"
    return [
        Fact(
            "active per token",
            compact(active),
            f"{active:,}: all that one position computes with, which is everything but {unread} "
            f"({total - active:,}); the whole embedding table is included",
        )
    ]


def _experts(axes: Mapping[str, int]) -> list[Fact]:
    if EXPERTS not in axes:
        return []
    chosen, experts = axes[CHOSEN], axes[EXPERTS]
    meaning = f"of the {experts} experts of each block, a router chooses {chosen} anew for every position"
    return [Fact("experts", f"{chosen} of {experts}", meaning)]


def _head_width(axes: Mapping[str, int]) -> list[Fact]:
    """Only where it is not what division gives."""
    width, heads, each = axes["D"], axes["H"], axes["E"]
    if heads * each == width:
        return []
    meaning = (
        f"features of one head (e): a number of its own. All heads together are {heads * each:,} wide, "
        f"{heads * each / width:.3g} times d; d over heads would give {width / heads:,.4g}"
    )
    return [Fact("head width", f"{each}", meaning)]


def _windows(graph: Graph) -> list[Fact]:
    windows = [part for part in parts(graph) if part.window is not None]
    return [
        Fact(
            "window",
            f"{part.window:,}",
            f"positions that {part.name} blocks see, the current one included"
            if mixed(graph)
            else "positions that every block sees, the current one included",
        )
        for part in windows
    ]


def _blocks(graph: Graph) -> str:
    apart = all(region.independent for region in graph.regions)
    if not mixed(graph):
        equal = f"{graph.regions[0].count} blocks whose derived subtrees are equal"
        return f"{equal}; no two share a parameter" if apart else f"{equal}; some share parameters"
    named = " and ".join(f"of the {region.count} {short_title(graph, region)} blocks" for region in graph.regions)
    shared = "no two blocks of a kind share a parameter" if apart else "some share parameters"
    return f"{rhythm(graph)}. The derived subtrees {named} are equal each among themselves; {shared}"


def _ratio(axes: Mapping[str, int]) -> str:
    return f"{axes['F'] / axes['D']:.3g}"


def tied(graph: Graph) -> bool:
    """Does the output projection share the embedding table?"""
    return any(t.tied_to is not None for n in graph.nodes if n.region is None for t in n.parameters.tensors)


def constants(node: Node) -> list[tuple[str, str]]:
    """The constants of an op, as name and value."""
    return [(name.replace("_", " "), constant_words(value)) for name, value in node.constants.items()]
