"""Name tables: complete, unambiguous, and the names that the formats' own tools give."""

import dataclasses
import functools
import json
import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import gguf
import pytest
import tiny
import torch
import transformers

from openmodelatlas.errors import CatalogError
from openmodelatlas.models import find, variants
from openmodelatlas.models.variant import Variant
from openmodelatlas.weights.naming import (
    EXPERT,
    NameTable,
    Scheme,
    block_pattern,
    has_names,
    name_table,
    pieces,
)
from openmodelatlas.weights.settings import ELSEWHERE

SCHEMES: tuple[Scheme, ...] = ("gguf", "huggingface", "meta")
FAMILIES = sorted({variant.family for variant in variants().values()})
TABLES = [(family, scheme) for family in FAMILIES for scheme in SCHEMES if has_names(family, scheme)]


@functools.cache
def shapes(name: str) -> dict[str, tuple[int, ...]]:
    """Every parameter of a variant."""
    return {parameter: tuple(tensor.shape) for parameter, tensor in find(name).build("meta").named_parameters()}


@functools.cache
def kinds_of_blocks(family: str) -> set[str]:
    blocks: list[Any] = []
    for variant in variants().values():
        if variant.family == family:
            blocks += variant.build("meta").get_submodule("blocks").children()
    return {type(block).__name__ for block in blocks}


def stored_names(variant: Variant, scheme: Scheme, form: int = 0) -> list[str]:
    """The stored name of every parameter, by the table."""
    names = {row.parameter: row for row in name_table(variant.family, scheme).tensors}
    found: list[str] = []
    for parameter, shape in shapes(variant.name).items():
        pattern, index = block_pattern(parameter)
        forms = names[pattern].forms
        found += pieces(forms[min(form, len(forms) - 1)], index, shape[0])
    return found


def test_every_family_is_read_in_some_scheme() -> None:
    assert {family for family, _ in TABLES} == set(FAMILIES)
    assert all(("gguf" in schemes) for schemes in ([s for f, s in TABLES if f == family] for family in FAMILIES))


@pytest.mark.parametrize("name", variants())
def test_every_parameter_has_one_stored_name_of_its_own(name: str) -> None:
    """A parameter without a row is a KeyError here; a name for two parameters counts twice."""
    variant = find(name)
    for scheme in (scheme for scheme in SCHEMES if has_names(variant.family, scheme)):
        for form in (0, 1):
            twice = [n for n, count in Counter(stored_names(variant, scheme, form)).items() if count > 1]
            assert not twice, (scheme, form)
            assert all(name_table(variant.family, scheme).knows(n) for n in stored_names(variant, scheme, form))


@pytest.mark.parametrize(("family", "scheme"), TABLES)
def test_no_row_is_of_a_parameter_that_no_model_has(family: str, scheme: Scheme) -> None:
    rows = {row.parameter for row in name_table(family, scheme).tensors}
    of_family = [variant.name for variant in variants().values() if variant.family == family]
    assert rows == {block_pattern(parameter)[0] for name in of_family for parameter in shapes(name)}


@pytest.mark.parametrize(("family", "scheme"), TABLES)
def test_every_number_of_a_model_is_read(family: str, scheme: Scheme) -> None:
    table = name_table(family, scheme)
    fields = {f.name for v in variants().values() if v.family == family for f in dataclasses.fields(v.config)}
    if scheme == "meta":  # the widths that its file leaves out are in the tensors' shapes
        fields -= {"head_dim", "intermediate_size", "max_position_embeddings"}
        fields = {field for field in fields if not field.startswith("rope_") or field == "rope_theta"}
    assert fields == {field for field in table.read.values() if field in fields} | set(table.unstated)
    assert not set(table.read.values()) & set(table.unstated)


@pytest.mark.parametrize(("family", "scheme"), TABLES)
def test_no_key_stands_in_two_columns(family: str, scheme: Scheme) -> None:
    table = name_table(family, scheme)
    columns: list[Any] = [table.read, table.must_equal, table.one_of, table.null, table.conditional]
    count = Counter(key for column in columns for key in column)
    assert [key for key, times in count.items() if times > 1] == []
    assert [key for key in count if table.ignored_because(key)] == []
    assert set(table.schedule) & set(count) <= set(table.read)  # one number, or one value a block
    assert set(table.identity) <= set(table.must_equal) | set(table.one_of)
    assert set(table.absent) | set(table.derived) <= set(table.read)
    terms = {term for rule in table.derived.values() for term in rule.split(" / ")}
    assert terms <= set(table.read)
    assert not set(table.absent) & set(table.derived)
    assert not set(table.required) & (set(table.absent) | set(table.derived))


@pytest.mark.parametrize(("family", "scheme"), TABLES)
def test_a_schedule_names_every_kind_of_block(family: str, scheme: Scheme) -> None:
    for words in name_table(family, scheme).schedule.values():
        assert set(words) == kinds_of_blocks(family)


def test_a_scheme_that_a_family_lacks_is_an_error_that_says_so() -> None:
    [family] = [f for f in FAMILIES if not has_names(f, "meta")][:1]
    with pytest.raises(CatalogError, match=f"no names in this scheme.*{family}.*found meta"):
        name_table(family, "meta")


ARCHITECTURES = {name: arch for arch, name in gguf.MODEL_ARCH_NAMES.items()}


