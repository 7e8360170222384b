"""Parity with the references: a quick sample of it for every family, and mutations that it must not miss."""

import dataclasses
import functools
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from openmodelatlas import models
from openmodelatlas.catalog import find
from openmodelatlas.errors import AtlasError, CatalogError
from openmodelatlas.models.variant import Variant
from openmodelatlas.records.catalog import Model
from openmodelatlas.verify import mutations, parity, parity_hub, parity_run
from openmodelatlas.verify.checks import parity_bfloat16, parity_far, parity_padding, parity_stages, parity_widths
from openmodelatlas.verify.mutations_casts import casts
from openmodelatlas.verify.parity_distances import (
    BETWEEN,
    FLOOR,
    Distances,
    distance,
    holds,
    last_slots,
    measured,
    region,
    worst,
)
from openmodelatlas.verify.references.exchange import Case, Values, save
from openmodelatlas.verify.references.hub import point
from openmodelatlas.verify.references.worker import Worker, worker
from openmodelatlas.weights.configuration import account_configuration

POSITIONS = 96  # `oma verify` runs 512
TIMES = 100  # what a mutation must exceed the references' distance by
NOT_COMPARED = {"q_heads", "k_heads", "v_heads", "cache", "frequencies", "scale", "mask", "local_mask"}
"""Views, copies, and what shows in the very next node."""


@functools.cache
def distinct() -> dict[str, Model]:
    """The models of which no two have the same twin."""
    found: dict[Any, Model] = {}
    for model in find.models():
        if parity_run.runs_here(model) is None:
            found.setdefault(parity_run.computes(model, parity_run.twin(model)), model)
    return {model.id: model for model in found.values()}


def one_a_family() -> list[str]:
    """Of each family the model whose configuration has most numbers: it shows what the others do."""
    chosen: dict[str, Model] = {}
    for model in distinct().values():
        numbers = len(vars(models.find(model.variant).config))
        if model.family not in chosen or numbers > len(vars(models.find(chosen[model.family].variant).config)):
            chosen[model.family] = model
    return [model.id for model in chosen.values()]


REPRESENTATIVES = one_a_family()
MODELS = [m if m in REPRESENTATIVES else pytest.param(m, marks=pytest.mark.slow) for m in distinct()]
BY_META = next(m for m in REPRESENTATIVES if parity_run.by_meta(find.model(m)))


@dataclass(frozen=True)
class Beside:
    """The references' values of one case, and what is needed to run ours."""

    model: Model
    variant: Variant
    weights: Values
    case: Case
    outcome: parity_run.Outcome

    def distances(self, model: nn.Module) -> Distances:
        return mutations.distances(model, self.case, self.outcome)

    def rows(self, model: nn.Module) -> Any:
        return measured(self.distances(model), self.outcome.between, self.outcome.to)


@functools.cache
def beside(name: str) -> Beside:
    model = find.model(name)
    variant, case = parity_run.twin(model), parity.case(POSITIONS)
    outcomes, _ = parity_run.against(model, variant, {"text": case})
    return Beside(model, variant, parity.stored(variant), case, outcomes["text"])


# --- the tables beside the families -----------------------------------------------------------------------------------


def test_every_family_has_a_table_and_a_representative() -> None:
    families = {variant.family for variant in models.variants().values()}
    assert {find.model(name).family for name in REPRESENTATIVES} == families
    assert all(parity_hub.known(family) for family in families)
    assert not parity_hub.known("no_such_family")


@pytest.mark.parametrize("name", models.names())
def test_the_published_configuration_of_a_variant_describes_it(name: str) -> None:
    variant = models.find(name)
    made = parity_hub.published(variant)
    rows = account_configuration({"architectures": ["X"], **made}, variant)
    wrong = [row for row in rows if not row.ok and row.key not in ("architectures", "tie_word_embeddings")]
    assert wrong == []
    assert len(made) > len(vars(variant.config)) / 2


