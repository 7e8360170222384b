"""Positions by who says so: what the catalogue states, and how its figures may be written."""

import tomllib

import pytest

from openmodelatlas import models
from openmodelatlas.catalog import find, load
from openmodelatlas.errors import CatalogError
from openmodelatlas.records.catalog import Context, Model

MODELS = find.models()
ONE = 'config = { positions = 8, source = "a file" }\n'


def read(text: str) -> Context:
    return load._context(load.Entry(tomllib.loads(text), "test.toml"))


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.id)
def test_the_configurations_figure_is_the_definitions(model: Model) -> None:
    assert model.context.config.positions == models.find(model.variant).config.max_position_embeddings


def test_where_training_and_configuration_differ() -> None:
    llamas = [m for m in MODELS if m.family == "llama"]
    assert {m.id for m in llamas if m.context.differ} == {"smollm2-135m", "smollm2-360m", "smollm2-1.7b"}
    trained = {m.id: [f.positions for f in m.context.trained] for m in llamas if m.context.trained}
    assert trained == {
        "llama-3-8b": [8192],
        "llama-3-70b": [8192],
        "llama-3.1-405b": [131072],
        "smollm2-135m": [2048],
        "smollm2-360m": [2048],
        "smollm2-1.7b": [2048, 8192],
        "tinyllama-1.1b": [2048],
    }


def test_a_rounded_figure_says_how_it_is_read() -> None:
    """128k is 131,072 and not 128,000."""
    for model in MODELS:
        card = model.context.advertised
        if card is not None:
            assert card.note is not None
            rounded = card.positions // 1024
            printed = card.note.partition(",")[0]
            assert printed.lower() == f"printed as {rounded}k"
            assert card.note.removeprefix(printed).startswith(f", read as {rounded} × 1,024")


@pytest.mark.parametrize(
    ("more", "differ"),
    [
        ("", False),
        ('advertised = { positions = 8, source = "b" }', False),
        ('advertised = { positions = 9, source = "b" }', True),
        ('trained = [{ positions = 8, source = "b" }]', False),
        ('trained = [{ positions = 8, source = "b" }, { positions = 2, source = "c" }]', True),
    ],
)
def test_any_two_numbers_are_a_difference(more: str, differ: bool) -> None:
    assert read(ONE + more).differ is differ


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "missing key.*config"),
        ("config = 8\n", "wrong kind.*config.*expected dict"),
        (ONE.replace(', source = "a file"', ""), "missing key.*config: source"),
        (ONE.replace("8", "0"), "impossible value.*config: positions"),
        (ONE + 'trained = [{ positions = 2, source = "b", why = "c" }]', "surplus key.*trained: why"),
        (ONE + "trained = 2048", "wrong kind.*trained"),
        (ONE + 'announced = { positions = 8, source = "b" }', "surplus key.*announced"),
    ],
)
def test_an_impossible_figure_is_named(text: str, complaint: str) -> None:
    with pytest.raises(CatalogError, match=complaint) as caught:
        read(text)
    assert "\n" not in str(caught.value)


def test_what_the_references_code_makes_room_for_is_no_models_figure() -> None:
    setting = find.reference("meta-llama/llama3").setting
    assert setting is not None
    assert setting.positions == 2048
    assert not find.model("llama-3-8b").context.differ
