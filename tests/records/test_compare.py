"""Comparison of maps."""

import dataclasses

import pytest

from openmodelatlas import maps
from openmodelatlas.cli.render_diff import render
from openmodelatlas.records.compare import diff
from openmodelatlas.records.graph import Graph


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


def test_a_model_of_one_kind_of_block_is_held_against_each_kind_of_another() -> None:
    """Expected by reading the two definitions."""
    found = diff(maps.graph("llama-3.1-8b"), maps.graph("gemma-3-4b"))
    assert [(c.left, c.right) for c in found.regions] == [("32 block", "29 local_block, 5 global_block")]
    nodes = {n.id: n for n in found.nodes}
    for kind in ("local_block", "global_block"):
        only = {i.removeprefix(f"{kind}.") for i, n in nodes.items() if n.region == kind and n.status == "only here"}
        assert only == {
            "attention.q_norm",
            "attention.k_norm",
            "attention_post_norm",
            "ffn_post_norm",
            "feed_forward.gelu",
            "feed_forward.silu",
        }
        (changes,) = (nodes[f"{kind}.attention_norm"].changes[:1],)
        assert [(c.what, c.left, c.right) for c in changes] == [("class", "RMSNorm", "ZeroCenteredRMSNorm")]
    # What tells the kinds apart is what they read; the global kind reads what a plain block reads.
    assert {c.what for c in nodes["local_block"].changes} == {"feed of rope.cos", "feed of rope.sin", "feed of mask"}
    assert nodes["global_block"].changes == ()
    # A norm in between is looked through: the sum gets the update that it got before.
    assert nodes["local_block.attention_add"].changes == ()
    assert nodes["norm"].changes[0].what == "class"


def test_kinds_that_compare_alike_are_printed_once() -> None:
    text = render(diff(maps.graph("llama-3.1-8b"), maps.graph("gemma-3-4b")))
    assert "`block` below stands for local_block and global_block alike" in text
    assert text.count("  block.attention.q_norm  (Query norm)") == 1
    assert "local_block.attention.q_norm" not in text
    assert "  block.attention_norm, block.ffn_norm, norm\n    class: RMSNorm → ZeroCenteredRMSNorm" in text


def test_two_mixed_models_are_compared_kind_by_kind() -> None:
    found = diff(maps.graph("gemma-3-1b"), maps.graph("gemma-3-4b"))
    counts = {c.what: (c.left, c.right) for c in found.regions}
    assert counts == {"local_block": ("22", "29"), "global_block": ("4", "5")}
    assert [(n.id, n.side) for n in found.nodes if n.status == "only here"] == [("rope.scale", "gemma-3-4b")]
    assert not [n.id for n in found.nodes if n.status == "changed"]


def test_qwen3_differs_from_llama_3_in_what_its_claims_say() -> None:
    found = by_status("llama-3-8b", "qwen3-8b")
    assert found["only here"] == ["block.attention.q_norm", "block.attention.k_norm"]
    assert found["changed"] == [
        "rope.frequencies",
        "block.attention_norm",
        "block.attention.q_rotate",
        "block.attention.k_rotate",
        "block.ffn_norm",
        "norm",
    ]


def test_mixtral_differs_from_llama_3_in_its_feed_forward_and_base() -> None:
    found = by_status("llama-3-8b", "mixtral-8x7b")
    assert all(name.startswith("block.feed_forward") for name in found["only here"])
    assert [n for n in found["changed"] if not n.startswith("block.feed_forward")] == ["rope.frequencies"]


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
