"""Nodes and tensors of a graph, from the calls of a run and the page table."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import nn

from openmodelatlas.errors import DefinitionError
from openmodelatlas.models.variant import Variant
from openmodelatlas.parts.elementwise import ResidualAdd
from openmodelatlas.records.graph import (
    Node,
    Parameters,
    ParameterTensor,
    Port,
    Size,
)
from openmodelatlas.records.plain_math import symbol_text
from openmodelatlas.trace import docs
from openmodelatlas.trace.regions import BLOCKS, Census, constants
from openmodelatlas.trace.run import Call, PortValue
from openmodelatlas.trace.symbolic import SymbolicRun
from openmodelatlas.trace.wiring import PortKey, Wiring

NO_PARAMETERS = Parameters(count=0, tensors=())


class NodeBuilder:
    """Builds every node of one variant; DefinitionError where the page table and the run disagree."""

    def __init__(
        self,
        variant: Variant,
        table: Mapping[str, Any],
        axes: Mapping[str, int],
        found: Census,
        run: SymbolicRun,
    ) -> None:
        self.variant, self.table, self.axes, self.found, self.run = variant, table, axes, found, run
        self.names = {region.name for region in found.regions}
        self.wiring = Wiring(run.calls, [found.region_of(index) for index in found.shortest])
        self.rows_used: set[tuple[str, str]] = set()
        self.homes: dict[str, PortKey] = {}
        self.values: dict[PortKey, PortValue] = {}
        for call in run.calls.values():
            for value in call.inputs + call.outputs:
                key = (call.path, value.name)
                self.values[key] = value
                home = self.wiring.canonical(key)
                self.homes.setdefault(self.wiring.text(home), home)
        self.first_owner: dict[int, str] = {}
        for name, parameter in run.model.named_parameters():
            self.first_owner.setdefault(id(parameter), name)
        self._lint()

    def _lint(self) -> None:
        for call in self.run.calls.values():
            if call.glue:
                raise DefinitionError(
                    "a container may only wire modules", where=call.path or "the model", found=call.glue[0]
                )
            both = {p.name for p in call.inputs} & {p.name for p in call.outputs}
            if both:
                raise DefinitionError("a port name is both argument and result", where=call.path, found=min(both))

    # nodes that are module calls

    def nodes(self) -> Iterator[Node]:
        """The model, then every container and op in call order."""
        for call in self.run.calls.values():
            if not self.wiring.is_repeated(call.path):
                yield self._node(call)

    def _node(self, call: Call) -> Node:
        assert call.module is not None
        node_id = self.wiring.id(call.path)
        row = self._row("nodes", node_id)
        page = docs.page(type(call.module))
        numbers = constants(call.module)
        required = {p.name for p in call.inputs} if call.is_op else set()
        equation = docs.equation(
            page.equation, node_id, lambda kind, name: self._symbol(call, kind, name), numbers, required
        )
        return Node(
            id=node_id,
            kind="model" if not node_id else "op" if call.is_op else "container",
            class_=type(call.module).__name__,
            title=row["title"],
            sentence=row.get("sentence", page.sentence),
            expression="",
            equation=equation.latex,
            equation_text=equation.text,
            lights=equation.lights,
            constants=numbers,
            dtype_note=page.dtype,
            parameters=self._parameters(call.path, call.module),
            inputs=self._ports(call.path, call.inputs),
            outputs=self._ports(call.path, call.outputs),
            flops=self._flops(call),
            region=self.wiring.region(call.path),
            children=tuple(dict.fromkeys(self.wiring.id(path) for path in call.children)),
            definition=docs.definition(type(call.module)),
            code=(),
            claims=(),
            proofs=(),
        )

    def _flops(self, call: Call) -> str:
        """A call's own FLOPs; the model's count every block of every region, not those that were run."""
        if call.path:
            return self.run.flops(call)
        total = call.flops
        for prefix, region in self.wiring.prefixes.items():
            times = 0 if prefix in self.wiring.repeated else region.count
            total = total + (times - 1) * self.run.calls[prefix].flops
        return str(self.run.size(total))

    def _ports(self, path: str, values: Sequence[PortValue]) -> tuple[Port, ...]:
        """One port a name: buffers of a region's second block in the run stand under the same name as the first's."""
        found: dict[str, Port] = {}
        for value in values:
            port = self._port((path, value.name))
            found.setdefault(port.port, port)
        return tuple(found.values())

    def _port(self, key: PortKey) -> Port:
        value, wiring = self.values[key], self.wiring
        home = wiring.text(wiring.canonical(key))
        row = self._row("tensors", home)
        shape = tuple(self.run.size(n) for n in value.shape)
        axes = tuple(row["axes"])
        self._check_axes(home, axes, shape)
        source = self._source(key)
        own = wiring.text(key)
        return Port(
            port=wiring.port(key),
            tensor=home,
            symbol=row["symbol"],
            symbol_text=symbol_text(row["symbol"]),
            shape=shape,
            axes=axes,
            dtype=str(value.dtype).removeprefix("torch."),
            from_=wiring.text(source) if source else None,
            to=tuple(dict.fromkeys(wiring.text(k) for k in wiring.fed.get(key, ()))),
            alias_of=None if own == home else home,
            written=value.written,
        )

    def _source(self, key: PortKey) -> PortKey | None:
        """What feeds a port. A region's input comes from the block before the region's first, wherever that was run."""
        source, region = self.wiring.feeds.get(key), self.wiring.prefixes.get(key[0])
        if region is None or region.indices[0] == 0 or self.wiring.port(key) != "in":
            return source
        before = self.found.region_of(region.indices[0] - 1)
        return next((path, "out") for path, r in self.wiring.prefixes.items() if r == before)

    def _check_axes(self, tensor: str, axes: tuple[str, ...], shape: tuple[Size, ...]) -> None:
        sizes = tuple(self.axis_size(a) for a in axes)
        if sizes != shape:
            raise DefinitionError("axes do not fit the derived shape", where=tensor, expected=axes, found=shape)

    def axis_size(self, axis: str) -> Size:
        """`D` to 4096, `H*E` to their product, `E/2` to half, `1` to 1; B, T and S stay."""
        if axis in ("B", "T", "S"):
            return axis
        product = 1
        for factor in axis.split("/")[0].split("*"):
            product *= self.axes[factor] if factor in self.axes else int(factor)
        return product // int(axis.split("/")[1]) if "/" in axis else product

    # parameters

    def _parameters(self, path: str, module: nn.Module) -> Parameters:
        tensors: list[ParameterTensor] = []
        count, seen = 0, set[int]()
        for name, parameter in module.named_parameters(remove_duplicate=False):
            full = f"{path}.{name}" if path else name
            if self.wiring.is_repeated(full):
                continue
            first = self.first_owner[id(parameter)]
            factor = 1
            if not path:
                region = self.wiring.region(full)
                factor = region.count if region else 1
            if id(parameter) not in seen:
                count += factor * parameter.numel()
                seen.add(id(parameter))
            tensors.append(self._parameter(full, parameter, None if first == full else first))
        return Parameters(count=count, tensors=tuple(tensors)) if tensors else NO_PARAMETERS

    def _parameter(self, full: str, parameter: nn.Parameter, tied_to: str | None) -> ParameterTensor:
        name = self.wiring.id(full)
        row = self._row("parameters", name)
        shape = tuple(int(n) for n in parameter.shape)
        self._check_axes(name, tuple(row["axes"]), shape)
        return ParameterTensor(
            name=name,
            shape=shape,
            axes=tuple(row["axes"]),
            dtype=str(parameter.dtype).removeprefix("torch."),
            symbol=row["symbol"],
            symbol_text=symbol_text(row["symbol"]),
            count=parameter.numel(),
            tied_to=self.wiring.id(tied_to) if tied_to else None,
        )

    # equations

    def _symbol(self, call: Call, kind: str, name: str) -> docs.Symbol | None:
        """What a macro of `call`'s equation stands for, and what it lights."""
        node = self.wiring.id(call.path)
        if kind == "param":
            full = f"{node}.{name}".lstrip(".")
            known = self._key("parameters", full) in self.table["parameters"]
            return docs.Symbol(self._row("parameters", full)["symbol"], full, (node,)) if known else None
        ports = call.outputs if kind == "out" else call.inputs
        match = next((p for p in ports if p.name == name), None)
        if match is None:
            return None
        key = (call.path, match.name)
        home = self.wiring.text(self.wiring.canonical(key))
        return docs.Symbol(self._row("tensors", home)["symbol"], home, self._targets(call, key, kind))

    def _targets(self, call: Call, key: PortKey, kind: str) -> tuple[str, ...]:
        """An output lights its node, and the stream if it is the stream; an input lights whoever made it in view: the
        sibling, the block's input, or the op outside."""
        if kind == "out":
            node = self.wiring.id(call.path)
            return ("residual", node) if isinstance(call.module, ResidualAdd) else (node,)
        source = self.wiring.feeds.get(key)
        if source is None:
            return (self.wiring.text(key),)
        if source not in self.wiring.inputs:
            return (self.wiring.id(source[0]),)
        home = self.wiring.canonical(key)
        if home in self.wiring.inputs:
            return (self.wiring.text(home),)
        return (self.wiring.id(home[0]),)

    # tensors

    def tensors(self) -> Iterator[Node]:
        """One node for each value, in order of first appearance."""
        for tensor, home in self.homes.items():
            yield self._tensor(tensor, home)

    def _tensor(self, tensor: str, home: PortKey) -> Node:
        row = self._row("tensors", tensor)
        port = replace(self._port(home), to=self._readers(home))
        is_input = home in self.wiring.inputs
        return Node(
            id=tensor,
            kind="tensor",
            class_="",
            title=row["title"],
            sentence=row["sentence"],
            expression="",
            equation="",
            equation_text="",
            lights=(),
            constants={},
            dtype_note="",
            parameters=NO_PARAMETERS,
            inputs=(port,) if is_input else (),
            outputs=() if is_input else (port,),
            flops="0",
            region=self.wiring.region(home[0]),
            children=(),
            definition=None,
            code=(),
            claims=(),
            proofs=(),
        )

    def _readers(self, home: PortKey) -> tuple[str, ...]:
        """The op inputs, and region inputs, that carry the value."""
        found = [
            self.wiring.text(key)
            for key in self.values
            if key in self.wiring.inputs
            and key != home
            and (self.run.calls[key[0]].is_op or key[0] in self.wiring.prefixes)
            and self.wiring.fed_by(key, home)
        ]
        region = self.wiring.prefixes.get(home[0])
        if region and home not in self.wiring.inputs:
            last = max(index for r in self.found.regions for index in r.indices)
            following = (self.found.region_of(index + 1) for index in region.indices if index < last)
            found += [f"{name}:in" for name in dict.fromkeys(r.name for r in following)]
        return tuple(dict.fromkeys(found))

    # the table

    def parameter_axes(self, name: str) -> tuple[str, ...]:
        """The axes of a parameter of the whole model, by its full name."""
        match = re.match(rf"{BLOCKS}\.(\d+)(?=\.)", name)
        if match is not None:
            name = self.found.region_of(int(match[1])).name + name[match.end() :]
        return tuple(self._row("parameters", name)["axes"])

    def _key(self, section: str, name: str) -> str:
        """The row that stands for `name`: its own, or the one that `block` stands for every region in."""
        if name in self.table[section]:
            return name
        return re.sub(rf"(?<![\w.])(:cache\.)?({'|'.join(self.names)})(?=[.:]|$)", r"\1block", name)

    def _row(self, section: str, name: str) -> Mapping[str, Any]:
        key = self._key(section, name)
        try:
            row: Mapping[str, Any] = self.table[section][key]
        except KeyError:
            raise DefinitionError(
                f"the page table has no row under [{section}]",
                where=f"models/{self.variant.family}.pages.toml",
                expected=name or '""',
            ) from None
        self.rows_used.add((section, key))
        return row
