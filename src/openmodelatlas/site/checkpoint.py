"""What a verified checkpoint adds to the pages of its model: stored tensors, recorded values, checks, the ledger."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from openmodelatlas.records.graph import Graph, Node
from openmodelatlas.records.report import CheckpointRecord, Report, TensorRow, ValueSummary
from openmodelatlas.site.words import size_words

_BLOCK = re.compile(r"^blocks\.(\d+)\.")


@dataclass(frozen=True)
class StoredRow:
    """A stored tensor, or one of each block under one line; then `blocks` lists them."""

    name: str
    type: str
    shape: str
    bytes: str
    note: str
    blocks: tuple[tuple[str, str, str, str], ...]


@dataclass(frozen=True)
class ValueRow:
    """A recorded value at one block, as a table shows it."""

    index: str
    mean: str
    spread: str
    norm: str
    minimum: str
    maximum: str


@dataclass(frozen=True)
class ValueView:
    """A recorded value over all blocks."""

    title: str
    caption: str
    spark: Markup
    rows: tuple[ValueRow, ...]


@dataclass(frozen=True)
class StoredView:
    """What a node's page shows of the checkpoint."""

    why: str
    prompt: str
    rows: tuple[StoredRow, ...]
    values: tuple[ValueView, ...]


class Stored:
    """A checkpoint's record, looked up by node."""

    def __init__(self, record: CheckpointRecord, graph: Graph) -> None:
        self.record, self.graph = record, graph
        self.rows: dict[str, list[TensorRow]] = {}
        for row in record.ledger.rows:
            for name in _names(row, graph):
                self.rows.setdefault(name, []).append(row)
        self.values: dict[str, list[ValueSummary]] = {}
        for value in record.values:
            self.values.setdefault(value.tensor, []).append(value)

    def view(self, node: Node) -> StoredView | None:
        """None if the file holds nothing for the node and no value of it was recorded."""
        rows = [_row(self.rows[t.name]) for t in node.parameters.tensors if t.name in self.rows]
        tensors = [node.id] if node.kind == "tensor" else list(dict.fromkeys(p.tensor for p in node.outputs))
        values = [self._value(t) for t in tensors if t in self.values]
        if (not rows and not values) or node.kind == "model":
            return None
        why = f"{verdict(self.record.report)}; values recorded with the prompt “{self.record.prompt}”"
        return StoredView(why, self.record.prompt, tuple(rows), tuple(values))

    def _value(self, tensor: str) -> ValueView:
        values = self.values[tensor]
        node = self.graph.by_id.get(tensor)
        title = node.title if node is not None else tensor
        shape = " × ".join(str(size) for size in values[0].shape)
        each = "norm by block" if len(values) > 1 else "one value"
        caption = f"{each}; {shape}, {values[0].dtype}"
        line = Markup(spark([(v.index or 0, v.norm) for v in values]))
        return ValueView(title, caption, line, tuple(map(_value_row, values)))


def _names(row: TensorRow, graph: Graph) -> list[str]:
    """A ledger row's parameter and owners, by the names of the map: a block's index becomes its region's name."""
    if row.parameter is None:
        return []
    leaf = row.parameter.rpartition(".")[2]
    names = [row.parameter, *(f"{owner}.{leaf}" for owner in row.owners)]
    return list(dict.fromkeys(_folded(name, graph) for name in names))


def _folded(name: str, graph: Graph) -> str:
    match = _BLOCK.match(name)
    if match is None:
        return name
    region = next(r for r in graph.regions if int(match[1]) in r.indices)
    return f"{region.name}.{name[match.end() :]}"


