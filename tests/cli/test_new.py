"""`oma new`: what it refuses, that it writes all or nothing, and that each item of its list can fail."""

import copy
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openmodelatlas import models
from openmodelatlas.cli import scaffold, scaffold_family, scaffold_fill
from openmodelatlas.cli.main import main
from openmodelatlas.cli.toml_text import value
from openmodelatlas.errors import UsageError
from openmodelatlas.models import tables
from openmodelatlas.verify import missing_steps
from openmodelatlas.verify.missing import Checkout, Outcome, Step, Subject, attempted, items, pattern

ROOT = Path(__file__).parents[2]
TREE = Checkout(ROOT, ROOT / "src" / "openmodelatlas")
FAMILIES = sorted({variant.family for variant in models.variants().values()})
SLOW = {"stages", "lines", "records"}
ONE = "qwen3" if "qwen3" in FAMILIES else FAMILIES[0]


def oma(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(["new", *arguments])
    return code, capsys.readouterr().err.strip()


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["Olmo"], 2, r"not a family's name: .*'Olmo'|not a family's name; expected .*, found 'Olmo'"),
        (["class"], 2, r"not a family's name"),
        (["nobody"], 2, r"no such family yet: nobody; oma new nobody --like"),
        (["nobody", "--like", ONE], 2, r"--like needs --config"),
        (["nobody", "--model", "nobody-1b"], 2, r"go with --like"),
        (["nobody", "--like", ONE, "--config", "nowhere.json"], 2, r"not a readable config.json: nowhere.json"),
        (["nobody", "--like", "nothing", "--config", "nowhere.json"], 2, r"no such family; expected .*, found nothing"),
        ([ONE, "--like", ONE, "--config", "nowhere.json"], 2, r"the family is there already"),
    ],
)
def test_what_cannot_be_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
) -> None:
    found, error = oma(capsys, *arguments)
    assert (found, error.count("\n")) == (code, 0)
    assert re.search(said, error), error


def test_an_architecture_that_the_library_lacks_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"architectures": ["NobodyForCausalLM"]}))
    code, error = oma(capsys, "nobody", "--like", ONE, "--config", str(path))
    assert code == 2
    assert re.search(r"no model of this configuration: transformers [\d.]+; .* found NobodyForCausalLM", error)


def test_a_package_without_its_checkout_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(scaffold, "files", lambda _name: tmp_path / "site-packages" / "openmodelatlas")
    with pytest.raises(UsageError, match="source checkout, and this is none"):
        scaffold.checkout()


# --- all or nothing ---------------------------------------------------------------------------------------------------


def test_nothing_is_written_where_one_file_cannot_be(tmp_path: Path) -> None:
    old, new = tmp_path / "old.toml", tmp_path / "new.toml"
    old.write_text("before")
    with pytest.raises(UsageError, match=r"cannot write: .*gone.*nothing was written"):
        scaffold.write({old: "after", new: "new", tmp_path / "gone" / "x.toml": "x"})
    assert old.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["old.toml"]


