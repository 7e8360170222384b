"""Files of any bytes: they open, or end in one of our errors, in little time and memory. OMA_FUZZ=20000 digs deeper."""

import io
import json
import os
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import made_checkpoints as made
import pytest
import safetensors
import tiny
import torch
from gguf_writer import File, f32
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openmodelatlas.errors import AtlasError, NotACheckpoint
from openmodelatlas.weights.open import open_checkpoint
from openmodelatlas.weights.reading import gguf, pth, tensor_pickle
from openmodelatlas.weights.reading.safetensors import BITS, read_header
from openmodelatlas.weights.reading.source import LocalFile

EXAMPLES = int(os.environ.get("OMA_FUZZ", "150"))
MOST_MEMORY = 8 << 20  # bytes, for files of a few kilobytes

fuzzed = settings(
    max_examples=EXAMPLES,
    deadline=2000,
    derandomize="OMA_FUZZ" not in os.environ,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)


def mutated(seed: bytes) -> st.SearchStrategy[bytes]:
    """The bytes with a few of them exchanged, cut out, put in or repeated; numbers at the edges are favoured."""
    edges = [b"\0", b"\xff", b"\xff" * 8, b"\0" * 8, struct.pack("<Q", 1 << 60), struct.pack("<Q", len(seed)), b"\x80"]
    piece = st.one_of(st.sampled_from(edges), st.binary(min_size=1, max_size=12))
    change = st.tuples(st.integers(0, len(seed)), st.integers(0, 24), piece)

    def changed(changes: list[tuple[int, int, bytes]]) -> bytes:
        data = seed
        for at, cut, put in changes:
            data = data[:at] + put + data[at + cut :]
        return data

    return st.one_of(
        st.lists(change, min_size=1, max_size=4).map(changed), st.integers(0, len(seed)).map(lambda n: seed[:n])
    )


def ends_well(action: Callable[[], Any]) -> Any:
    """What the action gives, or None after an error of ours; in little memory."""
    found, said = None, None
    tracemalloc.start()
    try:
        found = action()
    except AtlasError as error:
        said = error
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MOST_MEMORY
    assert said is None or str(said).isprintable()
    assert not isinstance(said, NotACheckpoint) or said.code is not None
    return found


def written(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


# safetensors: the library says what is right.

SIZES = st.one_of(st.integers(0, 9), st.sampled_from([-1, 2**31, 2**33, 2**63, 2**64, 1.0, True, None, "1"]))
ENTRY = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from([*BITS, "I4", "", None]),
        "shape": st.one_of(st.lists(SIZES, max_size=3), st.none()),
        "data_offsets": st.one_of(st.lists(st.integers(0, 40), min_size=2, max_size=2), st.lists(SIZES, max_size=3)),
    },
    optional={"more": st.none()},
)
LABELS = st.dictionaries(st.text(max_size=3), st.one_of(st.text(max_size=3), st.integers()), max_size=2)
ENTRIES = st.dictionaries(st.text(max_size=3), ENTRY, max_size=3)
STATED = st.tuples(ENTRIES, st.one_of(st.none(), LABELS), st.integers(0, 40))


def fitting(draw: st.DrawFn) -> bytes:
    """A file of which every number is right, unless one is changed."""
    entries, at = {}, 0
    for number in range(draw(st.integers(0, 3))):
        kind, shape = draw(st.sampled_from(sorted(BITS))), draw(st.lists(st.integers(0, 4), max_size=3))
        bits = BITS[kind]
        for size in shape:
            bits *= size
        entries[f"t{number}"] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + (bits + 7) // 8]}
        at += (bits + 7) // 8
    if entries and draw(st.booleans()):
        entry = entries[draw(st.sampled_from(sorted(entries)))]
        entry["data_offsets"][draw(st.integers(0, 1))] += draw(st.sampled_from([-1, 1, 8]))
    return packed(json.dumps(entries).encode(), at)


def packed(header: bytes, size: int) -> bytes:
    return struct.pack("<Q", len(header)) + header + bytes(size)


def stated(parts: tuple[dict[str, Any], Any, int]) -> bytes:
    entries, labels, size = parts
    return packed(json.dumps(entries | ({} if labels is None else {"__metadata__": labels})).encode(), size)


SOUND = packed(
    b'{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},'
    b'"b":{"dtype":"BF16","shape":[3],"data_offsets":[16,22]},"c":{"dtype":"F4","shape":[4],"data_offsets":[22,24]}}',
    24,
)
STRICTER = {"files.json-duplicate", "files.header-entry"}  # an entry twice in the same words; fields as a list


@fuzzed
@given(data=st.one_of(st.composite(fitting)(), STATED.map(stated), mutated(SOUND), st.binary(max_size=64)))
def test_safetensors_are_taken_as_the_library_takes_them(tmp_path: Path, data: bytes) -> None:
    path = written(tmp_path, "x.safetensors", data)
    theirs = True
    try:
        with safetensors.safe_open(path, "pt") as file:
            names = sorted(file.keys())
    except (safetensors.SafetensorError, OSError):
        theirs = False
    code = ""

    def ours() -> Any:
        nonlocal code
        if not data:  # nothing to open: said before any format is thought of
            return None
        try:
            return read_header(LocalFile(path))
        except NotACheckpoint as error:
            code = error.code or ""
            raise

    header = ends_well(ours)
    if header is None:
        assert not theirs or code in STRICTER, (data, code)
    else:
        assert theirs, data
        assert sorted(tensor.name for tensor in header.tensors) == names


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)
SHARDS = [f"model-0000{n}-of-00002.safetensors" for n in (1, 2)]
PLACES = st.dictionaries(
    st.sampled_from(["model.norm.weight", "lm_head.weight", "x", ""]),
    st.sampled_from([*SHARDS, "../x", "/x", "", ".", "..", "config.json", "a\0b", "é" * 200]) | st.integers(),
    max_size=4,
)
INDEX = st.one_of(st.fixed_dictionaries({"weight_map": PLACES}, optional={"metadata": JSON}), JSON)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made.huggingface_folder(tmp_path_factory.mktemp("fuzz") / "hf", tiny.variant(num_hidden_layers=1), shards=2)


