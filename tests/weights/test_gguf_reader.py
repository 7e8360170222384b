"""The GGUF reader: honest files read right, every other file refused with one clear error."""

import os
import random
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest
import tiny
from gguf_writer import ARRAY, BOOL, STRING, U32, File, Tensor, f32, string, value

from openmodelatlas.errors import NotACheckpoint
from openmodelatlas.weights.reading.ggml import TYPES
from openmodelatlas.weights.reading.gguf import open_gguf

Write = Callable[..., Path]
ONE = f32("a", np.zeros((2, 32)))


def test_reads_what_was_written(write: Write) -> None:
    made = tiny.file()
    with open_gguf(write(made)) as file:
        header = file.header
        assert header.format == "GGUF v3"
        assert header.metadata["llama.embedding_length"] == 64
        assert header.metadata["tokenizer.ggml.tokens"] == {"array": "string", "length": tiny.VOCAB}
        assert file.value("tokenizer.ggml.tokens") == made.metadata["tokenizer.ggml.tokens"]
        assert file.value("tokenizer.ggml.token_type") == made.metadata["tokenizer.ggml.token_type"]
        assert file.value("tokenizer.ggml.merges") == made.metadata["tokenizer.ggml.merges"]
        assert [t.name for t in header.tensors] == [t.name for t in made.tensors]
        for stored, written in zip(header.tensors, made.tensors, strict=True):
            assert stored.shape == tuple(written.shape)
            assert bytes(file.tensor_bytes(stored.name)) == written.data
        assert file.accounted_bytes == header.file_bytes


def test_agrees_with_the_gguf_package(demo_checkpoint: Path) -> None:
    reader = gguf.GGUFReader(demo_checkpoint)
    with open_gguf(demo_checkpoint) as file:
        ours = [(t.name, t.shape, t.type, t.offset, t.bytes) for t in file.header.tensors]
        theirs = [
            (t.name, tuple(int(n) for n in reversed(t.shape)), t.tensor_type.name, t.data_offset, t.n_bytes)
            for t in reader.tensors
        ]
        assert ours == theirs
        fields = {key: field for key, field in reader.fields.items() if not key.startswith("GGUF.")}
        assert set(fields) == set(file.header.metadata)
        assert all(file.value(key) == field.contents() for key, field in fields.items())


def test_opens_the_demo_at_once(demo_checkpoint: Path) -> None:
    best = 9.9
    for _ in range(3):
        start = time.perf_counter()
        open_gguf(demo_checkpoint).close()
        best = min(best, time.perf_counter() - start)
    assert best < 0.1


def test_needs_no_torch(tiny_checkpoint: Path) -> None:
    code = (
        "import sys; from openmodelatlas.weights.reading.gguf import open_gguf; open_gguf(sys.argv[1]).section('');"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(tiny_checkpoint)], check=True)


def test_storage_types_are_those_of_the_gguf_package() -> None:
    theirs = {int(kind): (kind.name, *sizes) for kind, sizes in gguf.GGML_QUANT_SIZES.items()}
    assert {number: tuple(storage) for number, storage in TYPES.items()} == theirs


def test_version_2_and_other_alignments(write: Write) -> None:
    assert open_gguf(write(File(tensors=[ONE], version=2))).header.format == "GGUF v2"
    made = File({"general.alignment": 64}, [ONE, f32("b", np.ones((1, 32)))], alignment=64)
    with open_gguf(write(made)) as file:
        assert bytes(file.tensor_bytes("b")) == made.tensors[1].data
        assert file.accounted_bytes == file.header.file_bytes


def test_bytes_that_belong_to_nothing_are_seen(write: Write) -> None:
    with open_gguf(write(File(tensors=[ONE]).bytes() + b"x" * 1000)) as file:
        assert file.accounted_bytes < file.header.file_bytes
    whole = File(tensors=[ONE]).bytes()
    whole += b"\0" * (-len(whole) % 32)
    for trailing, extra in ((b"", 0), (b"xx", 2)):  # less than a step, and yet beyond the last aligned byte
        with open_gguf(write(whole + trailing)) as file:
            assert file.header.file_bytes - file.accounted_bytes == extra
    far = File(tensors=[ONE, Tensor("b", (1, 32), b"\0" * 128, offset=1024)]).bytes() + b"\0" * 2000
    with open_gguf(write(far)) as file:
        assert file.accounted_bytes < file.header.file_bytes


