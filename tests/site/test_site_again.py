"""A site that stands already is left alone when nothing changed, and only then."""

import dataclasses
from pathlib import Path

import made_site
import pytest

from openmodelatlas import maps
from openmodelatlas.catalog import checkpoints
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
