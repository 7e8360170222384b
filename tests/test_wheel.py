"""The wheel as a user gets it: complete, and working without Node."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)],
        check=True,
        capture_output=True,
    )
    (path,) = out.glob("*.whl")
    return path


def test_wheel_carries_tables_assets_and_licence(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for wanted in (
        "openmodelatlas/models/llama.pages.toml",
        "openmodelatlas/models/llama.names.toml",
        "openmodelatlas/catalog/references/llama3.toml",
        "openmodelatlas/catalog/releases/llama-3.toml",
        "openmodelatlas/site/static/katex/katex.min.js",
        "openmodelatlas/site/static/katex/katex.min.css",
    ):
        assert wanted in names
    assert any(n.endswith(".woff2") for n in names)
    assert any(n.endswith("LICENSE") for n in names)
    assert not any(n.startswith("tests/") for n in names)


def test_installed_wheel_builds_a_site_without_node(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "installed"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(home), str(wheel)], check=True
    )
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "git").symlink_to(shutil.which("git") or "/usr/bin/git")
    env = dict(os.environ) | {"PYTHONPATH": str(home), "PATH": str(tools)}
    assert shutil.which("node", path=env["PATH"]) is None

    def oma(*arguments: str) -> str:
        command = [sys.executable, "-m", "openmodelatlas.cli.main", *arguments]
        done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    where = subprocess.run(
        [sys.executable, "-c", "import openmodelatlas; print(openmodelatlas.__file__)"],
        env=env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert where.stdout.startswith(str(home))
    assert "Llama 3.1" in oma("list")
    assert "Block output" in oma("show", "llama-3-8b", "block:out")
    oma("site", "--offline", "--out", "site")
    assert (tmp_path / "site" / "llama-3-8b" / "block.attention_add.html").exists()
