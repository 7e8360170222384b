"""A model's picture for the gallery, drawn from its map: the stack of blocks to scale, and inside one block the heads
in their groups, the feed-forward's widening, and what sets the model apart."""

from html import escape
from math import sqrt

from openmodelatlas.records.graph import Graph
from openmodelatlas.site.diagram import region_heading
from openmodelatlas.site.schedule import mixed, runs
from openmodelatlas.site.traits import Traits, tags, traits

WIDTH, HEIGHT = 330.0, 164.0
BASE = 143.0
PER_BLOCK, LINE = 0.86, 0.55
RARE = 9.0
"""How much wider the lines of a rarer kind of block are."""
WIDEST, WIDEST_PIXELS = 16384, 70.0
SPINE, LEFT = 124.0, 150.0
ATTENTION, FEED = (10.0, 90.0), (102.0, 150.0)
NORM = (7.0, 13.0)
"""Width and height of a norm's bar."""
SEEN = 20.0
"""The side of the square that shows who sees whom."""
BANDS = 10
"""Experts are drawn one by one up to this many; of more, so many stand for all."""


KEY = (
    (
        '<path class="layers" stroke-width="24" stroke-dasharray="1.8 1.2" d="M20 20v-16"/>',
        "The stack: one line a block, all models to one scale; its width grows with the root of the model's width.",
    ),
    (
        '<path class="layers k0" stroke-width="24" stroke-dasharray="1.8 1.2" d="M20 20v-6M20 11v-6"/>'
        '<path class="layers k1" stroke-width="32" d="M20 14v-1.8M20 5v-1.8"/>',
        "Two colours: two kinds of block, in their true order; the rarer ones stand out.",
    ),
    (
        '<rect class="slab" x="6" y="4" width="28" height="4.5" rx="1.5"/><rect class="slab" x="6" y="16" width="28" '
        'height="4.5" rx="1.5"/><path class="tie" d="M6 18h-2q-3 0 -3 -3v-6q0 -3 3 -3h2"/>',
        "Token embedding (below) and output matrix (above); a dashed link: they are one matrix.",
    ),
    (
        '<path class="q" stroke-width="4.5" d="M10 5h0M17 5h0M24 5h0M10 11h0M17 11h0M24 11h0"/>'
        '<path class="kv" stroke-width="4.5" d="M10 18h0M17 18h0M24 18h0"/>',
        "A column: one key/value head (the last dot) with the query heads that share it.",
    ),
    (
        '<path class="loop" d="M4 12h32"/><rect class="norm" x="16.5" y="5.5" width="7" height="13" rx="2"/>',
        "A norm. Above the addition: the stream is normed before it is read; at it: the update before it is added; "
        "beside the heads: queries and keys.",
    ),
    (
        '<rect class="grid" x="10" y="2" width="20" height="20"/><path class="seen" d="M10 2v20h20z"/>',
        "Who sees whom: a row for each position, filled where it looks. Here at all earlier ones.",
    ),
    (
        '<rect class="grid" x="10" y="2" width="20" height="20"/><path class="seen" d="M10 2v6l14 14h6z"/>',
        "Here at a window of the latest ones. Two squares: one for each kind of block, in its colour.",
    ),
    (
        '<path class="wave scaled" d="M11 13q3 -6 6 0t6 0t6 0"/>',
        "Rotary positions; red: their frequencies are rescaled for a longer context.",
    ),
    (
        '<path class="wide" d="M2 10l11 -6h14l11 6v4l-11 6h-14l-11 -6z"/>',
        "The feed-forward: from the model's width to its own, and back.",
    ),
    (
        '<path class="wide" d="M3 2h6v20h-6zM12 2h6v20h-6z"/>'
        '<path class="wide idle" d="M21 2h6v20h-6zM30 2h6v20h-6z"/>',
        "Experts: as many bands; filled, as many as compute for a position.",
    ),
)
"""Pieces of the pictures, and what they mean."""


