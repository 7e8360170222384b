"""The published schemas: as generated, and true of what commands print."""

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from openmodelatlas import maps
from openmodelatlas.errors import UsageError
from openmodelatlas.records import publish
from openmodelatlas.records.compare import diff
from openmodelatlas.records.json import to_json

SCHEMAS = Path(__file__).parents[2] / "docs" / "schema"


def validator(name: str) -> Draft202012Validator:
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def test_committed_schemas_are_the_generated_ones(tmp_path: Path) -> None:
    assert publish.main([str(tmp_path)]) == 0
    generated = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    committed = {p.name: p.read_bytes() for p in SCHEMAS.iterdir()}
    assert committed == generated, "run: python -m openmodelatlas.records.publish docs/schema"


def test_publishing_needs_one_folder() -> None:
    with pytest.raises(UsageError, match="one folder"):
        publish.main([])


@pytest.mark.parametrize("model", ["llama-3.1-8b", "smollm2-135m"])
def test_annotated_maps_are_valid(model: str) -> None:
    validator("graph").validate(to_json(maps.annotated(model)))


def test_a_comparison_is_valid() -> None:
    validator("diff").validate(to_json(diff(maps.graph("llama-3.1-8b"), maps.graph("smollm2-135m"))))


@pytest.mark.parametrize("break_it", ["surplus", "missing", "kind", "shape", "state"])
def test_the_graph_schema_refuses_what_is_wrong(break_it: str) -> None:
    data = to_json(maps.annotated("smollm2-135m"))
    node = next(n for n in data["nodes"] if n["id"] == "block.attention_add")
    if break_it == "surplus":
        node["colour"] = "red"
    elif break_it == "missing":
        del node["sentence"]
    elif break_it == "kind":
        node["kind"] = "layer"
    elif break_it == "shape":
        node["outputs"][0]["shape"][2] = 576.5
    else:
        node["claims"][0]["state"] = "sure"
    with pytest.raises(ValidationError):
        validator("graph").validate(data)


def test_every_field_of_a_record_is_required() -> None:
    for path in SCHEMAS.iterdir():
        for name, record in json.loads(path.read_text(encoding="utf-8"))["$defs"].items():
            assert record["required"] == list(record["properties"]), f"{path.name}: {name}"
            assert record["additionalProperties"] is False, f"{path.name}: {name}"
            assert record["description"], f"{path.name}: {name}"
