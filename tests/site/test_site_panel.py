"""What a model rests on: the panel's five rows, from records alone, and a user's own checkpoint on the pages."""

import dataclasses
from pathlib import Path
from typing import Any

import made_site
import pytest
from test_site_proofs import RUN

from openmodelatlas.catalog import find
from openmodelatlas.catalog.annotate import annotate
from openmodelatlas.records.report import Check, CheckpointRecord, OwnRecord, Report
from openmodelatlas.records.verification import VerificationRecord, Yardstick
from openmodelatlas.site.build import build
from openmodelatlas.site.inputs import ModelPage
from openmodelatlas.site.panel import Line, Row, panel
from openmodelatlas.site.provenance import provenance_line

NAMES = ["reference code", "configuration", "checkpoint", "tokenizer", "tensors"]
CHECKS = tuple(
    Check(name=name, state="ok", detail=detail)
    for name, detail in (("bytes", "all used"), ("tensors", "3 matched"), ("tokenizer", "builds, 9 tokens"))
)
OWN = OwnRecord(
    model="llama-3.1-8b",
    file="<mine>.gguf",
    bytes=4_700_000_000,
    sha256="0123456789abcdef" * 4,
    definition="",
    report=Report(
        target="<mine>.gguf",
        ok=True,
        model="llama-3.1-8b",
        nearest="llama-3.1-8b",
        format="GGUF v3",
        counts={},
        checks=CHECKS,
        findings=(),
        waived=(),
    ),
    date="2026-11-30",
    environment={"torch": "9.9"},
)
BESIDE = (Yardstick(name="Meta's code, llama-models", version="0.3.0", sha256="", shims=()),)
OTHER = (Yardstick(name="transformers, eager attention", version="5", sha256="", shims=()),)
LISTED = "configuration-llama-3.1-8b"
SIZES = {"check": "sizes", "tier": "full-size on the meta device", "claims": (LISTED,), "nodes": ()}


def page(*runs: VerificationRecord, model: str = "llama-3.1-8b", stale: tuple[str, ...] = (), **more: Any) -> ModelPage:
    """A model with made-up runs, all of its pins found."""
    plain = made_site.page(model)
    claims = find.shown(plain.model)
    reports = {c.id: tuple(made_site.found(c.id, pin) for pin in (c.pin, *c.also)) for c in claims}
    graph = annotate(plain.graph, reports, claims, runs, stale)
    return dataclasses.replace(plain, graph=graph, runs=runs, stale=stale, **more)


def run(**changes: Any) -> VerificationRecord:
    return dataclasses.replace(RUN, **{"model": "llama-3.1-8b", "references": BESIDE} | changes)


def rows(of: ModelPage, *records: CheckpointRecord) -> dict[str, Row]:
    made = panel(of, records, of.own)
    assert [row.name for row in made] == NAMES
    return {row.name: row for row in made}


def states(of: ModelPage, *records: CheckpointRecord) -> list[str]:
    return [row.state for row in rows(of, *records).values()]


def test_without_runs_nothing_is_verified() -> None:
    assert states(page()) == ["read", "read", "not verified", "not verified", "not verified"]
    assert states(page(model="smollm2-135m")) == ["read", "stated", "not verified", "not verified", "not verified"]
    assert states(made_site.page("llama-3-8b", made_site.missing)) == ["not verified"] * 5


@pytest.mark.parametrize(
    ("changes", "verified"),
    [
        ({}, ["reference code"]),
        (SIZES, ["configuration"]),
        ({"tier": "header match", "references": ()}, ["tensors"]),
        ({"tier": "real weights", "references": OTHER}, ["checkpoint"]),
        ({"references": ()}, []),
        ({"references": OTHER}, []),
    ],
)
def test_a_run_verifies_its_own_row_only(changes: dict[str, Any], verified: list[str]) -> None:
    made = run(**changes)
    found = rows(page(made))
    assert [name for name in NAMES if found[name].state == "verified"] == verified
    for name in verified:
        assert Line(made.check, made.tier) in found[name].lines
    for outcome, stale in (("failed", ()), ("passed", (made.check,))):
        broken = rows(page(dataclasses.replace(made, outcome=outcome), stale=stale))
        assert "verified" not in [row.state for row in broken.values()]
        for name in verified:
            expected = "conflict" if outcome == "failed" else {"reference code": "read", "configuration": "read"}
            assert broken[name].state == (expected if isinstance(expected, str) else expected.get(name, "not verified"))
            assert {line.state for line in broken[name].lines} & {"conflict", "not verified"}


