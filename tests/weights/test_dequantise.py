"""Our dequantisation equals the gguf package's, bit for bit."""

import gguf
import numpy as np
import pytest
import torch

from openmodelatlas.errors import CheckpointError
from openmodelatlas.records.report import StoredTensor
from openmodelatlas.weights.dequantise import PLAIN, dequantise
from openmodelatlas.weights.ggml import BY_NAME, NUMBERS


def stored(kind: str, rows: int, blocks: int) -> StoredTensor:
    storage = BY_NAME[kind]
    size = rows * blocks * storage.bytes
    return StoredTensor(name="a", shape=(rows, blocks * storage.elements), type=kind, bytes=size, offset=0, shard="")


READ = [
    "F32",
    "F16",
    "BF16",
    "Q4_0",
    "Q4_1",
    "Q5_0",
    "Q5_1",
    "Q8_0",
    "Q2_K",
    "Q3_K",
    "Q4_K",
    "Q5_K",
    "Q6_K",
    "IQ4_NL",
    "IQ4_XS",
    "MXFP4",
]


@pytest.mark.parametrize("kind", READ)
@pytest.mark.filterwarnings("ignore:overflow encountered", "ignore:invalid value encountered")  # random bits as floats
def test_equals_the_gguf_package(kind: str) -> None:
    tensor = stored(kind, 8, 6)
    raw = np.random.default_rng(7).integers(0, 256, tensor.bytes, dtype=np.uint8)
    ours = dequantise(memoryview(bytearray(raw.tobytes())), tensor)
    theirs = gguf.dequantize(raw.reshape(8, -1), gguf.GGMLQuantizationType(NUMBERS[kind]))
    assert ours.dtype == PLAIN.get(kind, torch.float32)
    ours = ours.to(torch.float32)
    np.testing.assert_array_equal(ours.numpy(), theirs)


def test_float64_is_kept() -> None:
    values = np.array([[1 / 3, 2.0]])
    tensor = stored("F64", 1, 2)
    assert dequantise(memoryview(bytearray(values.tobytes())), tensor).tolist() == values.tolist()


def test_the_values_have_memory_of_their_own() -> None:
    data = bytearray(np.ones(4, dtype=np.float32).tobytes())
    values = dequantise(memoryview(data), stored("F32", 1, 4))
    data[:] = bytes(16)
    assert values.tolist() == [[1.0] * 4]


@pytest.mark.parametrize("kind", ["I8", "Q8_K"])
def test_types_without_a_reader_are_an_error(kind: str) -> None:
    tensor = stored(kind, 1, 1)
    with pytest.raises(CheckpointError, match=f"no way to read the storage type {kind}"):
        dequantise(memoryview(bytearray(tensor.bytes)), tensor)