def package_map(table: NameTable, blocks: int) -> gguf.TensorNameMap:
    return gguf.get_tensor_name_map(ARCHITECTURES[table.must_equal["general.architecture"]], blocks)


@pytest.mark.parametrize("family", FAMILIES)
def test_gguf_names_are_those_of_the_package_for_the_hugging_face_names(family: str) -> None:
    """The package maps a published name to the one that its converter writes. Experts are merged on the way."""
    table, other = name_table(family, "gguf"), name_table(family, "huggingface")
    mapping, published = package_map(table, 3), {row.parameter: row.stored for row in other.tensors}
    for row in table.tensors:
        name = published[row.parameter].replace("{i}", "2")
        if EXPERT in name:  # the converter's own name of the merged tensor
            weight = name.split(".")[-2]
            name = f"layers.2.feed_forward.experts.{weight}.weight"
        assert mapping.get_name(name, try_suffixes=(".weight",)) == row.stored.replace("{i}", "2"), row.parameter


@pytest.mark.parametrize("family", FAMILIES)
def test_gguf_keys_are_those_of_the_package(family: str) -> None:
    table = name_table(family, "gguf")
    architecture = table.must_equal["general.architecture"]
    groups: Any = gguf.constants.Keys
    known = {
        value.replace("{arch}", architecture)
        for group in (groups.General, groups.LLM, groups.Attention, groups.Rope, groups.Split, groups.Tokenizer)
        for value in vars(group).values()
        if isinstance(value, str)
    }
    columns: list[Any] = [table.read, table.must_equal, table.one_of, table.null, table.conditional, table.schedule]
    assert {key for column in columns for key in column} <= known
    assert {row.stored.removesuffix(".weight").replace("{i}", "{bid}") for row in table.tensors} <= {
        gguf.TENSOR_NAMES[tensor] for tensor in gguf.MODEL_TENSORS[ARCHITECTURES[architecture]]
    }


def library_classes(family: str) -> Iterator[tuple[Variant, Any]]:
    """One variant of each kind, and the library's class of model for it."""
    for variant in map(find, tiny.representatives()):
        if variant.family == family:
            table = name_table(family, "huggingface")
            [name] = table.must_equal.get("architectures") or table.one_of["architectures"][0]
            yield variant, getattr(transformers, name)


@pytest.mark.parametrize("family", FAMILIES)
def test_hugging_face_names_and_shapes_are_those_of_the_library(family: str) -> None:
    """Names and shapes of the library's own model of the variant's sizes; where it holds experts merged, its own rule
    for published names is used backwards."""
    for variant, library in library_classes(family):
        small = dataclasses.replace(variant, config=dataclasses.replace(variant.config, num_hidden_layers=2))
        config = dataclasses.asdict(small.config)
        tied = "unembed.weight" not in dict(small.build("meta").named_parameters())
        plain = {key: value for key, value in config.items() if not key.startswith("rope_")}
        with torch.device("meta"):
            theirs = library(library.config_class(**plain, tie_word_embeddings=tied))
        held = {name: tuple(tensor.shape) for name, tensor in theirs.named_parameters()}
        assert published_shapes(small) == unmerged(held)


@pytest.mark.parametrize("family", FAMILIES)
def test_what_an_absent_key_means_is_the_librarys_default(family: str) -> None:
    _, library = next(library_classes(family))
    default = json.loads(library.config_class().to_json_string(use_diff=False))
    rope = default.pop("rope_parameters")
    full = rope.get("full_attention", rope)
    local = rope.get("sliding_attention", {})
    default |= {"rope_theta": full["rope_theta"], "rope_local_base_freq": local.get("rope_theta")}
    default |= {"sliding_window_pattern": default.get("_sliding_window_pattern")}
    factor = full.get("factor", 1.0)
    default |= {"rope_scaling.factor": factor, "rope_parameters.full_attention.factor": factor}
    table = name_table(family, "huggingface")
    assert dict(table.absent) == {key: default[key] for key in table.absent}
    number = {key for key, field in table.read.items() if not key.startswith("rope_") and field not in ELSEWHERE}
    settled = {table.read.get(key) for key in (*table.absent, *table.derived, *table.required)}
    assert {table.read[key] for key in number} <= settled


def published_shapes(variant: Variant) -> dict[str, tuple[int, ...]]:
    names = {row.parameter: row.stored for row in name_table(variant.family, "huggingface").tensors}
    found = {}
    for parameter, tensor in variant.build("meta").named_parameters():
        pattern, index = block_pattern(parameter)
        stored = pieces(names[pattern], index, tensor.shape[0])
        shape = tuple(tensor.shape)
        found |= dict.fromkeys(stored, shape if EXPERT not in names[pattern] else shape[1:])
    return found


def unmerged(held: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Merged experts (gate and up in one) as a published checkpoint has them, by the library's conversion."""
    found = {}
    for name, shape in held.items():
        block, experts, which = name.partition(".mlp.experts.")
        if not experts:
            found[name.replace(".mlp.gate.", ".block_sparse_moe.gate.")] = shape
            continue
        for e in range(shape[0]):
            place = f"{block}.block_sparse_moe.experts.{e}"
            if which == "gate_up_proj":
                half = (shape[1] // 2, shape[2])
                found |= {f"{place}.w1.weight": half, f"{place}.w3.weight": half}
            else:
                found[f"{place}.w2.weight"] = shape[1:]
    assert sum(map(math.prod, found.values())) == sum(map(math.prod, held.values()))
    return found
