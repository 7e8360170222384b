"""Numbers, shapes, names of files: how the records are put into words."""

from openmodelatlas.records.evidence import Pin
from openmodelatlas.records.graph import Constant, Graph, Node, Region
from openmodelatlas.records.shapes import axis_text, axis_word

SHORT = 7
"""Digits of a revision that a line of text shows."""

AXIS_MEANINGS = tuple(
    (axis, axis_word(axis), meaning)
    for axis, meaning in (
        ("B", "sequences that are computed side by side"),
        ("T", "positions of the sequence in this call"),
        ("S", "positions that can be attended to: the slots of the cache"),
        ("D", "model width: features of the residual stream"),
        ("H", "query heads"),
        ("K", "key/value heads"),
        ("E", "features of one head; half as many pairs turn together (e/2)"),
        ("F", "feed-forward width"),
        ("V", "vocabulary entries"),
        ("L", "transformer blocks"),
        ("N", "experts of a block"),
        ("A", "experts that are chosen for a position"),
    )
)


def compact(count: int) -> str:
    """`8.03 B`, `16.8 M`, `4,096`: three digits, as many as fit in a box; 999.9 M is `1.00 B`."""
    for unit, name, least in ((10**9, "B", 999_500_000), (10**6, "M", 10**6)):
        if count >= least:
            value = count / unit
            digits = 2 if value < 10 else 1 if value < 100 else 0
            return f"{value:.{digits}f} {name}"
    return f"{count:,}"


def dims(shape: tuple[int, ...], axes: tuple[str, ...]) -> str:
    """The shape of a stored parameter: `4096 d × 4096 h·e`."""
    return " × ".join(axis_text(n, a) for n, a in zip(shape, axes, strict=True))


def flops_words(expression: str) -> str:
    """`8192*B*S*T` as `8,192 · B · S · T`."""
    terms = []
    for term in expression.split(" + "):
        factors = [f"{int(f):,}" if f.isdigit() else f.replace("**", "^") for f in term.replace("**", "^").split("*")]
        terms.append(" · ".join(factors))
    return " + ".join(terms)


def constant_words(value: Constant) -> str:
    """A constant as code would write it, without needless digits."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else f"{value}"


def size_words(count: int) -> str:
    """Bytes in binary units."""
    value, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            break
        value /= 1024
    return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"


def lines_words(first: int, last: int) -> str:
    """`236–248`, or one number."""
    return f"{first}" if first == last else f"{first}–{last}"


def pin_words(pin: Pin) -> str:
    """`llama-models==0.3.0, sku_list.py 19, 231–248`, or with the repository and the first digits of its revision."""
    place = pin.place
    name = (
        f"{place.source}=={place.revision}" if place.kind == "wheel" else f"{place.source} @ {place.revision[:SHORT]}"
    )
    lines = ", ".join(lines_words(part.first, part.last) for part in pin.ranges)
    return f"{name}, {place.path.rpartition('/')[2]} {lines}"


def file_of(node_id: str) -> str:
    """The file of a node's page, which no link may need to quote: `block:out` is `block--out.html`."""
    if not node_id:
        return "index.html"
    name = f"model{node_id}" if node_id.startswith(":") else node_id
    return name.replace(":", "--") + ".html"


def region_words(region: Region, title: str) -> str:
    """`32 independent transformer blocks`: "independent" only where it was found that no two share a parameter."""
    words = [str(region.count)] if region.count > 1 else ["one"]
    if region.independent and region.count > 1:
        words.append("independent")
    words.append(title[:1].lower() + title[1:] + ("s" if region.count > 1 else ""))
    return " ".join(words)


def region_label(graph: Graph, node: Node) -> str | None:
    """The label of the region that a node is in."""
    if node.region is None:
        return None
    return region_words(node.region, graph.by_id[node.region.name].title)


def owner_of(node_id: str) -> str:
    """The op or container of a tensor, or the container of an op."""
    if ":" in node_id:
        return node_id.rpartition(":")[0]
    return node_id.rpartition(".")[0]