def test_a_number_without_a_published_key_is_named() -> None:
    @dataclasses.dataclass(frozen=True)
    class Odd:
        hidden_size: int = 1
        nobody_knows: int = 2

    variant = dataclasses.replace(models.find(models.names()[0]), config=Odd())
    with pytest.raises(CatalogError, match="nobody_knows"):
        parity_hub.published(variant)


@pytest.mark.parametrize("name", REPRESENTATIVES)
def test_every_op_is_compared_or_said_not_to_be(name: str) -> None:
    """And every point of the table is at an op."""
    b = beside(name)
    leaves = [p for p, m in b.variant.build("meta").named_modules() if p and not list(m.children())]
    kinds = parity.kinds(b.variant)
    ops = {region(path, kinds) for path in leaves}
    seen = {node.partition(":")[0] for node in b.outcome.found.sequence}
    assert {op.rpartition(".")[2] for op in ops - seen} <= NOT_COMPARED
    assert seen <= ops
    points = {node.partition(":")[0] for node in parity_hub.options(b.model.family)["table"]["points"]}
    assert points <= {region(path) for path in leaves}
    for pair in b.outcome.found.pairs.values():
        assert set(pair) <= set(b.outcome.found.sequence)


def test_a_point_with_an_unknown_key_is_named() -> None:
    with pytest.raises(ValueError, match=r"embed: nht"):
        point("embed", {"at": "model", "nht": 1})


@pytest.mark.parametrize("name", REPRESENTATIVES)
def test_what_is_half_split_follows_from_the_name_table(name: str) -> None:
    """Where loading takes a step, leaving it out is seen at the queries, and at nothing else before attention."""
    b = beside(name)
    model = parity.filled(b.variant, b.weights)
    projections = parity_hub.half_split(b.variant.family)
    assert len(projections) in (0, 2)
    for _, leaf in projections:
        for i, block in enumerate(model.get_submodule("blocks").children()):
            stored = b.weights[f"model.layers.{i}.self_attn.{leaf}_proj.weight"]
            block.get_submodule("attention").get_submodule(leaf).get_parameter("weight").data.copy_(stored)
    found = b.distances(model).pairs[parity_run.HUB]
    wrong = {node.rpartition(".")[2] for node, apart in found.items() if apart > 0.1}
    assert {leaf for _, leaf in projections} <= wrong
    assert bool(wrong) == bool(projections)


# --- the values -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_every_node_equals_the_references(name: str) -> None:
    b = beside(name)
    rows = measured(b.outcome.found, b.outcome.between, b.outcome.to)
    assert holds(rows), [m for m in rows if m.bound is not None and m.value > m.bound]
    assert b.outcome.to == ((parity_run.META, parity_run.HUB) if parity_run.by_meta(b.model) else (parity_run.HUB,))
    assert {m.where for m in rows} == set(b.outcome.found.sequence)


@pytest.mark.parametrize("name", MODELS)
def test_every_mistake_is_seen(name: str) -> None:
    """By the bars, and by far."""
    b = beside(name)
    noise = max(b.outcome.found.pairs[b.outcome.between].values())
    plants = mutations.plants(b.variant)
    assert len(plants) >= 10
    for mistake, plant in plants.items():
        found = b.distances(plant(b.variant, b.weights))
        assert not holds(measured(found, b.outcome.between, b.outcome.to)), mistake
        for pair in b.outcome.to:
            assert max(found.pairs[pair].values()) >= TIMES * noise, mistake


def test_every_mistake_can_be_made_somewhere() -> None:
    made = {mistake for model in distinct().values() for mistake in mutations.plants(parity_run.twin(model))}
    assert made == set(mutations.MISTAKES)
    rounding = {mistake for model in distinct().values() for mistake in casts(parity_run.twin(model))}
    assert len(rounding) >= 8