def preview(graph: Graph) -> str:
    """The picture as an `<svg>` element."""
    axes, found = graph.axes, traits(graph)
    words = (
        f"{region_heading(graph)}, width {axes['D']:,}, {axes['H']} query heads sharing {axes['K']} key/value heads, "
        f"feed-forward {axes['F']:,}{''.join(f', {tag}' for tag in tags(graph))}"
    )
    return (
        f'<svg class="preview" viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img" aria-label="{escape(words)}">'
        f"{_stack(graph)}{_loops(found)}{_heads(graph, found)}{_seen(found)}{_widening(graph, found)}</svg>"
    )


def _stack(graph: Graph) -> str:
    depth, width = graph.axes["L"], WIDEST_PIXELS * sqrt(graph.axes["D"] / WIDEST)
    middle, tall = 56.0, depth * PER_BLOCK
    left, top = middle - width / 2, BASE - 7 - tall
    layers, most = "", max(region.count for region in graph.regions)
    for kind, region in enumerate(graph.regions):
        own = [run for run in runs(graph) if run.kind == kind]
        starts = ((BASE - 7 - run.first * PER_BLOCK, run.count * PER_BLOCK) for run in own)
        lines = "".join(f"M{middle:g} {y:.2f}v{-tall:.2f}" for y, tall in starts)
        rare = region.count < most  # stands out, or it would be lost between the others
        dashes = "" if rare else f' stroke-dasharray="{LINE:g} {PER_BLOCK - LINE:.2f}"'
        layers += (
            f'<path class="layers{f" k{kind}" if mixed(graph) else ""}" '
            f'stroke-width="{width + (RARE if rare else 0):.1f}"{dashes} d="{lines}"/>'
        )
    slabs = "".join(
        f'<rect class="slab" x="{left - 3:.1f}" y="{y:.1f}" width="{width + 6:.1f}" height="4.5" rx="1.5"/>'
        for y in (BASE - 5, top - 6.5)
    )
    link = ""
    if traits(graph).tied:
        x = left - 3
        link = f'<path class="tie" d="M{x:.1f} {BASE - 2.8:.1f}h-5q-4 0 -4 -4V{top - 0.3:.1f}q0 -4 4 -4h5"/>'
    label = f'<text class="mid" x="{middle:g}" y="{BASE + 14:g}">{depth} × {graph.axes["D"]:,}</text>'
    return f"{layers}{slabs}{link}{label}"


def _loops(found: Traits) -> str:
    """The stream, and the two mechanisms that read it above and add to it below, through norms."""
    parts = [f'<path class="river" d="M{SPINE:g} 2V{HEIGHT - 4:g}"/>']
    for top, bottom in (ATTENTION, FEED):
        parts.append(f'<path class="loop" d="M{SPINE:g} {top + 10:g}H{LEFT:g}M{LEFT:g} {bottom - 10:g}H{SPINE:g}"/>')
        parts.append(
            f'<rect class="part" x="{LEFT:g}" y="{top:g}" width="{WIDTH - LEFT - 4:g}" '
            f'height="{bottom - top:g}" rx="8"/>'
        )
        parts += [_norm(SPINE + 16, y) for y, there in ((top + 10, found.before), (bottom - 10, found.after)) if there]
        parts.append(f'<circle class="sum" cx="{SPINE:g}" cy="{bottom - 10:g}" r="4.5"/>')
    return "".join(parts)


def _norm(x: float, y: float, tall: float = NORM[1]) -> str:
    """A norm's bar around that point."""
    return (
        f'<rect class="norm" x="{x - NORM[0] / 2:g}" y="{y - tall / 2:.1f}" width="{NORM[0]:g}" height="{tall:.1f}" '
        'rx="2"/>'
    )


