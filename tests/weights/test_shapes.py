"""Sizes that the settings leave out come from the shapes of the stored tensors."""

import dataclasses

import pytest
import tiny

from openmodelatlas.models import variants
from openmodelatlas.models.variant import Variant
from openmodelatlas.records.report import Header, StoredTensor
from openmodelatlas.weights.naming import Scheme, block_pattern, has_names, name_table, pieces
from openmodelatlas.weights.shapes import sizes

CASES = [
    (like, scheme)
    for like in tiny.representatives()
    for scheme in ("gguf", "huggingface", "meta")
    if has_names(variants()[like].family, scheme)  # type: ignore[arg-type]
]


def header(of: Variant, scheme: Scheme) -> Header:
    """Shapes under the scheme's names, without settings."""
    names = {row.parameter: row.stored for row in name_table(of.family, scheme).tensors}
    tensors = []
    for parameter, tensor in of.build("meta").named_parameters():
        pattern, index = block_pattern(parameter)
        stored = pieces(names[pattern], index, tensor.shape[0])
        shape = tuple(tensor.shape if len(stored) == 1 else tensor.shape[1:])
        tensors += [StoredTensor(name=n, shape=shape, type="F32", bytes=0, offset=0, shard="") for n in stored]
    return Header(format="", path="", file_bytes=0, metadata={}, tensors=tuple(tensors))


@pytest.mark.parametrize(("like", "scheme"), CASES)
@pytest.mark.parametrize("name", ["head_dim", "intermediate_size", "vocab_size"])
def test_a_size_that_is_not_stated_is_seen(like: str, scheme: Scheme, name: str) -> None:
    of = tiny.variant(like)
    wrong = dataclasses.replace(of, config=dataclasses.replace(of.config, **{name: 24}))
    known = {field.name for field in dataclasses.fields(of.config)} - {name}
    found = sizes(header(of, scheme), wrong, name_table(of.family, scheme), known)
    assert found == {name: getattr(of.config, name)}


@pytest.mark.parametrize(("like", "scheme"), CASES)
def test_a_number_that_no_shape_shows_is_left_alone(like: str, scheme: Scheme) -> None:
    of = tiny.variant(like)
    known = {field.name for field in dataclasses.fields(of.config)} - {"max_position_embeddings"}
    assert sizes(header(of, scheme), of, name_table(of.family, scheme), known) == {}


def test_shapes_that_contradict_each_other_show_nothing() -> None:
    of = tiny.variant()
    whole = header(of, "gguf")
    odd = tuple(
        dataclasses.replace(tensor, shape=(100, 64)) if tensor.name == "blk.0.ffn_up.weight" else tensor
        for tensor in whole.tensors
    )
    known = {field.name for field in dataclasses.fields(of.config)} - {"intermediate_size"}
    table = name_table(of.family, "gguf")
    assert sizes(dataclasses.replace(whole, tensors=odd), of, table, known) == {}
