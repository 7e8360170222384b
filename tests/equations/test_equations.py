"""Equations that run: each module against its equation in NumPy; each rendered symbol against the derived map."""

import re

import numpy as np
import pytest
import torch
from torch import nn

from openmodelatlas import maps, models
from openmodelatlas.parts.attend import FusedAttend
from openmodelatlas.trace import docs

from .hold import Captured, Held, capture, hold
from .statements import STATEMENTS
from .twins import cache, filled, steps, twin, whole
from .unusual import unusual
from .whole import logits

EPSILONS = 8.0
"""Measured: 3.5 at most, over every node, variant and dtype, in float64 and float32."""

COMPOSITE = {"Attend", "FusedAttend", "FeedForward"}
"""What rounds inside, too: in bfloat16 these are held by their parts."""

NAMES = ("llama-3-8b", "llama-3.1-8b", "llama-3.2-1b", "smollm2-135m")
DTYPES = (torch.float64, torch.float32, torch.bfloat16)


def calls(name: str, dtype: torch.dtype, *, fused: bool = False) -> list[Captured]:
    """Every module's calls: with padding, at far positions, through a cache."""
    variant = twin(name)
    model = filled(variant, dtype)
    if fused:
        for block in model.get_submodule("blocks"):
            block.attention.attend = FusedAttend()  # type: ignore[union-attr]
    near, far = whole(), whole(start=131000)
    empty = cache(variant, 2, 16, dtype)
    empty.positions[:, 3:15] = near.positions
    return [
        *unusual(dtype),
        *capture(model, near.tokens, near.positions),
        *capture(model, far.tokens, far.positions),
        *capture(model, near.tokens, near.positions, empty._replace(slots=torch.arange(3, 15))),
    ]


def holds(held: Held, dtype: torch.dtype) -> bool:
    """Within noise; in bfloat16 an op's result is its statement rounded as stated, but for a few ties."""
    if dtype != torch.bfloat16:
        return held.within(EPSILONS, 1.0)
    if held.op in COMPOSITE:
        return held.within(4.0, 1.0)
    return held.within(0.51, 0.02 if held.op not in SINGLE else 1.0)


SINGLE = {"RopeFrequencies", "RopeScale", "RopeTable"}
"""Float32 whatever the model's dtype."""


@pytest.mark.parametrize("fused", [False, True], ids=["explicit", "fused"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_every_node_computes_its_equation(name: str, dtype: torch.dtype, fused: bool) -> None:
    found = [hold(call) for call in calls(name, dtype, fused=fused)]
    assert len(found) > 100
    assert [h for h in found if not holds(h, dtype)] == []


@pytest.mark.parametrize("name", models.names())
def test_every_op_of_every_map_has_a_statement(name: str) -> None:
    graph = maps.graph(name)
    assert {n.class_ for n in graph.nodes if n.kind == "op"} <= set(STATEMENTS)
    assert {n.class_ for n in graph.nodes if n.equation} <= set(STATEMENTS)


def classes() -> dict[str, type[nn.Module]]:
    """Every class with a statement, from the modules of all variants, and the fused form."""
    found: dict[str, type[nn.Module]] = {"FusedAttend": FusedAttend}
    for name in NAMES:
        found |= {type(m).__name__: type(m) for m in models.find(name).build().modules()}
    return {name: found[name] for name in STATEMENTS}


@pytest.mark.parametrize("op", sorted(STATEMENTS))
def test_a_statement_stands_beside_the_equation_that_is_printed(op: str) -> None:
    assert docs.page(classes()[op]).equation == STATEMENTS[op].equation


@pytest.mark.parametrize("name", models.names())
def test_every_symbol_of_a_rendered_equation_is_derived(name: str) -> None:
    """A symbol is lit by a tensor or parameter of this node on this map, and every lit one is marked in the LaTeX."""
    graph = maps.graph(name)
    parameters = {p.name for p in graph.by_id[""].parameters.tensors}
    for node in graph.nodes:
        own = {p.tensor for p in (*node.inputs, *node.outputs)}
        for light in node.lights:
            where = f"{node.id}: {light.symbol}"
            assert light.tensor in own or light.tensor in parameters, where
            assert set(light.targets) <= {*graph.by_id, *graph.aliases, "residual"}, where
            assert f"{{{light.symbol}}}" in node.equation, where
        marks = set(re.findall(r"\\htmlData\{light=([^}]*)\}", node.equation))
        assert marks == {" ".join(light.targets) for light in node.lights}, node.id
        assert not re.search(r"\\(port|param|const|out)\b", node.equation), node.id


@pytest.mark.parametrize("name", NAMES)
def test_the_whole_model_is_its_equations_in_order(name: str) -> None:
    """Another program, in NumPy, gives the same scores: with padding, far out, and step by step."""
    variant = twin(name)
    model = filled(variant, torch.float64)
    weights = {n: p.detach().numpy() for n, p in model.named_parameters()}
    for given in (whole(), whole(start=1000)):  # farther out, the last digit of a frequency shows
        wanted = logits(variant.config, weights, given.tokens.numpy(), given.positions.numpy())
        with torch.no_grad():
            at_once = model(given.tokens, given.positions).numpy()
        stepwise = steps(model, variant, given, (5, 1, 1, 5)).numpy()
        real = given.positions.numpy() >= 0
        scale = np.abs(wanted[real]).max()
        assert np.abs(at_once - wanted)[real].max() / scale < 2e-6
        assert np.abs(stepwise - wanted)[real].max() / scale < 2e-6


def test_statements_can_fail() -> None:
    """One wrong sign in one module, and that node alone is named."""
    variant = twin("llama-3.1-8b")
    model = filled(variant, torch.float64)
    block = model.get_submodule("blocks.1")
    block.attention.q_rotate.forward = lambda x, rope: type(block.attention.q_rotate).forward(  # type: ignore[union-attr]
        block.attention.q_rotate, x, rope._replace(sin=-rope.sin)
    )
    near = whole()
    wrong = [h.path for h in map(hold, capture(model, near.tokens, near.positions)) if not holds(h, torch.float64)]
    assert wrong == ["blocks.1.attention.q_rotate"]
