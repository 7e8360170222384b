"""What a record is about, as two hashes: of the definition's code, and of the model's entry in the catalogue.

Both are the same on every machine and Python version. Docstrings, comments and layout do not count: a record must not
go stale because a sentence changed.
"""

import ast
import functools
import hashlib
import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

from openmodelatlas.records.catalog import Model
from openmodelatlas.records.json import to_json

ROOMS = ("openmodelatlas.parts", "openmodelatlas.models")


@functools.cache
def definition(family: str) -> str:
    """sha256 over the syntax trees of the family's file and of all modules of `parts` and `models` that it uses."""
    digest = hashlib.sha256()
    for module, tree in sorted(_used(f"openmodelatlas.models.{family}").items()):
        digest.update(f"{module}\0{json.dumps(plain(tree))}\0".encode())
    return digest.hexdigest()


def entry(model: Model) -> str:
    """sha256 over the model's record in the catalogue."""
    return hashlib.sha256(json.dumps(to_json(model), sort_keys=True).encode()).hexdigest()


def _used(first: str) -> dict[str, ast.Module]:
    found: dict[str, ast.Module] = {}
    left = [first]
    while left:
        name = left.pop()
        if name not in found:
            found[name] = ast.parse(_source(name))
            left += [module for module in _imports(found[name]) if module.startswith(tuple(f"{r}." for r in ROOMS))]
    return found


def _source(module: str) -> str:
    package, _, name = module.rpartition(".")
    return (files(package) / f"{name}.py").read_text(encoding="utf-8")


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def plain(node: Any) -> Any:
    """A syntax tree as lists, without docstrings, positions, and fields that are empty (some versions omit those)."""
    if isinstance(node, ast.AST):
        fields = [[name, plain(value)] for name, value in ast.iter_fields(node) if name not in ("ctx", "kind")]
        return [type(node).__name__, *([name, value] for name, value in fields if value not in (None, [], ""))]
    if isinstance(node, list):
        return [plain(item) for item in node if not _is_text(item)]
    return node if node is None or isinstance(node, str) else repr(node)


def _is_text(node: Any) -> bool:
    """A string that stands alone as a statement: a docstring, or the note under a constant."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
