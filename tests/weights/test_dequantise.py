"""Our dequantisation equals the gguf package's, bit for bit."""

import gguf
import numpy as np
import pytest
import torch

from openmodelatlas.errors import CheckpointError
from openmodelatlas.records.report import StoredTensor
from openmodelatlas.weights.reading.dequantise import PLAIN, dequantise
from openmodelatlas.weights.reading.ggml import BY_NAME, NUMBERS


def stored(kind: str, rows: int, blocks: int) -> StoredTensor:
    storage = BY_NAME[kind]
    size = rows * blocks * storage.bytes
    return StoredTensor(name="a", shape=(rows, blocks * storage.elements), type=kind, bytes=size, offset=0, shard="")


def package_reads(kind: str) -> bool:
    try:
        gguf.dequantize(np.zeros((1, BY_NAME[kind].bytes), dtype=np.uint8), gguf.GGMLQuantizationType(NUMBERS[kind]))
    except NotImplementedError:
        return False
    return True


READ = [kind for kind in BY_NAME if package_reads(kind)]


def test_the_package_reads_more_than_the_common_types() -> None:
    assert {"Q4_0", "Q4_K", "Q6_K", "IQ1_M", "IQ2_XXS", "IQ3_S", "IQ4_XS", "TQ1_0", "TQ2_0", "MXFP4", "NVFP4"} < set(
        READ
    )


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


@pytest.mark.parametrize("kind", ["Q4_1", "Q6_K"])
def test_a_large_tensor_is_read_in_parts(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tensor = stored(kind, 5, 3)
    data = memoryview(bytearray(np.random.default_rng(7).integers(0, 60, tensor.bytes, dtype=np.uint8).tobytes()))
    whole = dequantise(data, tensor)
    monkeypatch.setattr("openmodelatlas.weights.reading.dequantise.AT_ONCE", 4 * BY_NAME[kind].elements)
    assert torch.equal(dequantise(data, tensor), whole)


@pytest.mark.parametrize(("kind", "dtype"), [("I8", np.int8), ("I16", np.int16), ("I32", np.int32), ("I64", np.int64)])
def test_whole_numbers_are_kept(kind: str, dtype: type) -> None:
    values = np.array([[-1, 2]], dtype=dtype)
    assert dequantise(memoryview(bytearray(values.tobytes())), stored(kind, 1, 2)).tolist() == values.tolist()


def test_float64_is_kept() -> None:
    values = np.array([[1 / 3, 2.0]])
    tensor = stored("F64", 1, 2)
    assert dequantise(memoryview(bytearray(values.tobytes())), tensor).tolist() == values.tolist()


def test_the_values_have_memory_of_their_own() -> None:
    data = bytearray(np.ones(4, dtype=np.float32).tobytes())
    values = dequantise(memoryview(data), stored("F32", 1, 4))
    data[:] = bytes(16)
    assert values.tolist() == [[1.0] * 4]


@pytest.mark.parametrize("kind", ["Q8_1", "Q8_K", "Q1_0"])
def test_types_without_a_reader_are_an_error(kind: str) -> None:
    tensor = stored(kind, 1, 1)
    with pytest.raises(CheckpointError, match=f"no way to read the storage type {kind}"):
        dequantise(memoryview(bytearray(tensor.bytes)), tensor)
