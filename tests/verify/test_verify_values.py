"""`oma verify --values`: what of a checkpoint's numbers is a finding, and what is only noted."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import made_checkpoints as made
import numpy as np
import pytest
import safetensors.torch
import tiny
import torch
from gguf_writer import File, f32

from openmodelatlas.errors import CheckpointError, NotACheckpoint
from openmodelatlas.models import find
from openmodelatlas.records.report import Check, Finding
from openmodelatlas.verify import values
from openmodelatlas.verify.checkpoint import verify
from openmodelatlas.weights.reading.gguf import GGUFFile
from openmodelatlas.weights.reading.plain import TYPES

Write = Callable[..., Path]
Change = Callable[[dict[str, np.ndarray]], Any]
DOWN, NORM, EMBED = "blk.1.ffn_down.weight", "blk.0.ffn_norm.weight", "token_embd.weight"


@pytest.fixture(autouse=True)
def tiny_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"tiny": tiny.variant(), "smollm2-135m": find("smollm2-135m")}
    monkeypatch.setattr("openmodelatlas.weights.identify.variants", lambda: known)


def checked(write: Write, change: Change) -> tuple[Check, list[Finding]]:
    """The check of the values of a tiny file after a change, and its findings; nothing else is wrong with it."""
    arrays = tiny.arrays(tiny.variant())
    change(arrays)
    path = write(File(tiny.metadata(tiny.variant()), [f32(name, array) for name, array in arrays.items()]))
    report = verify(path, values=True).report
    assert {flaw.check for flaw in report.findings} <= {"values"}
    return next(check for check in report.checks if check.name == "values"), list(report.findings)


def put(name: str, where: Any, what: Any) -> Change:
    return lambda arrays: arrays[name].__setitem__(where, what)


def test_an_honest_file_has_neither(write: Write) -> None:
    check, flaws = checked(write, lambda _: None)
    assert flaws == []
    assert check.notes == ()


@pytest.mark.parametrize(
    ("change", "code", "where", "found"),
    [
        (put(DOWN, (3, 7), np.nan), "values.not-finite", DOWN, "1 of 6,144 are not, the first at [3, 7]"),
        (put(DOWN, (slice(2, 4), 5), -np.inf), "values.not-finite", DOWN, "2 of 6,144 are not, the first at [2, 5]"),
        (put(NORM, 63, np.inf), "values.not-finite", NORM, "1 of 64 are not, the first at [63]"),
        (put(DOWN, ..., np.nan), "values.not-finite", DOWN, "6,144 of 6,144 are not, the first at [0, 0]"),
        (put(DOWN, ..., 0), "values.zero", DOWN, "6,144 zeros"),
        (put(DOWN, ..., -0.0), "values.zero", DOWN, "6,144 zeros"),
        (put(NORM, ..., 0), "values.zero", NORM, "64 zeros"),
        (put(DOWN, ..., 0.5), "values.constant", DOWN, "6,144 times 0.5"),
    ],
)
def test_what_no_trained_tensor_has(write: Write, change: Change, code: str, where: str, found: str) -> None:
    _, flaws = checked(write, change)
    assert [(flaw.code, flaw.where, flaw.found) for flaw in flaws] == [(code, where, found)]


@pytest.mark.parametrize("rows", [1, 7, 1 << 20])
def test_places_are_told_whatever_is_read_at_once(write: Write, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "SLICE", rows * 96)
    _, flaws = checked(write, put(DOWN, (50, 1), np.nan))
    assert flaws[0].found == "1 of 6,144 are not, the first at [50, 1]"

    def copied(arrays: dict[str, np.ndarray]) -> None:
        arrays[DOWN][60] = arrays[DOWN][2]

    _, flaws = checked(write, copied)
    assert [(f.code, f.where, f.found) for f in flaws] == [("values.duplicate-rows", DOWN, "1 of 64 repeat another")]


def test_two_tensors_of_the_same_values(write: Write) -> None:
    def repeated(arrays: dict[str, np.ndarray]) -> None:
        for name in list(arrays):
            if name.startswith("blk.1."):
                arrays[name] = arrays[name.replace("blk.1.", "blk.0.")]

    _, flaws = checked(write, repeated)
    assert {flaw.code for flaw in flaws} == {"values.same-tensor"}
    assert len(flaws) == 9
    assert ("blk.1.attn_q.weight", "blk.0.attn_q.weight") in {(flaw.where, flaw.found) for flaw in flaws}


def test_what_is_noted_and_no_fault(write: Write) -> None:
    def odd(arrays: dict[str, np.ndarray]) -> None:
        arrays[EMBED][200:210] = arrays[EMBED][200]
        arrays[EMBED][210:212] = 0
        arrays[NORM][:] = 1
        arrays[DOWN][0, 0] = 70000
        arrays[DOWN][1] = 0

    check, flaws = checked(write, odd)
    assert flaws == []
    assert set(check.notes) == {
        f"{EMBED}: 9 of 272 rows repeat another, as those of unused tokens do",
        f"{EMBED}: 2 of 272 rows are zero",
        f"{NORM} is 64 times 1",
        f"{DOWN} has values beyond 65,504, which float16 does not hold",
        f"{DOWN}: 1 of 64 rows are zero",
    }


def test_many_notes_are_counted(write: Write) -> None:
    def ones(arrays: dict[str, np.ndarray]) -> None:
        for name in arrays:
            arrays[name][:] = 1 if name.endswith("norm.weight") else 0.5 * arrays[name]
        for name in [n for n in arrays if n.endswith("_up.weight")] + [EMBED]:
            arrays[name][0] = 0

    check, flaws = checked(write, ones)
    assert flaws == []
    assert len(check.notes) == 6
    assert check.notes[-1] == "and 3 more"


def test_values_that_cannot_be_had_are_named(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    read = GGUFFile.values

    def values_of(opened: GGUFFile, name: str, start: int = 0, end: int | None = None) -> torch.Tensor:
        if name == DOWN:
            raise CheckpointError("only its header was fetched", where=name)
        return read(opened, name, start, end)

    monkeypatch.setattr(GGUFFile, "values", values_of)
    check, (flaw,) = checked(write, lambda _: None)
    assert check.state == "failed"
    assert (flaw.code, flaw.where, flaw.found) == ("values.unreadable", DOWN, "only its header was fetched")


@pytest.mark.parametrize("kind", sorted(set(TYPES.values()), key=str), ids=str)
def test_tensors_of_any_type_are_read(tmp_path: Path, kind: torch.dtype) -> None:
    """One that is no parameter too; what is not finite in it has the same place in every type that has such numbers."""
    folder = made.huggingface_folder(tmp_path / "x", tiny.variant())
    weights = safetensors.torch.load_file(folder / "model.safetensors")
    extra = torch.zeros(3, 20).to(kind)
    if kind.is_complex or (kind.is_floating_point and kind.itemsize > 1):
        extra[2, 7] = torch.nan
    made.write_safetensors(folder, {**weights, "extra": extra})
    report = verify(folder, values=True).report
    found = {flaw.code: flaw.found for flaw in report.findings}
    assert "tensors.surplus" in found
    assert ("values.not-finite" in found) == bool((extra != extra).any() if kind.is_floating_point else kind.is_complex)
    assert found.get("values.not-finite", "").endswith("the first at [2, 7]") == ("values.not-finite" in found)


def test_large_numbers_of_float64_are_finite(tmp_path: Path) -> None:
    folder = made.huggingface_folder(tmp_path / "x", tiny.variant(), dtype=torch.float64)
    weights = safetensors.torch.load_file(folder / "model.safetensors")
    weights["model.norm.weight"][3] = 1e300
    made.write_safetensors(folder, weights)
    report = verify(folder, values=True).report
    assert [flaw for flaw in report.findings if flaw.check == "values"] == []


def test_any_number_of_empty_rows_takes_no_time(tmp_path: Path) -> None:
    folder = made.huggingface_folder(tmp_path / "x", tiny.variant())
    path = folder / "model.safetensors"
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    header["extra"] = {"dtype": "F32", "shape": [1 << 40, 0], "data_offsets": [0, 0]}
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + raw[8 + length :])
    report = verify(folder, values=True).report
    assert {flaw.code for flaw in report.findings} == {"tensors.surplus"}


def test_a_file_that_changes_meanwhile_is_no_checkpoint(write: Write) -> None:
    path = write()

    def changed(what: str, *_: int) -> None:
        if what == "checking values":
            path.write_bytes(path.read_bytes()[:-5])

    with pytest.raises(NotACheckpoint, match="changed"):
        verify(path, values=True, progress=changed)


def test_the_real_file_holds(demo_checkpoint: Path) -> None:
    report = verify(demo_checkpoint, values=True).report
    assert report.ok
    assert {check.name: check.notes for check in report.checks}["values"] == (
        "token_embd.weight: 11 of 49,152 rows repeat another, as those of unused tokens do",
    )
