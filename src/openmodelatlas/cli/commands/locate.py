"""`oma locate MODEL --reference FILE`: the line of a reference that computes each node, found by running it."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from openmodelatlas.errors import UsageError

if TYPE_CHECKING:
    from openmodelatlas.trace.locate import Located, LocatedNode

HELP = "find the line of a reference file that computes each node, by running both"
MOST_TEXT = 72


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("model", metavar="MODEL", help="a model of `oma list`")
    parser.add_argument(
        "--reference",
        type=Path,
        metavar="FILE",
        help="a Python file with a PyTorch model of the family; it is executed, in a process of its own",
    )
    parser.add_argument("--json", action="store_true", help="print everything that was found as JSON")


def run(args: argparse.Namespace) -> int:
    """0 if every node was found, 1 if some were not."""
    from openmodelatlas import models
    from openmodelatlas.catalog import find
    from openmodelatlas.records.json import dump_json
    from openmodelatlas.trace.locate import locate

    if args.reference is None:
        raise UsageError("--reference is missing", expected="a Python file with a PyTorch model of the family")
    model = find.model(args.model)
    found = locate(models.find(model.variant), args.reference)
    if args.json:
        print(dump_json(found), end="")
    else:
        _print(found, args.reference.read_text(encoding="utf-8", errors="replace").split("\n"))
    return 1 if found.missing else 0


def _print(found: "Located", text: list[str]) -> None:
    names = max(len(_name(name)) for name in (*(n.node for n in found.nodes), *found.missing))
    for node in found.nodes:
        for i, line in enumerate(node.lines):
            name = _name(node.node) if i == 0 else ""
            print(f"{name:<{names}}  {line:>5}  {_shorten(text[line - 1])}")
    for name in found.missing:
        print(f"{_name(name):<{names}}  not found: no line has its value")
    unsure = [n for n in found.nodes if n.others]
    if unsure:
        print("\nthe same value stands at further lines, ruled out by the order of calls:")
        for node in unsure:
            print(f"  {_name(node.node)}: {', '.join(map(str, node.others))}")
    print(f"\n{found.found} of {found.instances} nodes located, every block's own counted; {_measured(found)}")
    for shim in found.shims:
        print(f"stand-in: {shim}")


def _name(node: str) -> str:
    return node or "(the model)"


def _shorten(line: str) -> str:
    line = line.strip()
    return line if len(line) <= MOST_TEXT else line[: MOST_TEXT - 1] + "…"


def _measured(found: "Located") -> str:
    worst: LocatedNode = max(found.nodes, key=lambda n: n.distance)
    return f"largest difference {worst.distance:.1e} at {_name(worst.node)}, logits {found.logits:.1e}"
