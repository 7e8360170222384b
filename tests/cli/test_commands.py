"""`oma` as a person uses it: output, exit codes, one clear line for what cannot be."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import openmodelatlas
from openmodelatlas import atlas, maps, models
from openmodelatlas.cli.main import main
from openmodelatlas.cli.render_map import region_text
from openmodelatlas.errors import UnknownName
from openmodelatlas.fetch import cache
from openmodelatlas.records.graph import Region


def oma(*arguments: str) -> int:
    return main(arguments)


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert oma() == 0
    out = capsys.readouterr().out
    for command in ("list", "show", "diff", "evidence", "pull", "verify", "run", "site", "serve"):
        assert f"\n    {command} " in out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert oma("--version") == 0
    assert capsys.readouterr().out.startswith("oma 0.")


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert oma("list") == 0
    assert "Llama 3.1 · Meta · Jul 2024 · dense decoder · follows Llama 3\n" in capsys.readouterr().out
    assert oma("list", "--json") == 0
    releases = json.loads(capsys.readouterr().out)
    assert {"llama-3", "llama-3.1", "llama-3.2", "llama-3.3", "smollm2", "tinyllama"} <= {r["id"] for r in releases}


def test_show_tree(capsys: pytest.CaptureFixture[str]) -> None:
    assert oma("show", "llama-3-8b") == 0
    out = capsys.readouterr().out
    assert "8,030,261,248 parameters" in out
    assert "Transformer block × 32, independent" in out
    assert "[B batch, T positions, 4096 d]" in out


def test_show_node_with_concrete_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    assert oma("show", "llama-3-8b", "block.attention.attend.scores", "--batch", "2", "--positions", "5") == 0
    out = capsys.readouterr().out
    assert "[2 batch, 32 heads, 5 positions, 5 slots]" in out
    assert f"matmul FLOPs  {2 * 2 * 32 * 5 * 5 * 128:,}" in out


def test_show_json_holds_what_the_first_page_holds(capsys: pytest.CaptureFixture[str]) -> None:
    assert oma("show", "llama-3.1-8b", "block.attention_add", "--json") == 0
    node = json.loads(capsys.readouterr().out)
    assert node["title"] == "Attention residual addition"
    assert node["expression"] == "x + self.attention(…)"
    assert node["parameters"] == {"count": 0, "tensors": []}
    assert node["equation"].startswith(r"\htmlData{light=residual block.attention_add}{x'_n} = ")
    assert [p["shape"] for p in node["inputs"]] == [["B", "T", 4096]] * 2
    (code,) = node["code"]
    assert (code["path"], code["lines"]) == ("llama/model.py", [[236, 248]])
    assert code["revision"] == "a0940f9cf7065d45bb6675660f80d305c041a754"
    (claim,) = node["claims"]
    assert (claim["id"], claim["grade"]) == ("block-residuals", "direct")
    assert node["region"]["count"] == 32


def test_show_json_holds_what_the_second_page_holds(capsys: pytest.CaptureFixture[str]) -> None:
    assert oma("show", "llama-3-8b", "block:out", "--json") == 0
    node = json.loads(capsys.readouterr().out)
    assert (node["kind"], node["outputs"][0]["symbol"], node["outputs"][0]["shape"]) == (
        "tensor",
        "x_{n+1}",
        ["B", "T", 4096],
    )
    (code,) = node["code"]
    assert (code["envelope"], code["omitted"]) == ([236, 302], [[249, 257], [270, 297]])
    assert [(c["id"], c["grade"]) for c in node["claims"]] == [
        ("block-residuals", "contextual"),
        ("model", "contextual"),
    ]


def test_independent_is_said_of_more_than_one() -> None:
    def words(count: int, *, independent: bool) -> str:
        made = Region(name="b", count=count, indices=tuple(range(count)), independent=independent, subtree="0" * 64)
        return region_text(made)

    assert words(3, independent=True) == "3 independent blocks, proven identical"
    assert words(3, independent=False) == "3 blocks, proven identical"
    assert words(1, independent=True) == "one block"


def test_diff(capsys: pytest.CaptureFixture[str]) -> None:
    assert oma("diff", "llama-3-8b", "llama-3.1-8b") == 0
    assert "differ in rope.scale; configuration" in capsys.readouterr().out
    assert oma("diff", "llama-3-8b", "llama-3.1-8b", "--json") == 0
    assert json.loads(capsys.readouterr().out)["left"] == "llama-3-8b"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "llama-3.1-8"], "nearest: llama-3.1-8b"),
        (["show", "llama-3-8b", "block.attention_ad"], "nearest: block.attention_add"),
        (["show", "llama-3-8b", "blocks.99"], "expected 0 to 31, found 99"),
        (["show", "llama-3-8b", "--batch", "0"], "--batch must be at least 1; found 0"),
        (["show", "llama-3-8b", "--positions", "9", "--slots", "3"], "expected 9 or more, found 3"),
        (["diff", "llama-3-8b", ""], "unknown model"),
        (["evidence", "lama-3-8b"], "nearest: llama-3-8b"),
    ],
)
def test_what_cannot_be_is_one_line_and_exit_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert oma(*arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.count("\n") == 1


def test_unknown_commands_exit_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        oma("shwo")
    assert caught.value.code == 2
    assert "invalid choice" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show"], "oma show: the following arguments are required: MODEL"),
        (["show", "llama-3-8b", "--batch", "x"], "oma show: argument --batch: invalid int value: 'x'"),
        (["run", "a", "b", "--temperature", "nan"], "oma run: argument --temperature: must be 0 or more"),
        (["--nope"], "oma: unrecognized arguments: --nope"),
    ],
)
def test_a_wrong_option_is_one_line_and_exit_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        oma(*arguments)
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith(message)


def test_a_name_is_listed_once_among_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert oma("show", "llama-3-8b", "block:nope") == 2
    near = capsys.readouterr().err.strip().rpartition("nearest: ")[2].split(", ")
    assert len(near) == len(set(near)) == 3


ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}


def started(*arguments: str, out: str | None = None, env: dict[str, str] | None = None) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a process of its own; `out` is a file that takes stdout."""
    code = "from openmodelatlas.cli.main import main; import sys; sys.exit(main())"
    with open(out or os.devnull, "w") as file:
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            stdout=file if out else subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | (env or {}),
            check=False,
        )
    return done.returncode, (done.stdout or b"").decode(), done.stderr.decode()


