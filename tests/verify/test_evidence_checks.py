"""Evidence as checks: located lines against pins, executed functions, "computes as … but for …", absences."""

import dataclasses
from pathlib import Path

import pytest

from openmodelatlas.catalog import find
from openmodelatlas.catalog.load import releases
from openmodelatlas.errors import FetchError
from openmodelatlas.models import find as find_variant
from openmodelatlas.records.evidence import Claim, Pin, Place, Range
from openmodelatlas.records.verification import VerificationRecord
from openmodelatlas.trace.locate import Located, LocatedNode, locate
from openmodelatlas.verify.checks import (
    absent,
    computes_as,
    executed,
    executed_sizes,
    independent,
    located,
    located_package,
)
from openmodelatlas.verify.located import by_node, judge, places

SAMPLE = Path(__file__).parent.parent / "trace" / "sample_reference.py"
PLACE = Place(
    kind="git", source="a/b", revision="0" * 40, path="m.py", blob="1" * 40, license="none", wheel_sha256=None
)


def silent(_what: str, _done: int, _total: int) -> None:
    """No progress."""


def pin(*ranges: tuple[int, int]) -> Pin:
    return Pin(place=PLACE, ranges=tuple(Range(first=a, last=b, sha256="0" * 64) for a, b in ranges), same_text=True)


def claim(name: str, at: Pin, *direct: str) -> Claim:
    return Claim(
        id=name,
        reference="r",
        statement="",
        pin=at,
        also=(),
        direct=direct,
        contextual=(),
        expressions={},
        conflict=None,
    )


def node(name: str, lines: tuple[int, ...], called: tuple[int, ...] = ()) -> LocatedNode:
    return LocatedNode(node=name, lines=lines, called=called, others=(), moves=False, distance=0.0)


def found(*nodes: LocatedNode, missing: tuple[str, ...] = (), shared: int = 0, tied: bool = False) -> Located:
    return Located(
        model="m",
        reference="m.py",
        sha256="",
        scheme="meta",
        shims=(),
        nodes=nodes,
        missing=missing,
        instances=len(nodes),
        found=len(nodes),
        positions=1,
        recorded=1,
        logits=0.0,
        shared=shared,
        tied=tied,
        blocks=("block",),
        elsewhere={},
    )


def test_a_pin_is_verified_where_the_located_line_lies_in_it_and_a_conflict_where_not() -> None:
    here = found(node("add", (10,)), node("repeat", (30,), (12,)), node("table", (50, 60)))
    claims = [
        claim("inside", pin((8, 11)), "add"),
        claim("called", pin((12, 12)), "repeat"),
        claim("second", pin((1, 2), (60, 61)), "table"),
        claim("one line off", pin((11, 14)), "add"),
        claim("unknown", pin((1, 99)), "add", "nothing"),
        claim("context", pin((1, 99))),
    ]
    judged = judge(here, claims, {PLACE.blob: by_node(here.nodes)})
    assert judged.verified == ("inside", "called", "second")
    assert judged.conflicts == ("one line off: add is at 10, the pin at 11–14",)
    assert judged.not_located == ("unknown: nothing",)
    assert judge(here, claims, {"2" * 40: by_node(here.nodes)}).verified == ()


def test_a_pin_in_another_file_is_judged_by_the_lines_there() -> None:
    here = found(node("mask", (40,)))
    other = dataclasses.replace(pin((5, 6)), place=dataclasses.replace(PLACE, blob="3" * 40))
    lines = {PLACE.blob: by_node(here.nodes), "3" * 40: {"mask": {6}}}
    claims = [claim("here", pin((40, 40)), "mask"), claim("there", other, "mask")]
    assert judge(here, claims, lines).verified == ("here", "there")
    assert judge(here, claims, {**lines, "3" * 40: {"mask": {7}}}).verified == ("here",)
    assert judge(here, claims, {**lines, "3" * 40: {}}).not_located == ("there: mask",)


def test_a_result_without_a_line_must_be_said_to_be_lacking() -> None:
    without = dataclasses.replace(claim("c", pin((10, 10)), "choose"), lacks=("choose:scores",))
    here = found(node("choose", (10,)), missing=("choose:scores",))
    lines = {PLACE.blob: by_node(here.nodes)}
    assert judge(here, [without], lines).verified == ("c",)
    assert judge(here, [claim("c", pin((10, 10)), "choose")], lines).unexplained == ("choose:scores",)
    there = judge(found(node("choose", (10,))), [without], lines)
    assert there.verified == ()
    assert there.conflicts == ("c: choose:scores is said to be lacking, and a line has it",)


