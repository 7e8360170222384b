"""A run on fake tensors whose batch, positions and cache slots are symbols: shapes and FLOPs as expressions."""

from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch import nn
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

from openmodelatlas.errors import DefinitionError
from openmodelatlas.models.variant import Variant
from openmodelatlas.parts.cache import Cache
from openmodelatlas.records.graph import Size
from openmodelatlas.trace.regions import BLOCKS, Census, empty_cache
from openmodelatlas.trace.run import Call, Tracer

HINTS = {"B": 3, "T": 7, "S": 19}
"""Example sizes of the symbolic axes: distinct and over 1, so that no size specialises to another, to 0 or to 1."""


@dataclass(frozen=True)
class SymbolicRun:
    """Every call of the shortened model, with sizes as text in B, T and S."""

    model: nn.Module
    calls: dict[str, Call]
    names: dict[sympy.Symbol, sympy.Symbol]

    def size(self, value: Any) -> Size:
        """One axis length: an int, or an expression in B, T, S."""
        return value if isinstance(value, int) else str(sympy.expand(value.node.expr.subs(self.names)))

    def flops(self, call: Call) -> str:
        """Matmul FLOPs of a call, as an expression."""
        return str(self.size(call.flops))


def symbolic_run(variant: Variant, found: Census) -> SymbolicRun:
    """Run the shortest model that has every kind of block; its batch, positions and slots are symbols."""
    env = ShapeEnv()
    names: dict[sympy.Symbol, sympy.Symbol] = {}

    def symbol(name: str) -> Any:
        source = ConstantSource(name)
        made = env.create_symbol(HINTS[name], source, dynamic_dim=DimDynamic.DYNAMIC, constraint_dim=None)
        names[made] = sympy.Symbol(name, integer=True, positive=True)
        return env.create_symintnode(made, hint=HINTS[name], source=source)

    with FakeTensorMode(shape_env=env):
        batch, positions, slots = symbol("B"), symbol("T"), symbol("S")
        model = variant.build("cpu")
        blocks: nn.ModuleList = getattr(model, BLOCKS)
        setattr(model, BLOCKS, nn.ModuleList(blocks[index] for index in found.shortest))
        tokens = torch.empty(batch, positions, dtype=torch.long)
        cache: Cache = empty_cache(variant, len(found.shortest), batch, positions, slots)
        tracer = Tracer(model)
        tracer(tokens, torch.empty(batch, positions, dtype=torch.long), cache)
    if env.guards:
        raise DefinitionError("the definition specialises on a size", where=variant.name, found=env.guards[0].expr)
    return SymbolicRun(model, tracer.calls, names)