def _row(rows: Sequence[TensorRow]) -> StoredRow:
    stored = [row.stored for row in rows if row.stored is not None]
    types = Counter(tensor.type for tensor in stored)
    steps = ", ".join(dict.fromkeys(step for row in rows for step in row.steps))
    name = stored[0].name if len(stored) == 1 else f"{stored[0].name} … {stored[-1].name}"
    kinds = ", ".join(f"{kind} × {count}" if len(types) > 1 else kind for kind, count in types.items())
    shapes = dict.fromkeys(" × ".join(map(str, tensor.shape)) for tensor in stored)
    note = f"step: {steps}" if steps else ""
    total = sum(tensor.bytes for tensor in stored)
    each = tuple((t.name, t.type, " × ".join(map(str, t.shape)), f"{t.bytes:,}") for t in stored)
    return StoredRow(name, kinds, "; ".join(shapes), f"{total:,}", note, each if len(each) > 1 else ())


def _value_row(value: ValueSummary) -> ValueRow:
    index = "all" if value.index is None else str(value.index)
    figures = (value.mean, value.spread, value.norm, value.minimum, value.maximum)
    return ValueRow(index, *(f"{figure:.4g}" for figure in figures))


def spark(pairs: Sequence[tuple[int, float]]) -> str:
    """A line over the blocks, from zero, each value at its block's index; the ends carry theirs. Nothing for one."""
    if len(pairs) < 2:
        return ""
    indices, values = zip(*pairs, strict=True)
    first, last = indices[0], indices[-1]
    width, height, top = 360.0, 64.0, max(values) or 1.0
    xs = [4 + (i - first) * (width - 8) / (last - first) for i in indices]
    ys = [height - 14 - v / top * (height - 30) for v in values]
    line = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in zip(xs, ys, strict=True))
    peak = max(range(len(values)), key=lambda i: values[i])
    anchor = "start" if peak < len(values) / 4 else "end" if peak > len(values) * 3 / 4 else "middle"
    words = f"{values[0]:.3g} in block {first}, {values[-1]:.3g} in block {last}, at most {top:.3g} in {indices[peak]}"
    return (
        f'<svg class="spark" viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{words}">'
        f'<path class="zero" d="M4 {height - 14:g}H{width - 4:g}"/><path d="{line}"/>'
        f'<circle cx="{xs[peak]:.1f}" cy="{ys[peak]:.1f}" r="2.6"/>'
        f'<text x="{xs[peak]:.1f}" y="{max(10.0, ys[peak] - 6):.1f}" text-anchor="{anchor}">{top:.3g}</text>'
        f'<text x="4" y="{height - 2:g}">{first}</text>'
        f'<text x="{width - 4:g}" y="{height - 2:g}" text-anchor="end">{last}</text></svg>'
    )


def verdict(report: Report) -> str:
    """`all 9 checks hold`, or which do not; a check that was not run is not counted."""
    ran = [check for check in report.checks if check.state != "not run"]
    failed = [check.name for check in ran if not check.ok]
    if failed:
        return f"{len(failed)} of {len(ran)} checks fail: {', '.join(failed)}"
    return f"all {len(ran)} checks hold"


def summary(record: CheckpointRecord) -> list[tuple[str, str]]:
    """The facts at the head of a checkpoint's page."""
    types = Counter(row.stored.type for row in record.ledger.rows if row.stored is not None)
    stored = record.ledger.stored_bytes
    bits = 8 * stored / record.ledger.parameters
    return [
        ("file", record.header.path),
        ("source", record.source),
        ("sha256", record.sha256),
        ("format", record.header.format),
        ("tensors", ", ".join(f"{count} {kind}" for kind, count in sorted(types.items(), key=lambda kv: -kv[1]))),
        ("stored", f"{stored:,} bytes ({size_words(stored)}), {bits:.3g} bits a parameter"),
    ]


def ledger_rows(record: CheckpointRecord) -> list[dict[str, str]]:
    """Every stored tensor with what owns it; what has no owner or no tensor is listed as well."""
    return [
        {
            "name": row.stored.name if row.stored else "—",
            "type": row.stored.type if row.stored else "",
            "shape": "×".join(map(str, row.stored.shape)) if row.stored else "",
            "bytes": f"{row.stored.bytes:,}" if row.stored else "",
            "owners": ", ".join(row.owners) or "no owner",
            "steps": ", ".join(row.steps),
            "status": row.status,
        }
        for row in record.ledger.rows
    ]
