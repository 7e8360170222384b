"""Meta's list of digests in a report: mentioned where no file is read whole, held where all are."""

import hashlib
from pathlib import Path

import made_checkpoints as made
import pytest
import tiny

from openmodelatlas.records.report import Check
from openmodelatlas.verify.checkpoint import verify


def files_check(path: Path, values: bool) -> tuple[Check, list[str]]:
    report = verify(path, values=values).report
    [check] = [check for check in report.checks if check.name == "files"]
    return check, [found.code for found in report.findings if found.check == "files"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = made.meta_folder(tmp_path, tiny.variant())
    digest = hashlib.md5((path / "consolidated.00.pth").read_bytes(), usedforsecurity=False).hexdigest()
    (path / "checklist.chk").write_text(f"{digest}  consolidated.00.pth\n")
    return path


def test_a_list_is_mentioned_and_held_on_demand(folder: Path) -> None:
    check, codes = files_check(folder, values=False)
    assert (check.state, codes) == ("ok", [])
    assert "checklist.chk has digests" in check.notes[0]
    check, codes = files_check(folder, values=True)
    assert (check.state, codes, check.notes) == ("ok", [], ())


def test_a_file_with_another_digest_fails_the_check(folder: Path) -> None:
    (folder / "checklist.chk").write_text(f"{'0' * 32}  consolidated.00.pth\n")
    check, codes = files_check(folder, values=True)
    assert (check.state, codes) == ("failed", ["files.digest-differs"])
