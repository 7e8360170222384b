"""The page of findings: as generated, and each kind on it is one that a test provokes."""

import re
import tomllib
from pathlib import Path

import pytest
from docs_help import ROOT, blocks, read

from openmodelatlas.errors import UsageError
from openmodelatlas.records.findings import CHECKS, __main__, kinds, page
from openmodelatlas.verify import waivers

TESTS = ROOT / "tests"


def test_the_committed_page_is_the_generated_one(tmp_path: Path) -> None:
    assert read("docs/findings.md") == page(), "run: python -m openmodelatlas.records.findings docs/findings.md"
    assert __main__.main([str(tmp_path / "a.md")]) == 0
    assert (tmp_path / "a.md").read_text(encoding="utf-8") == page()
    with pytest.raises(UsageError, match="one file"):
        __main__.main([])


def test_every_kind_is_provoked_by_a_test() -> None:
    """Named by its code or in its own words in one that holds a message or a report against it."""
    files = [p for p in TESTS.rglob("*") if p.suffix in (".py", ".toml") and p != Path(__file__)]
    said = "\n".join(path.read_text(encoding="utf-8") for path in files)
    codes = set(re.findall(rf"\b((?:{'|'.join(CHECKS)})\.[a-z0-9-]+)", said))
    lost = [kind.code for kind in kinds().values() if kind.code not in codes and kind.title not in said]
    assert lost == []


def test_kinds_are_written_as_kinds() -> None:
    for kind in kinds().values():
        assert re.fullmatch(r"[a-z]+\.[a-z][a-z0-9-]+", kind.code), kind.code
        assert not kind.title.endswith("."), kind.code
        assert kind.title[0] == kind.title[0].lower() or kind.title.split()[0].isupper() or "Hub" in kind.title, (
            kind.code
        )
        assert kind.meaning.endswith("."), kind.code
        assert not kind.fix.endswith("."), kind.code
    titles = [kind.title for kind in kinds().values()]
    assert len(titles) == len(set(titles))


def test_the_waiver_that_is_shown_is_one(tmp_path: Path) -> None:
    (shown,) = blocks(read("docs/verify-a-checkpoint.md"), "toml")
    path = tmp_path / "oma-waivers.toml"
    path.write_text(shown, encoding="utf-8")
    (waiver,) = waivers.read(path)
    assert waiver.finding in kinds()
    assert tomllib.loads(shown)["waiver"][0]["where"] == waiver.where
