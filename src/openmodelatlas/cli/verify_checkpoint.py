"""`oma verify` of a checkpoint: the options, the run, and the report in the form that was asked for."""

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openmodelatlas.records.report import Ledger, Report
    from openmodelatlas.verify.target import Target
    from openmodelatlas.verify.waivers import Waiver

FORMATS = ("text", "json", "github", "junit")
SUMMARY = "GITHUB_STEP_SUMMARY"
OPTIONS: Mapping[str, object] = {
    "values": False, "record": False, "against": None, "logits": False, "text": None,
    "html": None, "format": None, "waivers": None,
}  # fmt: skip
"""Options that are for checkpoints alone, as they are when they are not given."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options that are for checkpoints."""
    parser.add_argument(
        "--values", action="store_true", help="read every tensor of a checkpoint too, not its headers only"
    )
    parser.add_argument("--against", metavar="A", help="the checkpoint that this one was made of, to compare with")
    parser.add_argument("--logits", action="store_true", help="run both on a text, and compare the probabilities")
    parser.add_argument("--text", metavar="FILE", help="the text for --logits (default: a page that comes along)")
    parser.add_argument("--html", metavar="FILE", help="write the report as one page that stands alone")
    parser.add_argument("--format", choices=FORMATS, help="the form of what is printed (default: text)")
    parser.add_argument("--waivers", metavar="FILE", help="accepted findings (default: oma-waivers.toml here)")
    parser.add_argument("--record", action="store_true", help="keep a record of your checkpoint, for `oma site`")


def given(args: argparse.Namespace) -> list[str]:
    """The options for checkpoints that were given."""
    return [f"--{name}" for name, default in OPTIONS.items() if getattr(args, name) != default]


def run(args: argparse.Namespace) -> int:
    """0 if the checkpoint holds, 1 for findings, 2 for what is none; then the forms for machines say so too."""
    from openmodelatlas.cli.progress import Show
    from openmodelatlas.errors import CheckpointError, NotACheckpoint
    from openmodelatlas.maps import keep_own
    from openmodelatlas.verify.checkpoint import refused, verify
    from openmodelatlas.verify.target import resolve

    form, name = _form(args), args.target[0]
    waivers = _waivers(args.waivers)
    page = None if args.html is None else _page(Path(args.html))
    show = Show()
    try:
        target = resolve(name)
        original = None if args.against is None else resolve(args.against).path
        text = _text(args)
        _apart(target, page)
        _at_hand(target, args)
        before = _state(target, args.record)
        done = verify(
            target.path, target=name, checkpoint=target.checkpoint, values=args.values or args.record,
            against=original, logits=text, waivers=waivers, progress=show,
        )  # fmt: skip
    except NotACheckpoint as error:
        show.close()
        if form == "text" and page is None:
            raise
        _give(refused(name, error), None, form, page)
        if form == "text":
            raise
        return error.exit_code
    finally:
        show.close()
    _give(done.report, done.ledger, form, page)
    if before is not None:
        sys.stdout.flush()
        if done.report.waived:
            raise CheckpointError("not recorded, since a finding is waived", where=name)
        kept = keep_own(Path(target.path), done.report, before)
        print(f"recorded for {kept.model}, sha256 {kept.sha256}; the next oma site shows it", file=sys.stderr)
    return 0 if done.report.ok else 1


def _form(args: argparse.Namespace) -> str:
    from openmodelatlas.errors import UsageError

    if args.json and args.format not in (None, "json"):
        raise UsageError("--json and --format are two forms of one output", found=f"--format {args.format}")
    return "json" if args.json else args.format or "text"


def _text(args: argparse.Namespace) -> str | None:
    """The text that both checkpoints are run on, if they are."""
    from openmodelatlas.errors import UsageError
    from openmodelatlas.verify.against_logits import sample

    if args.against is None and (args.logits or args.text is not None):
        raise UsageError("--logits and --text compare two checkpoints", fix="name the other with --against")
    if args.text is None:
        return sample() if args.logits else None
    try:
        return Path(args.text).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UsageError("not UTF-8", where=args.text) from None


def _waivers(file: str | None) -> "tuple[Waiver, ...]":
    from openmodelatlas.verify import waivers

    return waivers.usual(Path()) if file is None else waivers.read(Path(file))


def _page(path: Path) -> Path:
    """Where the page is to stand; what cannot work is said before the checkpoint is read."""
    from openmodelatlas.errors import UsageError

    if path.is_dir():
        raise UsageError("--html names a folder", where=str(path), expected="a file to write")
    if not path.parent.is_dir():
        raise UsageError("no such folder for --html", where=str(path.parent))
    return path


def _apart(target: "Target", page: Path | None) -> None:
    """A report never takes the place of the checkpoint, or of a file of it."""
    from openmodelatlas.errors import UsageError

    place = Path(target.path)
    if page is not None and page.exists() and place.exists():
        home = page.resolve()
        inside = place.is_dir() and home.parent == place.resolve() and home.suffix != ".html"
        if home == place.resolve() or inside:
            raise UsageError("--html names a file of the checkpoint", where=str(page))


def _at_hand(target: "Target", args: argparse.Namespace) -> None:
    """Numbers are read only of what is here; of a repository headers are fetched."""
    from openmodelatlas.errors import UsageError
    from openmodelatlas.weights.open import HUB

    if str(target.path).startswith(HUB) and (args.values or args.against):
        option = "--values" if args.values else "--against"
        raise UsageError(f"{option} reads tensors, and of a repository only headers are fetched", where=args.target[0])


def _state(target: "Target", record: bool) -> os.stat_result | None:
    """The file's state before it is checked, for a record; only of one file is a record kept."""
    from openmodelatlas.errors import UsageError

    if not record:
        return None
    path = Path(target.path)
    if not path.is_file():
        raise UsageError("--record keeps checkpoints of one file", where=str(path))
    return path.stat()


def _give(report: "Report", ledger: "Ledger | None", form: str, page: Path | None) -> None:
    """Write the report, in its form to stdout and as a page."""
    from openmodelatlas.cli import render_report, render_report_ci
    from openmodelatlas.records.json import dump_json

    if page is not None:
        _write(page, report, ledger)
    if form == "json":
        sys.stdout.write(dump_json(report))
    elif form == "junit":
        sys.stdout.write(render_report_ci.junit(report))
    elif form == "github":
        print("\n".join(render_report_ci.github(report)))
        _summarise(report)
    elif report.format:  # what is no checkpoint is one line on stderr
        print("\n".join(render_report.lines(report)))


def _write(page: Path, report: "Report", ledger: "Ledger | None") -> None:
    from openmodelatlas.cli.render_report_html import page as rendered
    from openmodelatlas.errors import WriteError
    from openmodelatlas.fetch.cache import atomic

    try:
        with atomic(page) as file:
            file.write(rendered(report, ledger).encode("utf-8"))
    except OSError as error:
        raise WriteError("cannot write the report", where=str(page), found=error.strerror) from None
    print(f"report: {page}", file=sys.stderr)


def _summarise(report: "Report") -> None:
    """Add the report to the page of a workflow run, if this is one."""
    from openmodelatlas.cli.render_report_ci import summary

    if path := os.environ.get(SUMMARY):
        try:
            with open(path, "a", encoding="utf-8") as file:
                file.write(summary(report))
        except OSError as error:
            print(f"oma verify: no summary written: {error.strerror}: {path}", file=sys.stderr)
