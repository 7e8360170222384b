"""`oma verify`: hold a checkpoint against the atlas."""

import argparse
import sys

HELP = "check a checkpoint: tensors, settings, tokenizer, bytes"
MOST_FINDINGS = 25


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("checkpoint", metavar="PATH|NAME", help="a .gguf file, or a checkpoint that `oma pull` fetched")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(args: argparse.Namespace) -> int:
    """0 if every check holds, 1 if there are findings, 2 for what is no checkpoint."""
    from openmodelatlas.cli.progress import Show
    from openmodelatlas.records.json import dump_json
    from openmodelatlas.records.report import Report
    from openmodelatlas.verify.checkpoint import verify
    from openmodelatlas.verify.target import resolve

    target = resolve(args.checkpoint)
    show = Show()
    try:
        done = verify(target.path, target=args.checkpoint, checkpoint=target.checkpoint, progress=show)
    finally:
        show.close()
    report: Report = done.report
    if args.json:
        sys.stdout.write(dump_json(report))
        return 0 if report.ok else 1
    for check in report.checks:
        print(f"{'ok  ' if check.ok else 'FAIL'}  {check.name:<10}  {check.detail}")
    for finding in report.findings[:MOST_FINDINGS]:
        print(f"      {finding.check}: {finding.where}: expected {finding.expected}; found {finding.found}")
    if len(report.findings) > MOST_FINDINGS:
        print(f"      and {len(report.findings) - MOST_FINDINGS} more (--json lists all)")
    outcome = f"is {report.model}" if report.ok else f"does not hold: {len(report.findings)} findings"
    print(f"{args.checkpoint} {outcome}")
    return 0 if report.ok else 1
