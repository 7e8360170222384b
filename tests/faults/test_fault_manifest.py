"""Every fault of the manifest is made, and the command says what the manifest has: text, place, exit code."""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import makers_files
import makers_settings
import makers_tensors
import pytest
import tiny

from openmodelatlas.cli.main import main
from openmodelatlas.models.variant import Variant
from openmodelatlas.records.findings import kinds

ROOT = Path(__file__).parents[2]
MANIFEST = tomllib.loads(Path(__file__).with_name("manifest.toml").read_text(encoding="utf-8"))
CASES: list[dict[str, Any]] = MANIFEST["case"]
FINDING = ("code", "where", "expected", "found")
OUTSIDE = {"F61a", "F63k", "F65a", "F72a"}
KINDS = {"checkpoint header check", "config check", "loader robustness", "tokenizer check"}


def maker(name: str) -> Callable[[Path, Variant], Path]:
    found = [getattr(room, name) for room in (makers_files, makers_settings, makers_tensors) if hasattr(room, name)]
    made: Callable[[Path, Variant], Path] = found[0]
    return made


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_a_fault_is_named(
    case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    of = tiny.variant(case.get("like", "llama-3-8b"), **case.get("sizes", {}))
    monkeypatch.setattr("openmodelatlas.weights.identify.variants", lambda: {"tiny": of})
    target = maker(case["make"])(tmp_path, of)
    options = [option.replace("{folder}", str(tmp_path)) for option in case.get("options", [])]
    code = main(["verify", str(target), "--json", *options])
    assert not (tmp_path / "marker").exists(), "something in the file was run"
    held_to(case, code, json.loads(capsys.readouterr().out), {"{target}": str(target), "{folder}": str(tmp_path)})


def held_to(case: dict[str, Any], code: int, report: dict[str, Any], places: dict[str, str]) -> None:
    """The report has the case's finding to the letter, of every kind as many as the case says, and nothing else."""
    said = [tuple(flaw[key] for key in FINDING) for flaw in report["findings"]]
    assert code == case["exit"], said
    assert case.get("note") in (None, *(note for check in report["checks"] for note in check["notes"]))
    if "finding" not in case:
        assert said == []
        return
    wanted = [case[key] for key in ("finding", *FINDING[1:])]
    for name, place in places.items():
        wanted = [text.replace(name, place) for text in wanted]
    assert tuple(wanted) in said
    assert Counter(flaw[0] for flaw in said) == Counter(case.get("also", {})) + Counter([case["finding"]])


@pytest.mark.parametrize("case", [case for case in CASES if case["id"] in OUTSIDE], ids=lambda case: case["id"])
def test_what_no_model_is_needed_for_is_named_by_the_command_itself(case: dict[str, Any], tmp_path: Path) -> None:
    """The installed command, in a process of its own: one line where the file is none, and the code."""
    target = maker(case["make"])(tmp_path, tiny.variant(case.get("like", "llama-3-8b")))
    command = [sys.executable, "-m", "openmodelatlas.cli.main", "verify", str(target)]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert not (tmp_path / "marker").exists(), "something in the file was run"
    held_to(case, done.returncode, json.loads(done.stdout), {"{target}": str(target), "{folder}": str(tmp_path)})
    spoken = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert (spoken.returncode, spoken.stdout, spoken.stderr.count("\n")) == (2, "", 1)
    assert case["found"].replace("{target}", str(target)) in spoken.stderr


def test_ids_are_unique_and_codes_are_kinds() -> None:
    ids = [case["id"] for case in CASES]
    assert len(ids) == len(set(ids))
    for case in CASES:
        assert {case.get("finding", "files.empty"), *case.get("also", {})} <= set(kinds()), case["id"]
        assert ("finding" in case) == (case["exit"] != 0), case["id"]


def test_every_maker_is_used() -> None:
    helpers = {"write", "edit", "configured", "with_params", "by_hand", "by_hand_into", "entry", "changed", "arrays"}
    rooms = (makers_files, makers_settings, makers_tensors)
    made = {
        name
        for room in rooms
        for name, thing in vars(room).items()
        if callable(thing) and getattr(thing, "__module__", "") == room.__name__ and name[0] not in "_ABCDEFGHIJKLMNOP"
    }
    assert made - helpers == {case["make"] for case in CASES}


def test_every_fault_has_a_case_or_says_why_not() -> None:
    cases = {match[0] for case in CASES if (match := re.match(r"F\d+", case["id"]))}
    elsewhere = {row["fault"] for row in MANIFEST["elsewhere"]}
    waiting = {row["fault"] for row in MANIFEST["waiting"]}
    assert not waiting & (cases | elsewhere)
    assert cases | elsewhere | waiting == set(MANIFEST["faults"])


@pytest.mark.parametrize("row", MANIFEST["elsewhere"], ids=lambda row: row["fault"])
def test_what_is_tested_elsewhere_is(row: dict[str, str]) -> None:
    assert f"\ndef {row['name']}(" in (ROOT / row["test"]).read_text(encoding="utf-8")


def test_the_faults_are_those_of_the_collection() -> None:
    data = os.environ.get("OMA_TEST_DATA")
    file = None if data is None else Path(data) / "faults" / "faults.jsonl"
    if file is None or not file.exists():
        pytest.skip("needs OMA_TEST_DATA with a collection of faults")
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    assert {row["id"] for row in rows if KINDS & set(row["capability"])} == set(MANIFEST["faults"])
