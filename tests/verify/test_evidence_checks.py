"""Evidence as checks: located lines against pins, executed functions, "computes as … but for …", absences."""

import dataclasses
from pathlib import Path

import pytest

from openmodelatlas.catalog import find
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
from openmodelatlas.verify.located import judge

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


def found(*nodes: LocatedNode) -> Located:
    return Located(
        model="m",
        reference="m.py",
        sha256="",
        scheme="meta",
        shims=(),
        nodes=nodes,
        missing=(),
        instances=len(nodes),
        found=len(nodes),
        positions=1,
        recorded=1,
        logits=0.0,
        shared=0,
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
    judged = judge(here, claims, PLACE.blob)
    assert judged.verified == ("inside", "called", "second")
    assert judged.conflicts == ("one line off: add is at 10, the pin at 11–14",)
    assert judged.not_located == ("unknown: nothing",)
    assert judge(here, claims, "2" * 40).verified == ()


@pytest.mark.slow
def test_a_pin_one_line_off_is_a_conflict_in_a_real_run() -> None:
    at = next(i for i, line in enumerate(SAMPLE.read_text().splitlines(), 1) if "# block.attention_add" in line)
    here = locate(find_variant("llama-3-8b"), SAMPLE)
    good, bad = (
        claim("good", pin((at, at)), "block.attention_add"),
        claim("bad", pin((at + 1, at + 1)), "block.attention_add"),
    )
    assert judge(here, [good, bad], PLACE.blob).verified == ("good",)
    assert [text.partition(":")[0] for text in judge(here, [good, bad], PLACE.blob).conflicts] == ["bad"]


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


@pytest.mark.parametrize("name", ["llama-3-8b", "llama-3.2-1b"])
def test_absences_have_counter_examples_that_are_noticed(name: str) -> None:
    record = run(absent, name)
    controls = [m for m in record.measurements if m.what.startswith("counter-example moved")]
    assert len(controls) >= 4
    assert all(m.value >= absent.LEAST for m in controls)
    assert ("No scaling" in record.detail) == (name == "llama-3-8b")


def test_an_absence_that_does_not_hold_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries shifted by their own number: positions enter outside the rotation."""
    from openmodelatlas.parts.heads import SplitHeads

    plain = SplitHeads.forward

    def shifted(self: SplitHeads, x):  # type: ignore[no-untyped-def]
        out = plain(self, x)
        return out + 0.01 * out.new_tensor(range(out.shape[1]))[None, :, None, None]

    monkeypatch.setattr(SplitHeads, "forward", shifted)
    assert absent.run(find.model("llama-3-8b"), silent).outcome == "failed"
