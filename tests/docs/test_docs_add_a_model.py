"""The steps of docs/add-a-model.md, taken in a copy of the package."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from docs_help import marked, matches

import openmodelatlas

pytestmark = pytest.mark.slow

Oma = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package with the made-up model added as the page says."""
    target = tmp_path_factory.mktemp("copy") / "openmodelatlas"
    ignore = shutil.ignore_patterns("__pycache__", "katex")
    shutil.copytree(Path(openmodelatlas.__file__).parent, target, ignore=ignore)
    for block in marked("file"):
        (target / block.what).write_text(block.text, encoding="utf-8")
    for block in marked("row"):
        edit(target / block.what, "VARIANTS = {\n", f"VARIANTS = {{\n{block.text}")
    return target


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{path.name}: {old!r} stands {text.count(old)} times"
    path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.fixture
def oma(copy: Path) -> Oma:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        env = os.environ | {"PYTHONPATH": str(copy.parent), "OMA_CACHE": str(copy.parent / "cache")}
        command = [sys.executable, "-m", "openmodelatlas.cli.main", *arguments]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False)

    return run


@pytest.mark.parametrize("example", marked("shows", "in the copy"), ids=lambda e: e.what)
def test_the_new_model_is_there(example, oma: Oma) -> None:  # type: ignore[no-untyped-def]
    done = oma(*shlex.split(example.what)[1:])
    assert done.returncode == 0, done.stderr
    assert matches(example.output, done.stdout), done.stdout


def test_it_is_listed(oma: Oma) -> None:
    assert "Pocket · Example Lab · Jan 2025" in oma("list").stdout


HEADS = 'symbol = \'Q\', axes = ["B", "T", "H", "E"]'
LAST = "        return self.ffn_add(x,"
BREAKS = {
    "glue": ("models/llama.py", LAST, "        x = x * 1.0\n" + LAST),
    "row": ("models/llama.pages.toml", '"block.attention.q_heads:out" =', '"block.attention.q_heads:result" ='),
    "axes": ("models/llama.pages.toml", HEADS, HEADS.replace('"E"', '"D"')),
}


@pytest.mark.parametrize("message", marked("message"), ids=lambda m: m.what)
def test_what_is_missing_is_named(message, copy: Path, oma: Oma) -> None:  # type: ignore[no-untyped-def]
    name, old, new = BREAKS[message.what]
    edit(copy / name, old, new)
    try:
        done = oma("show", "pocket-60m")
    finally:
        edit(copy / name, new, old)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == message.text.strip()


def test_a_claim_about_a_node_that_is_not_there_is_named(copy: Path, oma: Oma) -> None:
    path = copy / "catalog" / "references" / "llama3.toml"
    kept = path.read_text(encoding="utf-8")
    path.write_text(re.sub(r'"block\.ffn_add"', '"block.ffn_ad"', kept), encoding="utf-8")
    try:
        done = oma("show", "pocket-60m")
    finally:
        path.write_text(kept, encoding="utf-8")
    assert done.returncode == 1
    assert "block.ffn_ad" in done.stderr
