"""`oma new FAMILY --pin`: the lines of claims that nobody has pinned yet, found by running the reference."""

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from openmodelatlas.catalog import find
from openmodelatlas.catalog.annotate import spread
from openmodelatlas.cli.scaffold import Checkout
from openmodelatlas.cli.scaffold_catalogue import UNPINNED
from openmodelatlas.cli.toml_text import range_row, value
from openmodelatlas.errors import UsageError
from openmodelatlas.evidence.excerpts import lines_of
from openmodelatlas.fetch import cache
from openmodelatlas.fetch.progress import silent
from openmodelatlas.records.catalog import Model, Reference
from openmodelatlas.records.evidence import Claim
from openmodelatlas.verify.missing_steps import keep_installed
from openmodelatlas.verify.model import check

GAP = 2
"""Lines between two that compute one claim's nodes; fewer than these belong to the same range."""

LONGEST = 90

Ranges = list[tuple[int, int]]


def pin(family: str, tree: Checkout) -> tuple[dict[str, str], dict[str, str]]:
    """What was pinned, by claim, and what was not, and why. The reference's file is rewritten."""
    model = next((model for model in find.models() if model.family == family), None)
    if model is None:
        raise UsageError("the catalogue has no model of the family", where=family)
    reference = find.reference(model.reference)
    keep_installed({reference.home})
    home = cache.load_blob(reference.home.blob)
    if home is None:
        raise UsageError("the reference's file is not at hand", where=reference.home.path, fix="run: oma evidence")
    record = check("located").run(model, silent)
    path = _file(tree, reference)
    text, pinned, left = path.read_text(encoding="utf-8"), dict[str, str](), dict[str, str]()
    source = lines_of(home)
    for claim in reference.claims:
        if [(part.first, part.last) for part in claim.pin.ranges] != [UNPINNED]:
            continue
        found = _ranges(_located(claim, record.located, model))
        if not found:
            left[claim.id] = "nothing was located: it has no direct node, or no line computes one"
            continue
        pinned[claim.id] = ", ".join(f"{a}–{b}" if b > a else f"{a}" for a, b in found)
        text = _pinned(text, claim.id, found, source)
    text = _expressions(text, reference, record.located, source)
    path.write_text(text, encoding="utf-8")
    return pinned, left


def _file(tree: Checkout, reference: Reference) -> Path:
    for path in (tree.package / "catalog" / "references").glob("*.toml"):
        if re.search(rf'(?m)^id = "{re.escape(reference.id)}"$', path.read_text(encoding="utf-8")):
            return path
    raise UsageError("no file of that reference", where=reference.id)


def _located(claim: Claim, located: Mapping[str, Iterable[int]], model: Model) -> set[int]:
    """The lines of a claim's direct nodes."""
    regions = sorted({node.partition(".")[0] for node in located if "block" in node.partition(".")[0]})
    nodes = spread(claim, regions).direct
    return {line for node in nodes for line in located.get(node, ())} if model else set()


def _ranges(lines: set[int]) -> Ranges:
    """Lines as ranges; a small gap is closed."""
    made: Ranges = []
    for line in sorted(lines):
        if made and line - made[-1][1] <= GAP:
            made[-1] = (made[-1][0], line)
        else:
            made.append((line, line))
    return made


def _claim(text: str, name: str) -> re.Match[str]:
    found = re.search(rf'(?ms)^\[\[claim\]\]\nid = "{re.escape(name)}"\n.*?(?=^\[\[claim\]\]|\Z)', text)
    assert found is not None
    return found


def _pinned(text: str, name: str, ranges: Ranges, source: Sequence[str]) -> str:
    block = _claim(text, name)
    rows = "\n".join(range_row(source, first, last) for first, last in ranges)
    new = re.sub(r"(?ms)^lines = \[\n.*?^\]", lambda _: f"lines = [\n{rows}\n]", block[0], count=1)
    return text[: block.start()] + new + text[block.end() :]


# --- expressions ------------------------------------------------------------------------------------------------------


def _expressions(
    text: str, reference: Reference, located: Mapping[str, Iterable[int]], source: Sequence[str]
) -> str:
    """A line of the reference for each node that has none, where one statement computes that node alone."""
    have = {node for claim in reference.claims for node in claim.expressions}
    at = {node: {_statement(source, line) for line in lines} for node, lines in located.items()}
    for claim in reference.claims:
        for node in claim.direct:
            mine = at.get(node, set())
            alone = len(mine) == 1 and sum(bool(mine & other) for other in at.values()) == 1
            said = next(iter(mine)) if alone else None
            if node not in have and said and len(said) <= LONGEST:
                have.add(node)
                text = _said(text, claim.id, node, said)
    return text


def _said(text: str, name: str, node: str, expression: str) -> str:
    block = _claim(text, name)
    body = block[0].rstrip("\n")
    head = "" if "[claim.expressions]" in body else "\n[claim.expressions]"
    new = f"{body}{head}\n{value(node)} = {value(expression)}\n"
    return text[: block.start()] + new + ("\n" if block.end() < len(text) else "") + text[block.end() :]


def _statement(source: Sequence[str], line: int) -> str | None:
    """What the innermost statement over a line computes, in one line; None where it is no assignment or return."""
    text = "\n".join(source)
    found: ast.stmt | None = None
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno):
            found = node if found is None or node.lineno >= found.lineno else found
    made = getattr(found, "value", None) if isinstance(found, (ast.Assign, ast.AnnAssign, ast.Return)) else None
    said = ast.get_source_segment(text, made) if made is not None else None
    return None if said is None else " ".join(said.split())
