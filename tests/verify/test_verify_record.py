"""`oma verify --record`: what it keeps of a user's own checkpoint, what it refuses, and what `oma site` finds of it."""

import dataclasses
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from openmodelatlas import maps
from openmodelatlas.catalog import find
from openmodelatlas.cli.commands import site
from openmodelatlas.cli.main import main
from openmodelatlas.errors import CheckpointError
from openmodelatlas.records.json import from_json
from openmodelatlas.records.report import Check, OwnRecord, Report
from openmodelatlas.verify import checkpoint, definition_hash

Write = Callable[..., Path]
MODEL = "llama-3.1-70b"  # computes as Llama 3.3 70B: the report names the first


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OMA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file is Llama 3.1 70B, since no test has one that is."""

    def verified(_: Path, *, target: str, **_more: object) -> object:
        check = Check(name="model", state="ok", detail=f"{MODEL}, which computes as llama-3.3-70b")
        report = Report(
            target=target, ok=True, model=MODEL, nearest=MODEL, format="GGUF v3", counts={}, checks=(check,),
            findings=(), waived=(),
        )  # fmt: skip
        return SimpleNamespace(report=report, ledger=None)

    monkeypatch.setattr(checkpoint, "verify", verified)


@pytest.mark.usefixtures("holds")
def test_a_record_has_the_file_by_name_and_no_place(write: Write, cache: Path) -> None:
    path = write(b"weights")
    assert main(["verify", str(path)]) == 0
    assert not cache.exists()
    assert main(["verify", str(path), "--record"]) == 0
    (kept,) = (p for p in cache.rglob("*") if p.is_file())
    digest = hashlib.sha256(b"weights").hexdigest()
    assert kept.relative_to(cache).as_posix() == f"own/{MODEL}/{digest}.json"
    text = kept.read_text()
    assert str(path.parent) not in text
    record = from_json(OwnRecord, json.loads(text))
    assert (record.model, record.file, record.bytes, record.sha256) == (MODEL, "tiny.gguf", 7, digest)
    assert record.report.target == "tiny.gguf"
    assert {"openmodelatlas", "torch"} <= set(record.environment)
    assert maps.own_records(find.model(MODEL)) == ((record,), ())
    assert maps.own_records(find.model("llama-3.3-70b")) == ((), ())


@pytest.mark.usefixtures("holds")
def test_the_site_finds_it(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maps, "annotated", lambda *_, **__: SimpleNamespace())
    before = site.gather(mirror=None, offline=True)
    assert all(page.own == page.own_stale == () for page in before)
    assert main(["verify", str(write(b"weights")), "--record"]) == 0
    after = {page.model.id: page for page in site.gather(mirror=None, offline=True)}
    assert [name for name, page in after.items() if page.own] == [MODEL]
    monkeypatch.setattr(definition_hash, "definition", lambda _: "another")
    page = next(p for p in site.gather(mirror=None, offline=True) if p.model.id == MODEL)
    assert page.own == ()
    assert page.own_stale == after[MODEL].own


@pytest.mark.usefixtures("holds")
def test_what_is_no_record_is_left_out_and_named(write: Write, cache: Path) -> None:
    assert main(["verify", str(write(b"weights")), "--record"]) == 0
    (kept,) = cache.rglob("*.json")
    data = json.loads(kept.read_text())
    (kept.parent / "broken.json").write_text("{")
    (kept.parent / f"{'0' * 64}.json").write_text(json.dumps(data))  # of other bytes
    said: list[str] = []
    (found,), _ = maps.own_records(find.model(MODEL), progress=said.append)
    assert found.sha256 == kept.stem
    assert len(said) == 2
    kept.write_text(json.dumps(data | {"report": data["report"] | {"ok": False}}))
    assert maps.own_records(find.model(MODEL)) == ((), ())


def test_findings_leave_no_record(write: Write, cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(write()), "--record"]) == 1
    out, err = capsys.readouterr()
    assert "FAIL  model" in out
    lines = [line for line in err.splitlines() if line.startswith("oma ")]
    assert lines == ["oma verify: not recorded, since not every check holds: tiny.gguf"]
    assert not cache.exists()


@pytest.mark.usefixtures("holds")
def test_a_file_that_changes_meanwhile_is_refused(write: Write, cache: Path) -> None:
    path = write(b"weights")
    before = path.stat()
    report = checkpoint.verify(path, target="x").report
    path.write_bytes(b"other weights")
    with pytest.raises(CheckpointError, match="changed while it was checked"):
        maps.keep_own(path, report, before)
    with pytest.raises(CheckpointError, match="not every check holds"):
        maps.keep_own(path, dataclasses.replace(report, ok=False), path.stat())
    assert not cache.exists()


def test_only_of_one_file_a_record_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(tmp_path), "--record"]) == 2
    assert "--record keeps checkpoints of one file" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["llama-3-8b"], ["--list"]])
def test_it_is_for_checkpoints(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", *arguments, "--record"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "--record is for checkpoints" in err
