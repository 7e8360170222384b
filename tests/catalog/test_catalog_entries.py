from collections import Counter

import pytest
from catalog_help import claims, containers, nodes, stands_in

from openmodelatlas.catalog import find
from openmodelatlas.catalog.checkpoints import checkpoints
from openmodelatlas.catalog.checkpoints import find as find_checkpoint
from openmodelatlas.catalog.load import references, releases
from openmodelatlas.errors import UnknownName
from openmodelatlas.records.catalog import Model
from openmodelatlas.records.evidence import Claim

CLAIMS = [claim for reference in references().values() for claim in reference.claims]
MODELS = find.models()
LIBRARYS = [m for m in MODELS if find.reference(m.reference).release is None]
SCALED = ("llama-3.1", "llama-3.2", "llama-3.3")


def test_a_models_id_is_its_release_and_size() -> None:
    for release in releases().values():
        assert [m.id for m in release.models] == [f"{release.id}-{m.size.lower()}" for m in release.models]
        assert release.sources
        assert release.follows is None or releases()[release.follows].date < release.date


@pytest.mark.parametrize(
    ("name", "month", "follows", "architecture"),
    [
        ("llama-3", "Apr 2024", None, None),
        ("llama-3.1", "Jul 2024", "llama-3", None),
        ("llama-3.2", "Sep 2024", "llama-3.1", None),
        ("llama-3.3", "Dec 2024", "llama-3.1", None),
        ("smollm2", "Nov 2024", None, "llama"),
        ("tinyllama", "Jan 2024", None, "llama"),
        ("mixtral", "Dec 2023", None, None),
        ("gemma-3", "Mar 2025", None, None),
        ("qwen3", "Apr 2025", None, None),
    ],
)
def test_dates_and_lineage(name: str, month: str, follows: str | None, architecture: str | None) -> None:
    release = releases()[name]
    assert (release.month, release.follows, release.architecture) == (month, follows, architecture)


def test_claim_ids_are_unique() -> None:
    assert [name for name, count in Counter(claim.id for claim in CLAIMS).items() if count > 1] == []


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_a_claim_is_a_sentence_about_something(claim: Claim) -> None:
    assert claim.statement[0].isupper()
    assert claim.statement.endswith(".")
    assert claim.direct or claim.contextual


def test_every_claim_is_made_of_a_model() -> None:
    made = {claim.id for model in MODELS for claim in find.shown(model)}
    assert [claim.id for claim in CLAIMS if claim.id not in made] == []


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_same_text_means_same_hashes(claim: Claim) -> None:
    own = [part.sha256 for part in claim.pin.ranges]
    for pin in claim.also:
        assert ([part.sha256 for part in pin.ranges] == own) is pin.same_text


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.id)
def test_every_node_has_a_claim_and_one_expression(model: Model) -> None:
    made, there = claims(model), nodes(model.variant)
    about = {node for claim in made for node in claim.direct + claim.contextual}
    assert {node.partition(":")[0] for node in about} == there
    assert about >= there
    assert Counter(node for claim in made for node in claim.expressions) == Counter(there)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.id)
def test_every_op_is_computed_in_lines_that_are_pinned(model: Model) -> None:
    direct = {node for claim in claims(model) for node in claim.direct}
    assert nodes(model.variant) - direct == containers(model.variant)


def test_the_first_page_has_its_two_sources_and_the_second_its_one() -> None:
    made = find.claims(find.model("llama-3-8b"))
    at = {node: [c.id for c in made if node in c.direct + c.contextual] for node in ("block", "block.attention_add")}
    assert at == {"block": ["block-residuals", "model"], "block.attention_add": ["block-residuals"]}
    residuals, model = find.claim("block-residuals"), find.claim("model")
    assert [(r.first, r.last) for r in residuals.pin.ranges] == [(236, 248)]
    assert [(r.first, r.last) for r in model.pin.ranges] == [(258, 269), (298, 302)]
    assert "block" not in residuals.direct + model.direct
    assert residuals.expressions["block.attention_add"] == "x + self.attention(…)"


