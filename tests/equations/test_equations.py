"""Equations that run: each module against its equation in NumPy; each rendered symbol against the derived map."""

import functools
import re
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import nn

from openmodelatlas import models
from openmodelatlas.infer.fuse import fuse
from openmodelatlas.infer.steady import one_thread
from openmodelatlas.parts.attend import FusedAttend
from openmodelatlas.records.graph import Graph
from openmodelatlas.trace.derive import derive

from . import outside
from .hold import Captured, capture, equation, hold, holds
from .statements import STATEMENTS
from .twins import LENGTH, cache, filled, steps, structures, twin, whole
from .unusual import unusual
from .whole import logits

DTYPES = (torch.float64, torch.float32, torch.bfloat16)
BOUND = 4e-6
"""Relative to the largest score, far out; measured 1.3e-6 at most, where a frequency's last digit decides."""


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """Ops this small only wait for a second thread."""
    with one_thread():
        yield


@functools.cache
def derived(name: str) -> Graph:
    """The map of the variant's twin, which has the same nodes and equations."""
    return derive(twin(name))


def calls(name: str, dtype: torch.dtype, *, fused: bool = False) -> list[Captured]:
    """Every module's calls: with padding, at far positions, through a cache, one position alone."""
    variant = twin(name)
    model = filled(variant, dtype)
    if fused:
        assert fuse(model) == variant.config.num_hidden_layers
    near, far = whole(), whole(start=131000)
    first, end = 3, 3 + LENGTH
    empty = cache(variant, 2, LENGTH + 5, dtype)
    empty.positions[:, first:end] = near.positions
    return [
        *unusual(dtype),
        *capture(model, near.tokens, near.positions),
        *capture(model, far.tokens, far.positions),
        *capture(model, near.tokens, near.positions, empty._replace(slots=torch.arange(first, end))),
        *capture(model, near.tokens[:, -1:], near.positions[:, -1:], empty._replace(slots=torch.tensor([end - 1]))),
    ]


@pytest.mark.parametrize("fused", [False, True], ids=["explicit", "fused"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", structures())
def test_every_node_computes_its_equation(name: str, dtype: torch.dtype, fused: bool) -> None:
    found = [hold(call) for call in calls(name, dtype, fused=fused)]
    assert len(found) > 100
    assert [h for h in found if not holds(h)] == []


@pytest.mark.parametrize("name", structures())
def test_every_op_of_every_map_has_a_statement(name: str) -> None:
    """By the class's name and the equation that its docstring prints; a container that prints one, too."""
    graph = derived(name)
    made = classes(name)
    ops = {n.class_ for n in graph.nodes if n.kind == "op" or n.equation}
    assert {op for op in ops if (op, equation(made[op])) not in STATEMENTS} == set()


def classes(name: str) -> dict[str, type[nn.Module]]:
    """The classes of a variant's modules."""
    return {type(m).__name__: type(m) for m in models.find(name).build().modules()}


def test_every_statement_stands_beside_an_equation_that_is_printed() -> None:
    kinds = {kind for name in structures() for kind in classes(name).values()} | {FusedAttend}
    printed = {(kind.__name__, equation(kind)) for kind in kinds if equation(kind)}
    assert set(STATEMENTS) == printed


@pytest.mark.parametrize("name", structures())
def test_every_symbol_of_a_rendered_equation_is_derived(name: str) -> None:
    """A symbol is lit by a tensor or parameter of this node on this map, and every lit one is marked in the LaTeX."""
    graph = derived(name)
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


@pytest.mark.parametrize("name", structures())
def test_the_whole_model_is_its_equations_in_order(name: str) -> None:
    """Another program, in NumPy, gives the same scores: with padding, far out, and step by step."""
    variant = twin(name)
    model = filled(variant, torch.float64)
    weights = {n: p.detach().numpy() for n, p in model.named_parameters()}
    for given in (whole(), whole(start=1000)):  # farther out, the last digit of a frequency shows
        wanted = logits(variant.family, variant.config, weights, given.tokens.numpy(), given.positions.numpy())
        with torch.no_grad():
            at_once = model(given.tokens, given.positions).numpy()
        stepwise = steps(model, variant, given).numpy()
        real = given.positions.numpy() >= 0
        scale = np.abs(wanted[real]).max()
        assert np.abs(at_once - wanted)[real].max() / scale < BOUND
        assert np.abs(stepwise - wanted)[real].max() / scale < BOUND


@pytest.mark.parametrize("name", structures())
def test_a_stranger_gives_the_scores_of_the_statements(name: str) -> None:
    """Kept scores of another implementation, so that a statement and an op cannot share a misreading."""
    variant = twin(name)
    weights = {n: p.detach().numpy() for n, p in filled(variant, torch.float64).named_parameters()}
    given = whole(outside.START)
    tokens, positions = given.tokens[:1].numpy(), given.positions[:1].numpy()
    ours = logits(variant.family, variant.config, weights, tokens, positions)[0, -1]
    assert np.abs(ours - outside.stored()[name]).max() / np.abs(ours).max() < BOUND


def test_kept_scores_are_those_of_the_stranger() -> None:
    """Computed again by the package itself, where it is there."""
    pytest.importorskip("transformers", reason="computes the kept scores again")
    kept = outside.stored()
    assert list(kept) == structures()
    for name in structures():
        again = outside.last_scores(name)
        assert np.abs(np.subtract(again, kept[name])).max() / np.abs(again).max() < 1e-9


def test_statements_can_fail() -> None:
    """One wrong sign in one module, and that node alone is named."""
    variant = twin("llama-3.1-8b")
    model = filled(variant, torch.float64)
    block = model.get_submodule("blocks.1")
    block.attention.q_rotate.forward = lambda x, rope: type(block.attention.q_rotate).forward(  # type: ignore[union-attr]
        block.attention.q_rotate, x, rope._replace(sin=-rope.sin)
    )
    near = whole()
    wrong = [h.path for h in map(hold, capture(model, near.tokens, near.positions)) if not holds(h)]
    assert wrong == ["blocks.1.attention.q_rotate"]