@pytest.mark.parametrize("name", REPRESENTATIVES)
def test_eps_shows_at_every_norm(name: str) -> None:
    """Fed the reference's own values, each norm by itself: with another eps it is beyond the floor."""
    b = beside(name)
    other = parity.variant_with(b.variant, rms_norm_eps=b.variant.config.rms_norm_eps * 1.1)
    theirs = b.outcome.sides[parity_run.HUB][0]
    found, kinds = Distances(parity.kinds(b.variant)), parity.kinds(b.variant)
    found.add("eps", [parity_bfloat16.local(parity.filled(other, b.weights), b.case, theirs)], [theirs])
    norms = {region(p, kinds) for p, m in b.variant.build("meta").named_modules() if hasattr(m, "eps")}
    assert norms <= set(found.sequence)
    assert {node for node in norms if found.pairs["eps"][node] < 10 * FLOOR} == set()
    right = Distances(kinds)
    right.add("eps", [parity_bfloat16.local(parity.filled(b.variant, b.weights), b.case, theirs)], [theirs])
    assert max(right.pairs["eps"].values()) < 2 * FLOOR


@pytest.mark.parametrize("name", REPRESENTATIVES)
def test_twins_keep_what_is_no_size(name: str) -> None:
    variant, twin = models.find(find.model(name).variant), parity.twin(name)
    c, t = vars(variant.config), vars(twin.config)
    sizes = {"hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "intermediate_size"}
    assert {field for field in c if c[field] != t[field]} <= sizes | {"vocab_size", "sliding_window"}
    assert set(parity.kinds(twin)) == set(parity.kinds(variant))
    assert twin.config.num_hidden_layers == parity.depth(variant) + 1
    assert t["num_attention_heads"] != t["num_key_value_heads"]
    if "sliding_window" in c:
        far = parity_far.short(find.model(name))
        assert t["sliding_window"] < min(POSITIONS, parity_padding.POSITIONS)
        assert far.config.sliding_window == c["sliding_window"]
        assert set(parity.kinds(far)) == set(parity.kinds(variant))


def test_models_with_the_same_twin_share_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parity_run, "_done", {})
    done: list[str] = []

    def work(model: Model) -> Any:
        done.append(model.id)
        return parity_run.record(model, "x.c", "t", (), references=(), positions=0, detail="")

    by_twin: dict[Any, list[Model]] = {}
    for model in find.models():
        by_twin.setdefault(parity_run.computes(model, parity_run.twin(model)), []).append(model)
    alike, other = sorted(by_twin.values(), key=len, reverse=True)[:2]
    for model in (*alike, other[0]):
        record = parity_run.shared("c", model, parity_run.twin(model), functools.partial(work, model))
        assert record.model == model.id
        assert record.entry == parity_run.definition_hash.entry(model)
    assert done == [alike[0].id, other[0].id]
    parity_run.shared("another check", alike[1], parity_run.twin(alike[1]), functools.partial(work, alike[1]))
    assert len(done) == 3


def test_a_choice_of_experts_that_falls_otherwise_is_counted() -> None:
    ours, theirs = torch.tensor([[[0, 3], [1, 2]]]), torch.tensor([[[0, 3], [1, 4]]])
    assert distance(ours, theirs) == 0.25
    scores = {"blocks.0.feed_forward.router": torch.tensor([[[2.0, 1.0, 0.5, -4.0], [0.0, 3.0, 2.9, 4.0]]])}
    (gap,) = parity_stages.gaps(parity.twin(next(m for m in REPRESENTATIVES if has_experts(m))), [scores])
    assert gap.value == pytest.approx(0.1 / 4, rel=1e-2)


def has_experts(name: str) -> bool:
    return hasattr(models.find(find.model(name).variant).config, "num_experts_per_tok")


# --- cast order -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=MODELS)
def rounded(request: pytest.FixtureRequest) -> Any:
    return parity_bfloat16.run(find.model(request.param), lambda *_: None)


