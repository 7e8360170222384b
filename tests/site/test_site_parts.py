"""The small parts: words, symbols, text widths, assets, serving."""

import urllib.request
from pathlib import Path
from threading import Thread

import pytest

from openmodelatlas.cli.commands import serve
from openmodelatlas.cli.main import main
from openmodelatlas.errors import FetchError, UsageError
from openmodelatlas.records.graph import Region
from openmodelatlas.site import assets
from openmodelatlas.site.maths import in_rows
from openmodelatlas.site.metrics import text_width
from openmodelatlas.site.symbols import pieces, symbol_svg
from openmodelatlas.site.words import compact, file_of, flops_words, lines_words, region_words, size_words


def region(count: int, *, independent: bool) -> Region:
    """A region of that many blocks."""
    return Region(name="block", count=count, indices=tuple(range(count)), independent=independent, subtree="0" * 64)


def test_independent_is_said_only_where_it_was_found() -> None:
    assert region_words(region(32, independent=True), "Transformer block") == "32 independent transformer blocks"
    assert region_words(region(32, independent=False), "Transformer block") == "32 transformer blocks"
    assert region_words(region(1, independent=True), "Transformer block") == "one transformer block"


def test_numbers() -> None:
    assert [compact(n) for n in (8_030_261_248, 16_777_216, 218_112_000, 4096, 525_336_576)] == [
        "8.03 B", "16.8 M", "218 M", "4,096", "525 M",
    ]  # fmt: skip
    assert flops_words("16384*B*S*T + 436207616*B*T") == "16,384 · B · S · T + 436,207,616 · B · T"
    assert lines_words(5, 5) == "5"
    assert size_words(131_072) == "128.0 KiB"


def test_statements_side_by_side_stand_in_rows() -> None:
    r"""Only a gap of the formula itself parts them, not one within braces, an environment or brackets."""
    one = r"a = \begin{cases} b & \quad c \\ d \end{cases} + {e \quad f} + \left( g \quad h \right)"
    assert in_rows(one) == one
    assert in_rows(rf"{one} \qquad \lambda = 1 \quad \alpha = \{{2") == (
        rf"\begin{{gathered}}{one} \\[10pt] \lambda = 1 \\[10pt] \alpha = \{{2\end{{gathered}}"
    )


def test_file_names_have_no_colon() -> None:
    assert file_of("") == "index.html"
    assert file_of("block.attention_add:out") == "block.attention_add--out.html"
    assert file_of(":tokens") == "model--tokens.html"


@pytest.mark.parametrize(
    ("latex", "text"),
    [
        ("x_{n+1}", "xn+1"),
        (r"\Delta_{\mathrm{attn}}", "Δattn"),
        (r"\hat{x}'_n", "x′n"),
        (r"\tilde{Q}", "Q"),
        (r"\cos\varphi", "cosφ"),
        ("K^{H}", "KH"),
        (r"K_{\mathrm{cache}}", "Kcache"),
    ],
)
def test_symbols(latex: str, text: str) -> None:
    assert "".join(piece.text for piece in pieces(latex)) == text
    assert symbol_svg(latex, 0, 0, 13).count('class="acc"') == latex.count("hat") + latex.count("tilde")


def test_wider_text_is_wider() -> None:
    assert text_width("ill", 13) < text_width("iii", 13) * 1.1 < text_width("WWW", 13)
    assert text_width("Query", 13, bold=True) > text_width("Query", 13)


def test_missing_assets_say_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(assets, "FOLDER", tmp_path / "none")
    with pytest.raises(FetchError, match="make assets"):
        assets.need()


def test_missing_npm_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(assets, "FOLDER", tmp_path / "katex")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FetchError, match="npm is not here"):
        assets.install()
    assert list(tmp_path.iterdir()) == []


def test_other_bytes_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    npm = tmp_path / "bin" / "npm"
    npm.parent.mkdir()
    npm.write_text("#!/bin/sh\necho other > katex.tgz\n")
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", str(npm.parent), prepend=":")
    monkeypatch.setattr(assets, "FOLDER", tmp_path / "static" / "katex")
    with pytest.raises(FetchError, match="not the pinned package"):
        assets.install()
    assert list((tmp_path / "static").iterdir()) == []


def test_serving(site: Path) -> None:
    with serve.server(site, 0) as listening:
        thread = Thread(target=listening.serve_forever)
        thread.start()
        try:
            with urllib.request.urlopen(f"http://{serve.HOST}:{listening.server_address[1]}/llama-3.1.html") as answer:
                assert "Llama 3.1" in answer.read().decode()
        finally:
            listening.shutdown()
            thread.join()


def test_port_in_use_is_one_line(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serve.server(site, 0) as listening:
        port = listening.server_address[1]
        assert main(["serve", "--dir", str(site), "--port", str(port)]) == 2
    assert capsys.readouterr().err == f"oma serve: port {port} is in use; choose another with --port\n"


def test_no_site_to_serve(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="oma site"):
        serve.server(tmp_path, 0)
