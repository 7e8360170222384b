"""`oma site`: build the pages of every model."""

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openmodelatlas.records.report import CheckpointRecord
    from openmodelatlas.site.inputs import ModelPage

PROMPT = "The capital of France is"
HELP = "build the pages of every model, to open from disk or with `oma serve`"


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--out", type=Path, default=Path("build/site"), help="where to (default: build/site)")
    parser.add_argument("--mirror", type=Path, metavar="DIR", help="a git clone, or a folder of clones, to read from")
    parser.add_argument("--offline", action="store_true", help="do not use the network")


def run(args: argparse.Namespace) -> int:
    """Build, then say what there is and which page to open."""
    from openmodelatlas.site import assets
    from openmodelatlas.site.build import build, may_replace
    from openmodelatlas.site.checkpoint import verdict

    started = time.monotonic()
    assets.need()  # both before minutes of work
    may_replace(args.out)
    models = gather(mirror=args.mirror, offline=args.offline)
    records = checkpoint_records()
    made = build(models, records, args.out, say)
    states = ", ".join(f"{count} {state}" for state, count in made.claims.items())
    print(f"models {made.models}, nodes {made.nodes:,}, pages {made.pages:,}")
    print(f"claims {states}")
    print(f"excerpts {made.excerpts[0]} of {made.excerpts[1]}")
    for record in records:
        print(f"{record.title}: {verdict(record.report)}")
        print(f"  {' '.join(f'{record.prompt} {record.completion}'.split())}")
    done = "built" if made.written else "unchanged"
    print(f"{done} in {time.monotonic() - started:.0f} s; open {made.first}")
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
        graph = maps.annotated(model.id, mirror=mirror, offline=offline, progress=say)
        release = find.release(model.release)
        runs, stale = maps.runs(model)
        provenance = find.provenance(model)
        own, own_stale = maps.own_records(model, progress=say)
        pages.append(
            ModelPage(
                release=release,
                model=model,
                provenance=provenance,
                graph=graph,
                runs=runs,
                stale=stale,
                own=own,
                own_stale=own_stale,
            )
        )
    return pages


def checkpoint_records() -> "list[CheckpointRecord]":
    """A record of each known checkpoint that has been pulled, with the values that one fixed prompt gives."""
    from openmodelatlas import maps
    from openmodelatlas.catalog import checkpoints
    from openmodelatlas.fetch import checkpoints as pulled

    found = [entry for entry in checkpoints.checkpoints().values() if pulled.present(entry)]
    if not found:
        say("no checkpoint is here (oma pull fetches one): its pages are left out")
        return []
    return [maps.checkpoint_record(entry, PROMPT, progress=say) for entry in found]
