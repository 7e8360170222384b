"""Figures that follow from a map: active parameters, the cache and its windows, the width of heads, what sets apart."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from made_site import ALL, LLAMAS, MODELS, page, read

from openmodelatlas.records.graph import Graph, Node
from openmodelatlas.site.cache import capped, growing, parts
from openmodelatlas.site.experts import active, stacked_experts
from openmodelatlas.site.facts import Fact, facts
from openmodelatlas.site.gallery import differs, families, filters
from openmodelatlas.site.inputs import shelf
from openmodelatlas.site.preview import preview
from openmodelatlas.site.schedule import kinds
from openmodelatlas.site.sizes import size_table
from openmodelatlas.site.traits import tags, traits


@pytest.fixture(scope="module")
def sparse(graphs: dict[str, Graph]) -> Graph:
    """A mixture of experts that is on the site."""
    return next(graph for graph in graphs.values() if graph.counts.active != graph.counts.total)


def changed(graph: Graph, node_id: str, **changes: Any) -> Graph:
    """The map with one node changed."""
    nodes = tuple(dataclasses.replace(n, **changes) if n.id == node_id else n for n in graph.nodes)
    return dataclasses.replace(graph, nodes=nodes)


def named(name: str) -> dict[str, Fact]:
    """The figures of a model's page."""
    of = page(name)
    return {fact.name: fact for fact in facts(of.graph, of.model)}


# --- active parameters ------------------------------------------------------------------------------------------------


def test_active_parameters_of_nodes_add_up_to_the_models(all_graphs: dict[str, Graph]) -> None:
    for graph in all_graphs.values():
        outside = [n for n in graph.nodes if n.kind == "op" and n.region is None]
        blocks = sum(active(graph.by_id[region.name], graph.axes) * region.count for region in graph.regions)
        tied = sum(t.count for n in outside for t in n.parameters.tensors if t.tied_to)
        assert blocks + sum(active(n, graph.axes) for n in outside) - tied == graph.counts.active


def test_active_parameters_by_hand() -> None:
    """Of eight experts of three matrices in 32 blocks six are not chosen: 46.7 B hold, 12.9 B compute."""
    found = named("mixtral-8x7b")
    unread = 32 * 6 * 3 * 4096 * 14336
    assert found["parameters"].value == "46.7 B"
    assert found["active per token"].value == "12.9 B"
    assert f"{46_702_792_704 - unread:,}" in found["active per token"].definition
    assert f"({unread:,})" in found["active per token"].definition
    assert "embedding table is included" in found["active per token"].definition
    assert found["experts"].value == "2 of 8"


def test_a_dense_model_has_no_such_figure() -> None:
    assert not {"active per token", "experts", "window", "cache of windows", "head width"} & set(named(LLAMAS[0]))


def test_experts_are_one_node_with_their_number_in_the_shape(site: Path, sparse: Graph) -> None:
    experts, chosen = sparse.axes["N"], sparse.axes["A"]
    ops: list[Node] = [node for node in sparse.nodes if stacked_experts(node)]
    assert {stacked_experts(node) for node in ops} == {experts}
    for node in ops:
        text = read(site / sparse.model / f"{node.id}.html").text
        assert f"{experts} experts × " in text
        assert f"{chosen} chosen" in text
        assert f"{node.parameters.count:,} parameters, {active(node, sparse.axes):,} active for a position" in text
    model = read(site / sparse.model / "index.html").text
    assert f"{sparse.counts.active:,}" in model
    router = next(n for n in sparse.nodes if n.kind == "op" and any(t.axes[:1] == ("N",) for t in n.parameters.tensors))
    assert stacked_experts(router) == 0  # a row for each expert, and all rows are read


# --- the cache --------------------------------------------------------------------------------------------------------


