"""A family's map derived to the end even where its page table has gaps: all of them at once, with the rows to fill."""

from collections.abc import Mapping
from typing import Any

from openmodelatlas.errors import DefinitionError
from openmodelatlas.models.tables import pages
from openmodelatlas.models.variant import Variant
from openmodelatlas.records.graph import Node, Size
from openmodelatlas.trace import docs
from openmodelatlas.trace.nodes import NodeBuilder
from openmodelatlas.trace.regions import census
from openmodelatlas.trace.run import Call
from openmodelatlas.trace.symbolic import symbolic_run

TODO = "TODO"
"""What marks a place that its author has to fill."""

STANDING = ("B", "T", "S")
"""Axes that have no size in a configuration."""

Row = tuple[str, str]
"""A section of the page table, and a name in it."""


class GapBuilder(NodeBuilder):
    """Builds every node, and notes what the page table lacks or has wrong instead of stopping at the first."""

    def __init__(self, *args: Any) -> None:
        self.gaps: dict[Row, str] = {}
        self.wrong: dict[Row, str] = {}
        super().__init__(*args)

    def _row(self, section: str, name: str) -> Mapping[str, Any]:
        try:
            return super()._row(section, name)
        except DefinitionError:
            self.gaps.setdefault((section, name), "")
            return {"title": "", "symbol": "x", "axes": (), "sentence": ""}

    def _check_axes(self, tensor: str, axes: tuple[str, ...], shape: tuple[Size, ...]) -> None:
        section = "tensors" if ":" in tensor else "parameters"
        right = f"[{', '.join(self._axis(size) for size in shape)}]"
        if (section, tensor) in self.gaps:
            self.gaps[section, tensor] = right
            return
        try:
            super()._check_axes(tensor, axes, shape)
        except (DefinitionError, ValueError):
            self.wrong[section, self._key(section, tensor)] = right

    def _symbol(self, call: Call, kind: str, name: str) -> docs.Symbol | None:
        found = super()._symbol(call, kind, name)
        if found is None and kind == "param" and name in dict(call.module.named_parameters() if call.module else ()):
            node = self.wiring.id(call.path)
            full = f"{node}.{name}".lstrip(".")
            return docs.Symbol(self._row("parameters", full)["symbol"], full, (node,))
        return found

    def _axis(self, size: Size) -> str:
        """The axis of that size, quoted; where several have it, all of them."""
        if size in STANDING:
            return f'"{size}"'
        named = self.table["axes"].items()
        letters = [letter for letter, field in named if field != "num_hidden_layers"]
        flat = [f"{letter}*E" for letter, field in named if field.endswith("_heads")]
        made = ["1", *letters, *flat, "E/2"]
        fitting = [axis for axis in made if self._fits(axis, size)]
        return f'"{"|".join(fitting) or size}"'

    def _fits(self, axis: str, size: Size) -> bool:
        return all(letter in self.axes for letter in axis if letter.isalpha()) and self.axis_size(axis) == size


class Derived:
    """What deriving showed: the nodes, the gaps of the page table as lines to be filled in, the axes of rows whose own
    do not fit, and the rows that were used."""

    def __init__(self, variant: Variant) -> None:
        found = census(variant)
        run = symbolic_run(variant, found)
        table = pages(variant.family)
        axes = {axis: getattr(variant.config, key) for axis, key in table["axes"].items()}
        builder = GapBuilder(variant, table, axes, found, run)
        self.nodes: tuple[Node, ...] = (*builder.nodes(), *builder.tensors())
        self.regions = [region.name for region in found.regions]
        self.gaps = {row: line(*row, axes) for row, axes in builder.gaps.items()}
        self.wrong = dict(builder.wrong)
        self.used = set(builder.rows_used)


def line(section: str, name: str, axes: str) -> str:
    """A row of the page table to be filled in."""
    if section == "nodes":
        return f'"{name}" = {{ title = "{TODO}" }}'
    said = f', sentence = "{TODO}"' if section == "tensors" else ""
    title = f'title = "{TODO}", ' if section == "tensors" else ""
    return f"\"{name}\" = {{ {title}symbol = '{TODO}', axes = {axes or '[]'}{said} }}"
