"""Models with several kinds of block: their order in words and cells, and what pages of one kind say of the others."""

import dataclasses
import json
import re
from collections.abc import Sequence
from pathlib import Path

import made_site
import pytest
from made_site import ALL, LLAMAS, MODELS, read

from openmodelatlas.records.graph import Graph, Region
from openmodelatlas.records.ids import resolve
from openmodelatlas.site.checkpoint import spark
from openmodelatlas.site.diagram import Pen, draw
from openmodelatlas.site.kin import kin
from openmodelatlas.site.schedule import folded, kinds, mixed, ranges, rhythm, runs, short_ranges, short_title
from openmodelatlas.site.scopes import STACK, scope_of
from openmodelatlas.site.strip import strip
from openmodelatlas.site.words import file_of

PLAIN = LLAMAS[0]


@pytest.fixture(scope="module")
def mixtures(all_graphs: dict[str, Graph]) -> list[Graph]:
    """Every model of the catalogue that has several kinds of block."""
    found = [graph for graph in all_graphs.values() if mixed(graph)]
    assert found
    return found


@pytest.fixture(scope="module")
def mixture(graphs: dict[str, Graph]) -> Graph:
    """One that is on the site."""
    return next(graph for graph in graphs.values() if mixed(graph))


def ordered(plain: Graph, order: Sequence[int]) -> Graph:
    """A map with blocks of as many kinds as `order` has numbers; the kinds are one and the same but for their name."""
    names = ("near_block", "far_block", "odd_block")
    titles = ("Near block", "Far block", "Odd block")
    block = plain.by_id["block"]
    nodes, regions = [], []
    for kind in sorted(set(order)):
        indices = tuple(i for i, k in enumerate(order) if k == kind)
        regions.append(
            Region(name=names[kind], count=len(indices), indices=indices, independent=True, subtree=str(kind))
        )
        nodes.append(dataclasses.replace(block, id=names[kind], title=titles[kind], region=regions[-1]))
    return dataclasses.replace(plain, regions=tuple(regions), nodes=(*plain.nodes, *nodes))


# --- the order in words -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("order", "words"),
    [
        ([0, 0, 1, 0, 0, 1], "2 near, then 1 far, 2 times"),
        ([0, 0, 1, 0, 0, 1, 0], "2 near, then 1 far, 2 times; then 1 near"),
        ([1, 0, 1, 0], "1 far, then 1 near, 2 times"),
        ([0, 0, 0, 1], "3 near, then 1 far"),
        ([0, 1, 2, 0, 1, 2, 0], "1 near, then 1 far, then 1 odd, 2 times; then 1 near"),
        ([0, 0, 0, 0], ""),
    ],
)
def test_what_repeats_is_said_once(graphs: dict[str, Graph], order: list[int], words: str) -> None:
    assert rhythm(ordered(graphs[PLAIN], order)) == words


def test_indices_fold_into_ranges() -> None:
    assert folded((0, 1, 2, 4, 6, 7)) == ["0–2", "4", "6–7"]
    assert ranges((5,)) == "block 5"
    assert ranges((5, 7, 8)) == "blocks 5, 7–8"
    assert short_ranges((0, 2, 4, 6)) == "blocks 0, 2, 4, 6"
    assert short_ranges((0, 2, 4, 6, 8)) == "blocks 0, 2, 4, …"


def test_each_block_has_one_kind_and_a_place(all_graphs: dict[str, Graph]) -> None:
    for graph in all_graphs.values():
        order = kinds(graph)
        assert len(order) == graph.axes["L"]
        for place, region in enumerate(graph.regions):
            assert tuple(i for i, kind in enumerate(order) if kind == place) == region.indices
        assert [i for run in runs(graph) for i in range(run.first, run.last + 1)] == list(range(len(order)))


def test_kinds_are_told_apart_by_what_differs_in_their_titles(mixtures: list[Graph]) -> None:
    for graph in mixtures:
        names = [short_title(graph, region) for region in graph.regions]
        assert len(set(names)) == len(names)
        for name, region in zip(names, graph.regions, strict=True):
            assert graph.by_id[region.name].title.lower().startswith(name)
            assert f"{len(region.indices)} {name}" in rhythm(graph) or name in rhythm(graph)


# --- the strip --------------------------------------------------------------------------------------------------------


