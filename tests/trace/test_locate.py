"""`oma locate`: a node's line in somebody else's file, found by running it."""

import json
import re
from pathlib import Path

import pytest
import torch

from openmodelatlas.catalog import find as catalogue
from openmodelatlas.catalog.load import references, releases
from openmodelatlas.cli.main import main
from openmodelatlas.errors import FetchError, UsageError
from openmodelatlas.models import find, tables, tied, variants
from openmodelatlas.trace import located_match, located_run, located_stored
from openmodelatlas.trace.locate import Located, call, locate
from openmodelatlas.trace.located_watch import Entry, Handed
from openmodelatlas.verify import parity
from openmodelatlas.weights.naming import name_table
from openmodelatlas.weights.settings import setting_rows

SAMPLE = Path(__file__).parent / "sample_reference.py"


def marked(text: str) -> dict[str, set[int]]:
    """Nodes that the sample's comments name, with their lines."""
    found: dict[str, set[int]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if comment := re.search(r"  # ((?:[a-z_]+(?:\.[a-z_]+)* ?)+)$", line):
            for node in comment[1].split():
                found.setdefault(node, set()).add(number)
    return found


@pytest.fixture(scope="module")
def located() -> Located:
    return locate(find("llama-3-8b"), SAMPLE)


def test_every_node_is_found_at_the_line_that_computes_it(located: Located) -> None:
    found = {n.node: set(n.lines) for n in located.nodes}
    wanted = marked(SAMPLE.read_text())
    assert len(wanted) > 30
    assert {node: found[node] for node in wanted} == wanted
    # The file has no cache, and the model's own result is its last op's.
    assert set(found) - set(wanted) == {"block.attention.cache", ""}
    assert located.missing == ()
    assert located.found == located.instances == 69


def test_lines_that_call_are_told_from_lines_that_compute(located: Located) -> None:
    text = SAMPLE.read_text().splitlines()
    by_id = {n.node: n for n in located.nodes}
    assert [text[line - 1].strip() for line in by_id["block.attention"].called] == [
        "update = self.attention(self.attention_norm(x), cos, sin, mask)"
    ]
    assert by_id["block.attention.q_heads"].moves
    assert not by_id["block.attention.attend.mask"].moves
    assert located.shims == ()


def changed(tmp_path: Path, old: str, new: str) -> Path:
    text = SAMPLE.read_text()
    assert text.count(old) == 1
    path = tmp_path / "changed.py"
    path.write_text(text.replace(old, new))
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("x = x + update", "x = x - update", "block.attention_add is the first node that differs"),
        ("a * cos - b * sin", "a * cos + b * sin", "block.attention.q_rotate is the first node that differs"),
        ("self.wo = nn.Linear", "self.wi = nn.Linear", "no tensor layers.0.attention.wo.weight"),
        ("n_kv_heads: int", "kv_heads: int", "Settings"),
        ("from torch import nn", "from torch import nn, nothing", "ImportError"),
        ("class Norm(nn.Module):", "class Norm(nn.Module)", "not Python"),
        ("x = self.tok_embeddings(tokens)", "x = self.tok_embeddings(tokens)[0]", "the model cannot be called"),
    ],
)
def test_what_is_no_such_reference_is_one_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        locate(find("llama-3-8b"), changed(tmp_path, old, new))
    assert message in str(error.value)
    assert "changed.py" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_reference_without_scaling_is_not_llama_3_1() -> None:
    with pytest.raises(UsageError, match=r"does not compute llama-3\.1-8b.*rope\.scale is the first"):
        locate(find("llama-3.1-8b"), SAMPLE)