@fuzzed
@given(
    content=st.one_of(INDEX.map(lambda value: json.dumps(value).encode()), st.binary(max_size=64)), where=st.booleans()
)
def test_any_index_and_settings(folder: Path, content: bytes, where: bool) -> None:
    path = folder / ("model.safetensors.index.json" if where else "config.json")
    before = path.read_bytes()
    path.write_bytes(content)
    try:
        if (opened := ends_well(lambda: open_checkpoint(folder))) is not None:
            assert all(found.where.isprintable() for found in opened.findings)
    finally:
        path.write_bytes(before)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("pth") / "m.pth"
    torch.save({"a": torch.ones(2, 3), "b": torch.ones(3, 2, dtype=torch.bfloat16).t()}, path)
    return path.read_bytes()


@fuzzed
@given(data=st.data())
def test_archives_of_torch_that_were_changed(tmp_path: Path, saved: bytes, data: st.DataObject) -> None:
    path = written(tmp_path, "m.pth", data.draw(mutated(saved)))

    def read_all() -> None:
        header = pth.read_header(LocalFile(path))
        for tensor in header.tensors:
            assert header.read(tensor).shape == tensor.shape

    ends_well(read_all)


@fuzzed
@given(data=st.data())
def test_archives_with_another_pickle(tmp_path: Path, saved: bytes, data: st.DataObject) -> None:
    """The archive around it is sound, so that what the pickle claims is looked at."""
    with zipfile.ZipFile(io.BytesIO(saved)) as before:
        records = {name: before.read(name) for name in before.namelist()}
    records["m/data.pkl"] = data.draw(mutated(records["m/data.pkl"]))
    with zipfile.ZipFile(tmp_path / "m.pth", "w") as after:
        for name, content in records.items():
            after.writestr(name, content)

    def read_all() -> None:
        header = pth.read_header(LocalFile(tmp_path / "m.pth"))
        for tensor in header.tensors:
            assert header.read(tensor).shape == tensor.shape

    ends_well(read_all)


GLOBALS = ["collections\nOrderedDict", "torch._utils\n_rebuild_tensor_v2", "torch\nFloatStorage", "os\nsystem", "a"]
OPERATION = st.one_of(
    st.sampled_from([bytes([code]) for code in tensor_pickle._STEPS]),
    st.sampled_from([b"c" + name.encode() + b"\n" for name in GLOBALS]),
    st.text(max_size=4).map(lambda text: b"X" + struct.pack("<I", len(text.encode())) + text.encode()),
    st.integers(0, 255).map(lambda number: b"K" + bytes([number])),
    st.integers(0, 3).map(lambda place: b"q" + bytes([place])),
    st.integers(0, 3).map(lambda place: b"h" + bytes([place])),
    st.binary(max_size=3),
)


@fuzzed
@given(operations=st.lists(OPERATION, max_size=40), end=st.sampled_from([b".", b"t.", b"u.", b""]))
def test_any_pickle(operations: list[bytes], end: bytes) -> None:
    ends_well(lambda: tensor_pickle.read_pickle(b"\x80\x02" + b"".join(operations) + end, "x"))


SMALL_GGUF = File(
    {
        "general.architecture": "llama",
        "a": 1,
        "b": 1.5,
        "c": True,
        "d": ["x"] * 70,
        "e": [1] * 70,
        "general.alignment": 32,
    },
    [f32("t", torch.ones(2, 32).numpy()), f32("u", torch.ones(1, 32).numpy())],
).bytes()


@fuzzed
@given(
    data=st.one_of(mutated(SMALL_GGUF[:-300]), mutated(SMALL_GGUF), st.binary(max_size=64).map(lambda b: b"GGUF" + b))
)
def test_gguf_files_that_were_changed(tmp_path: Path, data: bytes) -> None:
    path = written(tmp_path, "x.gguf", data or b"G")

    def read_all() -> None:
        with open_checkpoint(path) as opened:
            opened.section("")
            for tensor in opened.header.tensors:
                with suppress(RuntimeWarning):  # a float of random bits
                    opened.values(tensor.name)

    ends_well(read_all)


@fuzzed
@given(data=st.one_of(mutated(SMALL_GGUF), st.binary(max_size=64)), first=st.integers(4, 600))
def test_how_much_is_read_at_first_changes_nothing(tmp_path: Path, data: bytes, first: int) -> None:
    path = written(tmp_path, "x.gguf", b"GGUF" + data[4:])

    def outcome() -> Any:
        try:
            return gguf.open_gguf(path).header
        except NotACheckpoint as error:
            return error.code

    in_full = outcome()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gguf, "FIRST", first)
        assert outcome() == in_full
