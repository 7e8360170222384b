"""From a definition to its graph: one symbolic run of one block of each kind, named by the family's page table."""

from openmodelatlas.models.tables import pages
from openmodelatlas.models.variant import Variant
from openmodelatlas.records.graph import GRAPH_SCHEMA, Counts, Graph, Node
from openmodelatlas.trace.nodes import NodeBuilder
from openmodelatlas.trace.regions import Census, census
from openmodelatlas.trace.symbolic import SymbolicRun, symbolic_run


def derive(variant: Variant) -> Graph:
    """The graph of one variant. Deterministic byte for byte; needs no weights and no storage for them."""
    found = census(variant)
    run = symbolic_run(variant, found)
    return graph(variant, found, run)


def active(found: Census, builder: NodeBuilder) -> int:
    """Parameters that one position computes with: of a tensor that holds all N experts, the share of the A chosen."""
    experts, chosen = builder.axes.get("N", 1), builder.axes.get("A", 1)

    def is_stack(name: str) -> bool:
        first, *rest = builder.parameter_axes(name)
        return first == "N" and len(rest) == 2

    return sum(n * chosen // experts if is_stack(name) else n for name, n in found.parameters.items())


def graph(variant: Variant, found: Census, run: SymbolicRun) -> Graph:
    """Name and join what was run."""
    table = pages(variant.family)
    config = {name: getattr(variant.config, name) for name in type(variant.config).__dataclass_fields__}
    axes = {axis: config[key] for axis, key in table["axes"].items()}
    builder = NodeBuilder(variant, table, axes, found, run)
    nodes: list[Node] = [*builder.nodes(), *builder.tensors()]
    return Graph(
        schema=GRAPH_SCHEMA,
        model=variant.name,
        family=variant.family,
        config=config,
        axes=axes,
        dtype=str(variant.dtype).removeprefix("torch."),
        counts=Counts(
            total=found.total, without_embedding=found.without_embedding, active=active(found, builder)
        ),
        regions=found.regions,
        nodes=tuple(nodes),
    )