def test_scaled_rope_is_claimed_only_where_it_is() -> None:
    having = {m.release for m in MODELS if any(c.id == "scaled-rope" for c in find.claims(m))}
    assert having == set(SCALED)
    note = find.model("llama-3.1-8b").deviations[0].note
    assert note is not None
    assert "0e0b8c5" in note


def test_the_factor_of_the_small_models_is_a_conflict() -> None:
    conflicts = {m.id for m in MODELS for c in find.claims(m) if c.conflict and c.id == "scaled-rope"}
    assert conflicts == {"llama-3.2-1b", "llama-3.2-3b"}
    conflict = next(c for c in find.claims(find.model("llama-3.2-1b")) if c.id == "scaled-rope").conflict
    assert conflict is not None
    assert "8" in conflict
    assert "32" in conflict


def test_tied_models_do_not_claim_two_embeddings() -> None:
    by_meta = [m for m in MODELS if m.reference == "meta-llama/llama3"]
    tied = {m.id for m in by_meta if not any(c.id == "separate-embeddings" for c in find.claims(m))}
    assert tied == {"llama-3.2-1b", "llama-3.2-3b", "smollm2-135m", "smollm2-360m", "smollm2-1.7b"}


def test_provenance_of_llama_3_1() -> None:
    found = find.provenance(find.model("llama-3.1-8b"))
    assert (found.reference.repo, found.reference.revision[:7]) == ("meta-llama/llama3", "a0940f9")
    assert (found.own, found.computes_as) == (False, "Llama 3.1")
    deviation, claim = found.deviations[0]
    assert deviation.summary == "its scaled RoPE"
    assert claim is not None
    assert [(r.first, r.last) for r in claim.pin.ranges] == [(45, 69)]
    assert found.configuration_claim is not None
    assert found.configuration_claim.contextual == ("",)
    assert found.not_verified == ("checkpoint", "tokenizer", "tensors")
    assert find.provenance(find.model("llama-3-8b")).own


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.id)
def test_a_configuration_is_read_only_where_lines_are_pinned(model: Model) -> None:
    assert model.configuration.state == ("stated" if model.configuration.claim is None else "read")


@pytest.mark.parametrize("model", LIBRARYS, ids=lambda model: model.id)
def test_a_librarys_code_for_the_model_itself_needs_no_sentence_of_departures(model: Model) -> None:
    found = find.provenance(model)
    assert found.own
    assert found.deviations == ()
    assert found.reference.home.path == found.reference.path


def test_what_a_size_lacks_is_not_claimed_of_it() -> None:
    made = {size: {c.id for c in find.claims(find.model(f"gemma-3-{size}"))} for size in ("1b", "4b")}
    assert made["4b"] - made["1b"] >= {"gemma3-rope-scale", "gemma3-rope-scale-call"}
    assert "gemma3-global-frequencies" in made["1b"] - made["4b"]


def test_a_release_stands_for_its_default_size() -> None:
    assert find.model("llama-3.1").id == "llama-3.1-8b"
    assert find.model(" Llama-3.2-3B ").id == "llama-3.2-3b"


@pytest.mark.parametrize(
    ("look", "name", "near"),
    [
        (find.model, "llama-3.1-7b", "llama-3.1-8b"),
        (find.release, "lama-3.1", "llama-3.1"),
        (find_checkpoint, "smollm2-135m", "smollm2-135m-instruct"),
    ],
)
def test_an_unknown_name_lists_the_nearest(look: object, name: str, near: str) -> None:
    assert callable(look)
    with pytest.raises(UnknownName, match=near) as caught:
        look(name)
    assert caught.value.exit_code == 2


def test_checkpoints_name_models_of_the_catalogue() -> None:
    for checkpoint in checkpoints().values():
        assert find.model(checkpoint.model).id == checkpoint.model
    assert find_checkpoint("smollm2-135m-instruct").bytes == 98362432


def test_stands_in_can_say_no() -> None:
    assert stands_in("a(…)", "x = a(\n  b\n)")
    assert not stands_in("b … a", "a b")
    assert not stands_in("a + b", "a - b")
