"""Records of verification runs, as `verify` has left them beside this module: `records/MODEL/CHECK.json`.

Reading them needs no torch. Only `verify` writes them.
"""

import json
from functools import cache
from importlib.resources import files
from typing import Any

from openmodelatlas.errors import CatalogError
from openmodelatlas.records.json import from_json, to_json
from openmodelatlas.records.verification import VerificationRecord

FOLDER = "records"


@cache
def records() -> tuple[VerificationRecord, ...]:
    """Every record, by model and check. CatalogError for a file that is none, or stands in another's place."""
    found = []
    root = files("openmodelatlas.catalog") / FOLDER
    if root.is_dir():
        for folder in sorted(root.iterdir(), key=lambda entry: entry.name):
            for file in sorted(folder.iterdir(), key=lambda entry: entry.name) if folder.is_dir() else ():
                if file.name.endswith(".json"):
                    found.append(_read(file, f"{folder.name}/{file.name}"))
    return tuple(found)


def of(model: str) -> tuple[VerificationRecord, ...]:
    """A model's records, by check."""
    return tuple(record for record in records() if record.model == model)


def place(record: VerificationRecord) -> str:
    """Where a record stands, below the folder of records."""
    return f"{record.model}/{record.check}.json"


def text(record: VerificationRecord) -> str:
    """The one byte form of a record: as other records, but with each measurement on a line of its own."""
    data = to_json(record)
    rows = data.pop("measurements")
    lines = [json.dumps(row, ensure_ascii=False, allow_nan=False) for row in rows]
    data["measurements"] = "@"
    whole = json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False)
    listed = "[\n    " + ",\n    ".join(lines) + "\n  ]" if lines else "[]"
    return whole.replace('"measurements": "@"', f'"measurements": {listed}') + "\n"


def _read(file: Any, name: str) -> VerificationRecord:
    where = f"catalog/{FOLDER}/{name}"
    try:
        record: VerificationRecord = from_json(VerificationRecord, json.loads(file.read_text(encoding="utf-8")))
    except (ValueError, TypeError, AttributeError) as error:
        raise CatalogError("not a record of a verification", where=where, found=error) from None
    if place(record) != name:
        raise CatalogError("a record in another's place", where=where, found=place(record))
    return record
