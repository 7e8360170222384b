"""The report as a page: it stands alone, holds what was found, and nothing of a file's own words becomes markup."""

from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import tiny
from gguf_writer import File, f32

from openmodelatlas.cli.main import main
from openmodelatlas.cli.render_report_html import page
from openmodelatlas.records.findings import finding
from openmodelatlas.records.report import Check, Ledger, MetadataRow, Report, StoredTensor, TensorRow, Waived

Write = Callable[..., Path]
HOSTILE = "a</title></script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&\0\u202e\ud800"
KNOWN_TAGS = {
    "html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "p", "div", "table", "thead", "tbody", "tr",
    "th", "td", "ul", "li", "code", "input", "script",
}  # fmt: skip


class Page(HTMLParser):
    """Tags, attributes and words of a page; every tag is closed in its order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def row(name: str, number: int, status: str = "matched") -> TensorRow:
    stored = StoredTensor(name=name, shape=(4, number % 3 + 1), type="F32", bytes=48, offset=0, shard="a")
    return TensorRow(parameter=name, owners=("x",), stored=stored, shape=(4, 3), steps=(), status=status)  # type: ignore[arg-type]


def ledger(*rows: TensorRow, key: str = "k") -> Ledger:
    settings = (MetadataRow(key=key, value=key, column="ignored", reason="known", ok=True),)
    return Ledger(model="tiny", rows=rows, metadata=settings, parameters=9, stored_bytes=36)


def report(place: str) -> Report:
    waived = Waived(finding=finding("tensors.missing", place), reason=place, expires="2999-01-01")
    return Report(
        target=place,
        ok=False,
        model=None,
        nearest=place,
        format=place,
        counts={"total": 9},
        checks=(Check(name="tensors", state="failed", detail=place, notes=(place,)),),
        findings=(finding("tensors.surplus", place, expected=place, found=place), finding("hash.differs", place)),
        waived=(waived,),
    )


def test_words_of_a_file_stay_words() -> None:
    made = page(report(HOSTILE), ledger(row(HOSTILE, 0, "surplus"), key=HOSTILE))
    made.encode("utf-8")
    found = Page(made)
    assert set(found.tags) <= KNOWN_TAGS
    assert found.tags.count("script") == 1
    assert {name for name, _ in found.attributes} <= {
        "lang", "charset", "http-equiv", "content", "name", "class", "id", "hidden", "type", "data-table",
        "placeholder", "aria-label", "colspan",
    }  # fmt: skip
    assert "\0" not in made
    assert "\u202e" not in made
    assert sum("<script>alert(1)" in words for words in found.words) > 5


def test_it_asks_for_nothing_from_elsewhere() -> None:
    made = page(report("x"), ledger(row("a", 1)))
    assert "http:" not in made
    assert "https:" not in made
    assert "default-src 'none'" in made
    assert "url(" not in made
    assert "@import" not in made


def test_all_that_was_found_is_there() -> None:
    words = " ".join(Page(page(report("blk.7"), ledger(row("b.9", 1), key="general.name"))).words)
    for wanted in ("tensors.surplus", "hash.differs", "waived until 2999-01-01", "blk.7", "b.9", "general.name", "4×2"):
        assert wanted in words
    assert "total 9" in words


def test_a_large_ledger_folds_and_what_is_wrong_comes_first() -> None:
    rows = [row(f"blocks.{n}.experts.{e}.w", 0) for n in range(40) for e in range(250)]
    rows.append(row("stranger", 0, "surplus"))
    made = page(report("x"), ledger(*rows))
    assert len(made) < 40_000
    words = Page(made).words
    assert words.index("stranger") < words.index("blocks.{0..39}.experts.{0..249}.w (10,000)")


def test_a_ledger_of_1138_rows_is_not_folded() -> None:
    words = Page(page(report("x"), ledger(*(row(f"t.{n}", 0) for n in range(1138))))).words
    assert {f"t.{n}" for n in range(1138)} <= set(words)


def test_the_command_writes_it(write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = tiny.file()
    path = write(File(made.metadata, [*made.tensors, f32("x<b>", np.ones(32))]))
    out = tmp_path / "report.html"
    out.write_text("an older one")
    assert main(["verify", str(path), "--html", str(out)]) == 1
    text = out.read_text(encoding="utf-8")
    assert "x&lt;b&gt;" in text
    assert "does not hold" in text
    assert sorted(p.name for p in tmp_path.iterdir()) == ["report.html", "tiny.gguf"]
    assert f"report: {out}" in capsys.readouterr().err


def test_a_page_of_what_is_no_checkpoint(write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "report.html"
    assert main(["verify", str(write(b"")), "--html", str(out)]) == 2
    assert "files.empty" in out.read_text(encoding="utf-8")
    assert capsys.readouterr().err.splitlines()[-1].startswith("oma verify: empty file")


def test_where_no_page_can_stand(tiny_checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tiny_checkpoint.read_bytes()
    for place, reason in (
        (tmp_path, "--html names a folder"),
        (tmp_path / "no" / "a.html", "no such folder for --html"),
        (tiny_checkpoint, "--html names a file of the checkpoint"),
    ):
        assert main(["verify", str(tiny_checkpoint), "--html", str(place)]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert reason in err
    assert tiny_checkpoint.read_bytes() == kept
