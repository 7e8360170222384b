"""`oma show MODEL [NODE]`: the tree of a map, or one node of it."""

import argparse

from openmodelatlas.errors import UsageError

HELP = "show the map of a model, or one node of it"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `oma show`."""
    parser.add_argument("model", metavar="MODEL", help="a model of `oma list`")
    parser.add_argument("node", metavar="NODE", nargs="?", help="a node (block.attention_add) or tensor (block:out)")
    parser.add_argument("--json", action="store_true", help="print the whole map, or the one node, as JSON")
    parser.add_argument("--batch", type=int, metavar="N", help="print concrete shapes for a batch of N")
    parser.add_argument("--positions", type=int, metavar="N", help="print concrete shapes for N positions in the call")
    parser.add_argument("--slots", type=int, metavar="N", help="positions attended to (default: as many as positions)")


def sizes(args: argparse.Namespace) -> dict[str, int]:
    """B, T and S as asked for; empty when shapes are to stay symbolic."""
    for name in ("batch", "positions", "slots"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise UsageError(f"--{name} must be at least 1", found=value)
    if args.batch is None and args.positions is None and args.slots is None:
        return {}
    positions = args.positions or 1
    slots = args.slots or positions
    if slots < positions:
        raise UsageError("--slots must be at least --positions", expected=f"{positions} or more", found=slots)
    return {"B": args.batch or 1, "T": positions, "S": slots}


def run(args: argparse.Namespace) -> int:
    """Print a tree or a node."""
    import sys

    from openmodelatlas import maps
    from openmodelatlas.catalog import find
    from openmodelatlas.cli import render_map
    from openmodelatlas.records import ids
    from openmodelatlas.records.json import dump_json

    values = sizes(args)
    model = find.model(args.model)
    graph = maps.annotated(model.id, progress=lambda text: print(text, file=sys.stderr))
    if args.node is None:
        print(dump_json(graph) if args.json else render_map.tree(graph, model, values), end="" if args.json else "\n")
        return 0
    found = ids.resolve(graph, args.node)
    if args.json:
        print(dump_json(found.node), end="")
    else:
        print(render_map.node(graph, model, found, values))
    return 0
