"""A model's picture for the gallery, drawn from its map: the stack of blocks to scale, and inside one block the heads
in their groups, the feed-forward's widening, and what sets the model apart."""

from math import sqrt

from openmodelatlas.records.graph import Graph
from openmodelatlas.site.facts import tied
from openmodelatlas.site.words import region_words

WIDTH, HEIGHT = 330.0, 164.0
BASE = 143.0
PER_BLOCK = 0.86
WIDEST, WIDEST_PIXELS = 16384, 70.0
SPINE, LEFT = 124.0, 148.0
ATTENTION, FEED = (10.0, 90.0), (102.0, 150.0)

KEY = (
    "Left, the stack: one line a block, all models to one scale; its width grows with the root of the model's width. "
    "The amber slabs are the token embedding (below) and the output matrix (above); a dashed link means that they are "
    "one matrix. Right, one block beside its residual stream: a column of dots is one key/value head (the last "
    "dot) with the query heads that share it; the band widens from the model's width to the feed-forward's and back. "
    "A red wave means that rotary frequencies are rescaled."
)


def preview(graph: Graph) -> str:
    """The picture as an `<svg>` element."""
    axes = graph.axes
    region = graph.regions[0]
    words = (
        f"{region_words(region, graph.by_id[region.name].title)}, width {axes['D']:,}, {axes['H']} query heads sharing "
        f"{axes['K']} key/value heads, feed-forward {axes['F']:,}"
        f"{', rotary frequencies rescaled' if _rescaled(graph) else ''}"
        f"{', one embedding matrix' if tied(graph) else ''}"
    )
    return (
        f'<svg class="preview" viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img" aria-label="{words}">'
        f"{_stack(graph)}{_loops()}{_heads(graph)}{_rope(graph)}{_widening(graph)}</svg>"
    )


def _rescaled(graph: Graph) -> bool:
    """More steps between the rotary frequencies and the table than the plain rotation has."""
    return "rope" in graph.by_id and len(graph.by_id["rope"].children) > 2


def _stack(graph: Graph) -> str:
    depth, width = graph.axes["L"], WIDEST_PIXELS * sqrt(graph.axes["D"] / WIDEST)
    middle, tall = 56.0, depth * PER_BLOCK
    left, top = middle - width / 2, BASE - 7 - tall
    lines = "".join(f"M{left:.1f} {BASE - 7 - (i + 0.5) * PER_BLOCK:.2f}h{width:.1f}" for i in range(depth))
    slabs = "".join(
        f'<rect class="slab" x="{left - 3:.1f}" y="{y:.1f}" width="{width + 6:.1f}" height="4.5" rx="1.5"/>'
        for y in (BASE - 5, top - 6.5)
    )
    link = ""
    if tied(graph):
        x = left - 3
        link = f'<path class="tie" d="M{x:.1f} {BASE - 2.8:.1f}h-5q-4 0 -4 -4V{top - 0.3:.1f}q0 -4 4 -4h5"/>'
    label = f'<text class="mid" x="{middle:g}" y="{BASE + 14:g}">{depth} × {graph.axes["D"]:,}</text>'
    return f'<path class="layers" d="{lines}"/>{slabs}{link}{label}'


def _loops() -> str:
    """The stream, and the two mechanisms that read it above and add to it below."""
    parts = [f'<path class="river" d="M{SPINE:g} 2V{HEIGHT - 4:g}"/>']
    for top, bottom in (ATTENTION, FEED):
        parts.append(f'<path class="loop" d="M{SPINE:g} {top + 10:g}H{LEFT:g}M{LEFT:g} {bottom - 10:g}H{SPINE:g}"/>')
        parts.append(
            f'<rect class="part" x="{LEFT:g}" y="{top:g}" width="{WIDTH - LEFT - 4:g}" '
            f'height="{bottom - top:g}" rx="8"/>'
        )
        parts.append(f'<circle class="sum" cx="{SPINE:g}" cy="{bottom - 10:g}" r="4.5"/>')
    return "".join(parts)


def _heads(graph: Graph) -> str:
    columns, group = graph.axes["K"], graph.axes["H"] // graph.axes["K"]
    pitch = min(8.5, 84 / columns, 64 / (group + 1))
    left = LEFT + 14 + pitch / 2
    top = (ATTENTION[0] + ATTENTION[1]) / 2 - group * pitch / 2
    dots = [(left + c * pitch, top + r * pitch) for c in range(columns) for r in range(group)]
    queries = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in dots)
    keys = "".join(f"M{left + c * pitch:.1f} {top + group * pitch:.1f}h0" for c in range(columns))
    size = pitch * 0.68
    x = left + columns * pitch + 6
    y = (ATTENTION[0] + ATTENTION[1]) / 2
    shift = 4 if not _rescaled(graph) else -3
    return (
        f'<path class="q" stroke-width="{size:.1f}" d="{queries}"/>'
        f'<path class="kv" stroke-width="{size:.1f}" d="{keys}"/>'
        f'<text x="{x:.1f}" y="{y - 14 + shift:g}">{graph.axes["H"]} heads</text>'
        f'<text x="{x:.1f}" y="{y + shift:g}">{columns} kv heads</text>'
    )


def _rope(graph: Graph) -> str:
    columns, group = graph.axes["K"], graph.axes["H"] // graph.axes["K"]
    pitch = min(8.5, 84 / columns, 64 / (group + 1))
    x = LEFT + 14 + pitch * 1.5 / 2 + columns * pitch + 4
    y = (ATTENTION[0] + ATTENTION[1]) / 2 + (16 if not _rescaled(graph) else 9)
    wave = f'<path class="wave{" scaled" if _rescaled(graph) else ""}" d="M{x:.1f} {y:g}q3 -6 6 0t6 0t6 0"/>'
    if _rescaled(graph):
        wave += f'<text class="scaled" x="{x:.1f}" y="{y + 17:g}">scaled rope</text>'
    return wave


def _widening(graph: Graph) -> str:
    ratio = graph.axes["F"] / graph.axes["D"]
    unit = min(9.0, 40 / ratio)
    x, y = LEFT + 14, (FEED[0] + FEED[1]) / 2
    low, high = unit / 2, unit * ratio / 2
    band = (
        f"M{x:g} {y - low:.1f}l22 {low - high:.1f}h26l22 {high - low:.1f}v{unit:.1f}l-22 {high - low:.1f}h-26"
        f"l-22 {low - high:.1f}z"
    )
    return f'<path class="wide" d="{band}"/><text x="{x + 80:g}" y="{y + 4:g}">{ratio:.3g} × width</text>'
