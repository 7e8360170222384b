"""`oma diff A B`: two maps, node by node."""

import argparse

HELP = "compare the maps of two models"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `oma diff`."""
    parser.add_argument("left", metavar="A", help="a model of `oma list`")
    parser.add_argument("right", metavar="B", help="another model")
    parser.add_argument("--json", action="store_true", help="print the comparison as JSON")


def run(args: argparse.Namespace) -> int:
    """Print what is equal, resized, changed, and only on one side."""
    import sys

    from openmodelatlas import maps
    from openmodelatlas.records.compare import diff
    from openmodelatlas.records.json import dump_json

    def progress(text: str) -> None:
        print(text, file=sys.stderr)

    found = diff(maps.graph(args.left, progress=progress), maps.graph(args.right, progress=progress))
    if args.json:
        print(dump_json(found), end="")
    else:
        from openmodelatlas.cli.render_diff import render

        print(render(found))
    return 0
