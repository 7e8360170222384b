"""Write the JSON schemas of the records that commands print: `python -m openmodelatlas.records.publish docs/schema`."""

import json
import sys
from pathlib import Path

from openmodelatlas.errors import UsageError
from openmodelatlas.records.diff import GraphDiff
from openmodelatlas.records.graph import Graph
from openmodelatlas.records.json import schema
from openmodelatlas.records.report import CheckpointRecord, Report
from openmodelatlas.records.verification import VerificationRecord

PUBLISHED = {
    "graph": (Graph, "The map of one model"),
    "report": (Report, "The outcome of `oma verify`"),
    "diff": (GraphDiff, "The comparison of two maps"),
    "verification": (VerificationRecord, "What one check of one model found"),
    "checkpoint": (CheckpointRecord, "A checkpoint, accounted for and run once"),
}
"""By file name: the record, and the schema's title."""


def published() -> dict[str, str]:
    """Every schema by file name, in its one byte form."""
    return {
        f"{name}.schema.json": json.dumps(schema(kind, title=title), indent=2, ensure_ascii=False) + "\n"
        for name, (kind, title) in PUBLISHED.items()
    }


def main(arguments: list[str]) -> int:
    """Write them into one folder, which is made if needed."""
    if len(arguments) != 1:
        raise UsageError("one folder is needed", fix="python -m openmodelatlas.records.publish docs/schema")
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in published().items():
        (folder / name).write_text(text, encoding="utf-8")
        print(folder / name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
