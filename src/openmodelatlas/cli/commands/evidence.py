"""`oma evidence`: look up the lines that a model's claims are pinned to."""

import argparse
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openmodelatlas.records.catalog import Model
    from openmodelatlas.records.evidence import PinReport

    Reports = Mapping[str, tuple[PinReport, ...]]

HELP = "look up the lines that a model's claims are pinned to, and compare them"


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("model", help="model id, such as llama-3.1-8b; a release id means its default size")
    parser.add_argument("--mirror", type=Path, metavar="DIR", help="a git clone, or a folder of clones, to read from")
    parser.add_argument("--offline", action="store_true", help="do not use the network")
    parser.add_argument("--json", action="store_true", help="print everything that was found, text included, as JSON")


def run(args: argparse.Namespace) -> int:
    """1 if any pinned text has changed, else 0."""
    from openmodelatlas.catalog import find
    from openmodelatlas.cli.progress import Show
    from openmodelatlas.evidence.resolve import resolve

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