def test_the_strip_names_every_block_once(mixtures: list[Graph]) -> None:
    for graph in mixtures:
        found = strip(graph, lambda region: (region, file_of(region)))
        assert found is not None
        told = [index for row in found.rows for part in row.indices for index in span(part)]
        assert sorted(told) == list(range(graph.axes["L"]))
        cells = re.findall(r"M(\d+) 9h(\d+)", found.cells)
        assert sum(int(width) for _, width in cells) == 14 * graph.axes["L"]
        assert found.cells.count("<a ") == found.cells.count('tabindex="-1"') == len(graph.regions)
        assert found.rhythm in found.cells
        places = [float(tick.left.rstrip("%")) for tick in found.ticks]
        assert places == sorted(places)


def span(part: str) -> range:
    """`0–4` as numbers."""
    first, _, last = part.partition("–")
    return range(int(first), int(last or first) + 1)


def test_a_model_of_one_kind_has_no_strip(all_graphs: dict[str, Graph], site: Path) -> None:
    alike = [graph for graph in all_graphs.values() if not mixed(graph)]
    assert alike
    for graph in alike:
        assert strip(graph, lambda region: (region, file_of(region))) is None
        assert STACK not in {child.id for child in scope_of(graph, "").children}
    page = (site / PLAIN / "index.html").read_text()
    for words in ('class="layers"', "data-enlarge", '<rect class="slab"'):
        assert words not in page


def test_model_pages_show_all_kinds_without_a_script(site: Path, mixture: Graph) -> None:
    source = (site / mixture.model / "index.html").read_text()
    assert rhythm(mixture) in read(site / mixture.model / "index.html").text
    for region in mixture.regions:
        title = mixture.by_id[region.name].title
        assert f'aria-label="Diagram of {title}"' in source
        assert f'data-enlarge="{region.name}"' in source
        assert f'href="{region.name}.html"' in source
        assert re.search(rf'data-zoom="[^"]*{region.name} [\d. ]+', source)
    figures = re.findall(r"<figure data-region=[^>]*>", source)
    assert len(figures) == len(mixture.regions)
    assert not any("hidden" in figure for figure in figures)


def test_the_list_names_each_kind_once_with_its_blocks(site: Path, mixture: Graph) -> None:
    source = (site / mixture.model / "index.html").read_text()
    twin = source.partition('<details class="twin wide"')[2].partition("</details>")[0]
    for region in mixture.regions:
        title = mixture.by_id[region.name].title
        assert twin.count(f">{title}</a> ({ranges(region.indices)})") == 1


# --- the model's picture ----------------------------------------------------------------------------------------------


def test_the_stack_has_a_slab_for_every_block_in_order(mixtures: list[Graph]) -> None:
    for graph in mixtures:
        svg = draw(Pen(graph, file_of), "")
        heights: dict[float, int] = {}
        for place, region in enumerate(graph.regions):
            links = re.findall(rf'<a class="n box group k{place}".*?</a>', svg, re.S)
            assert len(links) == 1  # one for the keyboard, whatever the number of blocks
            assert f'data-id="{region.name}"' in links[0]
            heights |= {float(y): place for y in re.findall(r'<rect class="slab" x="[^"]*" y="([^"]*)"', links[0])}
        assert [heights[y] for y in sorted(heights)] == list(kinds(graph))


def test_the_stream_leaves_each_kind_by_its_own_tensor(mixtures: list[Graph]) -> None:
    for graph in mixtures:
        svg = draw(Pen(graph, file_of), "")
        last = kinds(graph)[-1]
        for place, region in enumerate(graph.regions):
            links = re.findall(rf'<a class="n net"[^>]*data-id="{region.name}:out".*?</a>', svg, re.S)
            assert len(links) == 1 + (place == last)  # between blocks, and from the last one to what follows
            gaps = [gap for link in links for gap in re.findall(r"M[\d.]+ [\d.]+v2", link.partition("w stream")[2])]
            assert len(gaps) == region.count - (place == last)


def test_what_blocks_read_is_a_pill_at_both_ends(mixtures: list[Graph]) -> None:
    for graph in mixtures:
        scope = scope_of(graph, "")
        read = {pill.text for pills in scope.readers.values() for pill in pills}
        given = {pill.text for pill in scope.gives.values()}
        assert given < read
        assert read - given == {"cache", "slots"}
        for place, region in enumerate(graph.regions):
            ports = {port.tensor for port in graph.by_id[region.name].inputs} - {f"{region.name}:in"}
            assert {t for pill in scope.readers[region.name] for t in pill.tensors} == ports
            makers = {tensor.split(":")[0].split(".")[0] for tensor in ports if not tensor.startswith(":")}
            assert all(scope.least[maker] <= place + 1 for maker in makers)
        assert scope.least[STACK] > max(scope.least[maker] for maker in scope.gives)


