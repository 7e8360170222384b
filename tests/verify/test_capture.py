"""Value summaries: every value of the map once, with right figures."""

from pathlib import Path

import pytest
import tiny
import torch

from openmodelatlas.infer.checkpoint import load_checkpoint
from openmodelatlas.trace.capture import summaries, summary
from openmodelatlas.trace.derive import derive


@pytest.fixture(scope="module")
def model(tiny_checkpoint: Path) -> torch.nn.Module:
    return load_checkpoint(tiny_checkpoint, variant=tiny.variant()).model


TOKENS = torch.arange(12).reshape(2, 6)
POSITIONS = torch.arange(6).expand(2, 6)


def test_the_ids_are_those_of_the_derived_map(model: torch.nn.Module) -> None:
    graph = derive(tiny.variant())
    tensors = {node.id for node in graph.nodes if node.kind == "tensor" and not node.id.startswith(":")}
    found = summaries(model, TOKENS, POSITIONS)
    assert {value.tensor for value in found} == tensors
    places = [(value.tensor, value.index) for value in found]
    assert len(set(places)) == len(places)
    assert {index for tensor, index in places if tensor.startswith("block")} == {0, 1}
    assert {index for tensor, index in places if not tensor.startswith("block")} == {None}


def test_the_figures_are_those_of_the_values(model: torch.nn.Module) -> None:
    kept: dict[str, torch.Tensor] = {}
    for name in ("blocks.1.attention_add", "blocks.1", "logits"):
        module = model.get_submodule(name)
        module.register_forward_hook(lambda _m, _a, out, name=name: kept.__setitem__(name, out.double()))
    found = {(value.tensor, value.index): value for value in summaries(model, TOKENS, POSITIONS)}
    for module_name, place in (
        ("blocks.1.attention_add", ("block.attention_add:out", 1)),
        ("blocks.1", ("block:out", 1)),
        ("logits", ("logits:out", None)),
    ):
        value, tensor = found[place], kept[module_name]
        assert value.shape == tuple(tensor.shape)
        assert value.mean == pytest.approx(tensor.mean().item())
        assert value.spread == pytest.approx(tensor.std(correction=0).item())
        assert value.norm == pytest.approx(tensor.norm().item())
        assert (value.minimum, value.maximum) == (tensor.min().item(), tensor.max().item())
    assert found["block:in", 1].norm == found["block:out", 0].norm


def test_it_is_deterministic_and_leaves_no_hook(model: torch.nn.Module) -> None:
    hooks = sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())
    assert summaries(model, TOKENS, POSITIONS) == summaries(model, TOKENS, POSITIONS)
    assert sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()) == hooks


def test_figures_are_over_finite_elements() -> None:
    value = summary("mask:out", None, torch.tensor([0.0, float("-inf"), 2.0]))
    assert (value.mean, value.minimum, value.maximum, value.norm) == (1.0, 0.0, 2.0, 2.0)
    nothing = summary("a:out", None, torch.tensor([float("nan")]))
    assert (nothing.mean, nothing.norm) == (0.0, 0.0)