def _heads(graph: Graph, found: Traits) -> str:
    columns, group = graph.axes["K"], graph.axes["H"] // graph.axes["K"]
    pitch = min(8.5, 68 / columns, 64 / (group + 1))
    middle = (ATTENTION[0] + ATTENTION[1]) / 2
    left = LEFT + (26 if found.heads else 14) + pitch / 2
    top = middle - group * pitch / 2
    across = (columns - 1) * pitch + 0.1  # a dash that starts at the very end is not drawn
    queries = "".join(f"M{left:.1f} {top + r * pitch:.1f}h{across:.1f}" for r in range(group))
    keys = f"M{left:.1f} {top + group * pitch:.1f}h{across:.1f}"
    size = pitch * 0.68
    x = left + columns * pitch + 4
    bars = ""
    if found.heads:
        tall = max(3.0, group * pitch - 1.6)
        bars = _norm(LEFT + 12, top + (group - 1) * pitch / 2, tall)
        bars += _norm(LEFT + 12, top + group * pitch, max(3.0, min(pitch - 1.2, NORM[1])))
    lines = [f"{graph.axes['H']} heads", f"{columns} kv head{'s' if columns > 1 else ''}"]
    text = "".join(f'<text x="{x:.1f}" y="{27 + 14 * i:g}">{line}</text>' for i, line in enumerate(lines))
    if found.ratio != 1:
        text += f'<text x="{x:.1f}" y="55">{found.ratio:.2g} × width</text>'
    wave = f'<path class="wave{" scaled" if found.rescaled else ""}" d="M{x:.1f} 74q3 -6 6 0t6 0t6 0"/>'
    return (
        f'<g stroke-width="{size:.1f}" stroke-dasharray="0 {pitch:.2f}"><path class="q" d="{queries}"/>'
        f'<path class="kv" d="{keys}"/></g>{bars}{text}{wave}'
    )


def _seen(found: Traits) -> str:
    """For each kind of block, who sees whom: a row a position, a column an earlier one; a window leaves a band."""
    out = []
    for place, window in enumerate(reversed(found.windows)):
        kind = len(found.windows) - 1 - place
        x, y = WIDTH - 12 - SEEN - place * (SEEN + 5), ATTENTION[1] - 8 - SEEN
        mark = f" k{kind}" if len(found.windows) > 1 else ""
        band = SEEN * 0.3
        shape = f"M{x:g} {y:g}v{SEEN:g}h{SEEN:g}z"
        if window is not None:
            shape = f"M{x:g} {y:g}v{band:g}l{SEEN - band:g} {SEEN - band:g}h{band:g}z"
        out.append(f'<rect class="grid" x="{x:g}" y="{y:g}" width="{SEEN:g}" height="{SEEN:g}"/>')
        out.append(f'<path class="seen{mark}" d="{shape}"/>')
    return "".join(out)


def _widening(graph: Graph, found: Traits) -> str:
    ratio = graph.axes["F"] / graph.axes["D"]
    x, y = LEFT + 14, (FEED[0] + FEED[1]) / 2
    lines = [f"{ratio:.3g} × width", found.activation]
    if found.experts is None:
        unit = min(9.0, 40 / ratio)
        low, high = unit / 2, unit * ratio / 2
        band = (
            f"M{x:g} {y - low:.1f}l22 {low - high:.1f}h26l22 {high - low:.1f}v{unit:.1f}l-22 {high - low:.1f}h-26"
            f"l-22 {low - high:.1f}z"
        )
        bands = f'<path class="wide" d="{band}"/>'
    else:
        experts, chosen = found.experts
        drawn = min(experts, BANDS)
        filled = chosen if drawn == experts else max(1, round(chosen * drawn / experts))
        step = 70 / drawn
        bands = "".join(
            f'<rect class="wide{"" if i < filled else " idle"}" x="{x + i * step:.1f}" y="{y - 18:g}" '
            f'width="{step * 0.72:.1f}" height="36" rx="2"/>'
            for i in range(drawn)
        )
        lines = [f"{chosen} of {experts}", lines[0]]
    text = "".join(f'<text x="{x + 80:g}" y="{y - 3 + 14 * i:g}">{line}</text>' for i, line in enumerate(lines))
    return bands + text
