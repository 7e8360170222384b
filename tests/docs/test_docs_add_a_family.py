"""The family of docs/add-a-model.md, started and worked on as the page says, in a copy of the checkout."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import transformers
from docs_help import ROOT, marked, matches

pytestmark = [pytest.mark.slow, pytest.mark.network]

Oma = Callable[..., subprocess.CompletedProcess[str]]
NEEDS = "of the family"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout without what a family does not need."""
    target = tmp_path_factory.mktemp("checkout")
    ignore = shutil.ignore_patterns("__pycache__", "katex", "records")
    shutil.copytree(ROOT / "src", target / "src", ignore=ignore)
    shutil.copytree(ROOT / "src" / "openmodelatlas" / "records", target / "src" / "openmodelatlas" / "records")
    for name in ("data", "equations"):
        shutil.copytree(ROOT / "tests" / name, target / "tests" / name, ignore=ignore)
    shutil.copy(ROOT / "pyproject.toml", target)
    for block in marked("config", NEEDS):
        (target / block.what).write_text(block.text, encoding="utf-8")
    return target


@pytest.fixture(scope="module")
def oma(tree: Path) -> Oma:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "openmodelatlas.cli.main", *arguments]
        return subprocess.run(command, cwd=tree, env=environment(tree), capture_output=True, text=True, check=False)

    return run


def environment(tree: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(tree / "src")}


def edit(path: Path, *changes: tuple[str, str]) -> None:
    text = path.read_text(encoding="utf-8")
    for old, new in changes:
        assert text.count(old) >= 1, f"{path.name}: {old!r} is not there"
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")


def changed(tree: Path) -> None:
    """The page's changes: hunks between lines `@@`, of lines that go and lines that come."""
    for block in marked("change", NEEDS):
        for hunk in block.text.split("@@\n"):
            lines = hunk.splitlines(keepends=True)
            edit(tree / block.what, *[tuple("".join(x[1:] for x in lines if x[0] == sign) for sign in "-+")])  # type: ignore[list-item]


def states(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """By item, its state."""
    found = re.findall(r"^(done |to do|waits)  (\w+)", done.stdout, re.M)
    assert len(found) == 13, done.stdout + done.stderr
    return {name: state.strip() for state, name in found}


def test_the_list_shrinks_until_only_records_are_missing(tree: Path, oma: Oma) -> None:
    """Started, changed as the page says, filled, and the rest done as its author would."""
    (start,), (fill,) = marked("start", NEEDS), marked("fill", NEEDS)
    done = oma(*shlex.split(start.what)[1:])
    assert (done.returncode, matches(start.output, done.stdout)) == (0, True), done.stdout + done.stderr
    first = states(done)
    changed(tree)
    done = oma(*shlex.split(fill.what)[1:])
    assert (done.returncode, matches(fill.output, done.stdout)) == (1, True), done.stdout + done.stderr
    second = states(done)
    assert second["tensors"] == "done" != first["tensors"]
    assert "which stands in no column" in done.stdout
    the_rest(tree)
    third = states(oma("new", "pebble"))
    open_ = {name for name, state in third.items() if state != "done"}
    assert open_ == {"claims", "lines", "placeholders", "records"}, third
    claims(tree, oma)
    done = oma("new", "pebble")
    assert {name for name, state in states(done).items() if state != "done"} == {"records"}, done.stdout
    assert "pebble: 12 of 13 done; next: records" in done.stdout
    assert done.returncode == 1


PACKAGE = Path("src") / "openmodelatlas"


def the_rest(tree: Path) -> None:
    """What only an author can say, here in few words."""
    models, catalog = tree / PACKAGE / "models", tree / PACKAGE / "catalog"
    bias, ignored = '"attention_bias" = false\n', "[metadata.huggingface.ignored]\n"
    tp = '"pretraining_tp" = "how one program splits its matrices"\n'
    edit(models / "pebble.names.toml", (bias, f'{bias}"mlp_bias" = false\n'), (ignored, ignored + tp))
    whole = tree / "tests" / "equations" / "whole" / "pebble.py"
    edit(whole, *[(f'norm(c, {x}, w["attention.{x}_norm.weight"])', x) for x in "qk"])
    counts = [tree / "tests" / "data" / "parameter_counts.toml", tree / PACKAGE / "verify" / "published_counts.toml"]
    for path in counts:
        edit(path, ("count = 0\n", "count = 12558400\n"))
    edit(catalog / "releases" / "pebble.toml", ('"1970-01"', '"2025-01"'))
    data = [*counts, *(tree / "tests" / "data").glob("*configs.toml")]
    for path in (*models.glob("pebble.*"), catalog / "releases" / "pebble.toml", whole, *data):
        text = re.sub(r"TODO( does this hold\?|:)? ?", "", path.read_text(encoding="utf-8"))
        path.write_text(text, encoding="utf-8")
    python = [sys.executable, "-m", "tests.equations.outside"]
    subprocess.run(python, cwd=tree, env=environment(tree), check=True)


def claims(tree: Path, oma: Oma) -> None:
    """A sentence for each claim; for two of them other words of the library's, and the lines that have them."""
    path = tree / PACKAGE / "catalog" / "references" / "transformers-pebble.toml"
    text = re.sub(r'"TODO in your words[^"\n]*"', '"These lines compute it."', path.read_text(encoding="utf-8"))
    path.write_text(re.sub(r"# TODO: [^\n]*", "# The library's code.", text), encoding="utf-8")
    loop, rotary = "for decoder_layer in self.layers", "self.rotary_emb(hidden_states, position_ids=position_ids)"
    edit(path, ("for i, decoder_layer in enumerate(…)", f"{loop}[…]"))
    edit(path, ("self.rotary_emb(hidden_states, position_ids)", rotary))
    pin(oma, path, "pebble-model", loop, "hidden_states = self.norm(hidden_states)")
    pin(oma, path, "pebble-rope-table", rotary, rotary)


def pin(oma: Oma, path: Path, claim: str, first: str, last: str) -> None:
    """Another range for a claim: from the line that has one text to the next one that has the other."""
    file = "transformers/models/llama/modeling_llama.py"
    lines = (Path(transformers.__file__).parent.parent / file).read_text(encoding="utf-8").splitlines()
    start = next(n for n, line in enumerate(lines, 1) if first in line)
    end = next(n for n, line in enumerate(lines, 1) if n >= start and last in line)
    row = oma("evidence", "--hash", file, f"{start}-{end}").stdout
    text = path.read_text(encoding="utf-8")
    new = re.sub(rf'(?s)(id = "{claim}".*?)\n\]', lambda m: f"{m[1]}\n{row.rstrip()}\n]", text, count=1)
    path.write_text(new, encoding="utf-8")


def test_a_range_is_hashed_as_the_page_shows(oma: Oma) -> None:
    (example,) = marked("hash", NEEDS)
    done = oma(*shlex.split(example.what)[1:])
    assert (done.returncode, matches(example.output, done.stdout)) == (0, True), done.stdout + done.stderr
    assert done.stderr.startswith("    1  ")
