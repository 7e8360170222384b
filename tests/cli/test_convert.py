"""`oma convert` as a person uses it: what it says, what it refuses in one line; nothing is left half-done."""

import signal
import subprocess
import sys
from pathlib import Path

import made_checkpoints as made
import pytest
import safetensors.torch
import tiny

from openmodelatlas.cli.main import main
from openmodelatlas.models import variants
from openmodelatlas.weights.naming import has_names

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="signals and limits as POSIX has them")
PLAIN = ("--no-tokenizer",)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tiny Hugging Face folder, alone in a folder of its own."""
    return made.huggingface_folder(tmp_path / "in", tiny.variant())


def oma(*arguments: object) -> int:
    return main(["convert", *map(str, arguments)])


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


def test_the_path_goes_to_stdout_and_the_rest_to_stderr(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = folder.parent / "out.gguf"
    assert oma(folder, "-o", target, *PLAIN) == 0
    said = capsys.readouterr()
    assert said.out == f"{target}\n"
    assert "huggingface to gguf" in said.err
    assert "without tokenizer: as asked" in said.err
    assert "against the source: 20 parameters: 20 equal to the bit" in said.err
    assert names(folder.parent) == ["in", "out.gguf"]


def test_shard_size_and_type_are_read_as_people_write_them(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert oma(folder, "-o", folder.parent / "out", "--to", "huggingface", "--shard-size", "40 kB", *PLAIN) == 0
    assert "model.safetensors.index.json" in names(folder.parent / "out")
    assert oma(folder, "-o", folder.parent / "q.gguf", "--type", "q8_0", *PLAIN) == 0
    assert "quantised to Q8_0" in capsys.readouterr().err


WRONG: list[tuple[tuple[str, ...], int, str]] = [
    (
        ("-o", "{d}/out"),
        2,
        "which format is not said: {d}/out; --to huggingface, --to meta, or a name that ends in .gguf",
    ),
    (("-o", "{d}/out", "--to", "onnx"), 2, "no such format; expected huggingface, gguf, meta, found onnx"),
    (("-o", "{d}/out", "--to", "gguf"), 2, "not a target for gguf: {d}/out; expected a name that ends in .gguf"),
    (("-o", "{d}/out.gguf", "--to", "meta"), 2, "not a target for meta: {d}/out.gguf; expected the name of a folder"),
    (
        ("-o", "{d}/out.gguf", "--dtype", "int8"),
        2,
        "--dtype; expected float32, bfloat16, float16, as-stored, found int8",
    ),
    (("-o", "{d}/out", "--to", "meta", "--type", "Q8_0"), 2, "--type is for GGUF files; found --to meta"),
    (("-o", "{d}/out.gguf", "--type", "Q6_K"), 2, "no such type to quantise to; expected Q8_0, "),
    (("-o", "{d}/out.gguf", "--shard-size", "5GB"), 2, "--shard-size is for safetensors; found --to gguf"),
    (("-o", "{d}/out", "--to", "huggingface", "--shard-size", "many"), 2, "--shard-size; expected a size such as 5GB"),
    (("-o", "{d}/out", "--to", "huggingface", "--shard-size", "0"), 2, "--shard-size; expected a size such as 5GB"),
    (("-o", "{d}/out.gguf", "--ranks", "2"), 2, "--ranks is for Meta's files; found --to gguf"),
    (("-o", "{d}/out.gguf", "--set", "rope_theta"), 2, "--set; expected NUMBER=VALUE, found rope_theta"),
    (("-o", "{d}/out.gguf", "--set", "colour=3"), 2, "no such number of the model; expected hidden_size, "),
    (("-o", "{d}/out.gguf", "--set", "vocab_size=x"), 2, "--set vocab_size; expected a whole number, found x"),
    (("-o", "{d}/out.gguf", "--set", "vocab_size=7"), 1, "expected shape [7, 64], found shape [272, 64]; `oma verify`"),
    (("-o", "{d}/out.gguf", "--model", "llama-9"), 2, "no such model; found 'llama-9'"),
    (("-o", "{d}/out.gguf", "--model", "llama-3-8b"), 1, "`oma verify` lists everything"),
    (("-o", "{d}/no/out.gguf"), 1, "no folder to write in: {d}/no; make it first"),
    (
        ("-o", "{d}/in", "--to", "meta"),
        1,
        "the target is the source, or one lies within the other: {d}/in; found {d}/in",
    ),
    (("-o", "{d}/in/out.gguf"), 1, "the target is the source, or one lies within the other: {d}/in/out.gguf"),
    (("-o", "{d}", "--to", "meta", "--force"), 1, "the target is the source, or one lies within the other: {d}"),
    (("-o", "{d}/there.gguf"), 1, "something stands there already: {d}/there.gguf; choose another name, or --force"),
    (("-o", "{d}/full", "--to", "meta"), 1, "something stands there already: {d}/full"),
    (
        ("-o", "{d}/full", "--to", "meta", "--force"),
        1,
        "--force replaces checkpoints only: {d}/full; found a folder that is",
    ),
    (("-o", "{d}/there.gguf/x.gguf"), 1, "no folder to write in: {d}/there.gguf"),
]


@pytest.mark.parametrize(("options", "code", "message"), WRONG, ids=[" ".join(row[0][1:]) for row in WRONG])
def test_what_cannot_be_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], code: int, message: str
) -> None:
    place = folder.parent
    (place / "there.gguf").write_text("old")
    (place / "full").mkdir()
    (place / "full" / "letter.txt").write_text("mine")
    assert oma(folder, *(option.format(d=place) for option in options), *PLAIN) == code
    said = capsys.readouterr()
    assert said.out == ""
    lines = [line for line in said.err.splitlines() if not line.endswith("MiB)")]
    assert len(lines) == 1
    assert lines[0].startswith("oma convert: ")
    assert message.format(d=place) in lines[0]
    assert names(place) == ["full", "in", "there.gguf"]
    assert (place / "there.gguf").read_text() == "old"


def test_no_checkpoint_is_exit_code_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in.gguf").write_bytes(b"no header at all")
    assert oma(tmp_path / "in.gguf", "-o", tmp_path / "out.gguf") == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert names(tmp_path) == ["in.gguf"]


@pytest.mark.parametrize("family", sorted({of.family for of in variants().values()}))
def test_a_family_without_the_format_says_which_it_has(
    tmp_path: Path, family: str, capsys: pytest.CaptureFixture[str]
) -> None:
    like = next(name for name, of in variants().items() if of.family == family)
    folder = made.huggingface_folder(tmp_path / "in", tiny.variant(like))
    code = oma(folder, "-o", tmp_path / "out", "--to", "meta", *PLAIN)
    if has_names(family, "meta"):
        assert code == 0
    else:
        assert code == 2
        assert f"the {family} family has no form in this format; expected huggingface, gguf" in capsys.readouterr().err
        assert names(tmp_path) == ["in"]


def test_force_replaces_a_checkpoint(folder: Path) -> None:
    target = made.huggingface_folder(folder.parent / "out", tiny.variant(), seed=9, shards=3)
    assert oma(folder, "-o", target, "--to", "huggingface", "--force", *PLAIN) == 0
    new, source = (safetensors.torch.load_file(path / "model.safetensors") for path in (target, folder))
    assert all((new[name] == source[name]).all() for name in source)
    assert names(target) == ["config.json", "generation_config.json", "model.safetensors"]
    assert names(folder.parent) == ["in", "out"]


def test_a_link_is_not_followed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = folder.parent
    (place / "elsewhere").write_text("mine")
    (place / "out.gguf").symlink_to("elsewhere")
    assert oma(folder, "-o", place / "out.gguf", *PLAIN) == 1
    assert "something stands there already" in capsys.readouterr().err
    assert oma(folder, "-o", place / "out.gguf", "--force", *PLAIN) == 0
    assert (place / "elsewhere").read_text() == "mine"
    assert not (place / "out.gguf").is_symlink()


SLOW = """
import sys, time
from openmodelatlas.cli.main import main
from openmodelatlas.weights.writing.outgoing import Outgoing
pieces = Outgoing.pieces
def slow(self):
    yield from pieces(self)
    print("wrote", flush=True)
    time.sleep({seconds})
