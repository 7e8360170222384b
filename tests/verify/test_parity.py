"""Parity with the references: a quick sample of it, and mutations that it must not miss."""

import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from openmodelatlas.catalog import find
from openmodelatlas.errors import AtlasError
from openmodelatlas.models.variant import Variant
from openmodelatlas.parts.norm import RMSNorm
from openmodelatlas.verify import mutations, parity, parity_run
from openmodelatlas.verify.checks import parity_bfloat16, parity_padding, parity_widths
from openmodelatlas.verify.references.exchange import Case, Values, save
from openmodelatlas.verify.references.worker import Worker, worker

MODEL = "llama-3.1-8b"
POSITIONS = 192  # `oma verify` runs 512
TIMES = 100  # what a mutation must exceed the references' distance by


@dataclass(frozen=True)
class Beside:
    """The references' values of one case, and what is needed to run ours."""

    variant: Variant
    weights: Values
    case: Case
    meta: list[Values]
    hub: list[Values]

    def distances(self, model: nn.Module) -> parity.Distances:
        here, found = parity.ours(model, self.case), parity.Distances()
        found.add(parity_run.META, here, self.meta)
        found.add(parity_run.HUB, here, self.hub)
        found.add(parity.BETWEEN, self.hub, self.meta)
        return found


def beside(dtype: str = "float32", positions: int = POSITIONS, batch: int = 1) -> Beside:
    variant, case = parity.twin(MODEL), parity.case(positions, batch=batch)
    weights, cases = parity.stored(variant), {"text": case}
    meta = parity_run.ask_meta(variant, weights, cases, parity_run.packaged_source(), dtype=dtype)["cases"]["text"]
    hub = parity_run.ask_hub(variant, weights, cases, dtype=dtype)["cases"]["text"]
    return Beside(variant, weights, case, meta, hub)


@pytest.fixture(scope="module")
def references() -> Beside:
    return beside()


@pytest.fixture(scope="module")
def rounded() -> Beside:
    return beside("bfloat16", 64, 2)


def test_every_node_equals_both_references(references: Beside) -> None:
    found = references.distances(parity.filled(references.variant, references.weights))
    rows = parity.measured(found, parity.BETWEEN, (parity_run.META, parity_run.HUB))
    assert parity.holds(rows), [m for m in rows if m.bound is not None and m.value > m.bound]
    assert set(found.nodes()) == set(parity.ORDER)
    for pair in found.pairs.values():
        assert set(pair) == set(parity.ORDER)


# --- mutations --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", mutations.plants(parity.twin(MODEL)))
def test_a_mutation_is_seen(references: Beside, name: str) -> None:
    plant = mutations.plants(references.variant)[name]
    found = references.distances(plant(references.variant, references.weights))
    rows = parity.measured(found, parity.BETWEEN, (parity_run.META, parity_run.HUB))
    assert not parity.holds(rows)
    noise = max(found.pairs[parity.BETWEEN].values())
    for pair in (parity_run.META, parity_run.HUB):
        assert max(found.pairs[pair].values()) >= TIMES * noise, name
        if "frequency factor" not in name and "context" not in name:  # these move few of the angles, and those little
            assert found.pairs[pair]["logits"] >= 10 * noise, name


def test_a_missing_layout_step_is_seen(references: Beside) -> None:
    """Rows of queries as Hugging Face stores them, loaded as if they were in our order."""
    model = parity.filled(references.variant, references.weights)
    for i, block in enumerate(model.get_submodule("blocks")):
        block.attention.q.weight.data.copy_(references.weights[f"model.layers.{i}.self_attn.q_proj.weight"])
    assert references.distances(model).pairs[parity_run.HUB]["block.attention.q"] > 0.1


# --- cast order -------------------------------------------------------------------------------------------------------


def gain_first(self: RMSNorm, x: Tensor) -> Tensor:
    y = x.float()
    return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight.float()).type_as(x)


def low_rotation(_self: Any, x: Tensor, rope: Any) -> Tensor:
    cos, sin = rope.cos[:, :, None, :].type_as(x), rope.sin[:, :, None, :].type_as(x)
    even, odd = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)


def low_softmax(_self: Any, scores: Tensor) -> Tensor:
    weights = (scores - scores.amax(-1, keepdim=True)).exp()
    return weights / weights.sum(-1, keepdim=True)


def low_residual(_self: Any, x: Tensor, update: Tensor) -> Tensor:
    return (x.half() + update.half()).type_as(x)


CASTS = {
    "gain before rounding": ("block.attention_norm", gain_first),
    "rotation in bfloat16": ("block.attention.q_rotate", low_rotation),
    "softmax in bfloat16": ("block.attention.attend.softmax", low_softmax),
    "residual through float16": ("block.attention_add", low_residual),
}


def rounding(b: Beside, model: nn.Module) -> dict[str, float]:
    found = parity.Distances()
    found.add(parity_bfloat16.OURS, [parity_bfloat16.local(model, b.case, b.meta[0])], b.meta)
    found.add(parity_bfloat16.THEIRS, b.hub, b.meta)
    rows = [m for m in parity_bfloat16.measured(found.pairs) if m.bound is not None]
    return {m.where: m.value / m.bound if m.bound else m.value for m in rows}