def test_rounding_is_as_in_the_reference(rounded: Any) -> None:
    """At every node; and another order of casts, planted, is seen."""
    assert rounded.outcome == "passed", [m for m in rounded.measurements if m.bound is not None and m.value > m.bound]
    assert rounded.mutants["planted"] == rounded.mutants["noticed"] >= 5
    exact = [m for m in rounded.measurements if m.bound == 0.0 and m.where]
    assert len(exact) >= 10
    unbound = {m.where for m in rounded.measurements if m.bound is None and m.what == parity_bfloat16.OURS}
    known = parity_hub.rounds_otherwise(find.model(rounded.model).family)
    assert unbound == (set() if parity_run.by_meta(find.model(rounded.model)) else set(known))
    assert ("CONFLICT" in rounded.detail) == (bool(known) or parity_run.by_meta(find.model(rounded.model)))


def test_a_cast_in_another_order_is_seen_where_it_is() -> None:
    model = find.model(BY_META)
    variant, case = parity_run.twin(model), parity.case(64, batch=2)
    weights = parity.stored(variant, rounded=True)
    source = parity_run.packaged_source()
    meta = parity_run.ask_meta(variant, weights, {"text": case}, source, dtype="bfloat16")["cases"]["text"][0]
    for name, path in (("rotation in bfloat16", "q_rotate"), ("softmax in bfloat16", "softmax")):
        where, forward = casts(variant)[name]
        ours = parity.filled(variant, weights, torch.bfloat16)
        for _, module in mutations.named(ours, where):
            module.forward = forward.__get__(module)
        found = parity_bfloat16.rounding(ours, case, meta, parity.kinds(variant)).pairs[parity_bfloat16.OURS]
        beyond = {n for n in found if found[n] > (parity_bfloat16.bound(n, {}) or 0.0)}
        assert path in {node.rpartition(".")[2] for node in beyond}, name
        assert "block.ffn_norm" not in beyond, name


# --- other cases, quickly ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("check", [parity_padding, parity_widths])
@pytest.mark.parametrize("name", MODELS)
def test_padding_and_widths(check: Any, name: str) -> None:
    record = check.run(find.model(name), lambda *_: None)
    assert record.outcome == "passed", record.measurements


@pytest.mark.parametrize("name", REPRESENTATIVES)
def test_padding_that_is_seen_fails(name: str) -> None:
    """Padding at position 0 instead of -1 takes part in attention."""
    variant = parity_run.twin(find.model(name))
    case = parity_padding.padded()
    weights = parity.stored(variant)
    hub = parity_run.ask_hub(variant, weights, {"text": case})["cases"]["text"]
    rows = parity_run.real_rows(case)
    shown: Case = {**case, "positions": case["positions"].clamp(min=0)}  # type: ignore[typeddict-item]
    found = Distances(parity.kinds(variant))
    found.add("seen", parity.ours(parity.filled(variant, weights), shown), hub, rows)
    assert found.pairs["seen"]["logits"] > 1e-2


# --- the machinery ----------------------------------------------------------------------------------------------------


def test_distance() -> None:
    a = torch.tensor([[1.0, -2.0], [0.5, 4.0]])
    assert distance(a, a.clone()) == 0.0
    assert distance(a, a + torch.tensor([[0.0, 0.0], [0.0, 4e-3]])) == pytest.approx(1e-3, rel=1e-2)
    assert distance(a, a[:1]) == float("inf")
    assert distance(a, a.where(a > 0, float("nan"))) == float("inf")
    masked = a.where(a > 0, float("-inf"))
    assert distance(masked, a.where(a > 0, torch.finfo(torch.float32).min)) == 0.0
    assert distance(masked, a) == float("inf")
    assert distance(a, a.where(a > 0, float("inf"))) == float("inf")


