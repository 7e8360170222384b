"""`oma evidence`: look up the lines that a model's claims are pinned to; or hash lines, to pin a claim to them."""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from openmodelatlas.errors import UsageError

if TYPE_CHECKING:
    from openmodelatlas.records.catalog import Model
    from openmodelatlas.records.evidence import PinReport

    Reports = Mapping[str, tuple[PinReport, ...]]

HELP = "look up the lines that a model's claims are pinned to, and compare them; or hash lines of a file, to pin them"


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument(
        "model", nargs="?", metavar="MODEL", help="model id, such as llama-3.1-8b; a release id means its default size"
    )
    parser.add_argument("--mirror", type=Path, metavar="DIR", help="a git clone, or a folder of clones, to read from")
    parser.add_argument("--offline", action="store_true", help="do not use the network")
    parser.add_argument("--json", action="store_true", help="print everything that was found, text included, as JSON")
    parser.add_argument(
        "--hash",
        nargs="+",
        metavar=("FILE", "FIRST-LAST"),
        help="print these lines of a file as a claim pins them, and the text itself on stderr",
    )


def run(args: argparse.Namespace) -> int:
    """1 if any pinned text has changed, else 0."""
    from openmodelatlas.catalog import find
    from openmodelatlas.cli.progress import Show
    from openmodelatlas.evidence.resolve import resolve

    if args.hash is not None:
        return _hash(args)
    if args.model is None:
        raise UsageError("no model given", expected="a model of `oma list`, or --hash FILE FIRST-LAST")
    model = find.model(args.model)
    show = Show()
    try:
        reports = resolve(find.shown(model), mirror=args.mirror, offline=args.offline, progress=show)
    finally:
        show.close()
    statuses: Counter[str] = Counter(report.status for rows in reports.values() for report in rows)
    if args.json:
        _print_json(model, reports, statuses)
    else:
        _print_table(model, reports, statuses)
    return 1 if statuses["CHANGED"] else 0


def _hash(args: argparse.Namespace) -> int:
    """Rows for `lines = [...]` of a claim."""
    from openmodelatlas.cli.toml_text import range_row
    from openmodelatlas.evidence.excerpts import lines_of

    name, *asked = args.hash
    if args.model is not None or not asked:
        raise UsageError("--hash takes a file and ranges of lines, and no model", found=args.model or name)
    try:
        lines = lines_of(_path(name).read_bytes())
    except OSError as error:
        raise UsageError("not a readable file", where=name, found=error.strerror) from None
    rows = []
    for text in asked:
        first, last = _range(text, len(lines))
        rows.append(range_row(lines, first, last))
        print("\n".join(f"{number:>5}  {lines[number - 1]}" for number in range(first, last + 1)), file=sys.stderr)
    print("\n".join(rows))
    return 0


def _path(name: str) -> Path:
    """A file as it is named, or inside an installed package (`transformers/masking_utils.py`)."""
    package = name.partition("/")[0]
    if Path(name).exists() or not package.isidentifier():
        return Path(name)
    spec = find_spec(package)
    return Path(name) if spec is None or spec.origin is None else Path(spec.origin).parent.parent / name


def _range(text: str, end: int) -> tuple[int, int]:
    """`5-9`, or `5` alone."""
    found = re.fullmatch(r"(\d+)(?:[-–](\d+))?", text)
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if not 1 <= first <= last <= end:
        raise UsageError("not lines of the file", found=text, expected=f"FIRST-LAST between 1 and {end}")
    return first, last


def _print_json(model: "Model", reports: "Reports", statuses: Counter[str]) -> None:
    from openmodelatlas.records.json import dump_json

    excerpts = {"found": statuses["same"] + statuses["moved"], "of": statuses.total()}
    print(dump_json({"model": model.id, "excerpts": excerpts, "claims": reports}), end="")


def _print_table(model: "Model", reports: "Reports", statuses: Counter[str]) -> None:
    print(f"{model.title}: {len(reports)} claims, {statuses.total()} pins\n")
    rows = [("claim", "place", "lines", "state", "via")]
    details: dict[str, list[str]] = {}
    for claim, found in reports.items():
        for index, report in enumerate(found):
            rows.append((claim if index == 0 else "", _place(report), _lines(report), _state(report), report.via or ""))
            if report.status == "CHANGED" or report.status == "not available":
                details.setdefault(f"{_place(report)}: {report.detail}", []).append(claim)
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    print()
    for detail in details:
        print(detail)
    counts = ", ".join(f"{count} {status}" for status, count in sorted(statuses.items(), key=lambda item: -item[1]))
    print(f"excerpts {statuses['same'] + statuses['moved']} of {statuses.total()} ({counts})")


def _place(report: "PinReport") -> str:
    place = report.pin.place
    if place.kind == "wheel":
        return f"{place.source}=={place.revision} {place.path}"
    return f"{place.source} @ {place.revision[:12]} {place.path}"


def _lines(report: "PinReport") -> str:
    return ", ".join(
        f"{part.first}–{part.last}" if part.last > part.first else f"{part.first}" for part in report.pin.ranges
    )


def _state(report: "PinReport") -> str:
    if report.status == "moved":
        return "moved to " + ", ".join(f"{first}–{last}" for first, last in report.found)
    if report.status == "same" and not report.pin.same_text:
        return "same (says it in other text)"
    return report.status
