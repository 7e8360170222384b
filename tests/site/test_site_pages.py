"""The built site as a whole: links, sizes, formulas, lights, states, what is shown without text."""

import json
import re
from pathlib import Path

import made_site
import pytest
from made_site import CHECKPOINT, LLAMAS, MODELS, line, read

from openmodelatlas.errors import DefinitionError, UsageError
from openmodelatlas.records.graph import Graph
from openmodelatlas.site.build import build, foldings
from openmodelatlas.site.maths import Maths
from openmodelatlas.site.words import file_of

PAGE_LIMIT = 100_000


def data_of(folder: Path) -> dict[str, dict[str, object]]:
    """The shared data of a model's pages."""
    script = (folder / "data.js").read_text(encoding="utf-8")
    found: dict[str, dict[str, object]] = json.loads(script.removeprefix("window.atlas=").rstrip().removesuffix(";"))
    return found


def test_every_link_resolves(site: Path) -> None:
    broken = []
    for page in site.rglob("*.html"):
        for link in read(page).links:
            if link.startswith(("https://github.com/", "#")):
                continue
            target = page.parent / link.split("#")[0]
            if not target.is_file():
                broken.append(f"{page.relative_to(site)}: {link}")
    assert not broken


def test_links_of_panels_resolve(site: Path) -> None:
    for name in (*MODELS, CHECKPOINT):
        for panel in data_of(site / name)["panels"].values():
            for link in made_site.Html(str(panel)).links:
                assert link.startswith("https://github.com/") or (site / name / link).is_file(), link


def test_pages_are_small(site: Path) -> None:
    sizes = {str(page.relative_to(site)): page.stat().st_size for page in site.rglob("*.html")}
    assert max(sizes.values()) <= PAGE_LIMIT, max(sizes, key=lambda name: sizes[name])


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        source = page.read_text(encoding="utf-8")
        for tag in re.findall(r"<(?:script|link|img|iframe)\b[^>]*>", source):
            assert "//" not in tag, f"{page.name}: {tag}"
        assert "type=module" not in source
        assert 'type="module"' not in source
    script = (site / "static" / "atlas.js").read_text(encoding="utf-8")
    assert "fetch(" not in script
    assert "XMLHttpRequest" not in script


@pytest.mark.parametrize("name", MODELS)
def test_every_node_and_tensor_has_a_page(site: Path, graphs: dict[str, Graph], name: str) -> None:
    for node in graphs[name].nodes:
        page = site / name / file_of(node.id)
        assert page.is_file()
        assert ":" not in page.name
        assert node.title in read(page).text


@pytest.mark.parametrize("name", MODELS)
def test_every_equation_is_set_and_every_light_has_a_target(site: Path, graphs: dict[str, Graph], name: str) -> None:
    known = {node.id for node in graphs[name].nodes} | {"residual"}
    panels = data_of(site / name)["panels"]
    for node in graphs[name].nodes:
        panel = made_site.Html(str(panels[node.id]))
        assert ('class="katex-display"' in panel.source) == bool(node.equation), node.id
        assert set(panel.lights) <= known, node.id
        wanted = {target for light in node.lights for target in light.targets}
        assert wanted <= set(panel.lights), node.id


@pytest.mark.parametrize("name", MODELS)
def test_every_light_is_in_the_fully_open_picture(site: Path, graphs: dict[str, Graph], name: str) -> None:
    graph = graphs[name]
    pictures = data_of(site / name)["pictures"]
    shown: set[str] = set()
    for states in pictures.values():
        assert isinstance(states, dict)
        for svg in states.values():
            shown |= made_site.Html(svg).nodes
    targets = {target for node in graph.nodes for light in node.lights for target in light.targets} - {"residual"}
    assert targets <= shown


def test_all_foldings_are_there(site: Path, graphs: dict[str, Graph]) -> None:
    graph = graphs["llama-3-8b"]
    assert len(foldings(graph, "block")) == 6
    assert set(data_of(site / "llama-3-8b")["pictures"]["block"]) == {  # type: ignore[call-overload]
        " ".join(sorted(opened)) for opened in foldings(graph, "block")
    }


def test_a_bad_formula_is_an_error_that_shows_it() -> None:
    with pytest.raises(DefinitionError, match="nosuchmacro"):
        Maths().html(r"\nosuchmacro{x}")


def test_only_html_data_is_trusted() -> None:
    assert "javascript" not in Maths().html(r"\href{javascript:alert(1)}{x}")


def test_how_to_read_defines_what_pages_use(site: Path) -> None:
    text = read(site / "how-to-read.html").text
    for word in ("B batch", "verified", "derived", "read", "stated", "conflict", "not verified", "Direct evidence",
                 "matmul FLOPs", "Catalogue → model → block → mechanism → op → tensor"):  # fmt: skip
        assert word in text or word.replace(" ", "  ") in text, word


def test_gallery_shows_every_model(site: Path) -> None:
    page = read(site / "index.html")
    for name in MODELS:
        assert f"{name}/index.html" in page.links
    cards = page.source.partition('<div class="releases">')[2].partition('<section class="key">')[0]
    assert cards.count('class="preview"') == len(MODELS)
    assert "shares the architecture of Llama 3" in page.text


