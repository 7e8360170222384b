"""A site that stands already is left alone when nothing changed, and only then."""

import dataclasses
from pathlib import Path

import made_site
import pytest

from openmodelatlas import maps
from openmodelatlas.catalog import checkpoints
from openmodelatlas.cli.main import main
from openmodelatlas.errors import SiteError, UsageError
from openmodelatlas.site.build import build


def test_the_same_site_is_not_written_twice(tmp_path: Path) -> None:
    pages = [made_site.page("llama-3-8b")]
    first = build(pages, [], tmp_path / "site")
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "site").rglob("*")}
    again = build(pages, [], tmp_path / "site")
    assert (first.written, again.written) == (True, False)
    assert dataclasses.replace(again, written=True) == first
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "site").rglob("*")} == before


def test_other_inputs_or_a_missing_page_build_anew(tmp_path: Path) -> None:
    out = tmp_path / "site"
    build([made_site.page("llama-3-8b")], [], out)
    assert build([made_site.page("llama-3-8b", made_site.missing)], [], out).written
    (out / "llama-3-8b" / "block--out.html").unlink()
    assert build([made_site.page("llama-3-8b", made_site.missing)], [], out).written
    (out / "atlas-site.json").write_text("{")
    assert build([made_site.page("llama-3-8b", made_site.missing)], [], out).written


def test_the_route_of_a_text_is_no_change(tmp_path: Path) -> None:
    """Pages say that a text is there or not; how it came, or why it did not, may differ in every run."""
    page = made_site.page("llama-3-8b", made_site.missing)
    build([page], [], tmp_path / "site")
    nodes = [
        dataclasses.replace(
            node,
            claims=tuple(
                dataclasses.replace(claim, pin=dataclasses.replace(claim.pin, detail="tried a few minutes ago"))
                for claim in node.claims
            ),
        )
        for node in page.graph.nodes
    ]
    assert nodes != list(page.graph.nodes)
    other = dataclasses.replace(page, graph=dataclasses.replace(page.graph, nodes=tuple(nodes)))
    assert not build([other], [], tmp_path / "site").written


def test_where_nothing_can_be_written_nothing_is(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match=r"a file stands where a folder must be: .*/file; choose another --out"):
        build([made_site.page("llama-3-8b")], [], tmp_path / "file" / "deep" / "site")
    assert (tmp_path / "file").read_text() == "mine"
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


@pytest.mark.parametrize("out", ["letter", "letter/site", "full"])
def test_a_place_that_cannot_be_taken_is_refused_before_any_work(
    out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "letter").write_text("dear")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    monkeypatch.setattr(maps, "annotated", lambda *_, **__: pytest.fail("work was done"))
    assert main(["site", "--offline", "--out", str(tmp_path / out)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("failing", ["old", "new"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_an_end_in_the_middle_leaves_the_old_site(
    failing: str, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "site"
    build([made_site.page("llama-3-8b")], [], out)
    before = sorted(p.relative_to(out) for p in out.rglob("*"))
    rename = Path.rename

    def fail(self: Path, target: Path) -> Path:
        if failing in (self.name, Path(target).name):
            raise error
        return rename(self, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", fail)
        with pytest.raises((SiteError, KeyboardInterrupt)):
            build([made_site.page("llama-3-8b", made_site.missing)], [], out)
    assert sorted(p.relative_to(out) for p in out.rglob("*")) == before
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.slow
@pytest.mark.network
def test_a_checkpoint_is_verified_anew_only_where_something_changed(
    demo_checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = checkpoints.find("smollm2-135m-instruct")
    assert checkpoints.path_of(entry) == demo_checkpoint
    steps: list[str] = []
    made = maps.checkpoint_record(entry, "Two and two make", progress=steps.append)
    assert made.report.ok
    steps.clear()
    assert maps.checkpoint_record(entry, "Two and two make", progress=steps.append) == made
    assert steps == []
    monkeypatch.setattr(maps, "present", lambda *_, **__: False)  # the bytes on disk are not the recorded ones
    maps.checkpoint_record(entry, "Two and two make", progress=steps.append)
    assert steps == ["verifying SmolLM2 135M Instruct, Q4_1"]
