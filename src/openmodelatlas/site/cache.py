"""What the keys and values of a model take, from its map: the part that grows with every position, and the part that a
window caps. Nothing here goes by names: a block's cache is what it writes, its window a number of the mask it reads."""

from dataclasses import dataclass

from openmodelatlas.records.graph import Graph, Node, Region
from openmodelatlas.site.schedule import short_title

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "int64": 8}
WINDOW = "window"
"""The number of a mask that lets a position see so many and no more."""


@dataclass(frozen=True)
class Part:
    """The cache of one kind of block: how many blocks, bytes for a position in each, and the positions that are enough
    to keep, if not all are needed."""

    name: str
    blocks: int
    each: int
    window: int | None

    @property
    def bytes(self) -> int:
        """For a position in all of its blocks."""
        return self.blocks * self.each


def parts(graph: Graph) -> tuple[Part, ...]:
    """One for each kind of block."""
    return tuple(
        Part(short_title(graph, region), region.count, _bytes(graph.by_id[region.name]), window(graph, region))
        for region in graph.regions
    )


def window(graph: Graph, region: Region) -> int | None:
    """The number of positions that a kind of block sees, if what it reads from outside has such a number."""
    for port in graph.by_id[region.name].inputs:
        maker = graph.by_id.get(port.tensor.rpartition(":")[0])
        found = maker.constants.get(WINDOW) if maker else None
        if isinstance(found, int):
            return found
    return None


def _bytes(region: Node) -> int:
    """Of what the blocks write, the bytes of one position of one sequence."""
    total = 0
    for port in region.inputs:
        if port.written:
            elements = 1
            for size in port.shape:
                elements *= size if isinstance(size, int) else 1
            total += elements * BYTES[port.dtype]
    return total


def growing(graph: Graph) -> int:
    """Bytes that one more position adds to the cache for good, over all blocks."""
    return sum(part.bytes for part in parts(graph) if part.window is None)


def capped(graph: Graph) -> int:
    """Bytes beyond which the cache of the blocks with a window need not grow."""
    return sum(part.bytes * part.window for part in parts(graph) if part.window is not None)


def growing_words(graph: Graph) -> str:
    """How the growing part comes about."""
    found = [part for part in parts(graph) if part.window is None]
    whole = len(found) == len(parts(graph))
    of = "all blocks" if whole else " and ".join(f"{p.blocks} {p.name} blocks" for p in found)
    each = f"{growing(graph):,} bytes for each position"
    return f"keys and values of {of} in {graph.dtype}: {each}, growing without a cap"


def capped_words(graph: Graph) -> str:
    """How the capped part comes about."""
    found = [part for part in parts(graph) if part.window is not None]
    each = " + ".join(f"{p.blocks} {p.name} blocks × {p.window:,} positions × {p.each:,} bytes" for p in found)
    return (
        f"{each} = {capped(graph):,} bytes for a sequence, and no more: older keys and values are out of the window's "
        "reach. A cache that keeps them all the same, as this package's does, grows there, too, by "
        f"{sum(part.bytes for part in found):,} bytes for each position"
    )
