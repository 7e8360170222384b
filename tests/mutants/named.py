"""Mutants that people really write, from `named.toml`."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

from .code import Mutant

ROWS = tomllib.loads((Path(__file__).parent / "named.toml").read_text())["mutant"]


def named(sources: dict[str, str]) -> Iterator[Mutant]:
    """Every row, made of each of its modules; an error if the text to be replaced is not in one of them."""
    for row in ROWS:
        for target in [row["target"]] if isinstance(row["target"], str) else row["target"]:
            source, old = sources[target], row["old"]
            assert old in source, f"{row['what']}: the text is no longer in {target}"
            scope = around(source, source[: source.index(old)].count("\n") + 1)
            made = source.replace(old, row["new"])
            yield Mutant(kind="definition", target=target, scope=scope, what=row["what"], source=made)


def around(source: str, line: int) -> str:
    """The class or function that the line is in."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.lineno <= line <= (node.end_lineno or 0):
            return node.name
    return "module"
