"""`oma verify`: hold a checkpoint against the atlas, or run every check of a model."""

import argparse
import sys
import time
from typing import TYPE_CHECKING

from openmodelatlas.cli import verify_checkpoint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openmodelatlas.records.catalog import Model
    from openmodelatlas.records.verification import VerificationRecord

HELP = "check a checkpoint, or run the checks of a model beside its references"


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument(
        "target",
        nargs="*",
        metavar="TARGET",
        help="a folder or file of a checkpoint, `hf:ORG/NAME[@REVISION]`, or one that `oma pull` fetched; or models, "
        "whose definitions are checked",
    )
    parser.add_argument("--all", action="store_true", help="run the checks of every model")
    parser.add_argument("--jobs", type=int, metavar="N", help="families checked at once by --all (default: one a core)")
    parser.add_argument("--list", action="store_true", help="list which check applies to which model, and why not")
    parser.add_argument("--check", action="append", default=[], metavar="CHECK", help="only this check of the model")
    parser.add_argument("--write", action="store_true", help="keep the records of a model's checks in the catalogue")
    verify_checkpoint.arguments(parser)
    parser.add_argument("--json", action="store_true", help="print the report, or the records, as JSON")


def run(args: argparse.Namespace) -> int:
    """0 if every check holds, 1 if one does not or cannot run, 2 for what is neither checkpoint nor model."""
    from openmodelatlas.catalog import find
    from openmodelatlas.errors import UsageError
    from openmodelatlas.verify.target import model_of

    options = verify_checkpoint.given(args)
    if args.list:
        if options:
            raise UsageError(f"{options[0]} is for checkpoints", where="--list")
        return _list(args.json)
    if args.all:
        if args.target or options:
            raise UsageError(
                "--all takes no target and no options of checkpoints", found=" ".join([*args.target, *options])
            )
        return _every(find.models(), args)
    if args.jobs is not None:
        raise UsageError("--jobs is for --all")
    if not args.target:
        raise UsageError("nothing to verify", fix="give a folder or file of a checkpoint, models, --all or --list")
    models = [model_of(target) for target in args.target]
    known = [model for model in models if model is not None]
    if len(known) == len(models):
        if options:
            fix = "give a folder or a file; --write keeps a model's" if args.record else "give a folder or a file"
            raise UsageError(f"{options[0]} is for checkpoints", where=known[0].id, fix=fix)
        return _models(known, args)
    if len(args.target) > 1:
        other = args.target[models.index(None)]
        raise UsageError("only models are verified together", where=other, fix="give one checkpoint at a time")
    if args.check or args.write:
        raise UsageError("--check and --write are for models", where=args.target[0])
    return verify_checkpoint.run(args)


def _list(as_json: bool) -> int:
    import json

    from openmodelatlas.cli.render_verify import matrix as lines
    from openmodelatlas.verify.model import matrix

    table = matrix()
    print(json.dumps(table, indent=2, ensure_ascii=False) if as_json else "\n".join(lines(table)))
    return 0


def _every(models: "Sequence[Model]", args: argparse.Namespace) -> int:
    """Every model, families side by side."""
    from openmodelatlas.cli import several
    from openmodelatlas.errors import UsageError
    from openmodelatlas.records.json import dump_json

    jobs = several.usual_jobs() if args.jobs is None else args.jobs
    if jobs < 1:
        raise UsageError("--jobs must be at least 1", found=jobs)
    if jobs == 1:
        return _models(models, args)
    options = [f"--check={name}" for name in args.check]
    options += [f"--{name}" for name in ("write", "json") if getattr(args, name)]
    found = []
    for share in several.run(models, jobs, options):
        found.append(share)
        if not args.json:
            print(share.out, end="", flush=True)
    if args.json:
        sys.stdout.write(dump_json(several.joined(found)))
    return max(share.code for share in found)


def _models(models: "Sequence[Model]", args: argparse.Namespace) -> int:
    from openmodelatlas.records.json import dump_json
    from openmodelatlas.verify.model import check

    for name in args.check:
        check(name)
    found: list[VerificationRecord] = []
    holds = [_model(model, args, found) for model in models]
    if args.json:
        sys.stdout.write(dump_json(found))
    return 0 if all(holds) else 1


def _model(model: "Model", args: argparse.Namespace, found: "list[VerificationRecord]") -> bool:
    """Run a model's checks and add their records; whether all of them could be run and passed."""
    from openmodelatlas.catalog.records import of, place
    from openmodelatlas.cli.render_verify import kept_words, rows
    from openmodelatlas.verify.model import run, stale, write

    passed, failed, left = 0, 0, 0
    print(f"checking {model.id}; references run in processes of their own", file=sys.stderr, flush=True)
    started = time.monotonic()
    for ran in run(model, args.check):
        seconds, started = time.monotonic() - started, time.monotonic()
        kept = next((record for record in of(model.id) if record.check == ran.check), None)
        aged = stale(kept) if kept is not None and ran.error is not None else ()
        if not args.json:
            print("\n".join(rows(ran, seconds, kept, aged)), flush=True)
        left += ran.error is not None
        if ran.record is not None:
            found.append(ran.record)
            passed += ran.record.outcome == "passed"
            failed += ran.record.outcome == "failed"
            if args.write:
                write(ran.record)
                print(f"kept {place(ran.record)}", file=sys.stderr, flush=True)
        elif ran.error is not None and args.json:
            print(f"oma verify: {ran.check} was not run: {ran.error}", file=sys.stderr)
            print(f"  {kept_words(kept, aged)}", file=sys.stderr)
    if not args.json:
        print(f"{model.id}: {passed} passed, {failed} failed, {left} not run")
    return not failed and not left
