"""Numbers, shapes, names of files: how the records are put into words."""

from openmodelatlas.records.graph import Constant, Graph, Node, Port, Region

AXES = {
    "B": "batch", "T": "positions", "S": "slots", "D": "d", "H": "heads", "K": "kv heads", "E": "e", "F": "f",
    "V": "v", "L": "blocks", "E/2": "e/2", "H*E": "h·e", "K*E": "kv·e", "1": "",
}  # fmt: skip
AXIS_MEANINGS = (
    ("B", "batch", "sequences that are computed side by side"),
    ("T", "positions", "positions of the sequence in this call"),
    ("S", "slots", "positions that can be attended to: the slots of the cache"),
    ("D", "d", "model width: features of the residual stream"),
    ("H", "heads", "query heads"),
    ("K", "kv heads", "key/value heads"),
    ("E", "e", "features of one head; half as many pairs turn together (e/2)"),
    ("F", "f", "feed-forward width"),
    ("V", "v", "vocabulary entries"),
    ("L", "blocks", "transformer blocks"),
)


def compact(count: int) -> str:
    """`8.03 B`, `16.8 M`, `525 K`, `4,096`: three digits, as many as fit in a box."""
    for unit, name in ((10**9, "B"), (10**6, "M")):
        if count >= unit:
            value = count / unit
            digits = 2 if value < 10 else 1 if value < 100 else 0
            return f"{value:.{digits}f} {name}"
    return f"{count:,}"


def axis_word(size: object, axis: str) -> str:
    """One axis as a page prints it: `B batch`, `4096 d`."""
    word = AXES.get(axis, axis.lower().replace("*", "·"))
    return f"{size} {word}".strip()


def shape_words(port: Port) -> str:
    """`[B batch, T positions, 4096 d]`."""
    axes = port.axes or ("",) * len(port.shape)
    return "[" + ", ".join(axis_word(s, a) for s, a in zip(port.shape, axes, strict=True)) + "]"


def dims(shape: tuple[int, ...], axes: tuple[str, ...]) -> str:
    """The shape of a stored parameter: `4096 d × 4096 h·e`."""
    named = axes or ("",) * len(shape)
    return " × ".join(axis_word(s, a) for s, a in zip(shape, named, strict=True))


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
