import hashlib
import zipfile
from pathlib import Path

import pytest
from fetch_help import build, leftovers

from openmodelatlas.errors import FetchError
from openmodelatlas.fetch import wheels


def test_a_wheel_is_downloaded_once(cache: Path, shelf: Path) -> None:
    path, sha = build(shelf, {"a.txt": b"text"})
    got = wheels.wheel("demo", "1.0", sha)
    assert got.read_bytes() == path.read_bytes()
    assert wheels.wheel("demo", "1.0", sha, offline=True) == got
    assert wheels.wheel("demo", "1.0", sha) == got
    assert (shelf / "calls").read_text().split() == ["demo==1.0"]
    assert leftovers(cache) == [got.name]


def test_offline_without_the_wheel_is_one_clear_line(shelf: Path) -> None:
    _, sha = build(shelf, {"a.txt": b"text"})
    with pytest.raises(FetchError, match=r"demo==1.0 is not in the cache.*without --offline") as caught:
        wheels.wheel("demo", "1.0", sha, offline=True)
    assert "\n" not in str(caught.value)
    assert not (shelf / "calls").exists()


def test_a_wheel_of_another_hash_is_refused_and_not_kept(cache: Path, shelf: Path) -> None:
    build(shelf, {"a.txt": b"not the pinned text"})
    with pytest.raises(FetchError, match="wrong hash"):
        wheels.wheel("demo", "1.0", "0" * 64)
    assert leftovers(cache) == []


def test_a_damaged_wheel_in_the_cache_is_fetched_again(shelf: Path) -> None:
    _, sha = build(shelf, {"a.txt": b"text"})
    got = wheels.wheel("demo", "1.0", sha)
    got.write_bytes(got.read_bytes()[:-1] + b"?")
    with pytest.raises(FetchError, match="not in the cache"):
        wheels.wheel("demo", "1.0", sha, offline=True)
    assert hashlib.sha256(wheels.wheel("demo", "1.0", sha).read_bytes()).hexdigest() == sha


@pytest.mark.usefixtures("shelf")
def test_pips_own_words_are_passed_on(cache: Path) -> None:
    with pytest.raises(FetchError, match="No matching distribution found for nothing==2"):
        wheels.wheel("nothing", "2", "0" * 64)
    assert leftovers(cache) == []


def test_a_fault_inside_pip_is_named(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("ERROR: Exception:\nTraceback (most recent call last):\n  ...\nOSError: No space left on device\n")
    assert wheels._last_error(log) == "OSError: No space left on device"


def test_a_missing_pip_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    monkeypatch.setattr("shutil.which", lambda _name: None)
    with pytest.raises(FetchError, match="pip is not installed"):
        wheels.wheel("demo", "1.0", "0" * 64)


def test_a_small_member_is_read(tmp_path: Path) -> None:
    path, _ = build(tmp_path, {"demo/a.txt": b"text"})
    assert wheels.member(path, "demo/a.txt") == b"text"


@pytest.mark.parametrize("name", ["../evil", "a/../../evil", "/etc/passwd", "C:evil", "..\\evil", "\\evil"])
def test_a_name_that_climbs_is_refused_even_if_the_wheel_has_it(tmp_path: Path, name: str) -> None:
    path, _ = build(tmp_path, {name: b"text"})
    target = tmp_path / "out" / "file"
    target.parent.mkdir()
    with pytest.raises(FetchError, match="not a member name"):
        wheels.member(path, name)
    with pytest.raises(FetchError, match="not a member name"):
        wheels.extract(path, name, target, sha256=hashlib.sha256(b"text").hexdigest(), size=4)
    assert list(target.parent.iterdir()) == []


def test_a_member_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "twice.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", b"one")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a.txt", b"two")
    with pytest.raises(FetchError, match="2 times"):
        wheels.member(path, "a.txt")


def test_a_missing_member_is_said(tmp_path: Path) -> None:
    path, _ = build(tmp_path, {"a.txt": b"text"})
    with pytest.raises(FetchError, match="0 times"):
        wheels.member(path, "b.txt")


def test_a_member_over_the_limit_is_refused(tmp_path: Path) -> None:
    path, _ = build(tmp_path, {"bomb": bytes(100_000)})
    assert path.stat().st_size < 1000
    with pytest.raises(FetchError, match="too large"):
        wheels.member(path, "bomb", limit=99_999)
    assert len(wheels.member(path, "bomb", limit=100_000)) == 100_000


def test_what_is_no_wheel_is_said(tmp_path: Path) -> None:
    (tmp_path / "x.whl").write_bytes(b"<html>")
    with pytest.raises(FetchError, match="not a readable wheel"):
        wheels.member(tmp_path / "x.whl", "a.txt")


@pytest.mark.parametrize(("size", "text", "complaint"), [(5, b"text", "wrong size"), (4, b"tixt", "wrong hash")])
def test_extract_keeps_nothing_that_is_not_the_pinned_member(
    tmp_path: Path, size: int, text: bytes, complaint: str
) -> None:
    path, _ = build(tmp_path, {"a.bin": text})
    target = tmp_path / "out" / "a.bin"
    target.parent.mkdir()
    with pytest.raises(FetchError, match=complaint):
        wheels.extract(path, "a.bin", target, sha256=hashlib.sha256(b"text").hexdigest(), size=size)
    assert list(target.parent.iterdir()) == []


def test_a_damaged_member_is_said(tmp_path: Path) -> None:
    path, _ = build(tmp_path, {"a.bin": b"some text that is stored here" * 50})
    data = bytearray(path.read_bytes())
    data[45] ^= 0xFF
    path.write_bytes(bytes(data))
    with pytest.raises(FetchError, match="damaged member"):
        wheels.member(path, "a.bin")
