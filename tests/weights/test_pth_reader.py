"""Files of torch.save: read as torch reads them, and nothing in them is ever run."""

import io
import os
import pickle
import struct
import zipfile
import zlib
from collections import OrderedDict
from pathlib import Path
from typing import Any

import made_checkpoints
import pytest
import tiny
import torch

from openmodelatlas.errors import NotACheckpoint
from openmodelatlas.verify.checkpoint import verify
from openmodelatlas.weights.reading import pth
from openmodelatlas.weights.reading.pth import PthHeader, read_header
from openmodelatlas.weights.reading.source import LocalFile

KINDS = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
    torch.uint8, torch.bool, torch.complex64, torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn,
    torch.float8_e5m2, torch.float8_e8m0fnu,
]  # fmt: skip


def saved(path: Path, content: Any, **options: Any) -> PthHeader:
    torch.save(content, path / "model.pth", **options)
    return read_header(LocalFile(path / "model.pth"))


def refused(path: Path, raw: bytes) -> tuple[str | None, str]:
    (path / "bad.pth").write_bytes(raw)
    with pytest.raises(NotACheckpoint) as error:
        read_header(LocalFile(path / "bad.pth"))
    return error.value.code, str(error.value)


def same(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    left, right = (t.contiguous().reshape(-1).view(torch.uint8) for t in (ours, theirs))
    return ours.dtype == theirs.dtype and ours.shape == theirs.shape and torch.equal(left, right)


def tensors() -> dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(3)
    found = {}
    for kind in KINDS:
        raw = torch.randint(0, 256, (4, 3, 16), generator=draw, dtype=torch.uint8)
        found[str(kind)] = raw > 128 if kind == torch.bool else raw.view(kind)
    base = torch.arange(24.0).reshape(4, 6)
    return found | {
        "transposed": base.t(),
        "part": base[1:3, 2:5],
        "turned": torch.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1),
        "number": torch.tensor(2.5),
        "nothing": torch.zeros(0, 3),
        "parameter": torch.nn.Parameter(torch.ones(2), requires_grad=True).detach(),
    }


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_tensors_equal_torchs(tmp_path: Path, protocol: int) -> None:
    content = tensors()
    header = saved(tmp_path, content, pickle_protocol=protocol)
    theirs = torch.load(tmp_path / "model.pth", weights_only=False)  # the safe reader knows protocol 2 only
    assert [t.name for t in header.tensors] == list(content)
    for tensor in header.tensors:
        assert tensor.shape == tuple(content[tensor.name].shape)
        assert same(header.read(tensor), theirs[tensor.name]), tensor.name
        if tensor.shape and tensor.shape[0]:
            assert same(header.read(tensor, 1, 3), theirs[tensor.name][1:3]), tensor.name
    assert set(header.strides) == {"transposed", "part", "turned"}
    assert header.findings == ()


def test_a_modules_state_with_parameters_and_versions(tmp_path: Path) -> None:
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.LayerNorm(2))
    assert [t.name for t in saved(tmp_path, module.state_dict()).tensors] == list(module.state_dict())
    header = saved(tmp_path, OrderedDict(module.named_parameters()))
    assert same(header.read(header.tensors[0]), module[0].weight.detach())


def test_tied_tensors_are_the_same_bytes(tmp_path: Path) -> None:
    weight = torch.ones(3, 2)
    first, second = saved(tmp_path, {"a": weight, "b": weight}).tensors
    assert first.offset == second.offset


