"""A node as its page and panel show it: plain values, ready for the templates."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from openmodelatlas.records.graph import Graph, Node, ParameterTensor, Port
from openmodelatlas.records.shapes import shape_text
from openmodelatlas.site.experts import active, of_every_expert
from openmodelatlas.site.facts import constants
from openmodelatlas.site.kin import Kin, kin
from openmodelatlas.site.maths import Maths
from openmodelatlas.site.proofs import ProofView, proofs
from openmodelatlas.site.schedule import folded, mixed, short_ranges
from openmodelatlas.site.sources import Code, Source, code, sources
from openmodelatlas.site.words import dims, file_of, flops_words, owner_of, region_label


@dataclass(frozen=True)
class Link:
    """A node to go to. `note`: which blocks it is, where that must be said."""

    id: str
    title: str
    file: str
    role: str = ""
    note: str = ""


@dataclass(frozen=True)
class Value:
    """A tensor at a port: symbol as HTML and as text, shape in words, dtype, and the page it has."""

    port: str
    symbol: str
    symbol_text: str
    shape: str
    dtype: str
    link: Link | None
    lights: str
    written: bool


@dataclass(frozen=True)
class Weight:
    """A parameter of a node."""

    name: str
    symbol: str
    shape: str
    count: str
    dtype: str
    tied_to: str | None


@dataclass(frozen=True)
class View:
    """All that a node's page says."""

    id: str
    file: str
    title: str
    kind: str
    class_: str
    badges: tuple[str, ...]
    region: str | None
    which: tuple[str, ...]
    blocks: str
    sentence: str
    kin: tuple[tuple[Kin, Link], ...]
    expression: str
    equation: str
    equation_text: str
    shape: Value | None
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    weights: tuple[Weight, ...]
    constants: tuple[tuple[str, str], ...]
    dtype_note: str
    flops: str
    flops_total: str
    code: tuple[Code, ...]
    sources: tuple[Source, ...]
    proofs: tuple[ProofView, ...]
    definition: str
    parent: Link | None
    children: tuple[Link, ...]
    before: tuple[Link, ...]
    after: tuple[Link, ...]


