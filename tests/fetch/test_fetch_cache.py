import os
import sys
import time
from pathlib import Path

import pytest

from openmodelatlas.errors import FetchError
from openmodelatlas.fetch import cache as store


def test_oma_cache_wins(tmp_path: Path) -> None:
    assert store.cache_dir() == tmp_path / "cache"


@pytest.mark.skipif(sys.platform != "linux", reason="the XDG rule")
def test_without_oma_cache_the_users_cache_folder_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMA_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert store.cache_dir() == tmp_path / "xdg" / "openmodelatlas"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert store.cache_dir() == tmp_path / ".cache" / "openmodelatlas"


def test_an_interrupted_write_keeps_the_old_file_and_no_other(tmp_path: Path) -> None:
    target = tmp_path / "file"
    store.write(target, b"old")

    def interrupted() -> None:
        with store.atomic(target) as file:
            file.write(b"half of the new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert target.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_the_file_is_not_there_before_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "file"
    with store.atomic(target) as file:
        file.write(b"all")
        file.flush()
        assert not target.exists()
    assert target.read_bytes() == b"all"


def test_a_cache_folder_that_cannot_be_made_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "taken").write_text("a file")
    monkeypatch.setenv("OMA_CACHE", str(tmp_path / "taken"))
    with pytest.raises(FetchError, match="OMA_CACHE") as caught:
        store.folder("wheels")
    assert "\n" not in str(caught.value)


def test_blob_id_is_gits() -> None:
    assert store.blob_id(b"") == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    assert store.blob_id(b"hello\n") == "ce013625030ba8dba906f756967f9e9ca394464a"


def test_a_kept_file_comes_back_and_a_damaged_one_does_not(cache: Path) -> None:
    blob = store.blob_id(b"text\n")
    store.keep_blob(b"text\n", instead_of=blob)
    assert store.load_blob(blob) == b"text\n"
    (cache / "evidence" / blob).write_bytes(b"other\n")
    assert store.load_blob(blob) is None
    assert not (cache / "evidence" / blob).exists()


def test_a_stand_in_is_found_by_the_blob_it_stands_for(cache: Path) -> None:
    wanted = "0" * 40
    store.keep_blob(b"newer\n", instead_of=wanted)
    assert store.load_blob(wanted) is None
    assert store.load_stand_in(wanted) == b"newer\n"
    (cache / "evidence" / f"{wanted}.see").write_text("../../outside")
    assert store.load_stand_in(wanted) is None


def test_sweep_takes_only_old_parts(tmp_path: Path) -> None:
    old = time.time() - 2 * store.STALE_SECONDS
    for name, age in ((".part-old", old), (".part-new", time.time()), ("kept", old)):
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, (age, age))
    (tmp_path / ".part-folder").mkdir()
    (tmp_path / ".part-folder" / "x").write_text("")
    os.utime(tmp_path / ".part-folder", (old, old))
    store.sweep(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir() if p.name != "cache") == [".part-new", "kept"]


def test_a_miss_is_forgotten(cache: Path) -> None:
    store.note_miss("key", "no network")
    assert store.missed("key") == "no network"
    old = time.time() - store.MISS_SECONDS - 1
    os.utime(cache / "evidence" / "key.miss", (old, old))
    assert store.missed("key") is None
