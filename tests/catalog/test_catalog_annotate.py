from collections.abc import Sequence
from dataclasses import replace

import pytest
from catalog_help import nodes

from openmodelatlas.catalog import find
from openmodelatlas.catalog.annotate import annotate, join, spread, state_of
from openmodelatlas.catalog.load import releases
from openmodelatlas.errors import CatalogError
from openmodelatlas.records.evidence import Claim, PinReport, PinStatus
from openmodelatlas.records.graph import GRAPH_SCHEMA, Counts, Graph, Node, Parameters

NODES = sorted(nodes("llama-3-8b"))
MADE = ["block:in", "block:out", ":tokens", ":positions", "block.attention_add:out", "block.attention_norm:out"]


def node(name: str) -> Node:
    return Node(
        id=name,
        kind="tensor" if ":" in name else "op",
        class_="",
        title="",
        sentence="",
        expression="",
        equation="",
        equation_text="",
        lights=(),
        constants={},
        dtype_note="",
        parameters=Parameters(count=0, tensors=()),
        inputs=(),
        outputs=(),
        flops="0",
        region=None,
        children=(),
        definition=None,
        code=(),
        claims=(),
        proofs=(),
    )


def graph(model: str, names: Sequence[str]) -> Graph:
    return Graph(
        schema=GRAPH_SCHEMA,
        model=model,
        family="llama",
        config={},
        axes={},
        dtype="bfloat16",
        counts=Counts(total=0, without_embedding=0, active=0),
        regions=(),
        nodes=tuple(node(name) for name in names),
    )


def report(claim: Claim, index: int, status: PinStatus) -> PinReport:
    pin = (claim.pin, *claim.also)[index]
    return PinReport(claim=claim.id, pin=pin, status=status, via=None, found=(), text=(), detail="")


def reports(claims: Sequence[Claim], own: PinStatus, also: PinStatus) -> dict[str, tuple[PinReport, ...]]:
    return {c.id: (report(c, 0, own), *(report(c, i + 1, also) for i in range(len(c.also)))) for c in claims}


@pytest.fixture
def done() -> Graph:
    claims = find.claims(find.model("llama-3-8b"))
    return annotate(graph("llama-3-8b", [*NODES, *MADE]), reports(claims, "same", "same"))


def test_block_out_has_two_contextual_sources_and_their_code(done: Graph) -> None:
    page = done.by_id["block:out"]
    assert [(c.id, c.grade, c.state) for c in page.claims] == [
        ("block-residuals", "contextual", "read"),
        ("model", "contextual", "read"),
    ]
    (code,) = page.code
    assert (code.repo, code.revision[:12], code.path) == ("meta-llama/llama3", "a0940f9cf706", "llama/model.py")
    assert code.lines == ((236, 248), (258, 269), (298, 302))
    assert code.envelope == (236, 302)
    assert code.omitted == ((249, 257), (270, 297))
    assert code.url.startswith("https://github.com/meta-llama/llama3/blob/a0940f9cf7065d45bb6675660f80d305c041a754/")
    assert code.url.endswith("llama/model.py#L236-L302")


def test_attention_add_has_one_direct_source(done: Graph) -> None:
    page = done.by_id["block.attention_add"]
    assert [(c.id, c.grade) for c in page.claims] == [("block-residuals", "direct")]
    assert page.expression == "x + self.attention(…)"
    assert [code.lines for code in page.code] == [((236, 248),)]


def test_a_tensor_inherits_its_ops_claims_as_contextual_and_its_code(done: Graph) -> None:
    made = done.by_id["block.attention_norm:out"]
    assert {(c.id, c.grade) for c in made.claims} == {("block-residuals", "contextual"), ("rms-norm", "contextual")}
    assert made.code == done.by_id["block.attention_norm"].code
    assert made.code[0].lines == ((35, 46),), "the lines that compute the op, not those where it stands"
    assert made.expression == ""


def test_direct_claims_come_first(done: Graph) -> None:
    grades = [c.grade for c in done.by_id["block.attention_norm"].claims]
    assert grades == ["direct", "contextual"]