def test_a_conflict_shows_both_sides(site: Path) -> None:
    page = read(site / "llama-3.2-1b" / "rope.scale.html")
    assert 'class="state conflict"' in page.source
    assert "Against it:" in page.text


def test_shared_embedding_is_said(site: Path) -> None:
    page = read(site / "llama-3.2-1b" / "unembed.html")
    assert "shares embed.weight" in page.text
    assert "shares embed.weight" not in read(site / "llama-3-8b" / "unembed.html").text


def test_weights_and_flops(site: Path) -> None:
    text = read(site / "llama-3-8b" / "block.attention.k.html").text
    for phrase in ("4,194,304 parameters", "block.attention.k.weight", "1024 kv·e × 4096 d", "8,388,608 · B · T",
                   "[B batch, T positions, 1024 kv·e]", "parts/linear.py"):  # fmt: skip
        assert phrase in text, phrase


def test_checkpoint_pages(site: Path) -> None:
    front = read(site / CHECKPOINT / "index.html")
    assert "all 4 checks hold" in front.text
    assert "One and one is two." in front.text
    assert "not verified" not in front.text
    node = read(site / CHECKPOINT / "block.attention.q.html")
    assert "file.blocks.0.attention.q.weight … file.blocks.29.attention.q.weight" in node.text
    assert "Q8_0 × 1, Q4_1 × 29" in node.text
    assert "rows reordered" in node.text
    tensor = read(site / CHECKPOINT / "block--out.html")
    assert 'class="spark"' in tensor.source
    assert "norm by block" in tensor.text
    ledger = read(site / CHECKPOINT / "ledger.html")
    assert ledger.text.count("file.blocks.") == 30 * 9
    assert "<made & up>" in ledger.text
    assert "<made" not in ledger.source
    assert CHECKPOINT in " ".join(read(site / "index.html").links)
    assert CHECKPOINT in " ".join(read(site / "smollm2-135m" / "index.html").links)


def test_without_text_pins_stay_and_excerpts_go(tmp_path: Path) -> None:
    out = tmp_path / "out"
    summary = build([made_site.page("llama-3-8b", made_site.missing)], [], out)
    assert summary.excerpts[0] == 0 < summary.excerpts[1]
    assert summary.claims == {"conflict": 1, "not verified": summary.claims["not verified"]}  # the list's caveat
    page = read(out / "llama-3-8b" / "block--out.html")
    assert "pinned revision a0940f9cf706 ↗ · lines 236–248" in page.text
    assert not page.excerpts
    assert 'class="state not-verified"' in page.source


def test_text_is_borrowed_where_another_place_has_it(tmp_path: Path) -> None:
    def only_wheels(claim: str, pin: made_site.Pin) -> made_site.PinReport:
        return (made_site.found if pin.place.kind == "wheel" else made_site.missing)(claim, pin)

    out = tmp_path / "out"
    build([made_site.page("llama-3-8b", only_wheels)], [], out)
    page = read(out / "llama-3-8b" / "block.attention_add.html")
    assert "same text at model.py 242–254 in llama-models==0.3.0" in page.text
    assert "which has the same text" in page.text
    assert line(242) in page.excerpts[0]
    page = read(out / "llama-3-8b" / "block--out.html")  # one of its claims has its text there, one has not
    assert line(242) in page.excerpts[0]
    for words in ("249–257 omitted", "258–269 not at hand here", "298–302 not at hand here"):
        assert f"… lines {words} …" in page.text
    assert "Not all of the pinned text is at hand here; see it in its repository" in page.text


def test_costs_of_a_block_are_said_of_each(site: Path) -> None:
    assert "436,207,616 · B · T in each of 32 blocks" in read(site / "llama-3-8b" / "block.html").text


@pytest.mark.parametrize("name", ["llama-3-8b", *(name for name in MODELS if name not in LLAMAS)])
def test_two_builds_are_the_same_bytes(site: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / "out"
    made_site.build_site(out, [name])
    for page in sorted((out / name).iterdir()):
        if page.name != "index.html":  # which lists the models it may link to
            assert page.read_bytes() == (site / name / page.name).read_bytes()


def test_a_foreign_folder_is_not_replaced(tmp_path: Path) -> None:
    out = tmp_path / "mine"
    out.mkdir()
    (out / "letter.txt").write_text("dear")
    with pytest.raises(UsageError, match="not replaced"):
        made_site.build_site(out, ["llama-3-8b"])
    assert [p.name for p in tmp_path.iterdir()] == ["mine"]
    assert (out / "letter.txt").read_text() == "dear"


def test_a_site_is_replaced_whole(tmp_path: Path) -> None:
    out = tmp_path / "out"
    made_site.build_site(out, ["llama-3-8b"])
    (out / "old.html").write_text("old")
    made_site.build_site(out, ["llama-3.2-1b"])
    assert not (out / "old.html").exists()
    assert not (out / "llama-3-8b").exists()
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