HUGE = 1 << 62
HOSTILE: dict[str, tuple[File | bytes, str]] = {
    "empty": (b"", "empty file"),
    "one byte": (b"G", "not in a format"),
    "magic only": (b"GGUF", "truncated"),
    "other magic": (b"PK\3\4" + b"\0" * 100, "another format: .* found a zip archive"),
    "text": (b'{"a": 1}' * 10, "a server's message"),
    "version 1": (File(version=1), "version of the format"),
    "version 4": (File(version=4), "version of the format"),
    "big-endian": (File(version=3 << 24), "big-endian"),
    "huge tensor count": (File(tensor_count=HUGE), "claims"),
    "huge pair count": (File(pair_count=HUGE), "claims"),
    "one tensor too many": (File(tensor_count=1), "claims"),
    "one pair too many": (File({"a": 1}, pair_count=2), "empty"),
    "huge key": (File(pairs=[struct.pack("<Q", HUGE) + b"abc" * 10]), "a size that cannot be"),
    "key beyond the file": (File(pairs=[struct.pack("<Q", 60000) + b"abc" * 10]), "truncated"),
    "huge string": (File(pairs=[string("a") + struct.pack("<IQ", STRING, HUGE)]), "truncated"),
    "string of 2**64-1": (File(pairs=[string("a") + struct.pack("<IQ", STRING, 2**64 - 1)]), "truncated"),
    "key not UTF-8": (File(pairs=[string(b"\xff\xfe") + value(1)]), "UTF-8"),
    "value not UTF-8": (File({"a": struct.pack("<I", STRING) + string(b"\xff")}), "UTF-8"),
    "unknown value type": (File({"a": struct.pack("<II", 13, 0)}), "type that is not known"),
    "bool of 2": (File({"a": struct.pack("<IB", BOOL, 2)}), "bool"),
    "bools of 2": (File({"a": struct.pack("<IIQ3B", ARRAY, BOOL, 3, 0, 1, 2)}), "bool"),
    "huge array": (File({"a": struct.pack("<IIQ", ARRAY, U32, HUGE)}), "claims"),
    "huge string array": (File({"a": struct.pack("<IIQ", ARRAY, STRING, HUGE)}), "claims"),
    "strings beyond the file": (
        File({"a": struct.pack("<IIQ", ARRAY, STRING, 100) + struct.pack("<Q", 1 << 40) * 100}),
        "run past the end",
    ),
    "nested arrays": (File({"a": struct.pack("<IIQIIQ", ARRAY, ARRAY, 1, ARRAY, ARRAY, 1)}), "nested"),
    "unknown element type": (
        File({"a": struct.pack("<IIQQ", ARRAY, 99, 1, 0)}),
        "type that is not known: .*: elements of",
    ),
    "key twice": (File(pairs=[string("a") + value(1)] * 2), "twice"),
    "alignment 0": (File({"general.alignment": 0}), "alignment"),
    "alignment 3": (File({"general.alignment": 3}), "alignment"),
    "alignment 2**31": (File({"general.alignment": 1 << 31}), "alignment"),
    "alignment text": (File({"general.alignment": "32"}), "alignment"),
    "alignment true": (File({"general.alignment": True}), "alignment"),
    "tensor twice": (File(tensors=[ONE, ONE]), "stands twice"),
    "rank 0": (File(tensors=[Tensor("a", (), b"", rank=0), ONE]), "rank"),
    "rank 5": (File(tensors=[Tensor("a", (1, 1, 1, 1, 32), b"\0" * 128)]), "rank"),
    "rank 2**32-1": (File(tensors=[Tensor("a", (1, 32), b"\0" * 128, rank=2**32 - 1)]), "rank"),
    "no elements": (File(tensors=[Tensor("a", (0, 32), b"")]), "expected elements"),
    "huge shape": (File(tensors=[Tensor("a", (2**63, 2**63), b"\0" * 128)]), "ends beyond the file"),
    "half a block": (File(tensors=[Tensor("a", (2, 16), b"\0" * 64, kind=2)]), "part of a block: .* in Q4_0"),
    "unknown storage type": (
        File(tensors=[Tensor("a", (1, 32), b"\0" * 128, kind=4)]),
        "storage type that is not known",
    ),
    "unaligned": (File(tensors=[Tensor("a", (1, 32), b"\0" * 128, offset=4)]), "alignment"),
    "offset beyond the file": (File(tensors=[Tensor("a", (1, 32), b"\0" * 128, offset=1 << 40)]), "ends beyond"),
    "offset 2**64-32": (File(tensors=[Tensor("a", (1, 32), b"\0" * 128, offset=2**64 - 32)]), "ends beyond"),
    "overlap": (File(tensors=[ONE, Tensor("b", (1, 32), b"\0" * 128, offset=32)]), "share bytes"),
    "tensor name not UTF-8": (File(tensors=[Tensor(b"\xc3", (1, 32), b"\0" * 128)]), "UTF-8"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_files_are_refused(case: str, write: Write) -> None:
    content, reason = HOSTILE[case]
    path = write(content)
    with pytest.raises(NotACheckpoint, match=reason) as caught:
        open_gguf(path)
    assert str(path) in str(caught.value)
    assert caught.value.code is not None
    assert "\n" not in str(caught.value)


CODES = {
    "version 1": "files.version",
    "big-endian": "files.big-endian",
    "key not UTF-8": "files.text-encoding",
    "alignment 3": "files.alignment",
    "unaligned": "files.alignment",
    "half a block": "files.part-of-a-block",
    "overlap": "files.overlap",
    "key twice": "files.duplicate",
    "huge key": "files.absurd-size",
    "bool of 2": "files.header-entry",
    "unknown storage type": "files.unknown-type",
}


@pytest.mark.parametrize("case", CODES)
def test_refusals_are_of_their_kind(case: str, write: Write) -> None:
    with pytest.raises(NotACheckpoint) as caught:
        open_gguf(write(HOSTILE[case][0]))
    assert caught.value.code == CODES[case]


def test_names_are_printed_safely(write: Write) -> None:
    made = File(tensors=[Tensor("\x1b[31mred\n", (1, 32), b"\0" * 128, kind=4)])
    with pytest.raises(NotACheckpoint) as caught:
        open_gguf(write(made))
    assert str(caught.value).isprintable()


def test_paths_that_are_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, reason in (
        (tmp_path / "none", "no such file"),
        (tmp_path, "directory"),
        (tmp_path / "pipe", "not a regular file"),
        ("/dev/null", "not a regular file"),
        ("a\0b", "cannot be read"),
    ):
        with pytest.raises(NotACheckpoint, match=reason):
            open_gguf(path)


def test_a_broken_string_in_a_long_array_shows_when_it_is_read(write: Write) -> None:
    strings = struct.pack("<IIQ", ARRAY, STRING, 100) + string("fine") * 99 + string(b"\xff")
    with open_gguf(write(File({"a": strings}))) as file, pytest.raises(NotACheckpoint, match="UTF-8"):
        file.value("a")


def read_all(path: Path) -> bool:
    """Whether the file is taken for a checkpoint; anything but NotACheckpoint escapes."""
    try:
        with open_gguf(path) as file:
            file.section("")
            return all(len(file.tensor_bytes(t.name)) == t.bytes for t in file.header.tensors)
    except NotACheckpoint:
        return False


def test_every_truncation_is_refused(write: Write) -> None:
    small = File({"a": 1, "b": ["x"] * 70, "general.alignment": 32}, [ONE, f32("b", np.ones((1, 32)))]).bytes()
    for length in range(len(small)):
        assert not read_all(write(small[:length])), length
    assert read_all(write(small))


def test_fuzzed_files_never_crash(write: Write) -> None:
    draw = random.Random(20240)
    made = tiny.file(tiny.variant(num_hidden_layers=1, hidden_size=32))
    whole = made.bytes()
    head = whole[: len(whole) - sum(len(t.data) for t in made.tensors)]
    interesting = [b"\xff" * 8, struct.pack("<Q", HUGE), struct.pack("<Q", len(whole)), b"\0" * 8, b"\x80" * 4]
    accepted = 0
    for _ in range(1500):
        data = bytearray(whole)
        for _ in range(draw.randint(1, 4)):
            at = draw.randrange(len(head))
            kind = draw.randrange(4)
            if kind == 0:
                data[at] = draw.randrange(256)
            elif kind == 1:
                patch = draw.choice(interesting)
                data[at : at + len(patch)] = patch
            elif kind == 2:
                del data[at : at + draw.randint(1, 16)]
            else:
                data[at:at] = draw.randbytes(draw.randint(1, 16))
        accepted += read_all(write(bytes(data)))
    assert 0 < accepted < 1500  # both ways were taken
