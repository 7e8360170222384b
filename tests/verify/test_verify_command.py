"""`oma verify` and `oma run`: what they print where, and their exit codes for every bad input."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny
from gguf_writer import File

from openmodelatlas.catalog import find, records
from openmodelatlas.cli import several
from openmodelatlas.cli.main import main
from openmodelatlas.errors import FetchError
from openmodelatlas.records.verification import VerificationRecord
from openmodelatlas.verify import definition_hash
from openmodelatlas.verify import model as model_checks

Write = Callable[..., Path]
OMA = [sys.executable, "-m", "openmodelatlas.cli.main"]


def one_error(capsys: pytest.CaptureFixture[str]) -> str:
    """The one line on stderr, with nothing on stdout."""
    out, err = capsys.readouterr()
    assert out == ""
    lines = [line for line in err.splitlines() if line.startswith("oma ")]
    assert len(lines) == 1, err
    assert "Traceback" not in err
    return lines[0]


@pytest.mark.parametrize("command", [["verify"], ["run"]])
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "no such file, and no checkpoint of that name"),
        (b"", "empty file"),
        (b"hello" * 100, "not in a format that is read here"),
        (tiny.file().bytes()[:-40000], "truncated: .* expected [0-9]+ bytes, found [0-9]+"),
        (tiny.file().bytes()[:5000], "truncated"),
    ],
)
def test_what_is_no_checkpoint_is_2(
    command: list[str], content: bytes | None, reason: str, write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    path = "/no/such.gguf" if content is None else str(write(content))
    assert main([*command, path, *(["prompt"] if command == ["run"] else [])]) == 2
    line = one_error(capsys)
    import re

    assert re.search(reason, line), line


def test_directory_is_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(tmp_path)]) == 2
    assert "directory" in one_error(capsys)


def test_a_known_name_that_is_not_here_is_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OMA_CACHE", str(tmp_path))
    assert main(["verify", "smollm2-135m-instruct"]) == 2
    assert "oma pull smollm2-135m-instruct" in one_error(capsys)
    assert main(["run", "smollm2-135m-instrukt", "x"]) == 2
    assert "nearest: smollm2-135m-instruct" in one_error(capsys)


def test_a_path_wins_over_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "smollm2-135m-instruct").write_bytes(b"no checkpoint")
    monkeypatch.chdir(tmp_path)
    assert main(["verify", "smollm2-135m-instruct"]) == 2
    assert "not in a format that is read here" in one_error(capsys)


def test_findings_are_1(tiny_checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(tiny_checkpoint)]) == 1
    out = capsys.readouterr().out
    assert "FAIL  model" in out
    assert "does not hold" in out.splitlines()[-1]
    assert main(["verify", str(tiny_checkpoint), "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert set(report) == {
        "target", "ok", "model", "nearest", "format", "counts", "checks", "findings", "waived",
    }  # fmt: skip
    assert report["ok"] is False
    assert report["findings"]


def test_run_refuses_what_verify_would_find(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(write()), "x"]) == 1
    assert "no model of the atlas; the nearest is" in one_error(capsys)
    assert main(["run", str(write(File({"general.architecture": "mamba"}))), "x"]) == 1
    assert "not an architecture of the atlas" in one_error(capsys)


def test_empty_prompt_and_bad_options(tiny_checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(tiny_checkpoint), ""]) == 1
    assert "empty prompt" in one_error(capsys)
    for option in (["--temperature", "-1"], ["--temperature", "nan"], ["--max-tokens", "-1"], ["--dtype", "int8"]):
        with pytest.raises(SystemExit) as caught:
            main(["run", str(tiny_checkpoint), "x", *option])
        assert caught.value.code == 2


def kept(monkeypatch: pytest.MonkeyPatch, *found: VerificationRecord) -> None:
    """A check that cannot run here, and these records from before."""

    def no_file(*_: object) -> None:
        raise FetchError("no route had the file", where="model.py")

    monkeypatch.setattr(model_checks.check("located"), "run", no_file)
    monkeypatch.setattr(records, "records", lambda: found)


def before(**changes: Any) -> VerificationRecord:
    made = next(r for r in records.of("llama-3-8b") if r.check == "located")
    model = find.model("llama-3-8b")
    fresh = {"definition": definition_hash.definition("llama"), "entry": definition_hash.entry(model)}
    return dataclasses.replace(made, **fresh | changes)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, "kept, not re-run: passed on 2026-11-30 [tiny random weights]"),
        ({"outcome": "failed"}, "kept, not re-run: failed on 2026-11-30 [tiny random weights]"),
        (
            {"definition": "other"},
            "kept, not re-run: passed on 2026-11-30 [tiny random weights], and stale: the definition has changed",
        ),
    ],
)
def test_a_check_that_cannot_run_shows_what_is_kept_of_it(
    changes: dict[str, Any], says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(monkeypatch, before(date="2026-11-30", detail="All nodes.\nLocated.", **changes))
    assert main(["verify", "llama-3-8b", "--check", "located"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "----  located             not run: no route had the file: model.py",
        f"        {says}",
        "        it says: All nodes. Located.",
        "llama-3-8b: 0 passed, 0 failed, 1 not run",
    ]
    assert main(["verify", "llama-3-8b", "--check", "located", "--json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out) == []
    assert err.splitlines()[1:] == ["oma verify: located was not run: no route had the file: model.py", f"  {says}"]


def test_without_a_record_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    kept(monkeypatch)
    assert main(["verify", "llama-3-8b", "--check", "located"]) == 1
    assert capsys.readouterr().out.splitlines()[1] == "        no record of an earlier run is kept"


def test_verify_the_demo(demo_checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(demo_checkpoint), "--values"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[-1].endswith("is smollm2-135m")
    assert "FAIL" not in out
    assert "checking values" in err
    assert main(["verify", "smollm2-135m-instruct", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ok"] is True


@pytest.mark.slow
def test_run_the_demo(demo_checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(demo_checkpoint), "The capital of France is", "--max-tokens", "2"]) == 0
    out, err = capsys.readouterr()
    assert out == " Paris.\n"
    assert err.splitlines()[-1].startswith("smollm2-135m, float32: 5 prompt tokens, 2 new")
    assert main(["run", str(demo_checkpoint), "What is the capital of France?", "--chat"]) == 0
    assert capsys.readouterr().out == "The capital of France is Paris.\n"
    assert main(["run", str(demo_checkpoint), "word " * 9000]) == 1
    assert "prompt longer than the context; expected at most 8192 tokens" in one_error(capsys)


@pytest.mark.slow
def test_a_missing_and_a_surplus_tensor_in_the_real_file(
    demo_checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = demo_checkpoint.read_bytes()
    path = tmp_path / "renamed.gguf"
    path.write_bytes(data.replace(b"blk.7.attn_k.weight", b"blk.7.attn_z.weight", 1))
    assert main(["verify", str(path)]) == 1
    out = capsys.readouterr().out
    assert "blocks.7.attention.k.weight: expected a tensor of shape [192, 576]; found nothing stored" in out
    assert "'blk.7.attn_z.weight'" in out
    assert main(["run", str(path), "x"]) == 1
    assert "blocks.7.attention.k.weight (and 1 more)" in one_error(capsys)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_ctrl_c_is_130(demo_checkpoint: Path) -> None:
    process = subprocess.Popen(
        [*OMA, "run", str(demo_checkpoint), "Once upon a time", "--max-tokens", "5000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.read(5)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted" in err.splitlines()[-1]
    assert "Traceback" not in err


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_error(demo_checkpoint: Path) -> None:
    process = subprocess.Popen(
        [*OMA, "run", str(demo_checkpoint), "Once upon a time", "--max-tokens", "60"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(3)
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=60) == 0
    assert b"Traceback" not in err


def test_models_are_verified_together_and_nothing_else(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    names = ["qwen3-0.6b", "mixtral-8x7b"]
    assert main(["verify", *names, "--check", "parity_count"]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if "passed" in line] == [
        f"{name}: 1 passed, 0 failed, 0 not run" for name in names
    ]
    assert main(["verify", "qwen3-0.6b", str(tmp_path / "a.gguf")]) == 2
    assert "only models are verified together" in capsys.readouterr().err
    assert main(["verify", "--all", "--jobs", "0"]) == 2
    assert "--jobs must be at least 1; found 0" in capsys.readouterr().err
    assert main(["verify", "qwen3-0.6b", "--jobs", "2"]) == 2
    assert "--jobs is for --all" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_all_models_in_one_process_or_in_two(jobs: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A check that is quick for every model; as JSON the records of all, whichever process made them."""
    assert main(["verify", "--all", "--jobs", jobs, "--check", "parity_count", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert sorted(record["model"] for record in found) == sorted(m.id for m in find.models())
    assert {record["outcome"] for record in found} == {"passed"}


def test_families_are_shared_out_whole() -> None:
    found = several.shares(find.models())
    assert sorted(name for names in found for name in names) == sorted(m.id for m in find.models())
    assert all(len({find.model(name).family for name in names}) == 1 for names in found)
