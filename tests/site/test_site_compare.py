"""The page of two models side by side, held against what reading the two definitions gives."""

import re
from collections.abc import Callable

import made_site
import pytest

from openmodelatlas.site.compare import Comparison, differences, in_graph
from openmodelatlas.site.inputs import ModelPage, shelf
from openmodelatlas.site.maths import Maths
from openmodelatlas.site.pages import Press

NAMES = ("llama-3.1-8b", "qwen3-8b", "gemma-3-4b", "mixtral-8x7b")


@pytest.fixture(scope="module")
def pages() -> dict[str, ModelPage]:
    return {name: made_site.page(name) for name in NAMES}


@pytest.fixture(scope="module")
def compared(pages: dict[str, ModelPage]) -> Callable[[str, str], dict[str, object]]:
    maths = Maths()
    return lambda left, right: Comparison(maths, pages[left], pages[right]).values()


def names(groups: object) -> list[list[str]]:
    return [[title for title, _ in group.names] for group in groups]  # type: ignore[attr-defined]


def test_qwen3_beside_llama(compared: Callable[[str, str], dict[str, object]]) -> None:
    found = compared("llama-3.1-8b", "qwen3-8b")
    assert names(found["only_left"]) == [["Rotary frequency scaling"]]
    assert names(found["only_right"]) == [["Query norm"], ["Key norm"]]
    assert names(found["changed"]) == [
        ["Rotary frequencies"],
        ["Attention norm", "Feed-forward norm", "Final norm"],
        ["Query rotation", "Key rotation"],
    ]
    rotation = found["changed"][2]  # type: ignore[index]
    assert "katex" in rotation.left.equation
    assert rotation.left.equation != rotation.right.equation
    assert rotation.right.file == "block.attention.q_rotate.html"
    assert rotation.left.file == "../llama-3.1-8b/block.attention.q_rotate.html"


def test_a_mixed_model_says_both_kinds_of_blocks_once(compared: Callable[[str, str], dict[str, object]]) -> None:
    found = compared("llama-3.1-8b", "gemma-3-4b")
    assert found["folded"] == "local_block and global_block"
    assert ["Window mask"] in names(found["only_right"])
    assert names(found["only_right"]).count(["Query norm"]) == 1
    assert ["Local transformer block"] in names(found["changed"])
    figures = {name: (left, right) for name, left, right in found["figures"]}  # type: ignore[attr-defined]
    assert figures["blocks"] == ("32", "34 = 29 + 5")
    assert (figures["heads"], figures["head width"]) == (("32", "8"), ("128", "256"))


def test_experts_beside_a_dense_model(compared: Callable[[str, str], dict[str, object]]) -> None:
    found = compared("llama-3.1-8b", "mixtral-8x7b")
    figures = {name: (left, right) for name, left, right in found["figures"]}  # type: ignore[attr-defined]
    assert figures["experts"] == ("–", "2 of 8")
    assert figures["active per token"] == ("8,030,261,248", "12,879,925,248")
    assert ["Router"] in names(found["only_right"])


def test_every_entry_leads_to_a_node_that_is_there(pages: dict[str, ModelPage]) -> None:
    """Folded and renamed entries included; one that only the other side has leads nowhere."""
    comparison = Comparison(Maths(), pages["llama-3.1-8b"], pages["gemma-3-4b"])
    assert len(comparison.nodes) > 40
    for node in comparison.nodes:
        here = [in_graph(pages[name].graph, node) is not None for name in ("llama-3.1-8b", "gemma-3-4b")]
        expected = [node.side != "gemma-3-4b", node.side != "llama-3.1-8b"]
        assert here == expected, node.id


def test_each_pair_has_one_page_that_both_models_lead_to(pages: dict[str, ModelPage]) -> None:
    press = Press(Maths(), shelf(list(pages.values())))
    pairs = {(first.model.id, second.model.id) for first, second in press.pairs()}
    assert len(pairs) == 6  # four releases, one size each
    html = press.comparison(pages["llama-3.1-8b"], pages["qwen3-8b"])
    assert "<h1>Qwen3 8B against Llama 3.1 8B</h1>" in html
    assert "oma diff llama-3.1-8b qwen3-8b" in html
    assert not re.search(r'(href|src)="https?://', html)
    assert len(html.encode()) < 100_000


def test_the_short_list_says_the_same(pages: dict[str, ModelPage]) -> None:
    """What a model's own page lists: here against the definitions as one reads them."""
    rows = differences(pages["llama-3.1-8b"].graph, pages["qwen3-8b"].graph)
    assert [(row.where, row.node) for row in rows if row.structural] == [
        ("Rotary frequency scaling", None),
        ("Query norm", "block.attention.q_norm"),
        ("Query rotation", "block.attention.q_rotate"),
        ("Key norm", "block.attention.k_norm"),
        ("Key rotation", "block.attention.k_rotate"),
    ]
    (theta,) = [row for row in rows if row.where == "rope_theta"]
    assert (theta.before, theta.after) == ("500,000", "1,000,000")
    assert not differences(pages["qwen3-8b"].graph, pages["qwen3-8b"].graph)