def test_slots_that_a_reference_drops_must_be_unseen() -> None:
    mask, weights = torch.zeros(1, 1, 2, 5), torch.full((1, 1, 2, 5), 0.25)
    mask[..., :2], weights[..., :2] = float("-inf"), 0.0
    assert last_slots("blocks.0.attention.attend.mask", mask, mask[..., 2:]).shape == (1, 1, 2, 3)
    assert last_slots("blocks.0.attention.attend.softmax", weights, weights[..., 2:]).shape == (1, 1, 2, 3)
    assert last_slots("blocks.0.attention.attend.mask", mask, mask[..., 3:]).shape == mask.shape
    assert last_slots("blocks.0.attention.attend.softmax", weights, weights[..., 3:]).shape == weights.shape
    keys = torch.arange(5.0).reshape(1, 5, 1, 1)
    assert last_slots("blocks.0.attention.attend.repeat_k", keys, keys[:, 2:]).flatten().tolist() == [2, 3, 4]
    assert last_slots("blocks.0.attention.q", keys, keys[:, 2:]).shape == keys.shape


def test_regions_of_blocks() -> None:
    kinds = ("near", "far")
    assert region("blocks.1.attention.q", kinds) == "far.attention.q"
    assert region("blocks.0", kinds) == "near"
    assert region("blocks.1.attention.q") == "block.attention.q"
    assert region("rope.table:cos", kinds) == "rope.table:cos"


def test_a_bound_is_never_infinite() -> None:
    """References of which one gives no numbers do not excuse ours."""
    pairs = {"ours": {"embed": 5e-6, "logits": 1.0}, "between": {"embed": 1e-5, "logits": float("inf")}}
    found = Distances((), pairs, ["embed", "logits"])
    rows = measured(found, "between", ("ours",))
    assert {m.where: m.bound for m in rows if m.bound is not None} == {"embed": 2e-5, "logits": FLOOR}
    assert not holds(rows)
    assert worst(rows).where == "logits"


def test_a_node_of_one_reference_alone_is_bound_by_the_next() -> None:
    pairs = {"ours": {"a": 5e-6, "b": 1e-6, "c": 0.0}, "between": {"b": 4e-6, "c": 1e-5}}
    rows = measured(Distances((), pairs, ["a", "b", "c"]), "between", ("ours",))
    assert {m.where: m.bound for m in rows if m.bound is not None} == {"a": 8e-6, "b": 8e-6, "c": 2e-5}


def test_a_reference_that_fails_says_why() -> None:
    b = beside(BY_META)
    options = {**parity_hub.options(b.variant.family), "config": parity_hub.published(b.variant)}
    few = {name: weight for name, weight in b.weights.items() if name != "model.norm.weight"}
    for weights, said in ((few, "missing_keys: model.norm.weight"), ({**few, "odd": few["lm_head.weight"]}, "odd")):
        with pytest.raises(AtlasError, match=rf"hub; found .*{said}"):
            worker("hub").ask(parity.request(b.variant, weights, {"text": b.case}, **options))
    wrong = parity.request(b.variant, b.weights, {"text": b.case}, **options)
    with closing(Worker("nowhere")) as nobody, pytest.raises(AtlasError, match=r"nowhere; found .*nowhere"):
        nobody.ask(wrong)


def test_without_fairscale_the_stand_ins_give_the_same(tmp_path: Path) -> None:
    b, source = beside(BY_META), parity_run.packaged_source()
    named = parity.renamed(b.variant, b.weights, "meta")
    save(tmp_path / "in.pt", parity.request(b.variant, named, {"text": b.case}, **source.options()))
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
    theirs = b.outcome.sides[parity_run.META][0]["logits"]
    assert distance(answer["cases"]["text"][0]["logits"], theirs) < FLOOR


def test_the_factor_is_patched_only_where_it_must_be() -> None:
    b = beside(BY_META)
    assert BETWEEN in b.outcome.found.pairs
    other = parity.variant_with(b.variant, rope_low_freq_factor=2.0)
    with pytest.raises(AtlasError, match="low_freq_factor is 1, the model's 2"):
        parity_run.ask_meta(other, b.weights, {"text": b.case}, parity_run.packaged_source())
