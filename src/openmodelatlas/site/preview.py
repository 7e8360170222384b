"""A model's picture for the gallery, drawn from its map: the stack of blocks to scale, and inside one block the heads
in their groups, the feed-forward's widening, and what sets the model apart."""

from math import sqrt

from openmodelatlas.records.graph import Graph
from openmodelatlas.site.facts import tied
from openmodelatlas.site.metrics import text_width
from openmodelatlas.site.words import region_words

WIDTH, HEIGHT = 320.0, 156.0
BASE = 138.0
PER_BLOCK = 0.84
WIDEST, WIDEST_PIXELS = 16384, 66.0
DOT = 4.6

KEY = (
    "Left, the stack: one line a block, all models to one scale, and its width grows with the root of the model's width. "
    "The dark slabs are the token embedding (below) and the output matrix (above); a dashed link means that they are one "
    "matrix. Right, one block: the residual stream on the left; a column of dots is one key/value head (dark) with the "
    "query heads that share it; the bar widens from the model's width to the feed-forward's. A marked wave means that "
    "rotary frequencies are rescaled."
)


def preview(graph: Graph) -> str:
    """The picture as an `<svg>` element."""
    axes = graph.axes
    region = graph.regions[0]
    words = (
        f"{region_words(region, graph.by_id[region.name].title)}, width {axes['D']:,}, {axes['H']} query heads sharing "
        f"{axes['K']} key/value heads, feed-forward {axes['F']:,}"
        f"{', rotary frequencies rescaled' if _rescaled(graph) else ''}{', one embedding matrix' if tied(graph) else ''}"
    )
    return (
        f'<svg class="preview" viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img" aria-label="{words}">'
        f"{_stack(graph)}{_block(graph)}</svg>"
    )


def _rescaled(graph: Graph) -> bool:
    """More steps between the rotary frequencies and the table than the plain rotation has."""
    return len(graph.by_id["rope"].children) > 2 if "rope" in graph.by_id else False


def _stack(graph: Graph) -> str:
    depth, width = graph.axes["L"], WIDEST_PIXELS * sqrt(graph.axes["D"] / WIDEST)
    middle, tall = 52.0, depth * PER_BLOCK
    left, top = middle - width / 2, BASE - 6 - tall
    lines = "".join(f"M{left:.1f} {BASE - 6 - (i + 0.5) * PER_BLOCK:.2f}h{width:.1f}" for i in range(depth))
    slabs = "".join(
        f'<rect class="slab" x="{left - 3:.1f}" y="{y:.1f}" width="{width + 6:.1f}" height="4.5" rx="1.5"/>'
        for y in (BASE - 4, top - 6.5)
    )
    link = ""
    if tied(graph):
        x = left - 3
        link = f'<path class="tie" d="M{x:.1f} {BASE - 1.8:.1f}h-4q-4 0 -4 -4V{top - 0.3:.1f}q0 -4 4 -4h4"/>'
    label = f'<text class="s" x="{middle:g}" y="{BASE + 14:g}">{depth} × {graph.axes["D"]:,}</text>'
    return f'<path class="layers" d="{lines}"/>{slabs}{link}{label}'


def _block(graph: Graph) -> str:
    axes = graph.axes
    spine = 128.0
    columns, group = axes["K"], axes["H"] // axes["K"]
    pitch = min(DOT + 1.6, 150 / columns)
    left, top = spine + 26, 22.0
    rows = min(DOT, 64 / (group + 1))
    queries = "".join(
        f"M{left + c * pitch:.1f} {top + r * rows:.1f}h0" for c in range(columns) for r in range(group)
    )
    foot = top + group * rows + 2.2
    keys = "".join(f"M{left + c * pitch:.1f} {foot:.1f}h0" for c in range(columns))
    radius = min(3.6, pitch - 0.9, rows - 0.5 if rows < DOT else 3.6)
    widening = axes["F"] / axes["D"]
    narrow = 30.0
    wide = narrow * widening
    y = 106.0
    x = left - 2
    bar = f"M{x:g} {y:g}h{narrow:g}L{x + wide:.1f} {y + 8:g}v6L{x + narrow:g} {y + 22:g}h-{narrow:g}z"
    attention = _loop(spine, 12, 90)
    feed = _loop(spine, y - 4, y + 28)
    return (
        f'<path class="river" d="M{spine:g} 4V{HEIGHT - 6:g}"/><path class="loop" d="{attention}{feed}"/>'
        f'<path class="q" stroke-width="{radius:.1f}" d="{queries}"/><path class="k" stroke-width="{radius:.1f}" d="{keys}"/>'
        f'<path class="wide" d="{bar}"/>{_notes(graph, left)}'
    )


def _loop(x: float, top: float, bottom: float) -> str:
    return f"M{x:g} {top:g}h8q4 0 4 4V{bottom - 4:g}q0 4 -4 4h-8"


def _notes(graph: Graph, left: float) -> str:
    axes = graph.axes
    wave = f"M{left:g} 97q3 -6 6 0t6 0t6 0"
    words = f"{axes['H']} heads / {axes['K']} kv"
    start = left + 24
    out = f'<text class="s l" x="{start:g}" y="100">{words}</text>'
    out += f'<path class="wave{" scaled" if _rescaled(graph) else ""}" d="{wave}"/>'
    if _rescaled(graph):
        out += f'<text class="s l scaled" x="{start + text_width(words, 10.5) + 8:.0f}" y="100">scaled rope</text>'
    return out + f'<text class="s l" x="{left:g}" y="{BASE + 10:g}">{axes["F"] / axes["D"]:.3g} × width</text>'
