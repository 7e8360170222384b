"""Verification runs on pages: what was measured, where it was located, what went stale, what nobody verified."""

import dataclasses
from pathlib import Path

import made_site
import pytest
from made_site import RUN, ran

from openmodelatlas.catalog import find
from openmodelatlas.catalog.annotate import annotate
from openmodelatlas.records.verification import VerificationRecord
from openmodelatlas.site.build import build
from openmodelatlas.site.inputs import ModelPage


def states(of: ModelPage, node: str) -> list[str]:
    return [claim.state for claim in of.graph.by_id[node].claims]


def test_a_passed_run_verifies_its_claims_and_only_those() -> None:
    of = ran(RUN)
    assert states(of, "block.attention_add") == ["verified"]
    assert states(of, "block:out") == ["verified", "read"]
    assert states(of, "norm").count("verified") == 0


@pytest.mark.parametrize(
    ("run", "stale"), [(RUN, True), (dataclasses.replace(RUN, outcome="failed"), False)], ids=["stale", "failed"]
)
def test_a_stale_or_failed_run_verifies_nothing(run: VerificationRecord, stale: bool) -> None:
    assert states(ran(run, stale=stale), "block.attention_add") == ["read"]


def test_a_conflict_stays_one() -> None:
    plain = made_site.page("llama-3.2-1b")
    claims = find.claims(plain.model)
    reports = {c.id: tuple(made_site.found(c.id, pin) for pin in (c.pin, *c.also)) for c in claims}
    run = dataclasses.replace(RUN, model="llama-3.2-1b", claims=("scaled-rope",))
    graph = annotate(plain.graph, reports, claims, [run])
    assert [c.state for c in graph.by_id["rope.scale"].claims if c.id == "scaled-rope"] == ["conflict"]


def test_pages_show_the_run(tmp_path: Path) -> None:
    build([ran(RUN)], [], tmp_path / "site")
    node = made_site.read(tmp_path / "site" / "llama-3-8b" / "block.attention_add.html").text
    for phrase in (
        "line 246 of a reference 1.2",
        "4.1e-07 of at most 1e-06: distance, relative",
        "tiny random weights",
        "2026-11-30",
    ):
        assert phrase in node
    tensor = made_site.read(tmp_path / "site" / "llama-3-8b" / "block.attention_add--out.html").text
    assert "line 246 of a reference 1.2" in tensor
    assert "read, not run" not in node
    assert "read, not run" in made_site.read(tmp_path / "site" / "llama-3-8b" / "norm.html").text
    other = made_site.read(tmp_path / "site" / "llama-3-8b" / "block.ffn_norm.html").text
    assert "a reference 1.2" not in other
    model = (tmp_path / "site" / "llama-3-8b" / "index.html").read_text()
    assert 'id="doubt"' in model
    assert "8 of 9 planted mistakes noticed" in model
    unproved = model.partition('data-ids="')[2].partition('"')[0].split()
    assert "block.ffn_norm" in unproved
    assert not {"block.attention_add", "block.attention_add:out", "norm"} & set(unproved)


def test_a_stale_run_says_so(tmp_path: Path) -> None:
    build([ran(RUN, stale=True)], [], tmp_path / "site")
    html = (tmp_path / "site" / "llama-3-8b" / "block.attention_add.html").read_text()
    section = html.partition('class="proofs"')[2].partition("</section>")[0]
    assert 'class="state not-verified"' in section
    assert "has changed since this run" in section
    assert "verified\"" not in section.replace("not-verified", "")


def test_without_runs_the_page_says_so(tmp_path: Path) -> None:
    build([made_site.page("llama-3-8b")], [], tmp_path / "site")
    model = made_site.read(tmp_path / "site" / "llama-3-8b" / "index.html").text
    assert "Nothing yet beside a reference" in model
