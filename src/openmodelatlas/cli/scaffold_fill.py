"""`oma new FAMILY --fill`: what a run can tell is written into the family's files. Rows of the page table that a map
needs and has not; points at which the library has an op's value; the lines of claims that nobody has pinned yet."""

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from openmodelatlas.catalog import find
from openmodelatlas.catalog.annotate import spread
from openmodelatlas.cli.scaffold import forget
from openmodelatlas.cli.toml_text import range_row, value
from openmodelatlas.errors import AtlasError, UsageError
from openmodelatlas.evidence.excerpts import lines_of
from openmodelatlas.fetch import cache
from openmodelatlas.fetch.progress import Progress
from openmodelatlas.models import tables
from openmodelatlas.models.variant import Variant
from openmodelatlas.records.catalog import Model, Reference
from openmodelatlas.records.evidence import Claim
from openmodelatlas.verify import parity, parity_hub, parity_run
from openmodelatlas.verify.missing import UNPINNED, Checkout, Subject, structure_names
from openmodelatlas.verify.missing_map import TODO
from openmodelatlas.verify.missing_steps import Beside, keep_installed, plain, pointing, stands_in
from openmodelatlas.verify.model import check
from openmodelatlas.verify.parity_distances import region
from openmodelatlas.verify.references.exchange import Values
from openmodelatlas.verify.references.worker import worker

SECTIONS = ("nodes", "tensors", "parameters")
POSITIONS = 12

GAP = 2
"""Lines between two that compute one claim's nodes; fewer than these belong to the same range."""

LONGEST = 90

Ranges = list[tuple[int, int]]


def fill(family: str, tree: Checkout, progress: Progress) -> Iterator[str]:
    """What was written, line by line; and what could not be."""
    for work in (_names, _rows, _points, _moved, _pins):
        try:
            yield from work(Subject(family, tree, progress))
        except AtlasError as error:
            yield f"stopped  {error}"
            return
        finally:
            forget()


# --- rows of the tables -----------------------------------------------------------------------------------------------


def _names(s: Subject) -> Iterator[str]:
    """Names of parameters that no variant has go."""
    path = s.tree.package / "models" / f"{s.family}.names.toml"
    text, had = path.read_text(encoding="utf-8"), {name for v in s.structures for name in structure_names(v)}
    for row in tables.names(s.family)["tensor"]:
        if row["parameter"] not in had:
            block = rf'(?m)^\[\[tensor\]\]\nparameter = "{re.escape(row["parameter"])}"\n(?:.+\n)*\n?'
            text = re.sub(block, "", text, count=1)
            yield f"dropped  [[tensor]] {row['parameter']}"
    path.write_text(text, encoding="utf-8")


def _rows(s: Subject) -> Iterator[str]:
    path = s.tree.package / "models" / f"{s.family}.pages.toml"
    text, used = path.read_text(encoding="utf-8"), {row for derived in s.maps.values() for row in derived.used}
    for section in SECTIONS:
        for name in tables.pages(s.family)[section]:
            if (section, name) not in used:
                text = _dropped(text, section, name)
                yield f"dropped  [{section}] {name}"
    for (section, name), line in {row: line for d in s.maps.values() for row, line in d.gaps.items()}.items():
        text = _added(text, section, line)
        yield f"wrote    [{section}] {name}"
    for (section, name), axes in {row: axes for d in s.maps.values() for row, axes in d.wrong.items()}.items():
        before, body, after = _section(text, section)
        row = rf'(?m)^("{re.escape(name)}" = .*axes = )\[[^\]]*\]'
        text = before + re.sub(row, lambda m, axes=axes: m[1] + axes, body, count=1) + after  # type: ignore[misc]
        yield f"wrote    [{section}] {name}: axes {axes}"
    path.write_text(text, encoding="utf-8")


def _dropped(text: str, section: str, name: str) -> str:
    before, body, after = _section(text, section)
    return before + re.sub(rf'(?m)^"{re.escape(name)}" = .*\n', "", body, count=1) + after


