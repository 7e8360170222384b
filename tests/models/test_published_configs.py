"""Published `config.json` files against the models that they describe: no key left over, no number against ours."""

import copy
import dataclasses
import json
import os
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
import transformers
from published_files import SIZES, Published, conflicts, named, published

from openmodelatlas import models
from openmodelatlas.errors import CheckpointError
from openmodelatlas.records.report import MetadataRow
from openmodelatlas.weights.configuration import account_configuration, flat, identify_configuration
from openmodelatlas.weights.naming import name_table
from openmodelatlas.weights.settings import setting_findings

ABSENT = "absent"


PUBLISHED = pytest.mark.parametrize("file", published(), ids=lambda file: file.name)
WHOLE = pytest.mark.parametrize("file", [f for f in published() if not f.trimmed], ids=lambda file: file.name)


def against(rows: tuple[MetadataRow, ...], *, trimmed: bool = False) -> dict[str, str]:
    """Keys that contradict the model or that nothing accounts for, and what was found; of a trimmed file not those
    that are only missing."""
    rows = tuple(row for row in rows if not (trimmed and row.value.startswith(ABSENT)))
    return {finding.where.strip("'"): finding.found for finding in setting_findings(rows)}


def test_there_is_a_file_of_every_model() -> None:
    assert {file.model for file in published()} == set(models.names())


@PUBLISHED
def test_every_key_is_accounted_for(file: Published) -> None:
    variant = models.find(file.model)
    rows = account_configuration(file.config, variant)
    assert set(against(rows, trimmed=file.trimmed)) == set(file.conflicts)
    assert {row.key for row in rows} >= set(flat(file.config))
    assert {row.column for row in rows} <= {"read", "must equal", "ignored"}
    meant = [row.reason.partition(" ")[0] for row in rows if row.value.startswith(f"{ABSENT}, which means")]
    assert len(meant) == len(set(meant))  # a number that no key states is assumed once


@WHOLE
def test_a_file_describes_its_own_model_best(file: Published) -> None:
    """By numbers; those of a model that computes alike fit as well."""
    identity = identify_configuration(file.config, file.name)
    ours, nearest = models.find(file.model), identity.nearest
    assert (nearest.config, nearest.parts) == (ours.config, ours.parts)
    assert {d.key for d in identity.differences} == set(file.conflicts)
    assert file.conflicts or file.model in identity.matches


@PUBLISHED
def test_a_key_that_no_table_knows_is_named(file: Published) -> None:
    variant = models.find(file.model)
    for section in (None, "rope_scaling", *name_table(variant.family, "huggingface").inside):
        config = copy.deepcopy(file.config)
        if section is not None and not isinstance(config.get(section), dict):
            continue
        (config if section is None else config[section])["a_new_switch"] = True
        key = "a_new_switch" if section is None else f"{section}.a_new_switch"
        rows = account_configuration(config, variant)
        assert set(against(rows, trimmed=file.trimmed)) == {key, *file.conflicts}
        [row] = [row for row in rows if row.key == key]
        assert row.column == "unaccounted"
    rows = account_configuration({**file.config, "quantization_config": {}}, variant)
    assert "quantization_config" in against(rows)  # an empty section is a key as well


@PUBLISHED
def test_another_value_is_named(file: Published) -> None:
    """Of every key that counts: each that is read into a number, and each that is held to a value."""
    every_other_value_is_named(file.config, file)


@WHOLE
def test_another_value_is_named_as_the_library_writes_it(file: Published) -> None:
    every_other_value_is_named(as_the_library_writes(file), file)


def every_other_value_is_named(config: dict[str, Any], file: Published) -> None:
    variant = models.find(file.model)
    table = name_table(variant.family, "huggingface")
    for row in account_configuration(config, variant):
        if row.column == "ignored" or not row.ok or row.value.startswith(ABSENT):
            continue
        if table.read.get(table.canonical(row.key)) == "tokenizer":
            continue
        changed = copy.deepcopy(config)
        holder, leaf = place(changed, row.key)
        holder[leaf] = other(holder[leaf])
        found = against(account_configuration(changed, variant), trimmed=file.trimmed)
        assert row.key in found, (row.key, holder[leaf])


def place(config: dict[str, Any], key: str) -> tuple[dict[str, Any], str]:
    """The section that holds a dotted key, and the key's name in it."""
    section, dot, rest = key.partition(".")
    return place(config[section], rest) if dot and isinstance(config.get(section), dict) else (config, key)


