"""A map, or one node of it, as lines of text."""

from collections.abc import Iterator, Mapping

from openmodelatlas.records.catalog import Model
from openmodelatlas.records.evidence import NodeClaim, PinReport
from openmodelatlas.records.graph import Graph, Node, Port, Region
from openmodelatlas.records.ids import Resolved
from openmodelatlas.records.shapes import axis_text, shape_text
from openmodelatlas.records.sizes import evaluate

Sizes = Mapping[str, int]


def tree(graph: Graph, model: Model, sizes: Sizes) -> str:
    """Headline, then every container and op, indented by what holds it."""
    return "\n".join(_tree(graph, model, sizes))


def _tree(graph: Graph, model: Model, sizes: Sizes) -> Iterator[str]:
    root = graph.by_id[""]
    yield f"{model.title} ({graph.model}) · {graph.counts.total:,} parameters,"
    yield f"  {graph.counts.without_embedding:,} without the token embedding · matmul FLOPs {flops(root, sizes)}"
    given = [p for p in root.inputs if not p.port.startswith("cache")]
    yield "  in   " + ", ".join(f"{p.port} {shape_text(p, sizes)}" for p in given)
    yield "  out  " + ", ".join(f"{p.symbol_text} {shape_text(p, sizes)}" for p in root.outputs)
    rows = list(_rows(graph, root, 0, sizes))
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    for name, title, shape, count in rows:
        yield f"{name:<{widths[0]}}  {title:<{widths[1]}}  {shape:<{widths[2]}}  {count:>15}".rstrip()


def _rows(graph: Graph, node: Node, depth: int, sizes: Sizes) -> Iterator[tuple[str, str, str, str]]:
    for child_id in node.children:
        child = graph.by_id[child_id]
        title = child.title
        if child.region and child.id == child.region.name:
            title += f" × {child.region.count}{', independent' if child.region.independent else ''}"
        shape = " ".join(shape_text(p, sizes) for p in child.outputs[:1])
        count = f"{child.parameters.count:,}" if child.parameters.count else "–"
        yield "  " * depth + child.id.rpartition(".")[2], title, shape, count
        yield from _rows(graph, child, depth + 1, sizes)


def flops(node: Node, sizes: Sizes) -> str:
    """The expression, or its value."""
    return f"{evaluate(node.flops, sizes):,}" if sizes else node.flops


def node(graph: Graph, model: Model, found: Resolved, sizes: Sizes) -> str:
    """One node in full."""
    return "\n".join(_node(graph, model, found, sizes))


def region_text(region: Region) -> str:
    """`32 independent transformer blocks`, in the words that the proof allows."""
    if region.count == 1:
        return "one block"
    independent = "independent " if region.independent else ""
    return f"{region.count} {independent}blocks, proven identical"


def _node(graph: Graph, model: Model, found: Resolved, sizes: Sizes) -> Iterator[str]:
    it = found.node
    yield f"{model.title} · {it.title}"
    badges: list[str] = [it.kind]
    if it.kind == "tensor":
        badges += ["in" if it.inputs else "out"]
    elif it.class_:
        badges += [it.class_]
    yield f"  {it.id or graph.model}  [{'] ['.join(badges)}]"
    if found.alias:
        yield f"  ({found.alias} carries this value)"
    if it.region:
        yield f"  in region {it.region.name}: {region_text(it.region)}"
        if found.index is not None:
            yield f"  asked for block {found.index}; all {it.region.count} compute alike"
    yield f"  {it.sentence}"
    yield from _facts(it)
    yield from _ports("in", it.inputs, sizes)
    yield from _ports("out", it.outputs, sizes)
    if it.kind != "tensor":
        yield from _parameters(it)
        yield f"  matmul FLOPs  {flops(it, sizes)}"
    if it.definition:
        yield f"  runs as       openmodelatlas/{it.definition.path}:{it.definition.lines[0]}-{it.definition.lines[1]}"
    for code in it.code:
        first, last = code.envelope
        omitted = ", ".join(f"{a}–{b}" for a, b in code.omitted)
        gap = f" (lines {omitted} omitted)" if omitted else ""
        yield f"  code          {code.path.rpartition('/')[2]} {first}–{last}{gap}  [{code.state}]"
    yield f"  sources       {len(it.claims)}"
    for claim in it.claims:
        yield from _claim(claim)


def _facts(it: Node) -> Iterator[str]:
    if it.expression:
        yield f"  expression    {it.expression}"
    if it.equation_text:
        yield f"  equation      {it.equation_text}"
    for light in it.lights:
        yield f"                {light.tensor}: lights {', '.join(light.targets)}"
    if it.constants:
        yield f"  constants     {', '.join(f'{k} = {v}' for k, v in it.constants.items())}"
    if it.dtype_note:
        yield f"  dtype         {it.dtype_note}"


def _ports(side: str, ports: tuple[Port, ...], sizes: Sizes) -> Iterator[str]:
    for port in ports:
        name = "" if port.port == side else f"{port.port}: "
        source = f"  from {port.from_}" if port.from_ and port.from_ != port.tensor else ""
        written = "  (written in place)" if port.written else ""
        value = f"{name}{port.symbol_text} {shape_text(port, sizes)} {port.dtype}"
        yield f"  {side:<3}           {value}  = {port.tensor}{source}{written}"


def _parameters(it: Node) -> Iterator[str]:
    if not it.parameters.count:
        yield "  no parameters"
        return
    yield f"  parameters    {it.parameters.count:,}"
    for tensor in it.parameters.tensors:
        size = " × ".join(axis_text(n, a) for n, a in zip(tensor.shape, tensor.axes, strict=True))
        tied = f"  (the same tensor as {tensor.tied_to})" if tensor.tied_to else ""
        yield f"                {tensor.symbol_text}  {tensor.name} [{size}] {tensor.dtype}{tied}"


def _claim(claim: NodeClaim) -> Iterator[str]:
    yield f"    {claim.grade} evidence [{claim.state}]: {claim.statement}"
    yield f"      {claim.id} · {_pin(claim.pin)}"
    for other in claim.also:
        same = "same text" if other.pin.same_text else "same statement, other text"
        yield f"      {same}: {_pin(other)}"
    if claim.conflict:
        yield f"      conflict: {claim.conflict}"


def _pin(report: PinReport) -> str:
    place = report.pin.place
    lines = ", ".join(f"{r.first}–{r.last}" for r in report.pin.ranges)
    revision = f" @ {place.revision[:12]}" if place.kind == "git" else ""
    via = f" via {report.via}" if report.via else ""
    return f"{place.source}{revision} / {place.path} · lines {lines} · {report.status}{via}"
