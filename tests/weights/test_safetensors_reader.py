"""The safetensors header: what the format's library takes is taken, all else is refused with its cause."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.numpy
import safetensors.torch
import torch

from openmodelatlas.errors import CheckpointError, NotACheckpoint
from openmodelatlas.weights.reading import plain
from openmodelatlas.weights.reading.safetensors import BITS, LARGEST_HEADER, SafetensorsHeader, read_header
from openmodelatlas.weights.reading.source import LocalFile

Case = tuple[bytes, bytes]


def file(header: Any, data: bytes = b"") -> bytes:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + data


def entry(kind: str, shape: list[Any], start: int, end: int) -> dict[str, Any]:
    return {"dtype": kind, "shape": shape, "data_offsets": [start, end]}


def opened(path: Path, content: bytes) -> SafetensorsHeader:
    path = path / "model.safetensors"
    path.write_bytes(content)
    return read_header(LocalFile(path))


def library_takes(path: Path, content: bytes) -> bool:
    path = path / "theirs.safetensors"
    path.write_bytes(content)
    try:
        with safetensors.safe_open(path, "pt"):
            return True
    except (safetensors.SafetensorError, OSError):
        return False


FOUR = entry("U8", [4], 0, 4)
TAKEN = {
    "no tensors": file({}),
    "unordered": file({"a": entry("U8", [4], 4, 8), "b": FOUR}, bytes(8)),
    "a single number": file({"a": entry("F32", [], 0, 4)}, bytes(4)),
    "no elements": file({"a": entry("F32", [0, 5], 4, 4), "b": entry("F32", [1], 0, 4)}, bytes(4)),
    "labels": file({"__metadata__": {"format": "pt"}, "a": FOUR}, bytes(4)),
    "labels that are null": file({"__metadata__": None, "a": FOUR}, bytes(4)),
    "a field more": file({"a": FOUR | {"x": [1.5, None]}}, bytes(4)),
    "space around": file(b"  " + json.dumps({"a": FOUR}).encode() + b" \n ", bytes(4)),
    "half bytes": file({"a": entry("F4", [2, 3], 0, 3)}, bytes(3)),
    "six bits": file({"a": entry("F6_E3M2", [4], 0, 3)}, bytes(3)),
    "nested as deep as may be": file({"a": FOUR | {"x": json.loads("[" * 125 + "]" * 125)}}, bytes(4)),
}


@pytest.mark.parametrize("case", TAKEN)
def test_what_the_library_takes_is_taken(tmp_path: Path, case: str) -> None:
    assert library_takes(tmp_path, TAKEN[case])
    assert opened(tmp_path, TAKEN[case]).source.size == len(TAKEN[case])


REFUSED: dict[str, tuple[str, bytes]] = {
    "overlap": ("files.overlap", file({"k": FOUR, "v": entry("U8", [4], 2, 6)}, bytes(6))),
    "the same bytes": ("files.overlap", file({"k": FOUR, "v": FOUR}, bytes(4))),
    "hole": ("files.hole", file({"a": FOUR, "b": entry("U8", [4], 8, 12)}, bytes(12))),
    "hole at the start": ("files.hole", file({"a": entry("U8", [4], 4, 8)}, bytes(8))),
    "trailing bytes": ("files.surplus-bytes", file({"a": FOUR}, bytes(5))),
    "trailing bytes alone": ("files.surplus-bytes", file({}, bytes(1))),
    "truncated": ("files.truncated", file({"a": FOUR}, bytes(3))),
    "truncated header": ("files.truncated", file({"a": FOUR}, bytes(4))[:30]),
    "wrong shape": ("files.size-differs", file({"a": entry("F32", [1000, 1000], 0, 82)}, bytes(82))),
    "overflow": ("files.absurd-size", file({"a": entry("U8", [2**33, 2**33], 0, 4)}, bytes(4))),
    "overflow of bits": ("files.absurd-size", file({"a": entry("F64", [2**60], 0, 4)}, bytes(4))),
    "overflow before a zero": ("files.absurd-size", file({"a": entry("U8", [2**63, 2**63, 0], 0, 0)})),
    "negative": ("files.header-entry", file({"a": entry("U8", [-1], 0, 4)}, bytes(4))),
    "a fraction": ("files.header-entry", file({"a": entry("U8", [4.0], 0, 4)}, bytes(4))),
    "true": ("files.header-entry", file({"a": entry("U8", [True, 4], 0, 4)}, bytes(4))),
    "beyond 64 bits": ("files.header-entry", file({"a": entry("U8", [2**64], 0, 4)}, bytes(4))),
    "minus zero": ("files.header-entry", file(b'{"a":{"dtype":"U8","shape":[-0],"data_offsets":[0,0]}}')),
    "offsets exchanged": ("files.header-entry", file({"a": entry("U8", [4], 4, 0)}, bytes(4))),
    "three offsets": ("files.header-entry", file({"a": FOUR | {"data_offsets": [0, 2, 4]}}, bytes(4))),
    "no shape": ("files.header-entry", file({"a": {"dtype": "U8", "data_offsets": [0, 4]}}, bytes(4))),
    "no object": ("files.header-entry", file({"a": None})),
    "a list": ("files.unknown-format", file([])),
    "labels of numbers": ("files.header-entry", file({"__metadata__": {"a": 1}, "a": FOUR}, bytes(4))),
    "unknown type": ("files.unknown-type", file({"a": entry("I4", [8], 0, 4)}, bytes(4))),
    "part of a byte": ("files.part-of-a-byte", file({"a": entry("F4", [3], 0, 2)}, bytes(2))),
    "bad UTF-8": ("files.json-encoding", file(b'{"\xff":null}')),
    "no JSON": ("files.json", file(b'{"a":')),
    "zero bytes behind": ("files.json", file(json.dumps({"a": FOUR}).encode() + b"\0", bytes(4))),
    "a control character": ("files.json", file(b'{"\x01":null}')),
    "byte order mark": ("files.unknown-format", file(b"\xef\xbb\xbf{}")),
    "duplicate name": ("files.json-duplicate", file(b'{"a":%b,"a":%b}' % ((json.dumps(FOUR).encode(),) * 2), bytes(4))),
    "duplicate field": ("files.json-duplicate", file(b'{"a":{"dtype":"U8","dtype":"U8"}}')),
    "NaN": ("files.json-number", file({"a": FOUR | {"x": float("nan")}}, bytes(4))),
    "a number without end": ("files.json-number", file(b'{"a":1e999}')),
    "half a character": ("files.json-half-character", file(b'{"\\ud800":null}')),
    "deep nesting": ("files.json-depth", file({"a": FOUR | {"x": json.loads("[" * 126 + "]" * 126)}}, bytes(4))),
    "a depth bomb": ("files.json-depth", file(b'{"a":' + b"[" * 200_000)),
    "absurd header length": ("files.truncated", struct.pack("<Q", 2**60) + b"{}"),
    "seven bytes": ("files.unknown-format", b"\0\1\2\3\4\5\6"),
    "no header": ("files.zeros", file(b"")),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_library_refuses_is_refused_with_its_cause(tmp_path: Path, case: str) -> None:
    code, content = REFUSED[case]
    if case != "duplicate name":  # in the same words it is taken there
        assert not library_takes(tmp_path, content)
    with pytest.raises(NotACheckpoint) as error:
        opened(tmp_path, content)
    assert error.value.code == code
    assert "model.safetensors" in str(error.value)


POINTER = (
    b"version https://git-lfs.github.com/spec/v1\n"
    b"oid sha256:4665d3f9a2eec19c2bb3b1d31b5e4f7a9ad3f8cbbd4bd3b3fb5d2d9d2c7ad2fb\nsize 4976698672\n"
)
STAND_INS = {
    "pointer": (
        POINTER,
        "files.lfs-pointer",
        "sha256:4665d3f9a2eec19c2bb3b1d31b5e4f7a9ad3f8cbbd4bd3b3fb5d2d9d2c7ad2fb, 4,976",
    ),
    "page": (b"<!DOCTYPE html><html><title>Sign in</title>" + bytes(99), "files.html-page", "a page named 'Sign in'"),
    "XML": (b'<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>', "files.error-body", "'AccessDenied'"),
    "JSON": (b'{"error":"Repository not found"}', "files.error-body", "Repository not found"),
    "text": (b"Entry not found", "files.error-body", "Entry not found"),
    "pickle": (b"\x80\x02}q\x00.", "files.pickle", "a bare pickle"),
    "zip": (b"PK\x03\x04" + bytes(99), "files.other-format", "a zip archive"),
    "GGUF": (b"GGUF\3\0\0\0" + bytes(99), "files.other-format", "GGUF"),
    "gzip": (b"\x1f\x8b\x08" + bytes(99), "files.packed", "gzip"),
    "zeros": (bytes(5000), "files.zeros", "nothing but zeros"),
}


@pytest.mark.parametrize("case", STAND_INS)
def test_a_file_that_is_something_else_is_named(tmp_path: Path, case: str) -> None:
    content, code, words = STAND_INS[case]
    with pytest.raises(NotACheckpoint) as error:
        opened(tmp_path, content)
    assert error.value.code == code
    assert words in str(error.value)


@pytest.mark.parametrize("magic", ["8002", "8004", "1f8b"])
def test_a_header_length_that_looks_like_another_format(tmp_path: Path, magic: str) -> None:
    raw = json.dumps({"a": FOUR}).encode().ljust(int.from_bytes(bytes.fromhex(magic), "little"))
    assert opened(tmp_path, file(raw, bytes(4))).tensors[0].name == "a"
    with pytest.raises(NotACheckpoint) as error:
        opened(tmp_path, file(raw, bytes(4))[:500])
    assert error.value.code == "files.truncated"


def test_a_large_header_is_named_by_its_length(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", 132_095_296) + b"{")
        out.truncate(132_095_296 + 8 + 4)
    with pytest.raises(NotACheckpoint, match="at most 100,000,000 bytes, found 132,095,296 bytes") as error:
        read_header(LocalFile(path))
    assert error.value.code == "files.header-too-large"
    with pytest.raises(safetensors.SafetensorError):
        safetensors.safe_open(path, "pt")
    assert LARGEST_HEADER < 132_095_296


def test_an_unfinished_download_is_named_so(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors.incomplete"
    path.write_bytes(bytes(100))
    with pytest.raises(NotACheckpoint) as error:
        read_header(LocalFile(path))
    assert error.value.code == "files.unfinished"


@pytest.mark.parametrize("kind", BITS)
def test_sizes_of_types_are_those_of_the_library(tmp_path: Path, kind: str) -> None:
    right = 8 * BITS[kind] // 8
    for count in {right - 1, right, right + 1, right * 2}:
        content = file({"a": entry(kind, [8], 0, count)}, bytes(count))
        assert library_takes(tmp_path, content) == (count == right)
        if count == right:
            assert opened(tmp_path, content).tensors[0].bytes == right


def test_no_type_of_the_library_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(file({"a": entry("?", [8], 0, 4)}, bytes(4)))
    with pytest.raises(safetensors.SafetensorError) as error:
        safetensors.safe_open(path, "pt")
    theirs = str(error.value).partition("expected one of ")[2].partition(" at line")[0]
    assert {name.strip(" `") for name in theirs.split(",")} == set(BITS)


def test_values_equal_the_librarys(tmp_path: Path) -> None:
    draw = torch.Generator().manual_seed(5)
    tensors = {}
    for dtype in safetensors.torch._TYPES.values():
        raw = torch.randint(0, 256, (4, 3, 16), generator=draw, dtype=torch.uint8)
        tensors[str(dtype)] = (raw > 128) if dtype == torch.bool else raw.view(dtype)
    tensors["number"] = torch.tensor(3.5)
    tensors["nothing"] = torch.zeros(0, 5)
    path = tmp_path / "model.safetensors"
    safetensors.torch.save_file(tensors, path)
    header = read_header(LocalFile(path))
    assert {t.name for t in header.tensors} == set(tensors)
    theirs = safetensors.torch.load_file(path)
    for tensor in header.tensors:
        ours, right = plain.read(header.source, tensor), theirs[tensor.name]
        assert (ours.dtype, ours.shape) == (right.dtype, right.shape)
        assert (
            ours.numpy(force=True).tobytes() == right.numpy(force=True).tobytes()
            if ours.dtype in (torch.float32, torch.int8)
            else torch.equal(ours.reshape(-1).view(torch.uint8), right.reshape(-1).view(torch.uint8))
        )
        if tensor.shape and tensor.shape[0]:
            part = plain.read(header.source, tensor, 1, 3)
            assert torch.equal(part.reshape(-1).view(torch.uint8), right[1:3].reshape(-1).view(torch.uint8))


def test_known_bytes_of_small_floats(tmp_path: Path) -> None:
    data = bytes.fromhex("803f0040") + bytes.fromhex("3840")
    header = opened(tmp_path, file({"b": entry("BF16", [2], 0, 4), "f": entry("F8_E4M3", [2], 4, 6)}, data))
    assert [plain.read(header.source, t).float().tolist() for t in header.tensors] == [[1.0, 2.0], [1.0, 2.0]]


def test_tensors_without_elements_of_any_shape(tmp_path: Path) -> None:
    for shape in ([0, 3], [0, 2**20, 2**20], [3, 0]):
        header = opened(tmp_path, file({"a": entry("F32", shape, 0, 0)}))
        assert plain.read(header.source, header.tensors[0]).shape == tuple(shape)
    header = opened(tmp_path, file({"a": entry("F32", [2**63, 0], 0, 0)}))  # more than torch counts with
    with pytest.raises(CheckpointError, match="no tensor has the shape"):
        plain.read(header.source, header.tensors[0])


def test_any_byte_of_a_bool_is_a_bool(tmp_path: Path) -> None:
    header = opened(tmp_path, file({"a": entry("BOOL", [3], 0, 3)}, b"\0\1\xff"))
    assert plain.read(header.source, header.tensors[0]).tolist() == [False, True, True]


def test_types_of_part_of_a_byte_are_refused_where_values_are_asked_for(tmp_path: Path) -> None:
    header = opened(tmp_path, file({"a": entry("F4", [2], 0, 1)}, b"\0"))
    with pytest.raises(CheckpointError, match="no way to read the storage type F4"):
        plain.read(header.source, header.tensors[0])


def test_a_file_that_changes_meanwhile_is_an_error(tmp_path: Path) -> None:
    header = opened(tmp_path, file({"a": FOUR}, b"abcd"))
    (tmp_path / "model.safetensors").write_bytes(file({"a": FOUR}, b"abc"))
    with pytest.raises(CheckpointError) as error:
        plain.read(header.source, header.tensors[0])
    assert error.value.code == "files.changed"


def test_numpy_files_are_read_too(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    safetensors.numpy.save_file({"a": np.arange(6, dtype=np.int64).reshape(2, 3)}, path)
    header = read_header(LocalFile(path))
    assert plain.read(header.source, header.tensors[0]).tolist() == [[0, 1, 2], [3, 4, 5]]
