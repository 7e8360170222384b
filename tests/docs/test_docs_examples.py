"""Examples in the documents are run, and what they show is what comes out."""

import contextlib
import doctest
import io
import shlex
import shutil
from pathlib import Path

import pytest
from docs_help import NAMES, Marked, blocks, marked, matches, read

from openmodelatlas import maps
from openmodelatlas.catalog.load import references
from openmodelatlas.cli.main import main
from openmodelatlas.errors import FetchError
from openmodelatlas.fetch import cache, wheels

NEEDS = {"", "with the pinned wheel", "with the checkpoint", "in the copy"}
WALKED = ("start", "fill", "hash")
"""Kinds of blocks that are run one after another, as a new family is added."""


def check(example: Marked) -> None:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(shlex.split(example.what)[1:]) == 0
    assert matches(example.output, out.getvalue()), f"{example.document}: {example.what} prints\n{out.getvalue()}"


def ids(example: Marked) -> str:
    return f"{Path(example.document).stem}: {example.what}"


def test_every_marked_block_is_of_a_known_kind() -> None:
    for name in NAMES:
        text = read(name)
        shown = text.count("\n<!-- shows")
        assert shown == sum(e.document == name for needs in NEEDS for e in marked("shows", needs)), name
        walked = sum(e.document == name for kind in WALKED for e in marked(kind, "of the family"))
        assert len(blocks(text, "console")) == shown + walked, f"{name}: a console that no test runs"


@pytest.mark.parametrize(
    ("shown", "real", "same"),
    [
        ("a\nb\n", "a\nb\n", True),
        ("a\nb\n", "a\nc\n", False),
        ("a\n", "a\nb\n", False),
        ("a\n…\n", "a\nb\nc\n", True),
        ("a\n…\nd\n", "a\nb\nc\n", False),
        ("a … c\n", "a b c\n", True),
        ("a … c\n", "a b\nb c\n", False),
        ("a.c\n", "abc\n", False),
    ],
)
def test_comparing_can_fail(shown: str, real: str, same: bool) -> None:
    assert matches(shown, real) == same


@pytest.mark.parametrize("example", marked("shows"), ids=ids)
def test_output(example: Marked) -> None:
    check(example)


@pytest.fixture(scope="module")
def wheel_only(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with the maps and the pinned package of the reference, and nothing else: no repository, no download."""
    places = {p.place for r in references().values() for c in r.claims for p in (c.pin, *c.also)}
    fixed = {(p.source, p.revision, p.wheel_sha256 or "") for p in places if p.kind == "wheel"}
    for name in ("llama-3-8b", "llama-3.1-8b"):
        maps.graph(name)
    folder = tmp_path_factory.mktemp("cache")
    shutil.copytree(cache.cache_dir() / "maps", folder / "maps")
    for source, version, sha256 in fixed:
        try:
            found = wheels.wheel(source, version, sha256)
        except FetchError as error:
            pytest.skip(f"needs {source}=={version}: {error}")
        target = folder / wheels.cached_path(source, version, sha256).relative_to(cache.cache_dir())
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(found, target)
    return folder


@pytest.mark.network
@pytest.mark.parametrize("example", marked("shows", "with the pinned wheel"), ids=ids)
def test_output_with_the_pinned_wheel(example: Marked, wheel_only: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMA_CACHE", str(wheel_only))
    check(example)


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.usefixtures("demo_checkpoint")
@pytest.mark.parametrize("example", marked("shows", "with the checkpoint"), ids=ids)
def test_output_with_the_checkpoint(example: Marked) -> None:
    check(example)


@pytest.mark.parametrize("name", [n for n in NAMES if blocks(read(n), "pycon")])
def test_python_sessions(name: str) -> None:
    for session in blocks(read(name), "pycon"):
        test = doctest.DocTestParser().get_doctest(session, {}, name, name, 0)
        assert doctest.DocTestRunner(verbose=False).run(test).failed == 0


def test_no_script_stands_in_a_page() -> None:
    """None does today; one that comes needs a test that runs it."""
    assert not [block for name in NAMES for block in blocks(read(name), "python") if "import " in block]
