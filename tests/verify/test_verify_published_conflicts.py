"""Published settings beside the tensors that they describe: what a file states otherwise is named, and nothing else.

The files of weights are sparse: headers with the shapes of a model of the atlas, and no bytes on the disk behind them.
"""

import csv
import dataclasses
import json
import os
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import made_checkpoints as made
import pytest
import sparse
from published_files import SIZES, Published, conflicts, named, published

from openmodelatlas import models
from openmodelatlas.errors import CheckpointError
from openmodelatlas.models.variant import Variant
from openmodelatlas.records.report import Report
from openmodelatlas.verify.checkpoint import verify
from openmodelatlas.weights.configuration import identify_configuration

COLLECTION = os.environ.get("OMA_TEST_DATA")
needs_collection = pytest.mark.skipif(COLLECTION is None, reason="needs OMA_TEST_DATA: a folder of published configs")


def verified(path: Path, config: Mapping[str, Any], of: Variant, generation: Any = None) -> Report:
    folder = path / f"{len(list(path.iterdir()))}"
    sparse.huggingface_folder(folder, of, 1)
    made.write_json(folder / "config.json", config)
    if generation is not None:
        made.write_json(folder / "generation_config.json", generation)
    return verify(folder).report


def against(report: Report) -> set[str]:
    """The keys that contradict the model, or that nothing accounts for. That it then is none of the atlas, and which
    numbers were guessed for that, follows from them."""
    follows = ("model.differs", "configuration.guessed", "configuration.quantization-unknown")
    keys = {flaw.where.strip("'") for flaw in report.findings if flaw.code not in follows}
    assert all(flaw.check in ("model", "configuration") for flaw in report.findings), report.findings
    return keys


@pytest.mark.parametrize("file", [f for f in published() if not f.trimmed or f.conflicts], ids=lambda file: file.name)
def test_a_published_file_beside_its_tensors(tmp_path: Path, file: Published) -> None:
    found = verified(tmp_path, file.config, models.find(file.model))
    if file.trimmed:
        missing = {flaw.where.strip("'") for flaw in found.findings if flaw.code == "configuration.missing"}
        assert against(found) - missing == set(file.conflicts)
    else:
        assert against(found) == set(file.conflicts)
        assert found.ok == (not file.conflicts)
        assert file.conflicts or found.model is not None


@pytest.mark.parametrize("file", [f for f in published() if "vocab_size" in f.conflicts], ids=lambda file: file.name)
def test_tensors_that_go_with_the_file_leave_another_model_alone(tmp_path: Path, file: Published) -> None:
    """As many rows as the file states: no setting is wrong, and the model is none of the atlas."""
    of = models.find(file.model)
    rows = file.config.get("vocab_size", 262208)  # what the library takes where a model that reads images states none
    found = verified(
        tmp_path, file.config, dataclasses.replace(of, config=dataclasses.replace(of.config, vocab_size=rows))
    )
    assert not any("vocab_size" in flaw.where for flaw in found.findings if flaw.check != "model")
    [flaw] = [flaw for flaw in found.findings if flaw.where.startswith("vocab_size")]
    assert (flaw.code, flaw.found) == ("model.differs", str(rows))


# --- everything that OMA_TEST_DATA holds ---


def ours(path: Path, config: dict[str, Any]) -> Variant | None:
    """The model of the atlas that a file is of: by its folder's name, or by all of its sizes."""
    if named(path.parent.name) in models.names():
        return models.find(named(path.parent.name))
    try:
        identity = identify_configuration(config, path.name)
    except CheckpointError:
        return None
    return None if SIZES & {difference.field for difference in identity.differences} else identity.nearest


def of_conflict(conflict: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], Variant]]:
    """Every file that a row of known conflicts is about, if it is of a model of the atlas."""
    for path in sorted((Path(COLLECTION or "") / "data" / "configs").glob("*/config*.json")):
        if fnmatchcase(f"{path.parent.name}/{path.name}", conflict["file"]):
            config = json.loads(path.read_text())
            of = ours(path, config)
            if of is not None:
                yield config, of


@needs_collection
@pytest.mark.parametrize("conflict", conflicts(), ids=lambda conflict: conflict["why"])
def test_a_known_conflict_is_reported_as_one(tmp_path: Path, conflict: dict[str, Any]) -> None:
    """Every key of the row is named of some file, beside that model's tensors."""
    named_keys: set[str] = set()
    for config, of in of_conflict(conflict):
        named_keys |= against(verified(tmp_path, config, of))
    assert [key for key in conflict["keys"] if not any(fnmatchcase(name, key) for name in named_keys)] == []


KEYS = {
    "kv": "num_key_value_heads",
    "vocab": "vocab_size",
    "rope_theta": "rope_theta",
    "max_pos": "max_position_embeddings",
}
LISTS = str.maketrans("()", "[]")


def disagreements(*fields: str) -> list[tuple[str, str, list[Any]]]:
    """Model of ours, field, and what the sources say it is."""
    if COLLECTION is None:
        return []
    rows = (Path(COLLECTION) / "data" / "conflicts_auto.tsv").read_text().splitlines()
    found = []
    for row in csv.DictReader(rows, delimiter="\t"):
        values = [value.partition(" <- ")[0].strip() for value in row["values and files"].split(";")]
        if named(row["model"]) in models.names() and row["field"] in fields:
            found.append((named(row["model"]), row["field"], [json.loads(v.translate(LISTS)) for v in values]))
    return found


@needs_collection
@pytest.mark.parametrize(("model", "field", "values"), disagreements(*KEYS))
def test_where_sources_disagree_one_of_them_is_named(tmp_path: Path, model: str, field: str, values: list[Any]) -> None:
    """The settings of the atlas's model with each source's value in turn, beside that model's tensors: the value that
    the atlas has holds, and another is the one thing that is named."""
    of = models.find(model)
    right, held = getattr(of.config, KEYS[field]), []
    for value in values:
        stated = type(right)(value)
        found = verified(tmp_path, {**made.settings(of, "huggingface"), KEYS[field]: stated}, of)
        told = {flaw.code: (flaw.where, flaw.found) for flaw in found.findings}
        place, other = KEYS[field], str(stated)
        both = {"model.differs": (f"{place} ({place})", other), "configuration.contradicts": (f"'{place}'", other)}
        also = {code: said for code, said in told.items() if code not in both}
        assert set(also) <= {"configuration.guessed"}, (stated, also)
        assert told == ({} if stated == right else both | also)
        held.append(stated == right)
    assert held.count(True) <= 1
    assert False in held


@needs_collection
@pytest.mark.parametrize(("model", "values"), [(model, values) for model, _, values in disagreements("eos")])
def test_ends_that_disagree_are_named_unless_one_file_has_them_all(
    tmp_path: Path, model: str, values: list[Any]
) -> None:
    """One source's ends of a text in the settings, another's in those of generation."""
    of = models.find(model)
    ids = [set(map(int, value if isinstance(value, list) else [value])) for value in values]
    contained = ids[0] <= ids[1] or ids[1] <= ids[0]
    for first, second in ((ids[0], ids[1]), (ids[1], ids[0])):
        stated = {**made.settings(of, "huggingface"), "eos_token_id": sorted(first)}
        found = verified(tmp_path, stated, of, {"eos_token_id": sorted(second)})
        assert [flaw.code for flaw in found.findings] == ([] if contained else ["configuration.generation"])
