"""Records: JSON both ways, ids as people write them, sizes, formulas as text."""

import json

import jsonschema
import pytest

from openmodelatlas import maps
from openmodelatlas.errors import AtlasError, CheckpointError, NotACheckpoint, UnknownName, UsageError
from openmodelatlas.records.graph import Graph
from openmodelatlas.records.ids import resolve
from openmodelatlas.records.json import dump_json, from_json, schema, to_json
from openmodelatlas.records.plain_math import plain, symbol_text
from openmodelatlas.records.report import Check
from openmodelatlas.records.shapes import shape_text
from openmodelatlas.records.sizes import evaluate


@pytest.fixture(scope="module")
def graph() -> Graph:
    return maps.graph("llama-3-8b")


def test_graph_fits_its_schema_and_the_schema_can_fail(graph: Graph) -> None:
    data, rules = to_json(graph), schema(Graph, title="graph")
    jsonschema.validate(data, rules)
    data["nodes"][3]["shape"] = 1
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, rules)


def test_a_missing_or_surplus_key_is_named() -> None:
    good = to_json(Check(name="a", state="ok", detail=""))
    assert from_json(Check, good) == Check(name="a", state="ok", detail="")
    with pytest.raises(ValueError, match="Check: missing or surplus keys: detail, extra, notes"):
        from_json(Check, {"name": "a", "state": "ok", "extra": 1})


def test_json_has_no_nan() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        dump_json({"x": float("nan")})


@pytest.mark.parametrize(
    ("name", "node", "index", "alias"),
    [
        ("block.attention_add", "block.attention_add", None, None),
        ("blocks.3.attention_add", "block.attention_add", 3, None),
        ("blocks.31:out", "block:out", 31, None),
        ("block.ffn_add:out", "block:out", None, "block.ffn_add:out"),
        ("block.attention:out", "block.attention.o:out", None, "block.attention:out"),
        ("rope:cos", "rope.table:cos", None, "rope:cos"),
    ],
)
def test_ids_resolve(name: str, node: str, index: int | None, alias: str | None, graph: Graph) -> None:
    found = resolve(graph, name)
    assert (found.node.id, found.index, found.alias) == (node, index, alias)


def test_unknown_ids_list_the_nearest(graph: Graph) -> None:
    with pytest.raises(UnknownName, match=r"'block\.atention_add'; nearest: block\.attention_add"):
        resolve(graph, "block.atention_add")
    with pytest.raises(UnknownName, match=r"no such block: 'blocks\.32'; expected 0 to 31, found 32"):
        resolve(graph, "blocks.32")


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("5", 5), ("B*T", 6), ("16384*B*S*T + 436207616*B*T", 16384 * 30 + 436207616 * 6), ("T**2 - B", 7)],
)
def test_sizes_evaluate(text: str, value: int) -> None:
    assert evaluate(text, {"B": 2, "T": 3, "S": 5}) == value


def test_shape_text(graph: Graph) -> None:
    (port,) = graph.by_id["block:out"].outputs
    assert shape_text(port) == "[B batch, T positions, 4096 d]"
    assert shape_text(port, {"B": 2, "T": 7, "S": 7}) == "[2 batch, 7 positions, 4096 d]"


@pytest.mark.parametrize(
    ("latex", "text"),
    [
        (r"\Delta_{\mathrm{attn}}", "Δ_attn"),
        ("x_{n+1}", "x_{n+1}"),
        (r"\frac{a + b}{\sqrt{E}}", "(a + b) / (√E)"),
        (r"\sum_{s'} P_{h,t,s}\,v_s", "Σ_s′ P_{h,t,s} v_s"),
        (r"\begin{cases} 0 & p \le q \\ -\infty & \text{otherwise} \end{cases}", "{ 0   p ≤ q ; −∞   otherwise }"),
    ],
)
def test_formulas_as_text(latex: str, text: str) -> None:
    assert symbol_text(latex) == text
    assert plain(latex) == text


def test_error_lines() -> None:
    error = AtlasError("no such file", where="a.gguf", expected="x", found="y", fix="look\n again")
    assert str(error) == "no such file: a.gguf; expected x, found y; look again"
    assert str(AtlasError("odd", found=3)) == "odd; found 3"
    codes = {AtlasError: 1, UsageError: 2, UnknownName: 2, CheckpointError: 1, NotACheckpoint: 2}
    assert {kind: kind.exit_code for kind in codes} == codes


def test_repr_for_notebooks(graph: Graph) -> None:
    assert repr(graph) == f"<Graph llama-3-8b: 8,030,261,248 parameters, {len(graph.nodes)} nodes, 32 x block>"
    html = graph._repr_html_()
    assert "&lt;Graph llama-3-8b" in html
    assert "<code>block.attention_add</code>" in html
    assert json.loads(dump_json(graph))["model"] == "llama-3-8b"