def test_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["locate", "llama-3-8b", "--reference", str(SAMPLE), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["found"] == record["instances"]
    assert main(["locate", "llama-3-8b", "--reference", str(tmp_path / "none.py")]) == 2
    assert "no such file" in capsys.readouterr().err


def test_functions_of_a_file_can_be_called(tmp_path: Path) -> None:
    path = tmp_path / "functions.py"
    path.write_text("def half(x):\n    by = 2\n    return x / by\n")
    assert call(path, [("half", [3]), ("half", [{"result": 0}])]).results == (1.5, 0.75)
    patched = call(path, [("half", [3])], {"by = 2": "by = 4"})
    assert patched.results == (0.75,)
    assert patched.shims == ("`by = 2` read as `by = 4`",)
    with pytest.raises(UsageError, match="no such function"):
        call(path, [("third", [3])])
    with pytest.raises(UsageError, match="must stand there once"):
        call(path, [("half", [3])], {"by = 3": "by = 4"})


def reference(tmp_path: Path, at: str) -> Path:
    """Meta's own file from the cache or the pinned wheel; skips where neither has it."""
    from openmodelatlas.verify.sources import unpacked

    pins = [pin for claim in catalogue.claims(catalogue.model("llama-3-8b")) for pin in (claim.pin, *claim.also)]
    place = next(pin.place for pin in pins if pin.place.source.endswith(at))
    try:
        return unpacked(place, tmp_path)
    except FetchError as error:
        pytest.skip(str(error))


@pytest.mark.network
@pytest.mark.slow
@pytest.mark.parametrize(
    ("at", "model", "line", "count"),
    [
        ("llama3", "llama-3-8b", 246, 69),
        ("llama-models", "llama-3-8b", 252, 69),
        ("llama-models", "llama-3.1-8b", 252, 70),
    ],
)
def test_meta_s_own_code(tmp_path: Path, at: str, model: str, line: int, count: int) -> None:
    found = locate(find(model), reference(tmp_path, at))
    assert found.missing == ()
    assert found.found == count
    assert next(n for n in found.nodes if n.node == "block.attention_add").lines == (line,)


def library(path: str) -> Path:
    """A file of the library that is installed; skips without it."""
    module = pytest.importorskip(path.removesuffix(".py").replace("/", "."))
    return Path(module.__file__)


HOMES = {r.default: references()[catalogue.model(r.default).reference].home.path for r in releases().values()}
OWN = {model: path for model, path in HOMES.items() if path.startswith("transformers/")}
OWN["llama-3.1-8b"] = "transformers/models/llama/modeling_llama.py"


@pytest.mark.slow
@pytest.mark.parametrize("model", OWN)
def test_a_library_s_own_code(model: str) -> None:
    """All blocks, with the library's cache, in the form that is written out; it loads our weights as a checkpoint."""
    claims = catalogue.claims(catalogue.model(model))
    path = library(OWN[model])
    beside = {pin.place.path for claim in claims for pin in (claim.pin, *claim.also)} - {OWN[model]}
    found = locate(find(model), path, None, [library(other) for other in beside if other.startswith("transformers/")])
    assert {name.partition(".")[2] for name in found.missing} == {n.partition(".")[2] for c in claims for n in c.lacks}
    assert found.scheme == "huggingface"
    assert bool(found.shared) == found.tied
    text = path.read_text(encoding="utf-8").splitlines()
    by_id = {n.node: n for n in found.nodes}
    assert {text[line - 1].strip() for kind in found.blocks for line in by_id[f"{kind}.attention_add"].lines} == {
        "hidden_states = residual + hidden_states"
    }
    if model != "llama-3.1-8b":
        (activations,) = (nodes for other, nodes in found.elsewhere.items() if other.endswith("activations.py"))
        assert {n.node.rpartition(".")[2] for n in activations} & {"silu", "gelu"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "first"),
    [
        ("q_embed = (q * cos) + (rotate_half(q) * sin)", "q_embed = (q * cos) - (rotate_half(q) * sin)", "q_rotate"),
        ("hidden_states = hidden_states.to(torch.float32)", "hidden_states = hidden_states - 0.1", "attention_norm"),
    ],
)
def test_a_library_s_file_that_computes_something_else_is_named(old: str, new: str, first: str) -> None:
    path = library("transformers/models/qwen3/modeling_qwen3.py")
    with pytest.raises(UsageError, match=rf"does not compute qwen3-0\.6b.*{first} is the first node that differs"):
        locate(find("qwen3-0.6b"), path, {old: new})


# --- our side of it ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted({r.default for r in releases().values()}))
def test_a_checkpoint_that_is_made_for_a_reference_is_read_back_as_it_was(name: str) -> None:
    """Stored names, layouts and experts are undone as loading does them."""
    variant = located_run.twin(find(name))
    model = located_run.filled(variant)
    stored = {k: v for k, v in located_stored.tensors(model, variant, "huggingface").items() if k != "lm_head.weight"}
    if not tied(variant):
        stored["lm_head.weight"] = model.get_parameter("unembed.weight")
    again = dict(parity.filled(variant, stored).named_parameters())
    assert {name for name, p in model.named_parameters() if not torch.equal(p, again[name])} == set()


@pytest.mark.parametrize("name", variants())
def test_settings_that_are_made_for_a_reference_are_the_published_ones(name: str) -> None:
    """Every key is accounted for by the table that checkpoints are held against."""
    table = name_table(find(name).family, "huggingface")
    rows = setting_rows(flat(located_stored.settings(find(name), "huggingface")), find(name), table)
    assert [row for row in rows if not row.ok] == []
    assert {row.key for row in rows} >= set(tables.names(find(name).family)["metadata"]["huggingface"]["required"])


def flat(settings: dict[str, object], section: str = "") -> dict[str, object]:
    """Keys of nested sections, joined."""
    found: dict[str, object] = {}
    for key, value in settings.items():
        found |= flat(value, f"{section}{key}.") if isinstance(value, dict) else {f"{section}{key}": value}
    return found


def entry(index: int, line: int, value: torch.Tensor) -> Entry:
    return Entry(index, "m.py", line, "f", 0, value, False, False)


def test_a_value_that_was_made_in_pieces_is_found_at_the_line_that_made_them() -> None:
    value = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))
    rows = value.flatten(0, 1)[[4, 1, 5, 0, 3, 2]]
    handed = [Handed("experts", "out", value, False, ())]
    noise = entry(0, 7, torch.randn(2, 4, generator=torch.Generator().manual_seed(1)))
    pieces = [noise, entry(1, 9, rows[:1]), entry(2, 9, rows[1:4]), entry(3, 9, rows[4:])]
    (found,), missing = located_match.match(handed, pieces, range(0))
    assert (found.lines, missing) == ((9,), [])
    for wrong in (pieces[:3], [*pieces[:3], entry(3, 8, rows[4:])], [*pieces[:3], entry(3, 9, rows[4:] + 1e-3)]):
        assert located_match.match(handed, wrong, range(0)) == ([], handed)


def test_whole_numbers_are_matched_too() -> None:
    chosen = torch.tensor([[3, 1], [0, 2]])
    handed = [Handed("choose", "experts", chosen, False, ())]
    (found,), _ = located_match.match(handed, [entry(0, 4, chosen.flip(0)), entry(1, 5, chosen)], range(0))
    assert found.lines == (5,)