def test_a_terminal_that_knows_few_characters_loses_nothing() -> None:
    maps.graph("llama-3-8b")
    code, out, err = started("list", "--json", env=ASCII)
    assert (code, err) == (0, "")
    assert out.isascii()
    assert json.loads(out) == json.loads(started("list", "--json")[1])
    code, out, _ = started("show", "llama-3-8b", "block.attention_add", env=ASCII)
    assert code == 0
    assert "\\u0394_attn" in out


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
def test_output_that_cannot_be_written_is_one_line_and_exit_1() -> None:
    maps.graph("llama-3-8b")
    for command in (["list"], ["show", "llama-3-8b", "--json"]):
        code, _, err = started(*command, out="/dev/full")
        assert (code, err) == (1, f"oma {command[0]}: No space left on device\n")


def test_an_interrupt_is_one_line_and_exit_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(maps, "annotated", interrupted)
    assert oma("show", "llama-3-8b") == 130
    assert capsys.readouterr().err == "oma show: interrupted\n"
    monkeypatch.setattr("pkgutil.iter_modules", interrupted)
    assert oma("list") == 130
    assert capsys.readouterr().err == "oma: interrupted\n"


def test_a_closed_stdout_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert oma("list") == 0


def test_a_closed_pipe_is_no_error() -> None:
    code = "from openmodelatlas.cli.main import main; import sys; sys.exit(main(['show', 'llama-3-8b', '--json']))"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait() == 0


def test_cached_show_needs_no_torch() -> None:
    maps.graph("llama-3-8b")
    code = (
        "import sys; from openmodelatlas.cli.main import main;"
        "assert main(['show', 'llama-3-8b', 'block:out']) == 0; assert main(['diff', 'llama-3-8b', 'llama-3-8b']) == 0;"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=False).returncode == 0


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"schema": "other"}', b'{"schema": "openmodelatlas/graph/1"}'])
def test_a_spoilt_cache_entry_is_derived_anew(content: bytes) -> None:
    good = maps.graph("smollm2-135m")
    path = cache.folder("maps", maps.sources_hash(maps.MAP_ROOMS)) / "smollm2-135m.json"
    path.write_bytes(content)
    assert maps.graph("smollm2-135m") == good
    assert path.read_bytes() != content


def test_library() -> None:
    model = atlas.load("llama-3.1")
    assert model.name == "llama-3.1-8b"
    assert model.config["rope_factor"] == 8.0
    assert repr(model) == "<AtlasModel llama-3.1-8b: 8,030,261,248 parameters>"
    assert "block.attention_add" in model._repr_html_()
    built = model.build()
    assert sum(p.numel() for p in built.parameters()) == model.graph.counts.total
    assert next(built.parameters()).device.type == "meta"


def test_library_functions_take_a_name_a_model_or_a_map() -> None:
    left, right = atlas.load("smollm2-135m"), atlas.load("smollm2-360m")
    found = openmodelatlas.diff("smollm2-135m", "smollm2-360m")
    assert found == openmodelatlas.diff(left, right) == openmodelatlas.diff(left.graph, "smollm2-360m")
    assert found.left == "smollm2-135m"
    assert openmodelatlas.derive("smollm2-135m") == left.graph
    assert openmodelatlas.derive(left) == openmodelatlas.derive(models.find("smollm2-135m")) == left.graph
    for call in (openmodelatlas.load, openmodelatlas.derive, lambda name: openmodelatlas.diff(name, name)):
        with pytest.raises(UnknownName, match="unknown model: 'nope'"):
            call("nope")


def test_a_cache_that_cannot_be_written_only_costs_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("OMA_CACHE", str(tmp_path / "file"))
    assert oma("show", "smollm2-135m", "block:out") == 0
    assert "Block output" in capsys.readouterr().out