@pytest.mark.parametrize(("shared", "tied", "shown"), [(0, False, True), (1, True, True), (0, True, False)])
def test_what_a_claim_says_of_two_tables_is_shown_by_the_model_that_was_built(
    shared: int, tied: bool, shown: bool
) -> None:
    tables = dataclasses.replace(claim("tables", pin((1, 1))), contextual=("embed", "unembed"))
    made = found(node("embed", (3,)), shared=shared, tied=tied)
    assert judge(made, [tables], {PLACE.blob: {}}).verified == (("tables",) if shown else ())


@pytest.mark.slow
def test_a_pin_one_line_off_is_a_conflict_in_a_real_run() -> None:
    at = next(i for i, line in enumerate(SAMPLE.read_text().splitlines(), 1) if "# block.attention_add" in line)
    here = locate(find_variant("llama-3-8b"), SAMPLE)
    good, bad = (
        claim("good", pin((at, at)), "block.attention_add"),
        claim("bad", pin((at + 1, at + 1)), "block.attention_add"),
    )
    judged = judge(here, [good, bad], {PLACE.blob: by_node(here.nodes)})
    assert judged.verified == ("good",)
    assert [text.partition(":")[0] for text in judged.conflicts] == ["bad"]


def run(check: object, name: str) -> VerificationRecord:
    model = find.model(name)
    assert check.applies(model) is None  # type: ignore[attr-defined]
    try:
        record: VerificationRecord = check.run(model, silent)  # type: ignore[attr-defined]
    except FetchError as error:
        pytest.skip(str(error))
    assert record.outcome == "passed"
    return record


def values(record: VerificationRecord, where: str) -> dict[str, float]:
    return {m.what: m.value for m in record.measurements if m.where == where}


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.parametrize(
    ("check", "name", "line"),
    [(located, "llama-3-8b", 246), (located_package, "llama-3-8b", 252), (located_package, "llama-3.1-8b", 252)],
    ids=lambda v: getattr(v, "__name__", str(v)).rpartition(".")[2],
)
def test_every_node_s_line_lies_in_its_pins(check: object, name: str, line: int) -> None:
    record = run(check, name)
    assert record.located["block.attention_add"] == (line,)
    graph_claims = find.claims(find.model(name))
    direct = {c.id for c in graph_claims if c.direct and not c.conflict}
    assert direct <= set(record.claims)
    assert set(record.nodes) == set(record.located)


LIBRARYS = [r.default for r in releases().values() if find.reference(find.model(r.default).reference).release is None]
"""A model of each release whose reference is a library's own code for it."""


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.parametrize("name", LIBRARYS)
def test_every_node_s_line_lies_in_its_pins_in_every_file_of_the_library(name: str) -> None:
    record = run(located, name)
    model = find.model(name)
    home = find.reference(model.reference).home
    run_here = {place.blob for place in places(model) if place.source == home.source}
    assert len(run_here) > 3
    direct = {c.id for c in find.claims(model) if c.direct and c.pin.place.blob in run_here}
    assert direct <= set(record.claims)
    assert {measured.what for measured in record.measurements if measured.value} <= {
        *("nodes located, every block's own", "nodes with further lines, ruled out by call order"),
        *("matched values, relative", "parameters with a second name"),
    }
    assert located_package.applies(model) is not None
    assert computes_as.applies(model) is not None


@pytest.mark.slow
@pytest.mark.network
def test_a_claim_that_names_a_line_of_another_branch_fails() -> None:
    """The frequencies that are scaled are not made by the lines that make those that are not."""
    model = find.model("gemma-3-4b")
    record = located.run(dataclasses.replace(model, without=()), silent)
    assert record.outcome == "failed"
    assert "gemma3-global-frequencies: rope.frequencies is at 156" in record.detail


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.parametrize("name", LIBRARYS)
def test_a_librarys_class_makes_our_angles_and_takes_our_tensors(name: str) -> None:
    record = run(executed, name)
    frequencies = [m for m in record.measurements if m.what.startswith("rotary frequencies")]
    assert [m.value for m in frequencies] == [0.0] * len(frequencies)
    assert len(frequencies) >= 2
    assert record.claims
    loaded = run(executed_sizes, name)
    tensors = values(loaded, "")["parameters held against the reference's"]
    assert tensors >= find_variant(find.model(name).variant).config.num_hidden_layers * 9


@pytest.mark.slow
@pytest.mark.network
def test_another_base_is_not_the_librarys(monkeypatch: pytest.MonkeyPatch) -> None:
    variant = find_variant("qwen3-0.6b")
    other = dataclasses.replace(variant, config=dataclasses.replace(variant.config, rope_theta=10000.0))
    monkeypatch.setattr(executed.models, "find", lambda _name: other)
    assert executed.run(find.model("qwen3-0.6b"), silent).outcome == "failed"


