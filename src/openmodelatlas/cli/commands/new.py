"""`oma new FAMILY`: make a family's files after a sibling's; then say what is missing, until nothing is."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from openmodelatlas.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openmodelatlas.verify.missing import Checkout, Item

HELP = "start a new family of models, or say what is still missing of one"
INDENT = " " * 9
MOST = 12
"""Lines shown of one item; more are seldom of use before the first are done."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("family", metavar="FAMILY", help="the family's name: a lower-case Python name")
    parser.add_argument("--like", metavar="OTHER", help="make its files after those of this family")
    parser.add_argument("--config", type=Path, metavar="FILE", help="the config.json of its first model, as published")
    parser.add_argument("--model", metavar="ID", help="the id of its first model (default: family and size)")
    parser.add_argument("--release", metavar="ID", help="the id of its release (default: the model's without its size)")
    parser.add_argument("--source", metavar="TEXT", help="whose config.json it is, and at which revision")
    parser.add_argument("--fill", action="store_true", help="write what a run can tell: page rows, points, pins")
    parser.add_argument("--all", action="store_true", help="print everything that is missing of each item")


def run(args: argparse.Namespace) -> int:
    """After making files 0; else 1 while something is missing, 0 when nothing is."""
    from openmodelatlas.cli import scaffold

    tree = scaffold.checkout()
    if args.like is not None:
        if args.config is None:
            raise UsageError("--like needs --config", expected="the published config.json of the first model")
        start = scaffold.start(
            args.family, args.like, args.config, model=args.model, release=args.release, source=args.source
        )
        made = scaffold.plan(start, tree)
        scaffold.write(made)
        for path in made:
            print(f"wrote  {tree.shown(path)}")
        print()
        _list(args.family, tree, args.all)
        return 0
    if any((args.config, args.model, args.release, args.source)):
        raise UsageError("--config, --model, --release and --source go with --like", where=args.family)
    scaffold.known(args.family, tree)
    if args.fill:
        _fill(args.family, tree)
    return 0 if _list(args.family, tree, args.all) else 1


def _fill(family: str, tree: "Checkout") -> None:
    """Print what was written, and what could not be."""
    from openmodelatlas.cli.scaffold_fill import fill

    for what in fill(family, tree, _say):
        print(what)
    print()


def _say(what: str, *_: int) -> None:
    print(what, file=sys.stderr, flush=True)


def _list(family: str, tree: "Checkout", everything: bool) -> bool:
    """Print the list; whether nothing is missing."""
    from openmodelatlas.verify.missing import Subject, items
    from openmodelatlas.verify.missing_steps import STEPS

    subject = Subject(family, tree, _say)
    found: list[Item] = []
    for item in items(subject, STEPS):
        found.append(item)
        print("\n".join(_lines(item, everything)), flush=True)
    done = sum(item.state == "done" for item in found)
    print(f"\n{family}: {done} of {len(found)} done{_next(found)}")
    return done == len(found)


def _lines(item: "Item", everything: bool) -> list[str]:
    notes = {"waits": f"for {item.note}", "done": item.note, "to do": f"{len(item.left)} left"}
    note = notes[item.state]
    made = [f"{item.state:<5}  {item.name:<12}  {item.title}" + (f": {note}" if note else "")]
    said: dict[str, list[str]] = {}
    for todo in item.left:
        said.setdefault(todo.what, []).append(todo.where)
    rows = [f"{INDENT}{', '.join(where)}: {what}" for what, where in said.items()]
    shown = rows if everything else rows[:MOST]
    made += shown
    if len(shown) < len(rows):
        made.append(f"{INDENT}and {len(rows) - len(shown)} more lines (--all shows them)")
    return made + ([f"{INDENT}({item.how})"] if item.how else [])


def _next(found: "Sequence[Item]") -> str:
    first = next((item for item in found if item.state == "to do"), None)
    return "" if first is None else f"; next: {first.name}"
