"""Waivers: what they silence and for how long, what the report says of them, and what is wrong with a file of them."""

import datetime
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
from gguf_writer import File, f32

from openmodelatlas.cli.main import main
from openmodelatlas.errors import UsageError
from openmodelatlas.records.findings import finding
from openmodelatlas.verify import waivers
from openmodelatlas.verify.checkpoint import verify
from openmodelatlas.verify.outcome import not_run, outcome
from openmodelatlas.verify.waivers import Waiver, apply, read

Write = Callable[..., Path]
TODAY = datetime.date(2026, 12, 1)
GOOD = """
[[waiver]]
finding = "tensors.surplus"
where = "*rotary_emb.inv_freq*"
reason = "left by a conversion"
expires = 2999-01-01
"""


@pytest.fixture(autouse=True)
def tiny_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openmodelatlas.weights.identify.variants", lambda: {"tiny": tiny.variant()})


@pytest.fixture
def leftover(write: Write) -> Path:
    """A checkpoint with a tensor that has no owner."""
    made = tiny.file()
    return write(File(made.metadata, [*made.tensors, f32("rotary_emb.inv_freq", np.ones(32))]))


def waiver(**changes: Any) -> Waiver:
    usual = {"finding": "tensors.surplus", "where": "*", "target": "*", "reason": "r", "expires": TODAY, "at": "w:1"}
    return Waiver(**usual | changes)


def test_a_waived_finding_does_not_count_and_is_shown(
    leftover: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    assert main(["verify", str(leftover)]) == 1
    capsys.readouterr()
    (here / "oma-waivers.toml").write_text(GOOD)
    assert main(["verify", str(leftover)]) == 0
    out = capsys.readouterr().out
    assert "  ok    tensors" in out
    assert "waived until 2999-01-01: 'rotary_emb.inv_freq': left by a conversion [tensors.surplus]" in out
    assert out.splitlines()[-1].endswith("is tiny, with 1 waived")
    assert main(["verify", str(leftover), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["findings"] == []
    assert report["waived"][0]["reason"] == "left by a conversion"


def test_what_lies_beside_a_checkpoint_waives_nothing(
    leftover: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leftover.with_name("oma-waivers.toml").write_text(GOOD)
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    assert main(["verify", str(leftover)]) == 1
    assert main(["verify", str(leftover), "--waivers", str(leftover.with_name("oma-waivers.toml"))]) == 0


def test_nothing_waives_that_something_is_no_checkpoint(write: Write, tmp_path: Path) -> None:
    file = tmp_path / "w.toml"
    file.write_text(GOOD.replace("tensors.surplus", "files.empty").replace("*rotary_emb.inv_freq*", "*"))
    assert main(["verify", str(write(b"")), "--waivers", str(file), "--json"]) == 2


@pytest.mark.parametrize(
    ("changes", "waived", "note"),
    [
        ({}, True, None),
        ({"where": "'a[1].?'"}, True, None),
        ({"target": "mi*"}, True, None),
        ({"expires": TODAY - datetime.timedelta(1)}, False, "has expired on 2026-11-30: w:1"),
        ({"where": "a"}, False, "a waiver of tensors.surplus matches nothing: w:1"),
        ({"where": "'a?1?.b'"}, True, None),
        ({"where": "'a[0-9].b'"}, False, "matches nothing"),
        ({"target": "yours*"}, False, None),
        ({"finding": "tensors.missing"}, False, "a waiver of tensors.missing matches nothing: w:1"),
        ({"finding": "values.zero"}, False, None),
    ],
)
def test_what_a_waiver_covers(changes: dict[str, Any], waived: bool, note: str | None) -> None:
    flaw = finding("tensors.surplus", "'a[1].b'")
    outcomes = [outcome("tensors", "counted", [flaw]), not_run("values", "not read")]
    found, apart = apply(outcomes, "mine.gguf", (waiver(**changes),), TODAY)
    (check, kept), (other, _) = found
    assert [w.finding for w in apart] == ([flaw] if waived else [])
    assert kept == ([] if waived else [flaw])
    assert check.state == ("ok" if waived else "failed")
    assert other.notes == ()
    assert len(check.notes) == (note is not None)
    assert note is None or note in check.notes[0]


def test_a_check_holds_only_if_all_that_it_found_is_waived() -> None:
    flaws = [finding("tensors.surplus", "a"), finding("tensors.surplus", "b")]
    ((check, kept),), apart = apply([outcome("tensors", "", flaws)], "x", (waiver(where="a"),), TODAY)
    assert check.state == "failed"
    assert kept == flaws[1:]
    assert len(apart) == 1


def test_many_stars_cost_no_time() -> None:
    assert not waiver(where="*a" * 12 + "c").covers(finding("tensors.surplus", "a" * 80), "x")


def test_the_day_of_expiry_still_counts(leftover: Path) -> None:
    today = datetime.date.today()
    assert verify(leftover, waivers=(waiver(expires=today),)).report.ok
    assert not verify(leftover, waivers=(waiver(expires=today - datetime.timedelta(1)),)).report.ok


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[waiver]", "not TOML"),
        ("a = 1", "not a key of a file of waivers"),
        ("waiver = 1", "waivers are a list"),
        ("waiver = [1]", "a waiver is a table"),
        (GOOD.replace("reason", "because"), "not a key of a waiver: {path}:2; .*found because"),
        (GOOD.replace('reason = "left by a conversion"', ""), "a waiver without reason: {path}:2"),
        (GOOD + GOOD.replace("expires = 2999-01-01", ""), "a waiver without expires: {path}:8"),
        (GOOD.replace("2999-01-01", '"2999-01-01"'), "expires is a date: {path}:2"),
        (GOOD.replace("2999-01-01", "2999-01-01T00:00:00"), "expires is a date"),
        (GOOD.replace("left by a conversion", " "), "reason is a text that is not empty"),
        (GOOD.replace("tensors.surplus", "tensors.surpluss"), "no such kind of finding: {path}:2; found tensors.surpl"),
        ("[" * 5000, "not TOML|nested too deeply"),
        ("x" * (1 << 20) + "=1", "too large"),
    ],
)
def test_a_file_of_waivers_that_is_wrong(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "w.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=said.format(path=path)):
        read(path)


def test_a_file_of_waivers_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read the waivers"):
        read(tmp_path / "none.toml")
    (tmp_path / "w.toml").write_bytes(b"\xff")
    with pytest.raises(UsageError, match="not UTF-8"):
        read(tmp_path / "w.toml")
    assert waivers.usual(tmp_path) == ()


def test_a_checkpoint_with_waived_findings_leaves_no_record(
    leftover: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OMA_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "w.toml"
    file.write_text(GOOD)
    assert main(["verify", str(leftover), "--waivers", str(file), "--record"]) == 1
    assert "not recorded, since a finding is waived" in capsys.readouterr().err
    assert not (tmp_path / "cache").exists()