def _added(text: str, section: str, line: str) -> str:
    before, body, after = _section(text, section)
    return before + body.rstrip("\n") + f"\n{line}\n" + ("\n" if after else "") + after


def _section(text: str, name: str) -> tuple[str, str, str]:
    """What stands before a section's rows, the rows, and what follows."""
    found = re.search(rf"(?ms)^\[{name}\]\n(.*?)(?=^\[|\Z)", text)
    assert found is not None
    return text[: found.start(1)], found[1], text[found.end(1) :]


# --- points -----------------------------------------------------------------------------------------------------------


def _points(s: Subject) -> Iterator[str]:
    stray, lacking, _ = pointing(s)
    path = s.tree.package / "models" / f"{s.family}.transformers.toml"
    text = path.read_text(encoding="utf-8")
    for name in stray:
        text = re.sub(rf'(?m)^"{re.escape(name)}(:\w+)?" = .*\n', "", text)
        yield f"dropped  [points] {name}"
    found: dict[str, list[dict[str, Any]]] = {}
    for variant in s.structures if lacking else ():
        model = s.model_of(variant)
        if model is not None:
            s.progress(f"looking for {len(lacking)} values of {model.id} in the library", 0, 0)
            found |= _searched(model, variant, lacking)
    for node in lacking:
        rows = {name: rows[0] for name, rows in found.items() if name.partition(":")[0] == node and rows}
        for name, row in rows.items():
            text = _added(text, "points", f"{value(name)} = {value(row)}")
            yield f"wrote    [points] {name}: {value(row)}"
        if not rows:
            yield f"left     [points] {node}: no value in the library is the one computed here"
    path.write_text(text, encoding="utf-8")


def _moved(s: Subject) -> Iterator[str]:
    """Points at which the library has another value than ours, though it has ours elsewhere. One after another: what a
    wrong point hides shows when it is mended."""
    path = s.tree.package / "models" / f"{s.family}.transformers.toml"
    for variant in s.structures:
        model = s.model_of(variant)
        for _ in tables.transformers(s.family)["points"] if model is not None and not pointing(s)[1] else ():
            assert model is not None
            first = Beside(model, s.progress).first()
            node = region(first[0]) if first is not None else ""
            rows = _searched(model, variant, [node.partition(":")[0]]).get(node) if node else None
            if not rows or rows[0] == tables.transformers(s.family)["points"].get(node):
                break
            text = re.sub(rf'(?m)^"{re.escape(node)}" = .*\n', "", path.read_text(encoding="utf-8"))
            path.write_text(_added(text, "points", f"{value(node)} = {value(rows[0])}"), encoding="utf-8")
            forget()
            yield f"moved    [points] {node}: {value(rows[0])}"


