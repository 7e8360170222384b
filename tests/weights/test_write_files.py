"""What is written opens in the library of its format, stands there whole or not at all, and takes little memory."""

import fcntl
import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors
import safetensors.torch
import torch
from torch import Tensor

from openmodelatlas.errors import CheckpointError, UsageError, WriteError
from openmodelatlas.weights.writing import gguf as write_gguf
from openmodelatlas.weights.writing import meta as write_meta
from openmodelatlas.weights.writing import outgoing, written
from openmodelatlas.weights.writing import safetensors as write_safetensors
from openmodelatlas.weights.writing.outgoing import Outgoing
from openmodelatlas.weights.writing.stated import feed_forward_width, nested

DTYPES = list(outgoing.KEPT)


class Given:
    """Values at hand, in runs of two rows."""

    def __init__(self, values: Tensor) -> None:
        self.values = values

    def pieces(self) -> list[Tensor]:
        return list(self.values.split(2)) if self.values.ndim else [self.values]


def tensors() -> dict[str, Tensor]:
    draw = torch.Generator().manual_seed(3)
    shapes = ((5, 3), (7,), (2, 3, 4), (1, 1))
    found = {}
    for number, dtype in enumerate(DTYPES):
        for place, shape in enumerate(shapes):
            found[f"t{number}.{place} ü"] = torch.randn(shape, generator=draw, dtype=torch.float64).to(dtype)
    return found


def outgoing_of(values: dict[str, Tensor]) -> list[Outgoing]:
    return [
        Outgoing(name=name, shape=tuple(value.shape), dtype=value.dtype, made=Given(value))  # type: ignore[arg-type]
        for name, value in values.items()
    ]


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(a[n].dtype == b[n].dtype and torch.equal(a[n], b[n]) for n in a)


def test_the_safetensors_library_reads_every_type(tmp_path: Path) -> None:
    path, values, counted = tmp_path / "x.safetensors", tensors(), []
    write_safetensors.write(path, outgoing_of(values), counted.append)
    assert same(safetensors.torch.load_file(path), values)
    with safetensors.safe_open(path, "pt") as file:
        assert file.metadata() == {"format": "pt"}
    assert sum(counted) == sum(value.nbytes for value in values.values())
    length = int.from_bytes(path.read_bytes()[:8], "little")
    assert length % 8 == 0


def test_torch_reads_every_type_mapped_and_without_pickle(tmp_path: Path) -> None:
    path, values, counted = tmp_path / "consolidated.00.pth", tensors(), []
    write_meta.write(path, outgoing_of(values), counted.append)
    assert same(torch.load(path, weights_only=True, mmap=True), values)
    assert same(torch.load(path, weights_only=True), values)
    assert sum(counted) == sum(value.nbytes for value in values.values())


def test_the_zip_inside_is_sound_and_can_be_mapped(tmp_path: Path) -> None:
    path, values = tmp_path / "consolidated.00.pth", tensors()
    write_meta.write(path, outgoing_of(values), lambda _: None)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}
    reader = torch._C.PyTorchFileReader(str(path))
    records = [name for name in reader.get_all_records() if name.startswith("data/")]
    assert len(records) == len(values)
    assert all(reader.get_record_offset(name) % 64 == 0 for name in records)


