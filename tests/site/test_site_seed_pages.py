"""Everything that a page of an atlas owes its reader, on the two pages that this one set out from."""

import re
from pathlib import Path

import pytest
from made_site import Html, line, read

REVISION = "a0940f9cf7065d45bb6675660f80d305c041a754"
FILE = f"https://github.com/meta-llama/llama3/blob/{REVISION}/llama/model.py"


@pytest.fixture(scope="module")
def block_output(site: Path) -> Html:
    """Llama 3 8B, the tensor "Block output"."""
    return read(site / "llama-3-8b" / "block--out.html")


@pytest.fixture(scope="module")
def attention_add(site: Path) -> Html:
    """Llama 3.1 8B, the node "Attention residual addition"."""
    return read(site / "llama-3.1-8b" / "block.attention_add.html")


@pytest.fixture(scope="module")
def release(site: Path) -> Html:
    """The release Llama 3.1."""
    return read(site / "llama-3.1.html")


# --- the tensor's page ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "phrase",
    [
        "Llama 3 8B · Block output · Open Model Atlas",
        "32 independent transformer blocks",
        "Block output tensor out",
        "[B batch, T positions, 4096 d]",
        "Code model.py 236–302",
        "… lines 249–257 omitted …",
        "… lines 270–297 omitted …",
        "Sources 2",
        "Contextual evidence",
        "block-residuals · meta-llama/llama3 / llama/model.py",
        "model · meta-llama/llama3 / llama/model.py",
        "pinned revision a0940f9cf706 ↗ · lines 236–248",
        "pinned revision a0940f9cf706 ↗ · lines 258–302",
        "read code excerpt",
    ],
)
def test_block_output_says(block_output: Html, phrase: str) -> None:
    assert phrase in block_output.text


def test_block_output_has_its_symbol(block_output: Html) -> None:
    assert re.search(r'class="io".*?x_\{n\+1\}', block_output.source, re.S)


def test_block_output_is_contextual_twice_and_direct_never(block_output: Html) -> None:
    sources = block_output.section("sources")
    assert sources.text.count("Contextual evidence") == 2
    assert "Direct evidence" not in sources.text


def test_block_output_shows_the_pinned_lines_and_no_other(block_output: Html) -> None:
    lines = [line(n) for first, last in ((236, 248), (258, 269), (298, 302)) for n in range(first, last + 1)]
    assert "\n".join(block_output.section("code").excerpts).split("\n") == lines
    assert line(250) not in block_output.source


def test_block_output_links_the_revision_to_the_lines(block_output: Html) -> None:
    assert f"{FILE}#L236-L248" in block_output.links
    assert f"{FILE}#L258-L302" in block_output.links


def test_each_source_discloses_its_excerpt(block_output: Html) -> None:
    sources = block_output.section("sources").source
    assert sources.count("<details><summary>read code excerpt</summary>") == 2


# --- the release's page -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "phrase",
    [
        "Llama 3.1 · Open Model Atlas",
        "All models, with previews →",
        "Meta · Jul 2024",
        "Dense decoder · follows Llama 3",
        "Transformer block",
        "Reference code meta-llama/llama3 @ a0940f9 , which computes as Llama 3.1 but for its scaled RoPE (",
        "model.py 45–69 )",
        "; configuration llama-models==0.3.0",
        "checkpoint, tokenizer and tensors not verified",
        "How to read",
        "32 independent transformer blocks",
        "8B 70B",
        "×",
    ],
)
def test_release_says(release: Html, phrase: str) -> None:
    assert phrase in release.text


def test_release_links(release: Html) -> None:
    assert {"index.html", "llama-3.html", "how-to-read.html", "llama-3.1-8b/index.html"} <= set(release.links)


def test_release_shows_the_default_size(release: Html) -> None:
    assert re.search(r'href="llama-3.1-8b/index.html" aria-current="true">8B', release.source)


def test_release_names_what_differs(release: Html) -> None:
    assert "What differs from Llama 3 8B" in release.text
    assert "Rotary frequency scaling not there" in release.text


# --- the node's page --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "phrase",
    [
        "Attention residual addition",
        "no parameters",
        "x + self.attention(…)",
        "Code model.py 236–248",
        "Sources 1",
        "Direct evidence",
        "block-residuals · meta-llama/llama3 / llama/model.py",
        "pinned revision a0940f9cf706 ↗ · lines 236–248",
        "read code excerpt",
        "32 independent transformer blocks",
    ],
)
def test_attention_add_says(attention_add: Html, phrase: str) -> None:
    assert phrase in attention_add.text


def test_attention_add_has_a_sentence_and_an_equation(attention_add: Html) -> None:
    assert re.search(r'<p class="sentence">[A-Z][^<]{20,}\.</p>', attention_add.source)
    assert 'aria-label="Equation: x′_n = x_n + Δ_attn"' in attention_add.source


@pytest.mark.parametrize("light", ["residual block.attention_add", "block:in", "block.attention"])
def test_attention_add_symbols_light(attention_add: Html, light: str) -> None:
    equation = re.search(r'<div class="eq".*?</div>', attention_add.source, re.S)
    assert equation
    assert f'data-light="{light}"' in equation[0]
    assert set(light.split()) - {"residual"} <= attention_add.nodes
    assert "stream" in attention_add.source


def test_attention_add_tensors_in_and_out(attention_add: Html) -> None:
    io = re.search(r'<dl class="io">\s*<dt>in</dt>.*?</dl>', attention_add.source, re.S)
    assert io
    before, after = io[0].split("<dt>out</dt>")
    assert before.count("[B batch, T positions, 4096 d]") == 2
    assert after.count("[B batch, T positions, 4096 d]") == 1
    for port in ("block--in.html", "block.attention.o--out.html", "block.attention_add--out.html"):
        assert port in attention_add.links


def test_panel_holds_the_same_text(site: Path) -> None:
    data = (site / "llama-3.1-8b" / "data.js").read_text(encoding="utf-8")
    assert "pinned revision a0940f9cf706" in data
    assert "x + self.attention(…)" in data
