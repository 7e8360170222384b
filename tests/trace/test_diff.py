"""Comparison of maps."""

import dataclasses

import pytest

from openmodelatlas import maps
from openmodelatlas.cli.render_diff import render
from openmodelatlas.records.graph import Graph
from openmodelatlas.trace.diff import diff


def by_status(left: str, right: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for node in diff(maps.graph(left), maps.graph(right)).nodes:
        found.setdefault(node.status, []).append(node.id)
    return found


def test_llama_3_and_3_1_differ_in_the_scaling_only() -> None:
    found = diff(maps.graph("llama-3-8b"), maps.graph("llama-3.1-8b"))
    assert [(n.id, n.status, n.side) for n in found.nodes if n.status != "equal"] == [
        ("rope.scale", "only here", "llama-3.1-8b")
    ]
    assert {c.what for c in found.config} == {
        "max_position_embeddings",
        "rope_factor",
        "rope_low_freq_factor",
        "rope_high_freq_factor",
        "rope_original_max_position_embeddings",
    }
    assert "differ in rope.scale; configuration" in render(found)


def test_the_other_way_round_is_the_mirror_image() -> None:
    assert by_status("llama-3.1-8b", "llama-3-8b") == by_status("llama-3-8b", "llama-3.1-8b")


def test_a_model_equals_itself() -> None:
    found = diff(maps.graph("llama-3-8b"), maps.graph("llama-3-8b"))
    assert (found.status, found.config) == ("equal", ())
    assert render(found).splitlines()[0].endswith("equal")


def test_sizes_are_told_from_structure() -> None:
    found = by_status("llama-3-8b", "llama-3-70b")
    assert set(found) == {"equal", "same structure, other sizes"}
    assert "rope" in found["equal"]


def test_tied_and_untied_are_another_structure() -> None:
    found = by_status("smollm2-1.7b", "tinyllama-1.1b")
    assert "unembed" in found["changed"]
    assert "rope.frequencies" in found["changed"]  # another base
    assert "block.attention.q" in found["equal"]


def changed(graph: Graph, node_id: str, **fields: object) -> Graph:
    nodes = tuple(dataclasses.replace(n, **fields) if n.id == node_id else n for n in graph.nodes)  # type: ignore[arg-type]
    return dataclasses.replace(graph, nodes=nodes)


@pytest.mark.parametrize(
    "fields", [{"class_": "LayerNorm"}, {"constants": {"eps": 1e-6}}, {"inputs": ()}], ids=["class", "eps", "ports"]
)
def test_a_planted_change_is_seen(fields: dict[str, object]) -> None:
    graph = maps.graph("llama-3-8b")
    found = diff(graph, changed(graph, "block.ffn_norm", **fields))
    assert [n.id for n in found.nodes if n.status == "changed"] == ["block.ffn_norm"]


def test_a_rewired_residual_is_seen() -> None:
    graph = maps.graph("llama-3-8b")
    add = graph.by_id["block.ffn_add"]
    wrong = dataclasses.replace(add.inputs[0], from_="block:in")
    found = diff(graph, changed(graph, "block.ffn_add", inputs=(wrong, *add.inputs[1:])))
    (node,) = [n for n in found.nodes if n.status == "changed"]
    assert [(c.left, c.right) for c in node.changes] == [("block.attention_add:out", "block:in")]