def other(value: Any) -> Any:
    """Another value of the same kind; something where there was nothing."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value * 2 or 1
    return {str: "another", list: ["Another"], type(None): 4096}[type(value)]


def library_class(file: Published) -> Any:
    """The library's configuration class of the file; of a trimmed one, that of the family's first architecture."""
    table = name_table(models.find(file.model).family, "huggingface")
    [usual] = table.must_equal.get("architectures") or table.one_of["architectures"][0]
    return getattr(transformers, file.config.get("architectures", [usual])[0]).config_class


def as_the_library_writes(file: Published) -> dict[str, Any]:
    read = library_class(file).from_dict(copy.deepcopy(file.config))
    written: dict[str, Any] = json.loads(read.to_json_string(use_diff=False))
    return written


@WHOLE
def test_what_the_library_makes_of_a_file_says_the_same(file: Published) -> None:
    """The library reads the file, fills in what it leaves out, and writes it in its newest layout: rotary settings by
    kind of block, a list of all blocks' kinds. It says of our model what the file says."""
    config = as_the_library_writes(file)
    assert "rope_scaling" not in config
    variant = models.find(file.model)
    rows, table = account_configuration(config, variant), name_table(variant.family, "huggingface")
    assert {table.canonical(key) for key in against(rows)} == set(file.conflicts)
    read = {table.read.get(table.canonical(row.key)) for row in rows}
    assert read >= {field.name for field in dataclasses.fields(variant.config)} - set(table.unstated)


def mixed(file: Published) -> bool:
    """Whether the file's model has blocks of more than one kind."""
    table = name_table(models.find(file.model).family, "huggingface")
    return any(len(words) > 1 for words in table.schedule.values())


SCHEDULED = [file for file in published() if mixed(file) and not file.trimmed]


@pytest.mark.parametrize("file", SCHEDULED, ids=lambda file: file.name)
def test_a_list_of_blocks_is_held_against_the_blocks(file: Published) -> None:
    """Fault of another schedule: one block of another kind, one block too many, kinds that no block has."""
    config = as_the_library_writes(file)
    inner = config.get("text_config", config)
    right = inner["layer_types"]
    variant = models.find(file.model)
    for wrong in (right[::-1], right[:-1], [*right, right[0]], ["full_attention"] * len(right), []):
        inner["layer_types"] = wrong
        found = against(account_configuration(config, variant), trimmed=True)
        assert {key for key in found if key.endswith("layer_types")}, wrong


# --- everything that OMA_TEST_DATA holds ---


TRIMMED = ("maxtext-hf", "kvfit-trimmed")


def verdict(path: Path) -> tuple[str, set[str]]:
    """The model of ours that a file is held against, and what is against it; or why it is none of ours.

    Whole files are told by their numbers, trimmed ones by what they are called."""
    config: dict[str, Any] = json.loads(path.read_text())
    name = named(path.parent.name)
    if any(mark in path.name for mark in TRIMMED) and name in models.names():
        return name, set(against(account_configuration(config, models.find(name)), trimmed=True))
    try:
        identity = identify_configuration(config, path.name)
    except CheckpointError:
        return "another architecture", set()
    if any(difference.field in SIZES for difference in identity.differences):
        return "another size", set()
    return identity.nearest.name, set(against(account_configuration(config, identity.nearest)))


def known(path: Path, key: str) -> list[str]:
    """Why a key of a file is known to be against our model; nothing if it is not."""
    where = f"{path.parent.name}/{path.name}"
    rows = (row for row in conflicts() if fnmatchcase(where, row["file"]))
    return [row["why"] for row in rows if any(fnmatchcase(key, pattern) for pattern in row["keys"])]


@pytest.mark.skipif("OMA_TEST_DATA" not in os.environ, reason="needs OMA_TEST_DATA: a folder of published configs")
def test_every_published_file_is_accounted_for_or_none_of_ours() -> None:
    found: dict[str, list[str]] = {}
    unknown, used = {}, set()
    for path in sorted((Path(os.environ["OMA_TEST_DATA"]) / "data" / "configs").glob("*/config*.json")):
        model, keys = verdict(path)
        found.setdefault(model, []).append(named(path.parent.name))
        unknown |= {f"{path.parent.name}/{path.name}: {key}": model for key in keys if not known(path, key)}
        used |= {why for key in keys for why in known(path, key)}
    assert unknown == {}
    assert used == {row["why"] for row in conflicts()}
    assert set(found) - set(models.names()) == {"another architecture", "another size"}
    assert set(models.names()) - set(found) <= {"mixtral-8x22b"}  # no file in Hugging Face's form there
    labelled = {(name, model) for model in models.names() for name in found.get(model, ()) if name in models.names()}
    assert {pair for pair in labelled if pair[0] != pair[1]} == {("llama-3-8b", "llama-3.1-8b")}  # a file's wrong label
