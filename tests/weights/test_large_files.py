"""Large checkpoints, as sparse files: memory and time are those of their headers."""

import json
import resource
import struct
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import made_checkpoints as made
import pytest
import torch
from gguf_writer import F32, File, string

from openmodelatlas.errors import NotACheckpoint
from openmodelatlas.weights.open import open_checkpoint

GIB = 1 << 30
SIZE = 20 * GIB

OPEN_ALL = f"""
import resource, sys
from openmodelatlas.weights.open import open_checkpoint
import openmodelatlas.weights.reading.plain, openmodelatlas.weights.reading.dequantise
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + {GIB // 4},) * 2)
for path in sys.argv[1:]:
    with open_checkpoint(path) as opened:
        [tensor] = opened.header.tensors
        rows = opened.values(tensor.name, tensor.shape[0] - 2)
        print(tensor.bytes, rows.shape[0], rows.sum().item())
"""


def sparse_safetensors(path: Path, size: int) -> Path:
    header = {"a": {"dtype": "BF16", "shape": [size // 2048, 1024], "data_offsets": [0, size]}}
    raw = json.dumps(header).encode()
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(raw)) + raw)
        out.truncate(8 + len(raw) + size)
    return path


def sparse_gguf(path: Path, size: int) -> Path:
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + string("general.alignment") + struct.pack("<II", 4, 32)
    head += string("a") + struct.pack("<IQQIQ", 2, 1024, size // 4096, 0, 0)
    with open(path, "wb") as out:
        out.write(head)
        out.truncate(-(-len(head) // 32) * 32 + size)
    return path


def sparse_pth(path: Path, size: int) -> Path:
    """What torch.save writes of a tensor, with the record of its bytes stretched."""
    number = b"\x8a\x08" + struct.pack("<q", size // 2)
    rows, width, one = (b"\x8a\x08" + struct.pack("<q", n) for n in (size // 2048, 1024, 1))
    storage = b"(X\7\0\0\0storagectorch\nBFloat16Storage\nX\1\0\0\0000X\3\0\0\0cpu" + number + b"tQ"
    tensor = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"K\0(" + rows + width + b"t(" + width + one
    pickled = b"\x80\2}X\1\0\0\0a" + tensor + b"t\x89ccollections\nOrderedDict\n)RtRs."
    with open(path, "wb") as out:
        entries = b""
        for name, data, length in ((b"m/data.pkl", pickled, len(pickled)), (b"m/data/0", b"", size)):
            at = out.tell()
            wide = struct.pack("<HHQQ", 1, 16, length, length)
            out.write(struct.pack("<4s5H3I2H", b"PK\3\4", 45, 0, 0, 0, 0, 0, 2**32 - 1, 2**32 - 1, len(name), 20))
            out.write(name + wide + data)
            out.seek(length - len(data), 1)
            sizes = (2**32 - 1, 2**32 - 1)
            entries += struct.pack(
                "<4s6H3I5H2I", b"PK\1\2", 45, 45, 0, 0, 0, 0, 0, *sizes, len(name), 28, 0, 0, 0, 0, 2**32 - 1
            )
            entries += name + struct.pack("<HHQQQ", 1, 24, length, length, at)
        start = out.tell()
        out.write(entries + struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 45, 45, 0, 0, 2, 2, len(entries), start))
        out.write(struct.pack("<4sIQI", b"PK\6\7", 0, start + len(entries), 1))
        out.write(struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 2**16 - 1, 2**16 - 1, 2**32 - 1, 2**32 - 1, 0))
    return path


def test_files_of_20_gib_open_in_a_quarter_of_one(tmp_path: Path) -> None:
    made.write_json(tmp_path / "config.json", {"model_type": "x"})
    paths = [
        sparse_safetensors(tmp_path / "model.safetensors", SIZE),
        sparse_gguf(tmp_path / "a.gguf", SIZE),
        sparse_pth(tmp_path / "consolidated.00.pth", SIZE),
    ]
    command = [sys.executable, "-c", OPEN_ALL, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [f"{SIZE} 2 0.0"] * 3, done.stderr


def test_the_shape_of_metas_8b_file() -> None:
    """16,060,522,496 bytes of values: what the file's own 95,096 bytes of overhead leave of 16,060,617,592."""
    from openmodelatlas.models import find

    parameters = sum(parameter.numel() for parameter in find("llama-3-8b").build("meta").parameters())
    assert parameters * 2 == 16_060_617_592 - 95_096


def test_ten_thousand_tensors_in_one_header(tmp_path: Path) -> None:
    entries, at = {}, 0
    for number in range(10_000):
        entries[f"model.layers.{number // 200}.mlp.experts.{number % 200}.up_proj.weight"] = {
            "dtype": "BF16",
            "shape": [2048, 768],
            "data_offsets": [at, at + 2048 * 768 * 2],
        }
        at += 2048 * 768 * 2
    raw = json.dumps(entries).encode()
    with open(tmp_path / "model.safetensors", "wb") as out:
        out.write(struct.pack("<Q", len(raw)) + raw)
        out.truncate(8 + len(raw) + at)
    made.write_json(tmp_path / "config.json", {"model_type": "x"})
    start = time.perf_counter()
    with open_checkpoint(tmp_path) as opened:
        assert len(opened.header.tensors) == 10_000
    assert time.perf_counter() - start < 2


HUGE = 1 << 60
LIES = {
    "a header of 2^60 bytes": ("x.safetensors", struct.pack("<Q", HUGE) + b"{" * 100),
    "2^60 tensors": ("x.gguf", File(tensor_count=HUGE).bytes()),
    "2^60 elements": ("x.gguf", File({"a": struct.pack("<IIQ", 9, F32, HUGE)}).bytes()),
    "a tensor of 2^60": (
        "x.safetensors",
        (lambda raw: struct.pack("<Q", len(raw)) + raw)(
            json.dumps({"a": {"dtype": "U8", "shape": [HUGE], "data_offsets": [0, HUGE]}}).encode()
        ),
    ),
    "a directory of 2^60": (
        "x.pth",
        b"PK\3\4" + bytes(60) + struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, HUGE, 4)
        + struct.pack("<4sIQI", b"PK\6\7", 0, 64, 1) + struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 1, 1, 2**32 - 1, 4, 0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LIES)
def test_a_claim_costs_nothing(tmp_path: Path, case: str) -> None:
    name, content = LIES[case]
    (tmp_path / name).write_bytes(content)
    tracemalloc.start()
    with pytest.raises(NotACheckpoint):
        open_checkpoint(tmp_path / name)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_a_sparse_file_cannot_make_the_reader_walk_or_grow(tmp_path: Path) -> None:
    """Zeros cost the writer of a file nothing; arrays and texts of billions of them must not cost its reader either."""
    for kind, code in ((8, "files.absurd-size"), (4, "files.absurd-size")):
        path = tmp_path / f"{kind}.gguf"
        head = File(pairs=[string("a") + struct.pack("<IIQ", 9, kind, 1 << 30)]).bytes().rstrip(b"\0")
        with open(path, "wb") as out:
            out.write(head)
            out.truncate(16 * GIB)
        start = time.perf_counter()
        with pytest.raises(NotACheckpoint) as error:
            open_checkpoint(path)
        assert error.value.code == code
        assert time.perf_counter() - start < 2
    path = tmp_path / "text.gguf"
    with open(path, "wb") as out:
        out.write(File(pairs=[string("a") + struct.pack("<IQ", 8, 8 * GIB)]).bytes().rstrip(b"\0"))
        out.truncate(16 * GIB)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(NotACheckpoint):
        open_checkpoint(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 600 << 10  # kilobytes


def test_reading_one_tensor_takes_the_memory_of_one(tmp_path: Path) -> None:
    weights = {f"w{number}": torch.ones(1 << 20) for number in range(8)}
    made.write_safetensors(tmp_path, weights)
    made.write_json(tmp_path / "config.json", {"model_type": "x"})
    with open_checkpoint(tmp_path) as opened:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for name in weights:
            assert opened.values(name).sum() == 1 << 20
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 24 << 10
