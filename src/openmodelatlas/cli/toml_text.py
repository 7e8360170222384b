"""Values, and pinned ranges of lines, as TOML text."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from openmodelatlas.evidence.excerpts import excerpt_hash


def value(of: Any) -> str:
    """A value of a parsed JSON or TOML file in one line; a null has none, and is left out of a table."""
    if isinstance(of, bool):
        return "true" if of else "false"
    if isinstance(of, Mapping):
        inner = ", ".join(f"{key(name)} = {value(v)}" for name, v in of.items() if v is not None)
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(of, (list, tuple)):
        return f"[{', '.join(value(v) for v in of if v is not None)}]"
    return json.dumps(of, ensure_ascii=False) if isinstance(of, str) else repr(of)


def key(name: str) -> str:
    """A key, quoted where it must be."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)


def range_row(lines: Sequence[str], first: int, last: int) -> str:
    """A range of a file's lines as a claim pins it."""
    return f'    [{first}, {last}, "{excerpt_hash(lines[first - 1 : last])}"],'