class Evil:
    """What runs when a general unpickler loads it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", [2, 4])
def test_a_foreign_global_is_refused_by_name_and_not_run(tmp_path: Path, protocol: int) -> None:
    marker = tmp_path / "marker"
    torch.save({"a": torch.ones(1), "b": Evil(marker)}, tmp_path / "model.pth", pickle_protocol=protocol)
    code, message = refused(tmp_path, (tmp_path / "model.pth").read_bytes())
    assert code == "files.foreign-global"
    assert "posix.mkdir" in message
    assert not marker.exists()
    torch.load(tmp_path / "model.pth", weights_only=False)
    assert marker.exists()  # the payload is a working one


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        ({"a": 1}, "files.not-tensors", "'a'; expected a tensor, found a int"),
        ({"model": {"a": torch.ones(1)}}, "files.not-tensors", "'model'; expected a tensor, found a dict"),
        ([torch.ones(1)], "files.not-tensors", "expected tensors by name, found a list"),
        ({1: torch.ones(1)}, "files.pickle-damaged", "expected keys that are texts, found int"),
        ({"a": b"xx"}, "files.foreign-global", "_codecs.encode"),
        ({"a": {1, 2}}, "files.foreign-global", "__builtin__.set"),
        ({"a": 1 + 2j}, "files.foreign-global", "__builtin__.complex"),
        ({"a": torch.ones(2).to_sparse()}, "files.foreign-global", "_rebuild_sparse_tensor"),
        ({"a": torch.ones(1).expand(1000, 1000)}, "files.storage", "strides (0, 0)"),
    ],
)
def test_content_that_is_no_tensors_is_refused(tmp_path: Path, content: Any, code: str, words: str) -> None:
    torch.save(content, tmp_path / "model.pth")
    found, message = refused(tmp_path, (tmp_path / "model.pth").read_bytes())
    assert found == code
    assert words in message


def archive(pickled: bytes, records: dict[str, bytes] | None = None, **options: Any) -> bytes:
    """A zip archive by Python's own library around a pickle."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", **options) as made:
        made.writestr("m/data.pkl", pickled)
        for name, data in (records or {}).items():
            made.writestr(name, data)
    return out.getvalue()


def one_tensor(elements: int = 4, offset: int = 0, shape: tuple[int, ...] = (4,), strides: Any = (1,)) -> bytes:
    """The pickle of one float32 tensor, written by hand."""

    def number(n: int) -> bytes:
        return b"\x8a\x08" + struct.pack("<q", n)

    def sizes(values: tuple[int, ...]) -> bytes:
        return b"(" + b"".join(map(number, values)) + b"t"

    storage = b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpu" + number(elements) + b"tQ"
    tensor = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + number(offset) + sizes(shape) + sizes(strides)
    return b"\x80\x02}X\x01\0\0\0a" + tensor + b"\x89ccollections\nOrderedDict\n)RtRs."


def test_a_pickle_by_hand_is_read(tmp_path: Path) -> None:
    path = tmp_path / "model.pth"
    path.write_bytes(archive(one_tensor(), {"m/data/0": struct.pack("<4f", 1, 2, 3, 4)}))
    header = read_header(LocalFile(path))
    assert header.read(header.tensors[0]).tolist() == [1, 2, 3, 4]


