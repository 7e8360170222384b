"""Node and tensor ids as people write them, resolved to the ids of a graph."""

import difflib
import re
from dataclasses import dataclass

from openmodelatlas.errors import UnknownName
from openmodelatlas.records.graph import Graph, Node

_BLOCK = re.compile(r"^blocks\.(\d+)(?=[.:]|$)")


@dataclass(frozen=True)
class Resolved:
    """What a name means: the node, the block index it named (`blocks.3...`), the alias it was written as."""

    node: Node
    index: int | None
    alias: str | None


def resolve(graph: Graph, name: str) -> Resolved:
    """The node or tensor of that id. Accepts a block's own path (`blocks.3.attention_add`) and any port that carries a
    tensor (`block.ffn_add:out` is `block:out`). UnknownName lists the nearest ids."""
    wanted, index = name.strip(), None
    if match := _BLOCK.match(wanted):
        index = int(match[1])
        region = next((r for r in graph.regions if index in r.indices), None)
        if region is None:
            last = max(i for r in graph.regions for i in r.indices)
            raise UnknownName("no such block", where=repr(name), expected=f"0 to {last}", found=index)
        wanted = region.name + wanted[match.end() :]
    if wanted in graph.by_id:
        return Resolved(graph.by_id[wanted], index, None)
    if wanted in graph.aliases:
        return Resolved(graph.by_id[graph.aliases[wanted]], index, wanted)
    known = list(dict.fromkeys([*graph.by_id, *graph.aliases]))
    near = difflib.get_close_matches(wanted, known, n=3, cutoff=0.5) or [k for k in known if wanted and wanted in k][:3]
    listed = f"nearest: {', '.join(near)}" if near else f"`oma show {graph.model}` lists them"
    raise UnknownName(f"{graph.model} has no such node", where=repr(name), fix=listed)
