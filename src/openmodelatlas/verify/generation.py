"""`generation_config.json` held against `config.json`: every key in a column, the same tokens to begin and end."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from openmodelatlas.errors import NotACheckpoint
from openmodelatlas.records.findings import finding
from openmodelatlas.records.report import Finding
from openmodelatlas.records.shown import shown
from openmodelatlas.records.strict_json import parse
from openmodelatlas.weights.naming import generation_columns
from openmodelatlas.weights.opened import Opened
from openmodelatlas.weights.settings import printable

FILE = "generation_config.json"


def generation_findings(opened: Opened) -> list[Finding]:
    """Nothing where there is no such file."""
    if FILE not in opened.beside:
        return []
    try:
        content = parse(opened.beside[FILE], FILE)
    except NotACheckpoint:
        content = None
    if not isinstance(content, dict):
        return [finding("configuration.generation-unreadable", FILE, expected="an object", found="none")]
    columns, settings = generation_columns(), opened.header.metadata
    found = []
    for key, value in content.items():
        where = f"{FILE}: {shown(key)}"
        if key in columns["read"]:
            found += _against(where, columns["read"][key], value, settings)
        elif not any(fnmatchcase(key, pattern) for pattern in columns["ignored"]):
            expected = "a key that a table accounts for"
            found.append(
                finding("configuration.generation-unaccounted", where, expected=expected, found=printable(value))
            )
    return found


def _against(where: str, key: str, value: Any, settings: Mapping[str, Any]) -> list[Finding]:
    """The ids of a token in both files. One that only one of them names contradicts nothing, nor does a file that names
    more of them than the other: published models state one end in one file, and every end in the other."""
    stated = settings.get(key)
    if stated is None or value is None or _ids(stated) <= _ids(value) or _ids(value) <= _ids(stated):
        return []
    expected = f"{printable(stated)} as config.json says"
    return [finding("configuration.generation", where, expected=expected, found=printable(value))]


def _ids(value: Any) -> set[str]:
    """One id, or several in any order."""
    return set(map(repr, value if isinstance(value, list) else [value]))
