"""`oma site`: build the pages of every model."""

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openmodelatlas.records.report import CheckpointRecord
    from openmodelatlas.site.inputs import ModelPage

HELP = "build the pages of every model, to open from disk or with `oma serve`"


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--out", type=Path, default=Path("build/site"), help="where to (default: build/site)")
    parser.add_argument("--mirror", type=Path, metavar="DIR", help="a git clone, or a folder of clones, to read from")
    parser.add_argument("--offline", action="store_true", help="do not use the network")


def run(args: argparse.Namespace) -> int:
    """Build, then say what there is and which page to open."""
    from openmodelatlas.site import assets
    from openmodelatlas.site.build import build

    started = time.monotonic()
    assets.need()  # before minutes of work
    models = gather(mirror=args.mirror, offline=args.offline)
    records = checkpoint_records()
    made = build(models, records, args.out, say)
    states = ", ".join(f"{count} {state}" for state, count in made.claims.items())
    print(f"models {made.models}, nodes {made.nodes:,}, pages {made.pages:,}")
    print(f"claims {states}")
    print(f"excerpts {made.excerpts[0]} of {made.excerpts[1]}")
    for record in records:
        print(f"{record.title}: {verdict(record)}")
        print(f"  {record.prompt} → {' '.join(record.completion.split())}")
    print(f"built in {time.monotonic() - started:.0f} s; open {made.first}")
    return 0


def say(step: str) -> None:
    """One step of the work, on stderr."""
    print(step, file=sys.stderr, flush=True)


def gather(*, mirror: Path | None, offline: bool) -> "list[ModelPage]":
    """Every model of the catalogue with its annotated map."""
    from openmodelatlas import maps
    from openmodelatlas.catalog import find
    from openmodelatlas.site.inputs import ModelPage

    pages = []
    for model in find.models():
        say(f"map of {model.title}")
        graph = maps.annotated(model.id, mirror=mirror, offline=offline, progress=say)
        pages.append(
            ModelPage(
                release=find.release(model.release), model=model, provenance=find.provenance(model), graph=graph
            )
        )
    return pages


def checkpoint_records() -> "list[CheckpointRecord]":
    """A record of each known checkpoint that has been pulled."""
    return []


def verdict(record: "CheckpointRecord") -> str:
    """`9 checks hold`, or which do not."""
    failed = [check.name for check in record.report.checks if not check.ok]
    if failed:
        return f"{len(failed)} of {len(record.report.checks)} checks fail: {', '.join(failed)}"
    return f"all {len(record.report.checks)} checks hold"