@pytest.mark.slow
@pytest.mark.network
def test_a_list_of_another_size_is_not_the_models() -> None:
    assert run(executed_sizes, "gemma-3-1b").claims == ("configuration-gemma-3-1b",)
    other = dataclasses.replace(find.model("gemma-3-1b"), configuration=find.model("gemma-3-4b").configuration)
    record = executed_sizes.run(other, silent)
    assert record.outcome == "failed"
    assert "Differ: head_dim" not in record.detail
    assert "hidden_size" in record.detail.rpartition("Differ")[2]


@pytest.mark.slow
@pytest.mark.network
def test_scaling_is_executed_and_equal_to_the_bit() -> None:
    record = run(executed, "llama-3.1-8b")
    assert values(record, "rope.scale") == {"rotary frequencies, largest difference": 0.0}
    assert {"scaled-rope", "rope-frequencies"} == set(record.claims)


@pytest.mark.slow
@pytest.mark.network
def test_another_factor_is_run_patched_and_shown_as_a_conflict() -> None:
    record = run(executed, "llama-3.2-1b")
    measured = values(record, "rope.scale")
    assert measured["rotary frequencies, largest difference"] == 0.0
    assert measured["the same with the factor that is written there"] > 1e-6
    assert "CONFLICT" in record.detail
    assert "scaled-rope" not in record.claims
    assert any("scale_factor = 32" in shim for shim in record.references[0].shims)


@pytest.mark.slow
@pytest.mark.network
def test_listed_numbers_build_our_shapes() -> None:
    record = run(executed_sizes, "llama-3.2-1b")
    assert {"configuration-llama-3.2-1b", "feed-forward-width"} == set(record.claims)
    assert values(record, "")["parameters held against the reference's"] == 147
    other = find.model("llama-3.2-3b").configuration
    wrong = dataclasses.replace(find.model("llama-3.2-1b"), configuration=other)
    assert executed_sizes.run(wrong, silent).outcome == "failed"


def test_computes_as_but_for_the_named_nodes() -> None:
    record = run(computes_as, "llama-3.1-8b")
    assert values(record, "logits") == {computes_as.SAME: 0.0}
    assert values(record, "rope.scale")[f"{computes_as.APART} rope.scale"] > 1e-3
    assert "the first node that differs is rope.scale" in record.detail
    assert "own code" in str(computes_as.applies(find.model("llama-3-8b")))


def test_a_sentence_that_leaves_a_node_out_fails() -> None:
    model = find.model("llama-3.2-1b")
    kept = tuple(d for d in model.deviations if d.node == "unembed")
    assert len(kept) < len(model.deviations)
    assert computes_as.run(dataclasses.replace(model, deviations=kept), silent).outcome == "failed"


def test_a_sentence_that_names_a_node_too_many_fails() -> None:
    model = find.model("smollm2-135m")
    more = (*model.deviations, dataclasses.replace(model.deviations[0], node="norm"))
    assert computes_as.run(dataclasses.replace(model, deviations=more), silent).outcome == "failed"


def test_blocks_are_independent() -> None:
    record = run(independent, "smollm2-135m")
    assert values(record, "block")["blocks with equal subtree hashes"] == 30
    assert values(record, "")["parameters that two blocks share"] == 0


@pytest.mark.parametrize("name", ["llama-3-8b", "llama-3.2-1b", "gemma-3-1b", *LIBRARYS])
def test_absences_have_counter_examples_that_are_noticed(name: str) -> None:
    record = run(absent, name)
    controls = [m for m in record.measurements if m.what.startswith("counter-example moved")]
    assert len(controls) >= 6
    assert all(m.value >= absent.LEAST for m in controls)
    ropes = dict(executed.ropes(find_variant(find.model(name).variant).build("meta")))
    plain = [rope for rope, made in ropes.items() if not hasattr(made, "scale")]
    assert [f"No scaling: {rope}.table" in record.detail for rope in ropes] == [rope in plain for rope in ropes]


def test_an_absence_that_does_not_hold_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries shifted by their own number: positions enter outside the rotation."""
    from openmodelatlas.parts.heads import SplitHeads

    plain = SplitHeads.forward

    def shifted(self: SplitHeads, x):  # type: ignore[no-untyped-def]
        out = plain(self, x)
        return out + 0.01 * out.new_tensor(range(out.shape[1]))[None, :, None, None]

    monkeypatch.setattr(SplitHeads, "forward", shifted)
    assert absent.run(find.model("llama-3-8b"), silent).outcome == "failed"


def test_a_cap_on_scores_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from openmodelatlas.parts.attend import ScaledScores

    plain = ScaledScores.forward
    monkeypatch.setattr(ScaledScores, "forward", lambda self, q, k: 50.0 * (plain(self, q, k) / 50.0).tanh())
    record = absent.run(find.model("gemma-3-1b"), silent)
    beyond = {m.where for m in record.measurements if m.bound is not None and m.value > m.bound}
    assert beyond == {"local_block.attention.attend.mask", "global_block.attention.attend.mask"}