def test_no_run_on_real_weights_is_said_where_there_is_none() -> None:
    def said(of: ModelPage) -> list[str]:
        return [line.words for line in rows(of)["checkpoint"].lines if line.words.startswith("no run on real")]

    assert said(page()) == ["no run on real weights: scaled rotary frequencies have met none"]
    assert said(page(model="smollm2-135m")) == ["no run on real weights"]
    assert said(page(run(tier="real weights"))) == []
    assert said(page(run(tier="real weights", outcome="failed"))) != []
    assert said(page(own=(OWN,))) != []


def test_a_claim_in_conflict_is_named() -> None:
    lines = rows(page(model="llama-3.2-1b"))["reference code"].lines
    assert Line("claim scaled-rope: sources disagree", state="conflict") in lines


def test_a_caveat_about_the_list_is_shown_and_leaves_the_row_its_state() -> None:
    for made, state in ((page(), "read"), (page(run(**SIZES)), "verified")):
        row = rows(made)["configuration"]
        assert row.state == state
        assert [line.words.partition(":")[0] for line in row.lines if line.state == "conflict"] == [
            "llama-models==0.3.0, sku_list.py 18, 131–148"
        ]
        assert "Against it: Meta's own card" in row.lines[-1].words
        assert not any("listed" in line.words for line in rows(made)["reference code"].lines)
    assert all(line.state is None for line in rows(page(model="smollm2-135m"))["configuration"].lines)


def test_a_caveat_is_no_code_of_the_model() -> None:
    node = page().graph.by_id[""]
    assert [c.state for c in node.claims if c.id == "listed-llama-2-7b"] == ["conflict"]
    assert not any(first <= 140 <= last for code in node.code for first, last in code.lines if "sku" in code.path)
    assert {code.state for code in node.code} == {"read"}


def test_a_checkpoint_verifies_what_its_report_has_a_check_for() -> None:
    of = page(model="smollm2-135m")
    whole = made_site.record(of.graph)
    assert states(of, whole)[2:] == ["verified"] * 3
    fewer = tuple(check for check in whole.report.checks if check.name != "tokenizer")
    record = dataclasses.replace(whole, report=dataclasses.replace(whole.report, checks=fewer))
    assert states(of, record)[2:] == ["verified", "not verified", "verified"]
    line = made_site.Html(provenance_line(of, rows=panel(of, [record], ()))).text
    assert "checkpoint and tensors verified (Made-up 135M)" in line
    assert "tokenizer not verified" in line


def test_an_own_checkpoint_takes_the_place_of_not_verified(tmp_path: Path) -> None:
    build([page(own=(OWN,)), page(model="llama-3-8b")], [], tmp_path / "site")
    for name in ("llama-3.1-8b/index.html", "llama-3.1.html"):
        shown = made_site.read(tmp_path / "site" / name)
        line = "checkpoint, tokenizer and tensors verified (<mine>.gguf, sha256 0123456789ab…, 2026-11-30)"
        assert line in shown.text
        assert "tensors not verified" not in shown.text
        card = shown.section("card verdict own").text
        for words in ("all 3 checks hold", OWN.sha256, "4,700,000,000 bytes", "torch 9.9", "builds, 9 tokens"):
            assert words in card
        rests = shown.section("card rests").text
        assert "your <mine>.gguf: builds, 9 tokens header match" in rests
        assert "no run on real weights: scaled" in rests
    other = made_site.read(tmp_path / "site" / "llama-3-8b" / "index.html")
    assert "checkpoint, tokenizer and tensors not verified" in other.text
    assert "mine" not in other.text


def test_an_own_checkpoint_of_another_definition_verifies_nothing() -> None:
    of = page(own_stale=(OWN,))
    assert states(of)[2:] == ["not verified"] * 3
    assert any("the definition has changed since" in line.words for line in rows(of)["tensors"].lines)
    assert "checkpoint, tokenizer and tensors not verified" in provenance_line(of, rows=panel(of, [], of.own))