def test_shards_hold_what_fits_and_one_larger_tensor_apart() -> None:
    sizes = {"a": 10, "b": 20, "c": 100, "d": 5, "e": 5}
    parts = write_safetensors.parts(
        outgoing_of({n: torch.zeros(c // 5, 5).to(torch.float16) for n, c in sizes.items()}), 60
    )
    assert [[tensor.name for tensor in part] for part in parts] == [["a", "b"], ["c"], ["d", "e"]]


def test_a_type_that_cannot_be_quantised_to_is_named() -> None:
    with pytest.raises(UsageError, match=r"no such type to quantise to; expected Q8_0, .* found Q6_K"):
        write_gguf.typed([], "Q6_K")


def test_numbers_beyond_a_type_are_an_error_and_infinities_are_not() -> None:
    (fine,) = outgoing_of({"x": torch.tensor([[1.0, float("inf")]])})
    (piece,) = Outgoing(name="x", shape=(1, 2), dtype=torch.float16, made=fine.made).pieces()
    assert piece.isinf().any()
    (large,) = outgoing_of({"x": torch.tensor([[1.0, 7e4]])})
    with pytest.raises(CheckpointError, match="too large for float16: x; found 70000; choose another --dtype"):
        list(Outgoing(name="x", shape=(1, 2), dtype=torch.float16, made=large.made).pieces())


PUBLISHED = [  # width, inner width, multiple_of, multiplier: as Meta's settings of Llama 3 8B, 3 70B, 3.1 405B, 2 7B
    (4096, 14336, 1024, 1.3),
    (8192, 28672, 1024, 1.3),
    (16384, 53248, 1024, 1.2),
    (4096, 11008, 256, None),
]


@pytest.mark.parametrize(("width", "inner", "multiple", "factor"), PUBLISHED)
def test_the_rule_for_the_inner_width(width: int, inner: int, multiple: int, factor: float | None) -> None:
    expected = {"multiple_of": multiple} | ({} if factor is None else {"ffn_dim_multiplier": factor})
    assert feed_forward_width(width, inner) == expected


def test_sections_are_nested() -> None:
    assert nested({"a": 1, "b.c": 2, "b.d.e": None}) == {"a": 1, "b": {"c": 2, "d": {"e": None}}}


def make(path: Path, *, folder: bool, content: str = "new") -> None:
    if folder:
        path.mkdir()
        path /= "config.json"
    path.write_text(content)


def content(path: Path) -> str:
    return (path / "config.json" if path.is_dir() else path).read_text()


FOLDERS = pytest.mark.parametrize("folder", [False, True], ids=["file", "folder"])


@FOLDERS
def test_a_target_appears_whole(tmp_path: Path, folder: bool) -> None:
    target = tmp_path / "out"
    with written.placed(target) as new:
        make(new, folder=folder)
        assert not target.exists()
    assert content(target) == "new"
    assert list(tmp_path.iterdir()) == [target]


@FOLDERS
@pytest.mark.parametrize("error", [KeyboardInterrupt(), WriteError("x")], ids=repr)
def test_what_goes_wrong_leaves_nothing(tmp_path: Path, folder: bool, error: BaseException) -> None:
    def fail() -> None:
        with written.placed(tmp_path / "out") as new:
            make(new, folder=folder)
            raise error

    with pytest.raises(type(error)):
        fail()
    assert list(tmp_path.iterdir()) == []


@FOLDERS
def test_what_came_meanwhile_is_kept(tmp_path: Path, folder: bool) -> None:
    target = tmp_path / "out"

    def late() -> None:
        with written.placed(target) as new:
            make(new, folder=folder)
            make(target, folder=folder, content="theirs")

    with pytest.raises(WriteError, match="something came to stand there meanwhile"):
        late()
    assert content(target) == "theirs"
    assert list(tmp_path.iterdir()) == [target]


@FOLDERS
def test_force_replaces_in_the_end(tmp_path: Path, folder: bool) -> None:
    target = tmp_path / "out"
    make(target, folder=folder, content="old")
    with written.placed(target, force=True) as new:
        make(new, folder=folder)
        assert content(target) == "old"
    assert content(target) == "new"
    assert list(tmp_path.iterdir()) == [target]


@FOLDERS
def test_force_keeps_the_old_where_the_new_fails(tmp_path: Path, folder: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "out"
    make(target, folder=folder, content="old")
    real: Callable[..., None] = written.os.rename

    def refuse(source: Path, place: Path) -> None:
        if Path(place) == target and Path(source).name == target.name:
            raise OSError(28, "No space left on device")
        real(source, place)

    monkeypatch.setattr(written.os, "rename", refuse)
    monkeypatch.setattr(written.os, "replace", refuse)
    message = r"cannot write: .*out; found No space left on device"
    with pytest.raises(WriteError, match=message), written.placed(target, force=True) as new:
        make(new, folder=folder)
    assert content(target) == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_an_empty_folder_is_a_place(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with written.placed(tmp_path / "out") as new:
        make(new, folder=True)
    assert content(tmp_path / "out") == "new"


def test_room_is_looked_for_first(tmp_path: Path) -> None:
    written.need_room(tmp_path / "x", 1)
    with pytest.raises(WriteError, match=r"not enough room: .*x; expected 1,000,000,000\.00 GB, found .* GB free"):
        written.need_room(tmp_path / "x", 10**18)


MEMORY = """
import sys
from openmodelatlas.verify.convert import Wanted, convert
peak = 0
def measure(what, done, total):
    global peak
    held = int(open("/proc/self/status").read().partition("RssAnon:")[2].split()[0])
    peak = max(peak, held)
convert(sys.argv[1], sys.argv[2], Wanted(scheme="gguf", tokenizer=False), progress=measure)
print(peak)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the memory of a program is read from Linux")
def test_memory_does_not_grow_with_the_number_of_layers(tmp_path: Path) -> None:
    """Peaks of two conversions, the second of four times as many bytes (over 200 MB), measured as each piece is
    written or compared. Pages of a mapped file, which the system takes back when it likes, are not counted."""
    import made_checkpoints as made
    import tiny

    peaks, size = {}, {}
    for layers in (4, 16):
        of = tiny.variant(
            num_hidden_layers=layers, hidden_size=768, intermediate_size=3072, num_attention_heads=12, head_dim=64
        )
        folder = tmp_path / str(layers)
        folder.mkdir()
        made.write_json(folder / "config.json", made.settings(of, "huggingface"))
        made.write_safetensors(folder, made.tensors(of, "huggingface", dtype=torch.bfloat16), shards=layers)
        command = [sys.executable, "-c", MEMORY, str(folder), str(tmp_path / f"{layers}.gguf")]
        peaks[layers] = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout) * 1024
        size[layers] = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    assert size[16] > 2e8
    assert peaks[16] - peaks[4] < 0.1 * (size[16] - size[4])


def test_what_a_killed_process_left_goes_and_nothing_else(tmp_path: Path) -> None:
    """Of an hour ago: what nobody holds goes; what a process works in, or holds what was to be replaced, stays."""
    for name in ("dead", "alive", "holding"):
        (tmp_path / f".oma-part-{name}" / "model").mkdir(parents=True)
    (tmp_path / ".oma-part-holding" / "old").mkdir()
    (tmp_path / ".oma-part-link").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    (tmp_path / "elsewhere").mkdir()
    for path in [*tmp_path.glob(".oma-part-*"), tmp_path / "elsewhere"]:
        os.utime(path, (time.time() - 3600,) * 2)
    (tmp_path / ".oma-part-fresh").mkdir()
    handle = os.open(tmp_path / ".oma-part-alive", os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with written.placed(tmp_path / "out") as new:
        new.write_bytes(b"whole")
        os.utime(new.parent, (time.time() - 3600,) * 2)
        with written.placed(tmp_path / "other") as second:  # does not take the first one's
            second.write_bytes(b"whole too")
    os.close(handle)
    left = {path.name for path in tmp_path.iterdir()}
    names = ("alive", "holding", "link", "fresh")
    assert left == {"out", "other", "elsewhere", *(f".oma-part-{name}" for name in names)}