def test_the_cache_is_what_blocks_write(all_graphs: dict[str, Graph]) -> None:
    """Keys and values of every block in two bytes each; blocks with a window in the capped part, all others growing."""
    for graph in all_graphs.values():
        each = 2 * graph.axes["K"] * graph.axes["E"] * 2
        assert graph.dtype == "bfloat16"
        assert {part.each for part in parts(graph)} == {each}
        assert sum(part.blocks for part in parts(graph)) == graph.axes["L"]
        open_ = sum(part.blocks for part in parts(graph) if part.window is None)
        assert growing(graph) == each * open_
        assert capped(graph) == sum(each * part.blocks * part.window for part in parts(graph) if part.window)


def test_the_cache_by_hand() -> None:
    """Four global blocks of 1,024 bytes a position; 22 local ones of the same, for 512 positions at most."""
    found = named("gemma-3-1b")
    assert found["window"].value == "512"
    assert found["cache per position"].value == "4.0 KiB"
    assert "4,096 bytes for each position" in found["cache per position"].definition
    assert found["cache of windows"].value == "≤ 11.0 MiB"
    assert "22 local blocks × 512 positions × 1,024 bytes = 11,534,336 bytes" in found["cache of windows"].definition
    assert "22,528 bytes for each position" in found["cache of windows"].definition
    assert named(LLAMAS[0])["cache per position"].value == "128.0 KiB"


def test_a_window_is_known_by_the_masks_number_not_by_a_name(graphs: dict[str, Graph]) -> None:
    plain = graphs[LLAMAS[0]]
    assert [part.window for part in parts(plain)] == [None]
    assert [part.window for part in parts(changed(plain, "mask", constants={"window": 7}))] == [7]
    assert tags(changed(plain, "mask", constants={"window": 7})) == ("window of 7",)


# --- what sets models apart -------------------------------------------------------------------------------------------


def test_tags_by_hand(all_graphs: dict[str, Graph]) -> None:
    expected = {
        "llama-3-8b": (),
        "llama-3.1-8b": ("scaled rope",),
        "llama-3.2-1b": ("scaled rope", "one embedding matrix"),
        "qwen3-0.6b": ("q and k normed", "heads 2 × width", "one embedding matrix"),
        "qwen3-8b": ("q and k normed",),
        "mixtral-8x7b": ("8 experts, 2 chosen",),
        "olmo-2-7b": ("q and k normed", "normed after"),
        "gemma-3-1b": (
            "window of 512 in most blocks", "q and k normed", "normed after, too", "heads 0.89 × width", "GELU",
            "one embedding matrix",
        ),
    }  # fmt: skip
    for name, words in expected.items():
        assert tags(all_graphs[name]) == words


def test_norms_are_found_where_they_stand(all_graphs: dict[str, Graph]) -> None:
    """A norm that reads the stream stands before; one whose reader is a sum, after. A model has one or both."""
    for name, graph in all_graphs.items():
        found = traits(graph)
        sums = [n for n in graph.nodes if n.class_ == "ResidualAdd"]
        makers = {port.from_.rpartition(":")[0] for n in sums for port in n.inputs[1:] if port.from_}
        assert found.after == any(graph.by_id[maker].kind == "op" for maker in makers), name
        assert found.before == any(n.id.endswith("block.attention_norm") for n in graph.nodes), name
        assert found.before or found.after, name
        assert found.heads == any(".q_norm" in n.id for n in graph.nodes), name


def test_the_picture_shows_what_the_tags_say(all_graphs: dict[str, Graph]) -> None:
    for graph in all_graphs.values():
        svg, found = preview(graph), traits(graph)
        assert svg.count('class="norm"') == 2 * found.before + 2 * found.after + 2 * found.heads
        assert ('class="tie"' in svg) == found.tied
        assert ('class="wave scaled"' in svg) == found.rescaled
        assert svg.count('class="seen') == len(found.windows)
        assert f"{graph.axes['H']} heads" in svg
        assert (" × width</text>" in svg.partition('class="wave')[0]) == (found.ratio != 1)
        bands = svg.count('class="wide"') + svg.count('class="wide idle"')
        assert bands == (found.experts[0] if found.experts else 1)
        assert svg.count('class="wide"') == (found.experts[1] if found.experts else 1)
        for tag in tags(graph):
            assert tag in svg  # in the words for who does not see it


