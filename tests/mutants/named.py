"""Mutants that people really write, from `named.toml`."""

import tomllib
from collections.abc import Iterator
from pathlib import Path

from .code import Mutant

ROWS = tomllib.loads((Path(__file__).parent / "named.toml").read_text())["mutant"]


def named(sources: dict[str, str]) -> Iterator[Mutant]:
    """Every row, made; an error if the text to be replaced is not in the source."""
    for row in ROWS:
        source, old = sources[row["target"]], row["old"]
        assert old in source, f"{row['what']}: the text is no longer in {row['target']}"
        line = source[: source.index(old)].count("\n") + 1
        made = source.replace(old, row["new"])
        yield Mutant(kind="definition", target=row["target"], line=line, what=row["what"], source=made)