# --- pages inside a block ---------------------------------------------------------------------------------------------


def test_the_same_place_in_another_kind(mixtures: list[Graph]) -> None:
    """Every node of a block has a line for each other kind; those that read what the other does not say so."""
    for graph in mixtures:
        for region in graph.regions:
            block = graph.by_id[region.name]
            (found,) = kin(graph, block)
            own = {port.tensor.split(".")[0].split(":")[0] for port in block.inputs}
            other = {port.tensor.split(".")[0].split(":")[0] for port in graph.by_id[found.id].inputs}
            for name in (own - other) - {region.name, ""}:
                assert name in found.words
            for name in (other - own) - {found.id, ""}:
                assert name in found.rest
        for node in graph.nodes:
            assert len(kin(graph, node)) == (len(graph.regions) - 1 if node.region else 0)


def test_what_is_computed_otherwise_inside_is_told_by_name(mixture: Graph) -> None:
    near, far = (region.name for region in mixture.regions)
    norm = f"{far}.attention_norm"

    def other(node_id: str, **changes: object) -> Graph:
        nodes = [dataclasses.replace(n, **changes) if n.id == node_id else n for n in mixture.nodes]  # type: ignore[arg-type]
        return dataclasses.replace(mixture, nodes=tuple(nodes))

    assert kin(mixture, mixture.by_id[f"{near}.attention_norm"])[0].words == "Computes the same"
    changed = other(norm, constants={"eps": 0.25})
    (found,) = kin(changed, changed.by_id[f"{near}.attention_norm"])
    assert (found.words, found.rest) == ("Not the same", ": eps 1e-06, there 0.25.")
    (above,) = kin(changed, changed.by_id[near])
    assert "Attention norm: eps 1e-06, there 0.25" in above.rest
    assert "OtherNorm" in kin(other(norm, class_="OtherNorm"), mixture.by_id[f"{near}.attention_norm"])[0].rest


def test_pages_say_which_blocks_they_stand_for(site: Path, mixture: Graph) -> None:
    for region in mixture.regions:
        title = mixture.by_id[region.name].title
        page = read(site / mixture.model / f"{region.name}.attention.q.html")
        assert ", ".join(folded(region.indices)) in re.sub(r"\s+,", ",", page.text)
        assert f"{title} ({short_ranges(region.indices)})" in page.text
        others = [other.name for other in mixture.regions if other.name != region.name]
        assert {f"{name}.attention.q.html" for name in others} <= set(page.links)
    outside = read(site / mixture.model / "norm.html")
    assert 'class="layers"' not in outside.source


def test_the_last_kind_feeds_what_follows_and_all_feed_each_other(site: Path, mixture: Graph) -> None:
    last = mixture.regions[kinds(mixture)[-1]]
    page = (site / mixture.model / f"{last.name}.html").read_text()
    feeds = page.partition("<dt>feeds</dt>")[2].partition("</dd>")[0]
    assert 'data-id="norm"' in feeds
    first = mixture.regions[0].name
    page = (site / mixture.model / f"{first}.html").read_text()
    reads = page.partition("<dt>reads from</dt>")[2].partition("</dd>")[0]
    for region in mixture.regions[1:]:
        assert f'data-id="{region.name}"' in reads


def test_values_over_the_blocks_of_one_kind_stand_at_their_own_index() -> None:
    svg = spark([(5, 1.0), (11, 3.0), (17, 2.0)])
    assert 'aria-label="1 in block 5, 2 in block 17, at most 3 in 11"' in svg
    assert ">5</text>" in svg
    assert ">17</text>" in svg
    assert spark([(0, 1.0)]) == ""


# --- a block's own path -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_a_blocks_own_path_leads_to_its_region(site: Path, graphs: dict[str, Graph], name: str) -> None:
    graph = graphs[name]
    script = (site / name / "data.js").read_text(encoding="utf-8")
    told = json.loads(script.removeprefix("window.atlas=").rstrip().removesuffix(";"))["regions"]
    for index, kind in enumerate(kinds(graph)):
        region = graph.regions[kind]
        found = resolve(graph, f"blocks.{index}.attention.q")
        assert (found.node.id, found.index) == (f"{region.name}.attention.q", index)
        assert [r for r, indices in told.items() if index in indices] == [region.name]
        assert (site / name / file_of(found.node.id)).is_file()


def test_all_models_of_the_catalogue_are_looked_at() -> None:
    assert set(MODELS) <= set(ALL)
    families = {made_site.find.model(name).family for name in ALL}
    assert {made_site.find.model(name).family for name in MODELS} == families