DATA = {"m/data/0": bytes(16)}
HOSTILE: dict[str, tuple[str, str, bytes]] = {
    "a record too short": ("files.storage", "expected 16 bytes", archive(one_tensor(), {"m/data/0": bytes(15)})),
    "a record too long": ("files.storage", "expected 16 bytes", archive(one_tensor(), {"m/data/0": bytes(20)})),
    "no record": ("files.storage", "found none", archive(one_tensor())),
    "beyond the storage": ("files.storage", "numbers 1 to 4", archive(one_tensor(offset=1), DATA)),
    "a stride too far": ("files.storage", "numbers 0 to 6", archive(one_tensor(strides=(2,)), DATA)),
    "2^62 numbers": ("files.storage", "in its record", archive(one_tensor(elements=2**62), DATA)),
    "a shape of 2^124": ("files.storage", "", archive(one_tensor(shape=(2**62, 2**62), strides=(0, 0)), DATA)),
    "a negative size": ("files.pickle-damaged", "an offset, sizes", archive(one_tensor(shape=(-4,)), DATA)),
    "fewer strides": ("files.pickle-damaged", "as many strides", archive(one_tensor(strides=()), DATA)),
    "an unknown instruction": ("files.pickle-instruction", "b'i'", archive(b"\x80\x02(ios\nsystem\n.")),
    "persistent id in text": ("files.pickle-instruction", "b'P'", archive(b"\x80\x02Pabc\n.")),
    "a new object": ("files.pickle-instruction", r"\x81", archive(b"\x80\x02ccollections\nOrderedDict\n)\x81.")),
    "a name without end": ("files.pickle-damaged", "256 bytes", archive(b"\x80\x02c" + b"a" * 999)),
    "a type that is called": ("files.pickle-damaged", "a function", archive(b"\x80\x02ctorch\nFloatStorage\n)R.")),
    "breaks off": ("files.pickle-damaged", "1 more bytes", archive(b"\x80\x02}")),
    "nothing to take": ("files.pickle-damaged", "found none", archive(b"\x80\x02.")),
    "an unknown place": ("files.pickle-damaged", "kept as 7", archive(b"\x80\x02h\x07.")),
    "a text of 4 GiB": ("files.pickle-damaged", "at most 65,536", archive(b"\x80\x02X\xff\xff\xff\xff.")),
    "protocol 0": ("files.pickle-instruction", "b'I'", archive(b"I1\n.")),
    "a key twice": ("files.duplicate", "'a'", archive(b"\x80\x02}(X\1\0\0\0aNX\1\0\0\0aNu.")),
    "marks without end": ("files.pickle-damaged", "more bytes", archive(b"\x80\x02" + b"(" * 100_000)),
    "compressed": ("files.zip-packed", "method 8", archive(one_tensor(), DATA, compression=zipfile.ZIP_DEFLATED)),
    "no pickle": ("files.not-torch", "expected one record data.pkl", archive(b"").replace(b"data.pkl", b"data.pkx")),
    "a stray record": ("files.not-torch", "'other/x'", archive(one_tensor(), DATA | {"other/x": b""})),
    "code": ("files.script-archive", "holds code", archive(one_tensor(), DATA | {"m/code/a.py": b""})),
    "a path that climbs": ("files.zip-path", "'m/../x'", archive(one_tensor(), DATA | {"m/../x": b""})),
    "big-endian": ("files.big-endian", "", archive(one_tensor(), DATA | {"m/byteorder": b"big"})),
    "a bare pickle": ("files.pickle", "", pickle.dumps({"a": 1}, protocol=4)),
    "a page": ("files.html-page", "", b"<html>" + bytes(16_128)),
    "safetensors": ("files.other-format", "found safetensors", b"\x02" + bytes(7) + b"{}"),
    "cut off": ("files.truncated", "the directory that ends", archive(one_tensor(), DATA)[:-30]),
    "more behind": ("files.zip-damaged", "nothing behind the end record", archive(one_tensor(), DATA) + b"x"),
    "something before": ("files.zip-damaged", "a directory that ends", b"PK\3\4" + archive(one_tensor(), DATA)),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_files_are_refused(tmp_path: Path, case: str) -> None:
    code, words, raw = HOSTILE[case]
    found, message = refused(tmp_path, raw)
    assert found == code, message
    assert words in message


def test_a_header_before_a_record_that_says_something_else(tmp_path: Path) -> None:
    raw = archive(one_tensor(), DATA)
    assert refused(tmp_path, raw.replace(b"m/data/0", b"m/data/1", 1))[0] == "files.zip-lies"
    at = raw.index(b"m/data/0") - 30
    shorter = raw[: at + 22] + struct.pack("<I", 12) + raw[at + 26 :]
    assert refused(tmp_path, shorter)[0] == "files.zip-lies"


def test_two_records_of_one_name(tmp_path: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        made.writestr("m/data.pkl", one_tensor())
        with pytest.warns(UserWarning, match="Duplicate name"):
            made.writestr("m/data.pkl", one_tensor())
    assert refused(tmp_path, out.getvalue())[0] == "files.duplicate"


def test_a_damaged_pickle_is_seen_by_its_checksum(tmp_path: Path) -> None:
    raw = archive(one_tensor(), DATA)
    assert refused(tmp_path, raw.replace(b"Float", b"Flaot"))[0] == "files.checksum"


@pytest.mark.parametrize("at_once", [1 << 22, 100])
def test_a_flipped_bit_of_a_tensor_is_seen_by_its_checksum(
    tmp_path: Path, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pth, "AT_ONCE", at_once)
    header = saved(tmp_path, {"a": torch.ones(300), "b": torch.zeros(300)})
    assert header.damaged() == []
    path = tmp_path / "model.pth"
    raw = bytearray(path.read_bytes())
    raw[header.tensors[1].offset + 4 * 299] ^= 1
    path.write_bytes(raw)
    [flaw] = read_header(LocalFile(path)).damaged()
    assert (flaw.code, flaw.found) == ("files.checksum", f"{zlib.crc32(bytes(4 * 299) + bytes([1, 0, 0, 0])):08x}")
    assert flaw.where.endswith("record 'model/data/1'")


def test_checksums_that_were_left_out_are_not_held(tmp_path: Path) -> None:
    torch.serialization.set_crc32_options(False)
    try:
        header = saved(tmp_path, {"a": torch.ones(300)})
    finally:
        torch.serialization.set_crc32_options(True)
    assert header.damaged() == []


def test_values_bring_the_checksums_of_every_share(tmp_path: Path) -> None:
    of = tiny.variant("llama-3-8b")
    folder = made_checkpoints.meta_folder(tmp_path / "meta", of, ranks=2)
    path = folder / "consolidated.01.pth"
    raw = bytearray(path.read_bytes())
    raw[read_header(LocalFile(path)).tensors[0].offset] ^= 1
    path.write_bytes(raw)
    found = [flaw.code for flaw in verify(folder, values=True).report.findings if flaw.check == "files"]
    assert found == ["files.checksum"]


def test_the_format_before_1_6_is_named(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(2)}, tmp_path / "old.pth", _use_new_zipfile_serialization=False)
    code, message = refused(tmp_path, (tmp_path / "old.pth").read_bytes())
    assert code == "files.old-pickle"
    assert "save it again" in message


def test_a_record_that_nothing_uses_is_a_finding(tmp_path: Path) -> None:
    path = tmp_path / "model.pth"
    path.write_bytes(archive(one_tensor(), DATA | {"m/data/7": b"hidden"}))
    [found] = read_header(LocalFile(path)).findings
    assert found.code == "files.idle-record"
    assert "'m/data/7'" in found.where


def test_archives_above_4_gib_are_read(tmp_path: Path) -> None:
    path = tmp_path / "large.pth"
    with open(path, "wb") as out:
        size = (4 << 30) + 16  # sparse: the records of a tensor, then a small one behind 4 GiB
        big, late = one_tensor(size // 4, 0, (size // 4,)), struct.pack("<4f", 1, 2, 3, 4)
        places = []
        for name, data, length in (("m/data.pkl", big, len(big)), ("m/data/0", b"", size), ("m/version", late, 16)):
            places.append((name.encode(), out.tell(), length))
            wide = struct.pack("<HHQQ", 1, 16, length, length) if length == size else b""
            short = 0xFFFFFFFF if wide else length
            out.write(struct.pack("<4s5H3I2H", b"PK\3\4", 45, 0, 0, 0, 0, 0, short, short, len(name), len(wide)))
            out.write(name.encode() + wide + data)
            out.seek(length - len(data), 1)
        start = out.tell()
        for name, at, length in places:
            wide = struct.pack("<HHQQQ", 1, 24, length, length, at)
            lie = 0xFFFFFFFF
            out.write(
                struct.pack("<4s6H3I5H2I", b"PK\1\2", 45, 45, 0, 0, 0, 0, 0, lie, lie, len(name), 28, 0, 0, 0, 0, lie)
            )
            out.write(name + wide)
        end = out.tell()
        out.write(struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 45, 45, 0, 0, 3, 3, end - start, start))
        out.write(struct.pack("<4sIQI", b"PK\6\7", 0, end, 1))
        out.write(struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0))
    header = read_header(LocalFile(path))
    [tensor] = header.tensors
    assert tensor.bytes == size
    assert header.read(tensor, size // 4 - 3, size // 4).tolist() == [0, 0, 0]