def test_every_node_is_annotated(done: Graph) -> None:
    assert [n.id for n in done.nodes if not n.claims or not n.code] == []
    assert [n.id for n in done.nodes if n.kind != "tensor" and not n.expression] == []


def test_a_claim_about_a_node_that_the_map_lacks_is_an_error() -> None:
    with pytest.raises(CatalogError, match=r"merge_heads"):
        annotate(graph("llama-3-8b", [n for n in [*NODES, *MADE] if not n.endswith("merge_heads")]), {})


@pytest.mark.parametrize(
    ("own", "also", "state"),
    [
        ("same", "not available", "read"),
        ("moved", "not available", "read"),
        ("not available", "same", "read"),
        ("not available", "moved", "not verified"),
        ("not available", "not available", "not verified"),
        ("CHANGED", "same", "conflict"),
    ],
)
def test_states_of_a_claim_whose_text_stands_in_two_places(own: PinStatus, also: PinStatus, state: str) -> None:
    claim = find.claim("block-residuals")
    assert state_of(claim, (report(claim, 0, own), report(claim, 1, also))) == state


def test_other_text_elsewhere_does_not_make_a_claim_read() -> None:
    claim = find.claim("model")
    assert not claim.also[0].same_text
    assert state_of(claim, (report(claim, 0, "not available"), report(claim, 1, "same"))) == "not verified"


def test_a_recorded_conflict_outranks_a_text_that_holds() -> None:
    claim = replace(find.claim("scaled-rope"), conflict="two sources disagree")
    assert state_of(claim, (report(claim, 0, "same"), report(claim, 1, "same"))) == "conflict"


def test_the_conflict_reaches_the_page() -> None:
    page = annotate(graph("llama-3.2-1b", [*NODES, *MADE, "rope.scale"]), {}).by_id["rope.scale"]
    assert page.claims[0].state == "conflict"
    assert page.claims[0].conflict is not None
    assert page.code[0].state == "conflict"
    assert "meta-llama/llama-models/blob/5fdf83110cc9daa7435dfba6eb304892cc0041b8" in page.code[0].url


def test_a_claim_about_a_block_is_about_blocks_of_every_kind() -> None:
    claim = replace(
        find.claim("block-residuals"),
        direct=("block.attention_add", "blocked", "near_block.x"),
        contextual=("block", "block:in", "mask"),
        expressions={"block.attention_add": "x"},
    )
    assert spread(claim, ["block"]) == spread(claim, []) == claim
    both = spread(claim, ["near_block", "far_block"])
    assert both.direct == ("near_block.attention_add", "far_block.attention_add", "blocked", "near_block.x")
    assert both.contextual == ("near_block", "far_block", "near_block:in", "far_block:in", "mask")
    assert both.expressions == {"near_block.attention_add": "x", "far_block.attention_add": "x"}


def test_without_reports_every_pin_is_not_looked_for() -> None:
    page = annotate(graph("llama-3-8b", [*NODES, *MADE]), {}).by_id["block.attention_add"]
    assert page.claims[0].state == "not verified"
    assert page.claims[0].pin.detail == "not looked for"
    assert page.code[0].state == "not verified"


def test_join_merges_what_touches_or_overlaps() -> None:
    assert join([(10, 12), (1, 3), (4, 5), (11, 15)]) == ((1, 5), (10, 15))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({release.default for release in releases().values()}))
def test_the_derived_map_and_the_catalogue_name_the_same_nodes(name: str) -> None:
    from openmodelatlas.models import variants
    from openmodelatlas.trace.derive import derive

    done = annotate(derive(variants()[find.model(name).variant]), {})
    assert [n.id for n in done.nodes if not n.claims] == []
    assert [n.id for n in done.nodes if n.kind != "tensor" and not n.expression] == []


def test_every_model_of_the_catalogue_has_a_definition_and_the_other_way() -> None:
    from openmodelatlas.models import variants

    assert {(m.variant, m.family) for m in find.models()} == {(v.name, v.family) for v in variants().values()}