def test_rounding_is_as_in_the_reference(rounded: Beside) -> None:
    excess = rounding(rounded, parity.filled(rounded.variant, rounded.weights, torch.bfloat16))
    assert max(excess.values()) <= 1.0
    assert [n for n in ("norm", "block.attention.q_rotate", "block.attention.attend.softmax") if excess[n] > 0] == []


@pytest.mark.parametrize("name", CASTS)
def test_another_cast_order_is_seen(rounded: Beside, name: str) -> None:
    path, forward = CASTS[name]
    model = parity.filled(rounded.variant, rounded.weights, torch.bfloat16)
    for node, module in model.named_modules():
        if parity.region(node) == path:
            module.forward = forward.__get__(module)  # type: ignore[attr-defined,method-assign]
    assert rounding(rounded, model)[path] > 1e-4, name


# --- other cases, quickly ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("check", [parity_padding, parity_widths])
def test_padding_and_widths(check: Any) -> None:
    record = check.run(find.model("smollm2-360m"), lambda *_: None)
    assert record.outcome == "passed", record.measurements


def test_padding_that_is_seen_fails() -> None:
    """Padding at position 0 instead of -1 takes part in attention."""
    variant = parity.twin("smollm2-360m")
    case = parity_padding.padded()
    weights = parity.stored(variant)
    hub = parity_run.ask_hub(variant, weights, {"text": case})["cases"]["text"]
    rows = parity_run.real_rows(case)
    shown: Case = {**case, "positions": case["positions"].clamp(min=0)}  # type: ignore[typeddict-item]
    found = parity.Distances()
    found.add("seen", parity.ours(parity.filled(variant, weights), shown), hub, rows)
    assert found.pairs["seen"]["logits"] > 1e-2


# --- the machinery ----------------------------------------------------------------------------------------------------


def test_distance() -> None:
    a = torch.tensor([[1.0, -2.0], [0.5, 4.0]])
    assert parity.distance(a, a.clone()) == 0.0
    assert parity.distance(a, a + torch.tensor([[0.0, 0.0], [0.0, 4e-3]])) == pytest.approx(1e-3, rel=1e-2)
    assert parity.distance(a, a[:1]) == float("inf")
    assert parity.distance(a, a.where(a > 0, float("nan"))) == float("inf")
    masked = a.where(a > 0, float("-inf"))
    assert parity.distance(masked, a.where(a > 0, torch.finfo(torch.float32).min)) == 0.0
    assert parity.distance(masked, a) == float("inf")
    assert parity.distance(a, a.where(a > 0, float("inf"))) == float("inf")


def test_a_bound_is_never_infinite() -> None:
    """References of which one gives no numbers do not excuse ours."""
    pairs = {"ours": {"embed": 5e-6, "logits": 1.0}, "between": {"embed": 1e-5, "logits": float("inf")}}
    found = parity.Distances(pairs)
    rows = parity.measured(found, "between", ("ours",))
    assert {m.where: m.bound for m in rows if m.bound is not None} == {"embed": 2e-5, "logits": parity.FLOOR}
    assert not parity.holds(rows)
    assert parity.worst(rows).where == "logits"


def test_a_reference_that_fails_says_why(references: Beside) -> None:
    wrong = parity.request(references.variant, {}, {"text": references.case}, attention="eager")
    with pytest.raises(AtlasError, match=r"hub; found .*Missing key"):
        worker("hub").ask(wrong)
    with closing(Worker("nowhere")) as nobody, pytest.raises(AtlasError, match=r"nowhere; found .*nowhere"):
        nobody.ask(wrong)


def test_without_fairscale_the_stand_ins_give_the_same(references: Beside, tmp_path: Path) -> None:
    source = parity_run.packaged_source()
    named = parity.renamed(references.variant, references.weights, "meta")
    save(tmp_path / "in.pt", parity.request(references.variant, named, {"text": references.case}, **source.options()))
    code = (
        "import sys; from pathlib import Path; from openmodelatlas.verify.references import exchange, fairscale_shims;"
        "fairscale_shims.find_spec = lambda name: None;"
        "from openmodelatlas.verify.references import meta; f = Path(sys.argv[1]);"
        "from openmodelatlas.infer.steady import steady; steady();"
        "exchange.save(f / 'out.pt', meta.answer(exchange.load(f / 'in.pt'), f))"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    answer = torch.load(tmp_path / "out.pt", weights_only=True)
    assert any("fairscale is not installed" in shim for shim in answer["yardstick"]["shims"])
    assert parity.distance(answer["cases"]["text"][0]["logits"], references.meta[0]["logits"]) < parity.FLOOR


def test_the_factor_is_patched_only_where_it_must_be(references: Beside) -> None:
    other = parity.variant_with(references.variant, rope_low_freq_factor=2.0)
    with pytest.raises(AtlasError, match="low_freq_factor is 1, the model's 2"):
        parity_run.ask_meta(other, references.weights, {"text": references.case}, parity_run.packaged_source())