@pytest.fixture(scope="module", params=FAMILIES)
def start(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> scaffold_family.Start:
    """The published file of each family's first model, as that of a family that is not there."""
    rows = tomllib.loads((TREE.data / "published_configs.toml").read_text())["config"]
    keys = next(r["keys"] for r in rows if models.find(r["model"]).family == request.param and not r.get("trimmed"))
    path = tmp_path_factory.mktemp("config") / "config.json"
    path.write_text(json.dumps(keys))
    return scaffold.start("nobody", request.param, path, model="nobody-2.5-1b")


def test_every_file_is_made_of_the_siblings(start: scaffold_family.Start) -> None:
    made = scaffold.plan(start, TREE)
    names = {path.name for path in made}
    assert start.release == "nobody-2.5"
    assert {f"nobody{end}" for end in (".py", ".pages.toml", ".names.toml", ".transformers.toml")} <= names
    assert {"nobody-2.5.toml", "transformers-nobody.toml", "published_counts.toml"} <= names
    for path, text in made.items():
        if path.suffix == ".toml":
            tomllib.loads(text)
        else:
            compile(text, path.name, "exec")
        assert "TODO" in text or path.name.endswith(("configs.toml", ".transformers.toml")), path.name
    claims = tomllib.loads(next(t for p, t in made.items() if p.name == "transformers-nobody.toml"))["claim"]
    assert all(claim["statement"].startswith("TODO") and claim["id"].startswith("nobody-") for claim in claims)
    assert all(claim["lines"] != [[1, 1]] for claim in claims)
    with pytest.raises(UsageError, match=r"there already: src/openmodelatlas/models/"):
        scaffold.plan(start, Checkout(TREE.root, _with(TREE, start.family)))


def _with(tree: Checkout, family: str) -> Any:
    """The package's folder, as if the family's file stood in it."""

    class There(type(tree.package)):  # type: ignore[misc]
        def exists(self, **_more: Any) -> bool:
            return self.name == f"{family}.py" or super().exists()

    return There(tree.package)


def test_the_row_has_the_numbers_of_the_file(start: scaffold_family.Start) -> None:
    row = scaffold_family.numbers(start.like, start.config, start.library)
    config = row.pattern.config
    assert row.unstated == ()
    assert row.values == {name: getattr(config, name) for name in row.values}
    other = {**start.config, "rms_norm_eps": 3e-7, "hidden_size": start.config["hidden_size"] * 2}
    changed = scaffold_family.numbers(start.like, other, start.library)
    assert (changed.values["rms_norm_eps"], changed.values["hidden_size"]) == (3e-7, other["hidden_size"])
    filled = {key: v for key, v in start.library.filled.items() if key != "vocab_size"}
    without = {key: v for key, v in start.config.items() if key != "vocab_size"}
    lacking = scaffold_family.numbers(start.like, without, _library(start, filled))
    assert lacking.unstated == ("vocab_size",)


def _library(start: scaffold_family.Start, filled: dict[str, Any]) -> Any:
    import dataclasses

    return dataclasses.replace(start.library, filled=filled)


@pytest.mark.parametrize(
    "of", [True, 3, 1e-6, "a \"b\" \\ c\n", [1, "x"], {"a b": {"c": [False]}}], ids=lambda of: type(of).__name__
)
def test_values_are_toml(of: Any) -> None:
    assert tomllib.loads(f"x = {value(of)}")["x"] == of


# --- the list ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_of_a_family_that_is_here_nothing_is_missing(family: str) -> None:
    """The slow items are what the tests of parity and of evidence run."""
    steps = [step for step in missing_steps.STEPS if step.name not in SLOW]
    found = list(items(Subject(family, TREE), steps))
    assert [item for item in found if item.state != "done"] == []
    assert len(found) == len(missing_steps.STEPS) - len(SLOW)


def test_an_item_waits_for_those_before_it_and_an_error_is_what_is_to_do() -> None:
    def fails(_s: Subject) -> Outcome:
        raise ValueError("of some kind")

    steps = [Step("a", "", fails), Step("b", "", lambda _s: Outcome("fine")), Step("c", "", fails, ("a", "b"))]
    found = list(items(Subject(ONE, TREE), steps))
    assert [(item.name, item.state) for item in found] == [("a", "to do"), ("b", "done"), ("c", "waits")]
    assert found[0].left[0].what == "ValueError: of some kind"
    assert found[2].note == "a"


def test_an_error_in_the_familys_file_is_placed_there(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = Subject(ONE, TREE)
    variant = next(iter(subject.variants.values()))
    monkeypatch.setattr(type(variant.build("meta")), "forward", lambda *_args: 1 / 0)
    outcome = attempted(Step("pages", "", missing_steps.pages), subject)
    assert "ZeroDivisionError" in outcome.left[0].what


@pytest.fixture
def subject(monkeypatch: pytest.MonkeyPatch) -> Iterator[Subject]:
    """A family whose tables a test may break."""
    read = {kind: copy.deepcopy(tables.table(ONE, kind)) for kind in ("pages", "names", "transformers")}
    whole = tables.table
    monkeypatch.setattr(tables, "table", lambda family, kind: read[kind] if family == ONE else whole(family, kind))
    from openmodelatlas.weights import naming

    naming.name_table.cache_clear()
    naming._patterns.cache_clear()
    yield Subject(ONE, TREE)
    naming.name_table.cache_clear()
    naming._patterns.cache_clear()


def said(outcome: Outcome) -> str:
    return "\n".join(f"{todo.where}: {todo.what}" for todo in outcome.left)


def test_every_gap_of_the_page_table_is_named_with_its_row(subject: Subject) -> None:
    table = tables.pages(ONE)
    del table["tensors"]["block.attention.q:out"], table["nodes"]["block.ffn_add"], table["parameters"]["norm.weight"]
    table["nodes"]["block.nobody"] = {"title": "Nobody"}
    table["tensors"]["unembed:out"]["axes"] = ["B", "T", "D"]
    text = said(missing_steps.pages(subject))
    assert '"block.attention.q:out" = { title = "TODO", symbol = \'TODO\', axes = ["B", "T", "H*E"]' in text
    assert '[nodes] lacks "block.ffn_add" = { title = "TODO" }' in text
    assert '"norm.weight" = { symbol = \'TODO\', axes = ["D"] }' in text
    assert "[nodes] has 'block.nobody', which no map has" in text
    assert "[tensors] 'unembed:out': the axes are [\"B\", \"T\", \"V\"]" in text
    assert len(text.splitlines()) == 5


def test_a_tensor_without_a_name_and_a_name_without_a_tensor_are_named(subject: Subject) -> None:
    rows = tables.names(ONE)["tensor"]
    by = {row["parameter"]: row for row in rows}
    by["norm.weight"]["huggingface"] = "model.last_norm.weight"
    rows.remove(by["blocks.{i}.attention.o.weight"])
    by["blocks.{i}.ffn_norm.weight"]["gguf"] = "blk.{i}.attn_norm.weight"
    text = said(missing_steps.tensors(subject))
    assert "no [[tensor]] has huggingface = 'model.norm.weight'" in text
    assert "norm.weight: the library stores no tensor of the name in its row" in text
    assert "no [[tensor]] has parameter = 'blocks.{i}.attention.o.weight'" in text
    assert "'model.layers.{i}.self_attn.o_proj.weight'" in text
    assert "GGUF calls it blk.{i}.attn_output.weight" in text
    assert "blocks.{i}.ffn_norm.weight: gguf is 'blk.{i}.attn_norm.weight', in GGUF's package" in text


def test_a_key_in_no_column_and_one_that_says_otherwise_are_named(subject: Subject) -> None:
    columns = tables.names(ONE)["metadata"]["huggingface"]
    del columns["must_equal"]["attention_bias"]
    columns["must_equal"]["hidden_act"] = "gelu"
    del columns["read"]["hidden_size"]
    text = said(missing_steps.settings(subject))
    assert "attention_bias is False, which stands in no column" in text
    assert "hidden_act is silu, but gelu" in text
    assert "[metadata.huggingface.read] has no key of hidden_size" in text


def test_an_op_without_a_point_and_a_point_without_an_op_are_named(subject: Subject) -> None:
    points = tables.transformers(ONE)["points"]
    points["block.nobody"] = points.pop("block.attention.o")
    text = said(missing_steps.points(subject))
    assert text.splitlines() == [
        f"models/{ONE}.transformers.toml: [points] has 'block.nobody', which is no op",
        f"models/{ONE}.transformers.toml: [points] lacks 'block.attention.o'",
    ]
    tables.transformers(ONE)["unpointed"] = {"block.attention.o": "in the sum"}
    del points["block.nobody"]
    assert missing_steps.points(subject).left == ()


@pytest.mark.slow
def test_the_first_node_that_differs_is_named(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong sum in one op: what comes before it agrees, and what comes behind it is not named."""
    from openmodelatlas.parts.elementwise import Multiply

    monkeypatch.setattr(Multiply, "forward", lambda _self, gate, up: gate + up)
    first = missing_steps.stages(subject).left[0]
    assert first.where == "blocks.0.feed_forward.multiply"
    assert "first to differ" in first.what


@pytest.mark.slow
def test_points_are_found_by_their_values(subject: Subject) -> None:
    model = subject.models[0]
    nodes = ["block.attention.o", "block.attention.attend.softmax", "embed"]
    found = scaffold_fill._searched(model, models.find(model.variant), nodes)
    table = tables.transformers(ONE)["points"]
    assert {node: rows[0]["at"] for node, rows in found.items()} == {node: table[node]["at"] for node in nodes}
    assert "call" not in found["embed"][0]


def test_a_stored_name_is_a_pattern() -> None:
    assert pattern("model.layers.3.mlp.experts.12.w1.weight") == "model.layers.{i}.mlp.experts.{e}.w1.weight"
    assert pattern("model.norm.weight") == "model.norm.weight"


# --- hashes of lines --------------------------------------------------------------------------------------------------


def test_lines_are_hashed_as_claims_pin_them(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from openmodelatlas.evidence.excerpts import excerpt_hash

    path = tmp_path / "some.py"
    path.write_text("a\nb  \nc\n")
    assert main(["evidence", "--hash", str(path), "2-3", "1"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [f'    [2, 3, "{excerpt_hash(["b", "c"])}"],', f'    [1, 1, "{excerpt_hash(["a"])}"],']
    assert "    2  b" in err
    for wrong in ("0-1", "2-9", "x", "3-2"):
        assert main(["evidence", "--hash", str(path), wrong]) == 2
    assert main(["evidence"]) == 2