Outgoing.pieces = slow
sys.exit(main(sys.argv[1:]))
"""


def slowly(seconds: float, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SLOW.format(seconds=seconds), "convert", *map(str, arguments), *PLAIN]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@POSIX
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("to", ["gguf", "huggingface", "meta"])
def test_an_end_from_outside_leaves_nothing(folder: Path, how: signal.Signals, to: str) -> None:
    target = folder.parent / ("out.gguf" if to == "gguf" else "out")
    process = slowly(60, folder, "-o", target, "--to", to)
    assert process.stdout is not None
    assert process.stdout.readline() == "wrote\n"
    assert len(names(folder.parent)) == 2
    process.send_signal(how)
    _, error = process.communicate(timeout=20)
    assert process.returncode == 130
    assert error.splitlines()[-1] == "oma convert: interrupted"
    assert names(folder.parent) == ["in"]


def test_two_at_once_leave_one_whole(folder: Path) -> None:
    target = folder.parent / "out.gguf"
    both = [slowly(0.05, folder, "-o", target) for _ in range(2)]
    errors = [process.communicate(timeout=60)[1] for process in both]
    assert sorted(process.returncode for process in both) == [0, 1], errors
    assert any("something came to stand there meanwhile" in error for error in errors)
    assert names(folder.parent) == ["in", "out.gguf"]


FULL = """
import resource, sys
from openmodelatlas.cli.main import main
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
sys.exit(main(sys.argv[1:]))
"""


@POSIX
@pytest.mark.parametrize("to", ["gguf", "huggingface", "meta"])
def test_a_disk_that_is_full_is_one_line_and_leaves_nothing(folder: Path, to: str) -> None:
    target = folder.parent / ("out.gguf" if to == "gguf" else "out")
    command = [sys.executable, "-c", FULL, "convert", str(folder), "-o", str(target), "--to", to, *PLAIN]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"oma convert: cannot write: {target}; found File too large"
    assert "Traceback" not in done.stderr
    assert names(folder.parent) == ["in"]


def test_too_little_room_is_said_before_anything_is_written(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil

    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(100, 95, 5))
    assert oma(folder, "-o", folder.parent / "out.gguf", *PLAIN) == 1
    assert f"not enough room: {folder.parent / 'out.gguf'}; expected " in capsys.readouterr().err
    assert names(folder.parent) == ["in"]
