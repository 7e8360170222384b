"""`verify`: every check can fail, and says where; the record that pages show."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
from gguf_writer import File, f32

from openmodelatlas.errors import CheckpointError, NotACheckpoint
from openmodelatlas.models import find
from openmodelatlas.records.json import dump_json, from_json
from openmodelatlas.records.report import CheckpointRecord, Report
from openmodelatlas.verify import checkpoint as room
from openmodelatlas.verify.checkpoint import record, verify

Write = Callable[..., Path]


@pytest.fixture
def tiny_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the tiny model one of the atlas, so that its file can hold in everything."""
    known: Mapping[str, Any] = {"tiny": tiny.variant(), "smollm2-135m": find("smollm2-135m")}
    monkeypatch.setattr("openmodelatlas.weights.identify.variants", lambda: known)


def failed(report: Report) -> set[str]:
    return {check.name for check in report.checks if check.state == "failed"}


@pytest.mark.usefixtures("tiny_is_known")
def test_an_honest_file_holds(tiny_checkpoint: Path) -> None:
    report = verify(tiny_checkpoint, values=True).report
    assert report.ok
    assert report.model == report.nearest == "tiny"
    states = {check.name: check.state for check in report.checks}
    assert set(states) >= {"files", "model", "configuration", "tensors", "parameters", "tokenizer", "values"}
    assert "failed" not in states.values()
    assert states["values"] == "ok"


@pytest.mark.usefixtures("tiny_is_known")
def test_values_are_read_on_request_only(tiny_checkpoint: Path) -> None:
    report = verify(tiny_checkpoint).report
    assert report.ok
    assert [(check.state, check.detail) for check in report.checks if check.name == "values"] == [
        ("not run", "not read; --values does")
    ]


def replaced(name: str, array: np.ndarray) -> File:
    made = tiny.file()
    made.tensors = [f32(name, array) if t.name == name else t for t in made.tensors]
    return made


@pytest.mark.usefixtures("tiny_is_known")
@pytest.mark.parametrize(
    ("change", "checks", "where"),
    [
        (lambda m: File(m.metadata, m.tensors[1:]), {"tensors", "parameters"}, "embed.weight"),
        (lambda m: File(m.metadata, [*m.tensors, f32("x", np.ones(32))]), {"tensors"}, "'x'"),
        (lambda m: File({**m.metadata, "llama.surprise": 1}, m.tensors), {"configuration"}, "'llama.surprise'"),
        (lambda m: File({**m.metadata, "llama.rope.freq_base": 5e5}, m.tensors), {"model", "configuration"},
         "rope_theta"),
        (lambda m: m.bytes() + b"\0" * 999, {"files"}, "tiny.gguf"),
        (lambda _: replaced("output_norm.weight", np.full(64, np.nan)), {"values"}, "output_norm.weight"),
        (lambda _: replaced("output_norm.weight", np.ones(32)), {"tensors", "parameters"}, "output_norm.weight"),
        (lambda m: File({**m.metadata, "tokenizer.ggml.pre": "new"}, m.tensors), {"tokenizer"}, "tokenizer.ggml.pre"),
        (
            lambda m: File(
                {**m.metadata, "tokenizer.ggml.tokens": [*m.metadata["tokenizer.ggml.tokens"], "more"],
                 "tokenizer.ggml.token_type": [*m.metadata["tokenizer.ggml.token_type"], 1]},
                m.tensors,
            ),
            {"tokenizer"},
            "tokenizer.ggml.tokens",
        ),
    ],
)  # fmt: skip
def test_a_flaw_fails_its_checks_and_is_named(write: Write, change: Any, checks: set[str], where: str) -> None:
    report = verify(write(change(tiny.file())), values=True).report
    assert not report.ok
    assert failed(report) == checks
    assert {finding.check for finding in report.findings} == checks
    assert any(where in finding.where for finding in report.findings)


def test_a_stranger_is_told_from_the_nearest(tiny_checkpoint: Path) -> None:
    report = verify(tiny_checkpoint).report
    assert report.model is None
    assert "model" in failed(report)
    fields = {finding.where.split()[0] for finding in report.findings if finding.check == "model"}
    assert {"hidden_size", "num_hidden_layers"} <= fields


def test_another_architecture_is_a_finding(write: Write) -> None:
    done = verify(write(File({"general.architecture": "mamba"})))
    assert failed(done.report) == {"model"}
    assert done.ledger is None
    assert done.report.findings[0].code == "model.unknown"
    assert "general.architecture mamba" in done.report.findings[0].found


def test_what_is_no_checkpoint_raises(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_text("no")
    with pytest.raises(NotACheckpoint):
        verify(tmp_path / "a.gguf")


def test_progress_is_told(tiny_checkpoint: Path) -> None:
    told: list[tuple[str, int, int]] = []
    verify(tiny_checkpoint, values=True, progress=lambda *step: told.append(step))
    assert told[-1][0] == "checking values"
    assert told[-1][1] == told[-1][2]


def test_the_demo_holds_in_everything(demo_checkpoint: Path) -> None:
    from openmodelatlas.catalog.checkpoints import find as known

    done = verify(demo_checkpoint, checkpoint=known("smollm2-135m-instruct"), values=True)
    assert done.report.ok, done.report.findings
    assert done.report.model == "smollm2-135m"
    assert "hash" in {check.name for check in done.report.checks}
    details = {check.name: check.detail for check in done.report.checks}
    assert details["parameters"] == "134,515,008 of 134,515,008"
    assert details["tensors"] == "272 matched, 0 missing, 0 surplus"


@pytest.mark.slow
def test_the_record_of_the_demo(demo_checkpoint: Path) -> None:
    made = record(demo_checkpoint, "smollm2-135m-instruct", "The capital of France is")
    assert made.completion == "Paris."
    assert made.report.ok
    assert made.header.path == demo_checkpoint.name
    text = dump_json(made)
    assert str(demo_checkpoint.parent) not in text
    assert dump_json(from_json(CheckpointRecord, json.loads(text))) == text
    assert len({(v.tensor, v.index) for v in made.values}) == len(made.values)
    blocks = {v.index for v in made.values if v.tensor == "block:out"}
    assert blocks == set(range(30))
    assert made == record(demo_checkpoint, "smollm2-135m-instruct", "The capital of France is")


def test_no_record_of_a_file_that_does_not_hold(tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "load_checkpoint", lambda *_: pytest.fail("loaded"))
    with pytest.raises(CheckpointError, match="hash does not hold"):
        record(tiny_checkpoint, "smollm2-135m-instruct", "x")
