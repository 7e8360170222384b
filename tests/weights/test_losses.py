"""What storage types lose, measured anew with llama.cpp's own quantiser."""

import ctypes
import importlib.util
import tomllib
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch

from openmodelatlas.weights.losses import SMALLEST_BLOCK, bound, loss
from openmodelatlas.weights.reading.ggml import BY_NAME, NUMBERS

MEASURED = tomllib.loads((files("openmodelatlas.weights") / "losses.toml").read_text())["measured"]
ROWS, COLUMNS = 128, 1024


@cache
def quantiser() -> Any:
    """The function of llama.cpp that makes blocks of floats; it stands in the library of its Python package."""
    spec = importlib.util.find_spec("xllamacpp")
    assert spec is not None
    assert spec.origin is not None
    [library] = Path(spec.origin).parent.glob("*.so")
    importlib.import_module("xllamacpp")  # loads what the library itself needs
    found = ctypes.CDLL(str(library))
    found.ggml_quantize_chunk.restype = ctypes.c_size_t
    found.ggml_quantize_chunk.argtypes = [
        ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p,
    ]  # fmt: skip
    return found


def through(kind: str, values: np.ndarray) -> np.ndarray:
    """The values as they come back out of the type."""
    rows, columns = values.shape
    storage = BY_NAME[kind]
    stored = np.zeros(rows * columns // storage.elements * storage.bytes, dtype=np.uint8)
    importance = np.ones(columns, dtype=np.float32)
    quantiser().ggml_quantize_init(NUMBERS[kind])
    quantiser().ggml_quantize_chunk(
        NUMBERS[kind], values.ctypes.data, stored.ctypes.data, 0, rows, columns, importance.ctypes.data
    )
    return gguf.dequantize(stored.reshape(rows, -1), gguf.GGMLQuantizationType(NUMBERS[kind]))


def distributions() -> dict[str, np.ndarray]:
    draw = np.random.default_rng(3)
    shape = (ROWS, COLUMNS)
    rare = np.where(draw.random(shape) < 0.003, 30, 1)
    made = {
        "normal": draw.standard_normal(shape),
        "heavy": draw.standard_t(3, shape),
        "uniform": draw.uniform(-1, 1, shape),
        "outliers": draw.standard_normal(shape) * rare,
        "gains": draw.uniform(0.5, 1.5, shape),
        "laplace": draw.laplace(size=shape),
    }
    return {name: np.ascontiguousarray(values, dtype=np.float32) for name, values in made.items()}


@pytest.mark.parametrize("kind", MEASURED)
def test_the_bound_holds_and_is_no_wider_than_needed(kind: str) -> None:
    block, most = bound(kind) or (0, 0.0)
    assert block == max(BY_NAME[kind].elements, SMALLEST_BLOCK)
    worst = 0.0
    for values in distributions().values():
        error = np.abs(through(kind, values) - values).reshape(-1, block).max(1)
        worst = max(worst, float((error / np.abs(values).reshape(-1, block).max(1)).max()))
    assert 0.5 * most < worst < most


@pytest.mark.parametrize("kind", MEASURED)
def test_what_quantising_loses_goes_to_both_sides(kind: str) -> None:
    for name, values in distributions().items():
        found = loss(torch.from_numpy(values), torch.from_numpy(through(kind, values)), kind)
        assert found.explained, (name, found)


def test_errors_of_one_sign_and_a_factor_are_not_explained() -> None:
    """Four bits in steps of an eighth, by hand: zero points off by one move every value by a step."""
    original = torch.randn(64, 64, generator=torch.Generator().manual_seed(1)).clamp(-1, 0.875)
    rounded = (original * 8).round() / 8
    for kind in ("GPTQ 4-bit", "Q4_K"):  # one that was not measured, and one that was
        assert loss(original, rounded, kind).explained
        moved = loss(original, rounded - 0.125 * 0.9, kind)
        assert moved.lean == pytest.approx(-0.95, abs=0.02)
        assert not moved.explained
        larger = loss(original, rounded * 1.15, kind)
        assert larger.factor == pytest.approx(1.15, abs=0.01)
        assert not larger.explained


def test_a_loss_is_placed_at_its_worst_block() -> None:
    original = torch.ones(4, 64)
    stored = original.clone()
    stored[2, 40] += 0.002
    found = loss(original, stored, "Q8_0")
    assert (found.row, found.column) == (2, 32)
    assert found.share == pytest.approx(0.002 / (0.0044 * 1.25), rel=1e-3)
    stored[3, 0] = 2.0
    assert (loss(original, stored, "Q8_0").row, loss(original, stored, "Q8_0").column) == (3, 0)
    assert loss(original, stored, "Q8_0").share > 100


def test_a_type_without_a_measured_loss_is_judged_as_a_whole() -> None:
    original = torch.full((2, 32), 2.0)
    assert bound("unheard of") is None
    assert loss(original, original * 1.1, "unheard of").share == pytest.approx(0.2, rel=1e-3)
    assert loss(original, -original, "unheard of").share == pytest.approx(4.0, rel=1e-3)
    assert loss(torch.zeros(2, 2), torch.zeros(2, 2), "unheard of").share == 0.0


def test_a_lost_group_of_a_type_without_a_measured_loss_is_placed() -> None:
    original = torch.randn(8, 256, generator=torch.Generator().manual_seed(0))
    step = original.abs().reshape(8, 2, 128).amax(2, keepdim=True) / 7  # four bits a value, a scale for each 128
    stored = ((original.reshape(8, 2, 128) / step).round() * step).reshape(8, 256)
    assert loss(original, stored, "unheard of").explained
    stored[3, 128:] = 0.0
    found = loss(original, stored, "unheard of")
    assert not found.explained
    assert (found.row, found.column) == (3, 128)
    assert found.share == pytest.approx(1 / 0.75)


def test_small_values_beside_a_large_one_may_be_lost() -> None:
    original = torch.full((2, 256), 0.01)
    original[:, 0] = 1.0
    assert loss(original, torch.where(original < 0.1, 0.0, original), "unheard of").share <= 1.0