def test_the_stacks_lines_are_the_blocks_in_order(all_graphs: dict[str, Graph]) -> None:
    for graph in all_graphs.values():
        svg = preview(graph)
        for place, region in enumerate(graph.regions):
            mark = f' k{place}"' if len(graph.regions) > 1 else '"'
            path = svg.partition(f'class="layers{mark}')[2].partition("/>")[0].partition(' d="')[2]
            heights = [float(piece.partition("v-")[2].rstrip('"')) for piece in path.split("M")[1:]]
            assert sum(round(height / 0.86) for height in heights) == region.count
            starts = [float(piece.split(" ")[1].partition("v")[0]) for piece in path.split("M")[1:]]
            firsts = [round((143 - 7 - y) / 0.86) for y in starts]
            assert all(kinds(graph)[i] == place for i in firsts)


def test_sizes_have_columns_for_what_some_size_has() -> None:
    def columns(*names: str) -> set[str]:
        return {name for name, _ in size_table([page(name) for name in names], "", "").columns}

    plain = columns("llama-3-8b", "llama-3-70b")
    assert columns("mixtral-8x7b") - plain == {"active per token", "experts"}
    assert columns("gemma-3-1b", "gemma-3-27b") - plain == {"head width", "window"}
    assert columns("qwen3-8b") == plain  # 32 heads of 128 are 4,096
    assert columns("qwen3-0.6b", "qwen3-8b") - plain == {"head width"}
    rows = size_table([page("gemma-3-1b")], "../", "gemma-3-1b").rows
    assert rows[0].here
    assert "26 = 22 + 4" in rows[0].cells


# --- the gallery ------------------------------------------------------------------------------------------------------


def test_releases_stand_by_family_the_plainest_first() -> None:
    pages = [page(name) for name in ALL]
    found = families(shelf(pages))
    family_of = {p.release.id: p.model.family for p in pages}
    names = [[family_of[group.id] for group in groups] for groups in found]
    assert all(len(set(of)) == 1 for of in names)
    assert len({of[0] for of in names}) == len(names)
    assert sorted(group.id for groups in found for group in groups) == sorted(family_of)
    defaults = {p.release.id: p for p in pages if p.model.id == p.release.default}
    plainness = [len(tags(defaults[groups[0].id].graph)) for groups in found]
    assert plainness == sorted(plainness)


def test_releases_say_what_is_different_from_the_first_of_their_family() -> None:
    assert differs(page("llama-3-8b"), page("llama-3.1-8b")) == "Beside Llama 3: scaled rope."
    assert differs(page("llama-3.1-8b"), page("llama-3-8b")) == "Beside Llama 3.1: no scaled rope."
    same = "The map of Llama 3.1; only what was learned differs."
    assert differs(page("llama-3.1-70b"), page("llama-3.3-70b")) == same
    assert differs(page("llama-3-8b"), page("tinyllama-1.1b")) == "The map of Llama 3 at other sizes."


def test_filters_offer_what_the_cards_are_filed_under() -> None:
    groups = [group for family in families(shelf([page(name) for name in ALL])) for group in family]
    found = {f.key: f.options for f in filters(groups)}
    cards = [card for group in groups for card in group.cards]
    assert len(cards) == len(ALL)
    for key, options in found.items():
        filed = {value for card in cards for value in card.keys[key].split("|") if value}
        assert set(options) == filed
    assert found["size"] == ("up to 1 B", "1 to 10 B", "10 to 100 B", "over 100 B")


def test_the_front_page_reads_without_a_script(site: Path) -> None:
    source = (site / "index.html").read_text()
    assert '<form class="filters" hidden' in source
    assert source.count("<li data-search=") == len(MODELS)
    assert "<li hidden" not in source
    assert "Beside Llama 3: scaled rope." in read(site / "index.html").text