def _searched(model: Model, variant: Variant, nodes: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """By node, the rows that lead to its value, as far as there are any."""
    twin = parity_run.twin(model)
    weights, case = parity.stored(twin), parity.case(POSITIONS, batch=2)
    (ours,) = parity.ours(parity.filled(twin, weights), case)
    wanted: Values = {name: at for name, at in ours.items() if region(name).partition(":")[0] in nodes}
    options = {**parity_hub.options(variant.family), "config": parity_hub.published(twin), "wanted": wanted}
    answer = cast("dict[str, Any]", worker("search").ask(parity.request(twin, weights, {"text": case}, **options)))
    return {node.replace("blocks.{i}", "block"): rows for node, rows in answer["points"].items()}


# --- lines of claims --------------------------------------------------------------------------------------------------


def _pins(s: Subject) -> Iterator[str]:
    if not s.models:
        raise UsageError("the catalogue has no model of the family", where=s.family)
    reference = find.reference(s.models[0].reference)
    keep_installed({reference.home})
    home = cache.load_blob(reference.home.blob)
    if home is None:
        raise UsageError("the reference's file is not at hand", where=reference.home.path, fix="run: oma evidence")
    path = _file(s.tree, reference)
    yield from _without_strays(s, path, reference.claims)
    reference = find.reference(reference.id)
    text = path.read_text(encoding="utf-8")
    record = check("located").run(s.models[0], s.progress)
    reading = _Reading(lines_of(home))
    for claim in (c for c in reference.claims if c.statement.startswith(TODO) and c.pin.place == reference.home):
        ends = [(part.first, part.last) for part in claim.pin.ranges]
        found = reading.ranges(claim, [] if ends == [UNPINNED] else ends, record.located)
        if not found:
            yield f"left     {claim.id}: it has no direct node, or no line computes one"
        elif found != ends:
            text = _pinned(text, claim.id, found, reading.lines)
            yield f"pinned   {claim.id}: {_shown(found)}"
    covered = {node for claim in reference.claims for node in _direct(claim, record.located)}
    for node, lines in record.located.items():
        if node not in covered and node not in _regions(record.located):
            found = _joined(reading.around(line) for line in lines)
            text += _shell(s.family, node, found, reading.lines)
            yield f"wrote    claim {_id(s.family, node)}: {_shown(found)}"
    classes = {node.id: node.class_ for derived in s.maps.values() for node in derived.nodes}
    path.write_text(_expressions(text, record.located, reading, classes), encoding="utf-8")


def _without_strays(s: Subject, path: Path, claims: Sequence[Claim]) -> Iterator[str]:
    """Claims name nodes that some map of the family has; a claim whose direct nodes are all gone goes, too."""
    regions = {name for derived in s.maps.values() for name in derived.regions}
    ids = {plain(node.id, regions) for derived in s.maps.values() for node in derived.nodes}
    ids |= {node.id for derived in s.maps.values() for node in derived.nodes}
    text = path.read_text(encoding="utf-8")
    for claim in claims:
        stray = {name for name in (*claim.direct, *claim.contextual) if name not in ids}
        if not stray:
            continue
        block = _claim(text, claim.id)
        if stray >= set(claim.direct or claim.contextual):
            text = text[: block.start()] + text[block.end() :]
            yield f"dropped  claim {claim.id}"
            continue
        new = block[0]
        for name in stray:
            new = re.sub(rf'(?m)^"{re.escape(name)}" = .*\n', "", new)
            new = re.sub(rf'(?:,\s*)?"{re.escape(name)}"(?=[,\]\s])', "", new)
        text = text[: block.start()] + re.sub(r"\[\s*,\s*", "[", new) + text[block.end() :]
        yield f"dropped  {', '.join(sorted(stray))} from claim {claim.id}"
    path.write_text(text, encoding="utf-8")
    forget()


def _shown(ranges: Ranges) -> str:
    return ", ".join(f"{a}–{b}" if b > a else f"{a}" for a, b in ranges)


def _file(tree: Checkout, reference: Reference) -> Path:
    for path in (tree.package / "catalog" / "references").glob("*.toml"):
        if re.search(rf'(?m)^id = "{re.escape(reference.id)}"$', path.read_text(encoding="utf-8")):
            return path
    raise UsageError("no file of that reference", where=reference.id)


def _direct(claim: Claim, located: Iterable[str]) -> tuple[str, ...]:
    """What a claim is about, under every kind of block that was located."""
    return spread(claim, sorted(_regions(located) - {""})).direct


def _regions(located: Iterable[str]) -> set[str]:
    """The model itself, and its blocks by kind."""
    heads = {node.partition(".")[0] for node in located}
    return {head for head in heads if not head or head.endswith("block")}


class _Reading:
    """The reference's file, as lines and as statements."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines, self.text = lines, "\n".join(lines)
        simple = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Expr)
        self.statements = [node for node in ast.walk(ast.parse(self.text)) if isinstance(node, simple)]

    def ranges(self, claim: Claim, ends: Ranges, located: Mapping[str, Iterable[int]]) -> Ranges:
        """A claim's ranges, and the statements that compute those of its direct nodes that no range has."""
        more = [
            self.around(line)
            for node in _direct(claim, located)
            for line in located.get(node, ())
            if not any(a <= other <= b for a, b in ends for other in located[node])
        ]
        return _joined([*ends, *more]) if more else ends

    def around(self, line: int) -> tuple[int, int]:
        """The lines of the statement that a line is in."""
        found = self._statement(line)
        return (line, line) if found is None else (found.lineno, found.end_lineno or found.lineno)

    def value(self, line: int) -> str | None:
        """What an assignment or a return computes, in one line, cut where it is long."""
        made = getattr(self._statement(line), "value", None)
        said = ast.get_source_segment(self.text, made) if made is not None else None
        if said is None:
            return None
        flat = " ".join(said.split())
        return flat if len(flat) <= LONGEST else f"{flat[:LONGEST].rpartition(' ')[0]} …"

    def _statement(self, line: int) -> ast.stmt | None:
        over = [node for node in self.statements if node.lineno <= line <= (node.end_lineno or node.lineno)]
        return max(over, key=lambda node: node.lineno, default=None)


def _joined(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Ranges in order; a small gap is closed."""
    made: Ranges = []
    for first, last in sorted(ranges):
        if made and first - made[-1][1] <= GAP:
            made[-1] = (made[-1][0], max(made[-1][1], last))
        else:
            made.append((first, last))
    return made


def _id(family: str, node: str) -> str:
    return f"{family}-{node.removeprefix('block.')}".replace("_", "-").replace(".", "-")


def _shell(family: str, node: str, ranges: Ranges, source: Sequence[str]) -> str:
    """A claim of a node that no other claim is about."""
    rows = "\n".join(range_row(source, first, last) for first, last in ranges)
    return (
        f"\n[[claim]]\nid = {value(_id(family, node))}\n"
        f'statement = "{TODO} in your words, or put the node under another claim: what these lines do"\n'
        f'at = "modeling"\nlines = [\n{rows}\n]\ndirect = {value([node])}\n'
    )


def _claims(text: str) -> Iterator[re.Match[str]]:
    yield from re.finditer(r'(?ms)^\[\[claim\]\]\nid = "([^"\n]+)"\n.*?(?=^#? ?\[\[claim\]\]|\Z)', text)


def _claim(text: str, name: str) -> re.Match[str]:
    return next(found for found in _claims(text) if found[1] == name)


def _pinned(text: str, name: str, ranges: Ranges, source: Sequence[str]) -> str:
    block = _claim(text, name)
    rows = "\n".join(range_row(source, first, last) for first, last in ranges)
    new = re.sub(r"(?ms)^lines = \[\n.*?^\]", lambda _: f"lines = [\n{rows}\n]", block[0], count=1)
    return text[: block.start()] + new + text[block.end() :]


# --- expressions ------------------------------------------------------------------------------------------------------


def _expressions(
    text: str, located: Mapping[str, Iterable[int]], reading: _Reading, classes: Mapping[str, str]
) -> str:
    """A line of the reference for each node that has none, or one that does not stand in the pinned lines, where one
    statement computes that node, and no node of another class."""
    at = {node: {reading.value(line) for line in lines} for node, lines in located.items()}
    made = {found[1]: tomllib.loads(found[0])["claim"][0] for found in _claims(text)}
    have = {node: name for name, claim in made.items() for node in claim.get("expressions", ())}
    for name, claim in made.items():
        lines = "\n".join("\n".join(reading.lines[first - 1 : last]) for first, last, _ in claim["lines"])
        for node in claim.get("direct", ()):
            mine = at.get(node, set())
            same = {classes.get(other) for other, there in at.items() if mine & there}
            alone = len(mine) == 1 and len(same) == 1
            said = next(iter(mine)) if alone else None
            if not said or have.get(node, name) != name or not stands_in(said, lines):
                continue
            if node not in have or not stands_in(claim["expressions"][node], lines):
                have[node] = name
                text = _said(text, name, node, said)
    return text


def _said(text: str, name: str, node: str, expression: str) -> str:
    block = _claim(text, name)
    body = re.sub(rf'(?m)^"{re.escape(node)}" = .*\n', "", block[0]).rstrip("\n")
    head = "" if "[claim.expressions]" in body else "\n[claim.expressions]"
    new = f"{body}{head}\n{value(node)} = {value(expression)}\n"
    return text[: block.start()] + new + ("\n" if block.end() < len(text) else "") + text[block.end() :]
