"""Records of verification runs: what is kept is true of what is here, and a change makes it stale."""

import ast
import dataclasses
import json
import subprocess
import sys
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from openmodelatlas.catalog import find, records
from openmodelatlas.catalog.checkpoints import checkpoints
from openmodelatlas.cli.main import main
from openmodelatlas.errors import CatalogError, UnknownName
from openmodelatlas.records.json import from_json, to_json
from openmodelatlas.records.verification import Measurement, VerificationRecord
from openmodelatlas.verify import definition_hash, model, parity_run
from openmodelatlas.verify.published import counts
from openmodelatlas.verify.target import model_of

ROOT = Path(__file__).parents[2]
KEPT = Path(str(files("openmodelatlas.catalog"))) / records.FOLDER


@pytest.mark.parametrize("record", records.records(), ids=records.place)
def test_no_kept_record_is_stale(record: VerificationRecord) -> None:
    assert model.stale(record) == (), f"run: oma verify {record.model} --check {record.check} --write"


@pytest.mark.parametrize("record", records.records(), ids=records.place)
def test_a_kept_record_passed_and_is_in_its_byte_form(record: VerificationRecord) -> None:
    assert record.outcome == "passed"
    assert records.text(record) == (KEPT / records.place(record)).read_text(encoding="utf-8")
    schema = json.loads((ROOT / "docs" / "schema" / "verification.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator(schema).validate(to_json(record))


def test_every_parity_check_that_applies_has_a_record() -> None:
    assert [pair for pair in model.missing() if pair[1].startswith("parity_")] == []


def sample() -> VerificationRecord:
    return parity_run.record(
        find.model("llama-3-8b"),
        "openmodelatlas.verify.checks.parity_count",
        "a title",
        (Measurement(where="", what="x", value=1.5, bound=2.0), Measurement(where="", what="y", value=3.0, bound=None)),
        references=(),
        positions=0,
        detail="",
        nodes=("rope.table:cos", "rope.table:sin", "embed"),
    )


def test_a_record_has_one_byte_form() -> None:
    record = sample()
    text = records.text(record)
    assert from_json(VerificationRecord, json.loads(text)) == record
    assert '    {"where": "", "what": "x", "value": 1.5, "bound": 2.0},\n' in text
    assert record.nodes == ("rope.table", "embed")
    assert record.check == "parity_count"
    bare = dataclasses.replace(record, measurements=())
    assert from_json(VerificationRecord, json.loads(records.text(bare))) == bare


def test_a_record_fails_beyond_its_bound() -> None:
    worse = (Measurement(where="", what="x", value=2.1, bound=2.0),)
    one = parity_run.record(
        find.model("llama-3-8b"), "a.b", "t", worse, references=(), positions=0, detail="", nodes=()
    )
    assert one.outcome == "failed"


def test_what_makes_a_record_stale() -> None:
    record = sample()
    assert model.stale(record) == ()
    for change, reason in (
        ({"definition": "0"}, "the definition has changed"),
        ({"entry": "0"}, "the catalogue's entry has changed"),
        ({"check": "no_such"}, "there is no such check"),
        ({"model": "no-such"}, "the model is no longer in the catalogue"),
        ({"check": "parity_real"}, "the check no longer applies"),
    ):
        assert reason in model.stale(dataclasses.replace(record, **change))


def test_records_are_written_and_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "files", lambda _: tmp_path)
    monkeypatch.setattr(records, "files", lambda _: tmp_path)
    records.records.cache_clear()
    try:
        assert records.records() == ()
        assert model.write(sample()).relative_to(tmp_path).as_posix() == "records/llama-3-8b/parity_count.json"
        assert records.of("llama-3-8b") == (sample(),)
        path = tmp_path / "records" / "llama-3-8b" / "parity_count.json"
        path.rename(path.with_name("other.json"))
        records.records.cache_clear()
        with pytest.raises(CatalogError, match="another's place"):
            records.records()
        path.with_name("other.json").write_text("{}")
        with pytest.raises(CatalogError, match="missing or surplus keys"):
            records.records()
    finally:
        records.records.cache_clear()


def test_reading_records_needs_no_torch() -> None:
    code = "from openmodelatlas.catalog import records; records.records(); import sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --- the hash of a definition -----------------------------------------------------------------------------------------


def test_the_hash_is_of_code_alone() -> None:
    code = 'class A:\n    """Text."""\n    x = 1\n    """A note."""\n\n    def f(self, y=2):\n        return y  # why\n'
    same = 'class A:\n    """Other."""\n\n    x = 1\n    def f(self, y = 2):\n        """New."""\n        return (y)\n'
    assert definition_hash.plain(ast.parse(code)) == definition_hash.plain(ast.parse(same))
    for old, new in (("x = 1", "x = 1.0"), ("y=2", "y=3"), ("return y", "return -y"), ("def f", "def g")):
        assert definition_hash.plain(ast.parse(code)) != definition_hash.plain(ast.parse(code.replace(old, new)))


def test_the_hash_covers_the_parts_that_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    used = set(definition_hash._used("openmodelatlas.models.llama"))
    rooms = {"parts.attend", "parts.rope", "parts.norm", "parts.precision", "parts.heads", "models.variant"}
    assert {f"openmodelatlas.{name}" for name in rooms} <= used
    before = definition_hash.definition("llama")
    read = definition_hash._source

    def changed(module: str) -> str:
        return read(module).replace("self.eps = eps", "self.eps = eps * 2")

    monkeypatch.setattr(definition_hash, "_source", changed)
    definition_hash.definition.cache_clear()
    try:
        assert definition_hash.definition("llama") != before
    finally:
        definition_hash.definition.cache_clear()


def test_the_entry_hash_covers_the_entry() -> None:
    one = find.model("llama-3.1-8b")
    assert definition_hash.entry(one) != definition_hash.entry(find.model("llama-3.1-70b"))
    assert definition_hash.entry(one) != definition_hash.entry(dataclasses.replace(one, variant="llama-3-8b"))


# --- the command ------------------------------------------------------------------------------------------------------


def test_no_name_means_two_things() -> None:
    models = {m.id for m in find.models()} | {m.release for m in find.models()}
    assert not models & set(checkpoints())
    assert model_of("smollm2-135m-instruct") is None
    found = model_of("llama-3.1")
    assert found is not None
    assert found.id == "llama-3.1-8b"


def test_a_path_wins_over_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert model_of("llama-3-8b") is not None
    (tmp_path / "llama-3-8b").write_bytes(b"no checkpoint")
    assert model_of("llama-3-8b") is None
    assert main(["verify", "llama-3-8b"]) == 2


def test_the_matrix(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "--list", "--json"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert set(table) == {m.id for m in find.models()}
    for row in table.values():
        assert set(row) == set(model.checks())
        assert all(reason is None or reason.strip() for reason in row.values())
        assert row["parity_stages"] is None
    assert "no checkpoint" in table["llama-3.1-8b"]["parity_real"]
    assert main(["verify", "--list"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in (*table, *model.checks()))


def test_one_check_of_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["verify", "llama-3.1-405b", "--check", "parity_count", "--check", "parity_real"]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "ok    parity_count" in out
    assert "405,853,388,800" in out
    assert "parity_real         does not apply" in out
    assert out.splitlines()[-1] == "llama-3.1-405b: 1 passed, 0 failed, 0 not run"
    assert main([*arguments, "--json"]) == 0
    (record,) = json.loads(capsys.readouterr().out)
    assert record["outcome"] == "passed"
    assert record["tier"] == "full-size on the meta device"


def test_a_check_that_fails_or_cannot_run_is_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from openmodelatlas.verify.checks import parity_count

    monkeypatch.setattr(parity_count, "counts", lambda: {"llama-3-8b": {"count": 8_030_261_249, "source": "nobody"}})
    assert main(["verify", "llama-3-8b", "--check", "parity_count"]) == 1
    out = capsys.readouterr().out
    assert "FAIL  parity_count" in out
    assert "away from the published count 1 (at most 0)" in out

    def broken(*_: object) -> None:
        raise CatalogError("no such thing")

    monkeypatch.setattr(parity_count, "run", broken)
    assert main(["verify", "llama-3-8b", "--check", "parity_count"]) == 1
    out = capsys.readouterr().out
    assert "not run: no such thing" in out
    assert out.splitlines()[-1] == "llama-3-8b: 0 passed, 0 failed, 1 not run"


def test_bad_calls_are_2(tiny_checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify"]) == 2
    assert main(["verify", str(tiny_checkpoint), "--write"]) == 2
    assert main(["verify", "llama-3-8b", "--check", "parity_stage"]) == 2
    assert "nearest: parity_stages" in capsys.readouterr().err
    with pytest.raises(UnknownName):
        model.check("nothing")


def test_published_counts_stand_once() -> None:
    """The copy that the package carries is the one that the tests read."""
    data = tomllib.loads((ROOT / "tests" / "data" / "parameter_counts.toml").read_text(encoding="utf-8"))
    assert counts() == data


def test_one_check_of_every_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "--all", "--check", "parity_count"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.endswith("0 not run")]
    assert sorted(lines) == sorted(f"{m.id}: 1 passed, 0 failed, 0 not run" for m in find.models())
    assert main(["verify", "--all", "--check", "parity_count", "--json"]) == 0
    found = sorted(record["model"] for record in json.loads(capsys.readouterr().out))
    assert found == sorted(m.id for m in find.models())
