"""`oma locate`: a node's line in somebody else's file, found by running it."""

import json
import re
from pathlib import Path

import pytest

from openmodelatlas.cli.main import main
from openmodelatlas.errors import FetchError, UsageError
from openmodelatlas.models import find
from openmodelatlas.trace.locate import Located, call, locate

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
    from openmodelatlas.catalog import find as catalogue
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


@pytest.mark.slow
def test_hugging_face_s_own_code() -> None:
    modeling = pytest.importorskip("transformers.models.llama.modeling_llama")
    found = locate(find("llama-3-8b"), Path(modeling.__file__))
    assert found.missing == ()
    assert found.scheme == "huggingface"
