"""One cause in the place of a finding for every tensor: names of another kind, whole blocks too many or too few."""

import itertools
import re

from openmodelatlas.models import variants
from openmodelatlas.records.findings import finding
from openmodelatlas.records.report import Finding, Ledger, TensorRow
from openmodelatlas.records.shown import shown
from openmodelatlas.weights.naming import NameTable, Scheme, block_pattern, has_names, name_table

SCHEMES: tuple[Scheme, ...] = ("gguf", "huggingface", "meta")
NUMBER = re.compile(r"[0-9]{1,9}")
FEWEST = 2
"""Tensors from which on a cause is looked for."""


def other_names(ledger: Ledger) -> list[Finding]:
    """One finding where no parameter has its tensor: names of another kind, or a prefix that all of them have."""
    surplus = [row.stored.name for row in ledger.rows if row.status == "surplus" and row.stored is not None]
    wanted = [row for row in ledger.rows if row.parameter is not None]
    if len(surplus) < FEWEST or any(row.status != "missing" for row in wanted):
        return []
    counts = f"{len(wanted)} parameters without a tensor, {len(surplus)} tensors without an owner"
    if prefix := _prefix(surplus):
        return [finding("tensors.prefix", shown(prefix), expected="names without it", found=counts)]
    return [finding("tensors.names", shown(surplus[0]), expected=f"names as of {ledger.model}", found=counts)]


def _prefix(names: list[str]) -> str:
    """What all of the names begin with, if without it some table knows nearly all of them."""
    first, last = min(names), max(names)
    same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False)))
    common = first[:same]
    for end in sorted((match.end() for match in re.finditer(r"[./]", common)), reverse=True):
        bare = [name[end:] for name in names]
        if any(2 * sum(map(table.knows, bare)) > len(bare) for table in _tables()):
            return common[:end]
    return ""


def _tables() -> list[NameTable]:
    families = sorted({variant.family for variant in variants().values()})
    return [name_table(f, scheme) for f in families for scheme in SCHEMES if has_names(f, scheme)]


def missing_blocks(ledger: Ledger) -> dict[int, int]:
    """Blocks of which no tensor is stored, with the number of tensors that they should have."""
    rows: dict[int, list[TensorRow]] = {}
    for row in ledger.rows:
        index = block_pattern(row.parameter or "")[1]
        if index is not None:
            rows.setdefault(index, []).append(row)
    return {i: len(of) for i, of in rows.items() if len(of) >= FEWEST and all(row.status == "missing" for row in of)}


def blocks_beyond(ledger: Ledger) -> tuple[set[str], list[Finding]]:
    """Surplus tensors of blocks whose number is too high, and a finding for each such block."""
    blocks = 1 + max((index for row in ledger.rows if (index := _block(row)) is not None), default=-1)
    begins = {name[: match.start()] for row, name, match in _numbered(ledger) if _block(row) is not None}
    found: dict[tuple[str, int], list[str]] = {}
    for row, name, match in _numbered(ledger):
        if row.status == "surplus" and name[: match.start()] in begins and int(match[0]) >= blocks:
            found.setdefault((name[: match.start()], int(match[0])), []).append(name)
    found = {place: names for place, names in found.items() if len(names) >= FEWEST}
    expected = f"blocks 0 to {blocks - 1}"
    findings = [
        finding("tensors.beyond", shown(f"{begin}{index}.*"), expected=expected, found=f"{len(names)} tensors")
        for (begin, index), names in sorted(found.items())
    ]
    return {name for names in found.values() for name in names}, findings


def _block(row: TensorRow) -> int | None:
    return block_pattern(row.parameter or "")[1]


def _numbered(ledger: Ledger) -> list[tuple[TensorRow, str, re.Match[str]]]:
    """Stored tensors with a number in their names."""
    named = ((row, row.stored.name) for row in ledger.rows if row.stored is not None)
    return [(row, name, match) for row, name in named if (match := NUMBER.search(name)) is not None]