class Viewer:
    """Makes the views of one map."""

    def __init__(self, graph: Graph, maths: Maths) -> None:
        self.graph, self.maths = graph, maths

    def view(self, node: Node) -> View:
        """The view of a node or tensor."""
        tensor = node.kind == "tensor"
        port = (node.outputs + node.inputs)[0] if tensor else None
        region = node.region
        flops = "" if tensor or node.flops == "0" else flops_words(node.flops)
        return View(
            id=node.id,
            file=file_of(node.id),
            title=node.title,
            kind=node.kind,
            class_=node.class_,
            badges=self._badges(node),
            region=region_label(self.graph, node),
            which=tuple(folded(region.indices)) if region is not None and mixed(self.graph) else (),
            blocks=self.blocks(node.id),
            sentence=node.sentence,
            kin=tuple((found, self.link(found.id)) for found in kin(self.graph, node)),
            expression=node.expression,
            equation=Markup(self._equation(node)) if node.equation else "",
            equation_text=node.equation_text,
            shape=self._value(port) if port else None,
            inputs=() if tensor else tuple(self._value(p) for p in node.inputs),
            outputs=() if tensor else tuple(self._value(p) for p in node.outputs),
            weights=tuple(self._weight(t) for t in node.parameters.tensors),
            constants=tuple(constants(node)),
            dtype_note=_sentence(node.dtype_note),
            flops=flops,
            flops_total=f"in each of {region.count} blocks" if flops and region and region.count > 1 else "",
            code=code(node),
            sources=sources(node),
            proofs=proofs(node),
            definition=f"{node.definition.path} {node.definition.lines[0]}–{node.definition.lines[1]}"
            if node.definition
            else "",
            parent=self._parent(node),
            children=tuple(self.link(child) for child in dict.fromkeys(node.children)),
            before=self._before(node),
            after=self._after(node),
        )

    def link(self, name: str, role: str = "") -> Link:
        """A link to a node by id."""
        return Link(name, self.graph.by_id[name].title, file_of(name), role, self.blocks(name))

    def blocks(self, name: str) -> str:
        """Which blocks a region of a mixed model is; nothing for any other node."""
        region = self.graph.by_id[name].region
        here = region is not None and region.name == name and mixed(self.graph)
        return short_ranges(region.indices) if here and region is not None else ""

    def path(self, node: Node) -> tuple[Link, ...]:
        """The zoom levels over a node, the model first."""
        links: list[Link] = []
        parent = self._parent(node)
        while parent is not None:
            links.append(parent)
            parent = self._parent(self.graph.by_id[parent.id])
        return tuple(reversed(links))

    def scope(self, node: Node) -> str:
        """The container whose diagram shows the node best: its own if it has one, else the one it stands in."""
        if node.children:
            return node.id
        owner = owner_of(node.id)
        if node.kind == "tensor":
            port = node.id.rpartition(":")[2]
            if owner in {region.name for region in self.graph.regions} and port:
                return owner
            return owner_of(owner) if owner and not self.graph.by_id[owner].children else owner
        return owner

    def _equation(self, node: Node) -> str:
        """The formula; each of its lit symbols can be focused and says what it lights."""
        names = {" ".join(light.targets): self._light_words(light.targets) for light in node.lights}
        return self.maths.lit(node.equation, names)

    def _light_words(self, targets: Sequence[str]) -> str:
        words = ["residual stream" if t == "residual" else self.graph.by_id[t].title for t in targets]
        return f"lights {', '.join(words)}"

    def _badges(self, node: Node) -> tuple[str, ...]:
        if node.kind == "tensor":
            return ("tensor", node.id.rpartition(":")[2])
        count = node.parameters.count
        region = node.region is not None and node.region.count > 1 and node.id == node.region.name
        words = f"{count:,} parameters{' each' if region else ''}" if count else "no parameters"
        if any(of_every_expert(tensor) for tensor in node.parameters.tensors):
            read = self.graph.counts.active if node.kind == "model" else active(node, self.graph.axes)
            words += f", {read:,} active for a position"
        kinds = (node.kind, node.class_) if node.kind.lower() != node.class_.lower() else (node.class_,)
        return (*kinds, words)

    def _value(self, port: Port) -> Value:
        node = self.graph.by_id.get(port.tensor)
        owner = port.tensor.rpartition(":")[0]
        lights = port.tensor if owner in {r.name for r in self.graph.regions} or not owner else owner
        return Value(
            port=port.port,
            symbol=Markup(self.maths.html(port.symbol)) if port.symbol else "",
            symbol_text=port.symbol_text,
            shape=shape_text(port),
            dtype=port.dtype,
            link=self.link(node.id) if node is not None else None,
            lights=f"{lights} {port.tensor}" if lights != port.tensor else lights,
            written=port.written,
        )

    def _weight(self, tensor: ParameterTensor) -> Weight:
        return Weight(
            name=tensor.name,
            symbol=Markup(self.maths.html(tensor.symbol)) if tensor.symbol else "",
            shape=dims(tensor.shape, tensor.axes),
            count=f"{tensor.count:,}",
            dtype=tensor.dtype,
            tied_to=tensor.tied_to,
        )

    def _parent(self, node: Node) -> Link | None:
        if node.kind == "model":
            return None
        return self.link(owner_of(node.id))

    def _before(self, node: Node) -> tuple[Link, ...]:
        """What makes the values that a node reads; for a tensor, the op that makes it."""
        if node.kind == "tensor":
            port = (node.outputs + node.inputs)[0]
            sources = [port.from_ or node.id, *self._stream_into(node)]
            makers = dict.fromkeys(source.rpartition(":")[0] for source in sources)
            return tuple(self.link(maker, "made by") for maker in makers if maker)
        return self._links([*(p.from_ for p in node.inputs if p.from_), *self._stream_into(node)], node)

    def _stream_into(self, node: Node) -> list[str]:
        """Every value that comes to a kind of block of a mixed model as its stream: its port knows what feeds the first
        of these blocks, not the later ones."""
        region = node.region
        if region is None or not mixed(self.graph) or node.id not in (region.name, f"{region.name}:in"):
            return []
        made = (n for n in self.graph.nodes if n.kind == "tensor" and n.outputs)
        return [n.id for n in made if f"{region.name}:in" in n.outputs[0].to]

    def _after(self, node: Node) -> tuple[Link, ...]:
        ports = (node.outputs + node.inputs)[:1] if node.kind == "tensor" else node.outputs
        if mixed(self.graph) and node.region is not None and node.id == node.region.name:
            ports = self.graph.by_id[node.outputs[0].tensor].outputs
        return self._links([target for p in ports for target in p.to], node)

    def _links(self, ports: Sequence[str], node: Node) -> tuple[Link, ...]:
        names = dict.fromkeys(port.rpartition(":")[0] for port in ports)
        return tuple(self.link(name) for name in names if name != node.id or not name)


def _sentence(text: str) -> str:
    text = text.strip()
    return text[:1].upper() + text[1:] if text else ""
