"""Weights in fewer bits: every layout unpacked to the numbers that were packed, and what does not fit named.

The packing is written here from the layouts' own rules, number by number, with no code in common."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import made_checkpoints as made
import numpy as np
import pytest
import safetensors.torch
import tiny
import torch
from torch import Tensor

from openmodelatlas.records.report import Report
from openmodelatlas.verify.checkpoint import verify
from openmodelatlas.weights.open import open_checkpoint

OF = tiny.variant("llama-3-8b")
NAME = "model.layers.0.self_attn.q_proj"
DRAW = np.random.default_rng(5)


def packed_bits(numbers: np.ndarray, bits: int) -> np.ndarray:
    """Along the first axis, one bit after the other, the lowest first, 32 to a word."""
    rows, columns = numbers.shape
    flat = ((numbers[:, None, :] >> np.arange(bits)[None, :, None]) & 1).reshape(rows * bits, columns)
    words = flat.reshape(-1, 32, columns).astype(np.uint64) << np.arange(32, dtype=np.uint64)[None, :, None]
    return words.sum(1).astype(np.uint32).view(np.int32)


def folder(path: Path, parts: Mapping[str, Tensor], quantization: Any, name: str = NAME) -> Path:
    """The tiny checkpoint with one of its matrices in parts."""
    made.huggingface_folder(path, OF)
    weights = made.tensors(OF, "huggingface")
    del weights[f"{name}.weight"]
    weights |= {f"{name}.{part}": value.contiguous() for part, value in parts.items()}
    safetensors.torch.save_file(weights, path / "model.safetensors")
    config = made.settings(OF, "huggingface") | quantization
    (path / "config.json").write_text(json.dumps(config))
    return path


def unpacked(path: Path, name: str = NAME) -> tuple[Tensor, str]:
    with open_checkpoint(path) as opened:
        [tensor] = [tensor for tensor in opened.header.tensors if tensor.name == f"{name}.weight"]
        values = opened.values(tensor.name)
        assert tuple(values.shape) == tensor.shape
        assert torch.equal(opened.values(tensor.name, 5, 23), values[5:23])
        assert len(tensor.parts) > 1
        return values, tensor.type


def findings(report: Report) -> dict[str, str]:
    kinds = ("tensors.", "configuration.", "parameters.")
    return {flaw.code: flaw.where for flaw in report.findings if flaw.code.startswith(kinds)}


def gptq(bits: int, group: int, *, first: bool = True, symmetric: bool = False) -> tuple[dict[str, Tensor], np.ndarray]:
    """64 inputs, 64 outputs; a group's zero point is stored less one in the first version."""
    numbers = DRAW.integers(0, 1 << bits, (64, 64))
    middle = 1 << (bits - 1)
    zeros = np.full((64 // group, 64), middle) if symmetric else DRAW.integers(0, 1 << bits, (64 // group, 64))
    scales = DRAW.uniform(0.01, 0.1, zeros.shape).astype(np.float16)
    stored = (zeros - first) % (1 << bits)
    order = np.arange(64) // group
    parts = {
        "qweight": torch.from_numpy(packed_bits(numbers, bits)),
        "qzeros": torch.from_numpy(packed_bits(stored.T, bits).T.copy()),
        "scales": torch.from_numpy(scales),
        "g_idx": torch.from_numpy(order.astype(np.int32)),
    }
    return parts, ((numbers - zeros[order]) * scales[order].astype(np.float32)).T.astype(np.float32)


def settings(method: str, **keys: Any) -> dict[str, Any]:
    return {"quantization_config": {"quant_method": method, **keys}}


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
@pytest.mark.parametrize("version", ["gptq", "gptq_v2"])
def test_gptq(tmp_path: Path, bits: int, version: str) -> None:
    parts, weight = gptq(bits, 32, first=version == "gptq")
    quantization = settings("gptq", bits=bits, group_size=32, sym=False, desc_act=False, checkpoint_format=version)
    path = folder(tmp_path, parts, quantization)
    values, kind = unpacked(path)
    assert kind == f"GPTQ {bits}-bit"
    assert np.array_equal(values.numpy(), weight)
    report = verify(path, values=True).report
    assert findings(report) == {}
    assert report.counts["stored"] == report.counts["total"]
    plain = 4 * (report.counts["total"] - 64 * 64)
    assert report.counts["stored bytes"] == plain + sum(part.nbytes for part in parts.values())


def test_gptq_with_inputs_out_of_order(tmp_path: Path) -> None:
    parts, _ = gptq(4, 32)
    order = np.random.default_rng(0).permutation(64) // 32
    parts["g_idx"] = torch.from_numpy(order.astype(np.int32))
    path = folder(tmp_path, parts, settings("gptq", bits=4, group_size=32, sym=False, desc_act=True))
    words, zeros = parts["qweight"].numpy().view(np.uint32), parts["qzeros"].numpy().view(np.uint32)
    expected = np.empty((64, 64), np.float32)
    for i in range(64):
        for o in range(64):
            number = (words[i // 8, o] >> (4 * (i % 8))) & 15
            zero = (((zeros[order[i], o // 8] >> (4 * (o % 8))) & 15) + 1) & 15
            expected[o, i] = (int(number) - int(zero)) * float(parts["scales"][order[i], o])
    assert np.allclose(unpacked(path)[0].numpy(), expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    ("act_order", "changed", "expected", "found"),
    [
        (False, {5: 1}, "groups in turn, as desc_act says", "another order"),
        (True, {5: 1}, None, None),
        (True, {5: -1}, "groups 0 to 1", "group -1"),
        (True, {5: 1 << 30}, "groups 0 to 1", f"group {1 << 30}"),
    ],
)
def test_groups_that_are_not_there_or_not_in_turn(
    tmp_path: Path, act_order: bool, changed: dict[int, int], expected: str | None, found: str | None
) -> None:
    parts, _ = gptq(4, 32)
    for place, group in changed.items():
        parts["g_idx"][place] = group
    path = folder(tmp_path, parts, settings("gptq", bits=4, group_size=32, sym=False, desc_act=act_order))
    report = verify(path, values=True).report
    flaws = [(flaw.expected, flaw.found) for flaw in report.findings if flaw.code == "tensors.packed-state"]
    assert flaws == ([] if expected is None else [(expected, found)])
    lost = [flaw.where for flaw in report.findings if flaw.code == "values.unreadable"]
    assert lost == ([f"{NAME}.g_idx"] if found is not None and found.startswith("group") else [])


@pytest.mark.parametrize(
    ("factor", "version", "code", "words"),
    [
        (1.0, "gptq", None, ""),
        (1.0, "gptq_v2", "against.one-sided", "values that are larger: the mean of the errors is 0."),
        (1.3, "gptq", "against.scaled", "the original's values times 1.3, and rounded"),
    ],
)
def test_against_what_was_packed(tmp_path: Path, factor: float, version: str, code: str | None, words: str) -> None:
    """Zero points read by the other version's rule move every value by a step: less than four bits may lose."""
    parts, _ = gptq(4, 64)
    parts["qzeros"] = torch.from_numpy(packed_bits(np.full((64, 1), 6), 4).T.copy())
    scales = parts["scales"].float().numpy()
    numbers = DRAW.integers(0, 16, (64, 64))
    parts["qweight"] = torch.from_numpy(packed_bits(numbers, 4))
    weight = ((numbers + DRAW.uniform(-0.5, 0.5, (64, 64)) - 7) * scales).T
    parts["scales"] = (parts["scales"].float() * factor).half()
    keys = {"bits": 4, "group_size": 64, "sym": False, "desc_act": False}
    path = folder(tmp_path / "b", parts, settings("gptq", **keys, checkpoint_format=version))
    original = folder(tmp_path / "a", {"weight": torch.from_numpy(weight).float()}, {})
    report = verify(path, against=original).report
    flaws = [flaw for flaw in report.findings if flaw.check == "against" and flaw.code != "against.setting"]
    assert [flaw.code for flaw in flaws] == ([] if code is None else [code])
    assert all(words in flaw.found for flaw in flaws)


@pytest.mark.parametrize("stored_first", [True, False])
def test_the_values_tell_which_version_a_symmetric_file_has(tmp_path: Path, stored_first: bool) -> None:
    """Fault of a format field that lies: 7 throughout is the first version, 8 the second, whatever is stated."""
    parts, weight = gptq(4, 32, first=stored_first, symmetric=True)
    lie = "gptq_v2" if stored_first else "gptq"
    keys = {"bits": 4, "group_size": 32, "sym": True, "desc_act": False}
    path = folder(tmp_path, parts, settings("gptq", **keys, checkpoint_format=lie))
    assert np.array_equal(unpacked(path)[0].numpy(), weight)
    assert findings(verify(path, values=True).report) == {"tensors.packed-zeros": f"{NAME}.qzeros"}
    assert findings(verify(path).report) == {}  # headers cannot tell


@pytest.mark.parametrize(
    ("keys", "code", "where"),
    [
        ({"bits": 8}, "configuration.quantization", "quantization_config.bits"),
        ({"group_size": 64}, "configuration.quantization", "quantization_config.group_size"),
        ({"is_marlin_format": True}, "configuration.contradicts", "'quantization_config.is_marlin_format'"),
        ({"surprise": 1}, "configuration.unaccounted", "'quantization_config.surprise'"),
    ],
)
def test_settings_of_the_packing_are_held_to_it(tmp_path: Path, keys: Any, code: str, where: str) -> None:
    parts, _ = gptq(4, 32)
    stated = {"bits": 4, "group_size": 32, "sym": False, "desc_act": False} | keys
    assert findings(verify(folder(tmp_path, parts, settings("gptq", **stated))).report) == {code: where}


def test_a_missing_part(tmp_path: Path) -> None:
    parts, _ = gptq(4, 32)
    del parts["scales"]
    found = findings(verify(folder(tmp_path, parts, settings("gptq", bits=4, group_size=32))).report)
    assert found["tensors.packed-part"] == f"'{NAME}.scales'"


def test_awq(tmp_path: Path) -> None:
    """Eight outputs to a word, their halves interleaved: 0, 2, 4, 6, 1, 3, 5, 7."""
    numbers, zeros = DRAW.integers(0, 16, (64, 64)), DRAW.integers(0, 16, (2, 64))
    scales = DRAW.uniform(0.01, 0.1, (2, 64)).astype(np.float16)

    def words(values: np.ndarray) -> Tensor:
        found = np.zeros((values.shape[0], values.shape[1] // 8), np.uint32)
        for place, column in enumerate([0, 2, 4, 6, 1, 3, 5, 7]):
            found |= values[:, column::8].astype(np.uint32) << np.uint32(4 * place)
        return torch.from_numpy(found.view(np.int32))

    parts = {"qweight": words(numbers), "qzeros": words(zeros), "scales": torch.from_numpy(scales)}
    keys = {"bits": 4, "group_size": 32, "zero_point": True, "version": "gemm"}
    path = folder(tmp_path, parts, settings("awq", **keys))
    values, kind = unpacked(path)
    order = np.arange(64) // 32
    expected = ((numbers - zeros[order]) * scales[order].astype(np.float32)).T.astype(np.float32)
    assert kind == "AWQ 4-bit"
    assert np.array_equal(values.numpy(), expected)
    assert findings(verify(path).report) == {}
    other = folder(tmp_path / "other", parts, settings("awq", **keys | {"version": "gemv"}))
    assert findings(verify(other).report)["configuration.quantization-unknown"] == "quantization_config"


def test_fp8_in_blocks_whose_last_is_smaller(tmp_path: Path) -> None:
    """Fault of a block size taken from the two shapes: 64 rows and 96 columns in blocks of 40 are 2 by 3 scales."""
    matrix = torch.from_numpy(DRAW.standard_normal((64, 96)).astype(np.float32)).to(torch.float8_e4m3fn)
    scales = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    name = "model.layers.0.mlp.down_proj"
    parts = {"weight": matrix, "weight_scale_inv": scales}
    keys = {"activation_scheme": "dynamic", "fmt": "e4m3"}
    path = folder(tmp_path, parts, settings("fp8", **keys, weight_block_size=[40, 40]), name)
    values, kind = unpacked(path, name)
    expected = np.empty((64, 96), np.float32)
    for row in range(64):
        for column in range(96):
            expected[row, column] = float(matrix[row, column]) * float(scales[row // 40, column // 40])
    assert kind == "FP8 E4M3"
    assert np.array_equal(values.numpy(), expected)
    assert findings(verify(path).report) == {}
    wrong = folder(tmp_path / "wrong", parts, settings("fp8", **keys, weight_block_size=[64, 64]), name)
    assert findings(verify(wrong).report)["tensors.packed-shape"] == f"'{name}'"
    bare = folder(tmp_path / "bare", {"weight": matrix}, settings("fp8", **keys, weight_block_size=[40, 40]), name)
    assert findings(verify(bare).report)["tensors.packed-part"] == f"'{name}.weight_scale_inv'"


def test_one_scale_for_a_block_of_1000_rows_stays_the_block_s(tmp_path: Path) -> None:
    """1000 rows of ones in blocks of 128: eight scales, row 126 has the first and row 128 the second."""
    of = tiny.variant("llama-3-8b", intermediate_size=1000, hidden_size=130, num_attention_heads=5, head_dim=26)
    name = "model.layers.0.mlp.up_proj"
    made.huggingface_folder(tmp_path, of)
    weights = made.tensors(of, "huggingface")
    weights[f"{name}.weight"] = torch.ones(1000, 130).to(torch.float8_e4m3fn)
    weights[f"{name}.weight_scale_inv"] = torch.arange(1.0, 9.0)[:, None].repeat(1, 2)
    safetensors.torch.save_file(weights, tmp_path / "model.safetensors")
    config = made.settings(of, "huggingface") | settings("fp8", weight_block_size=[128, 128])
    (tmp_path / "config.json").write_text(json.dumps(config))
    values, _ = unpacked(tmp_path, name)
    assert [float(values[row, 129]) for row in (0, 126, 127, 128, 999)] == [1.0, 1.0, 1.0, 2.0, 8.0]


def groups(**weights: Any) -> dict[str, Any]:
    return {"config_groups": {"group_0": {"targets": ["Linear"], "weights": {"dynamic": False, **weights}}}}


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("symmetric", [True, False])
def test_compressed_tensors_in_words(tmp_path: Path, bits: int, symmetric: bool) -> None:
    middle = 1 << (bits - 1)
    numbers = DRAW.integers(-middle, middle, (64, 64))
    scales = DRAW.uniform(0.01, 0.1, (64, 2)).astype(np.float32)
    points = np.zeros((64, 2), np.int64) if symmetric else DRAW.integers(-middle, middle, (64, 2))
    parts = {
        "weight_packed": torch.from_numpy(packed_bits((numbers + middle).T, bits).T.copy()),
        "weight_scale": torch.from_numpy(scales),
        "weight_shape": torch.tensor([64, 64]),
    }
    if not symmetric:
        parts["weight_zero_point"] = torch.from_numpy(packed_bits(points + middle, bits))
    kind = {"num_bits": bits, "type": "int", "strategy": "group", "group_size": 32, "symmetric": symmetric}
    path = folder(tmp_path, parts, settings("compressed-tensors", format="pack-quantized", **groups(**kind)))
    order = np.arange(64) // 32
    expected = (numbers - points[:, order]).astype(np.float32) * scales[:, order]
    values, name = unpacked(path)
    assert name == f"compressed-tensors {bits}-bit"
    assert np.array_equal(values.numpy(), expected)
    assert findings(verify(path).report) == {}
    other = groups(**kind | {"group_size": 16})
    wrong = folder(tmp_path / "w", parts, settings("compressed-tensors", format="pack-quantized", **other))
    assert findings(verify(wrong).report)["configuration.quantization"] == "quantization_config.config_groups"


@pytest.mark.parametrize("kind", ["float", "int"])
@pytest.mark.parametrize("strategy", ["channel", "tensor"])
def test_compressed_tensors_in_eight_bits(tmp_path: Path, kind: str, strategy: str) -> None:
    plain = torch.from_numpy(DRAW.integers(-100, 100, (64, 64)).astype(np.float32))
    matrix = plain.to(torch.float8_e4m3fn if kind == "float" else torch.int8)
    scale = torch.from_numpy(DRAW.uniform(0.01, 0.1, (64, 1) if strategy == "channel" else (1,)).astype(np.float32))
    parts = {"weight": matrix, "weight_scale": scale, "input_scale": torch.ones(1)}
    weights = groups(num_bits=8, type=kind, strategy=strategy, symmetric=True)
    path = folder(tmp_path, parts, settings("compressed-tensors", format=f"{kind}-quantized", **weights))
    assert np.array_equal(unpacked(path)[0].numpy(), matrix.float().numpy() * scale.numpy().reshape(-1, 1))
    assert findings(verify(path).report) == {}


def test_bitsandbytes_in_eight_bits(tmp_path: Path) -> None:
    numbers = DRAW.integers(-127, 128, (64, 64)).astype(np.int8)
    largest = DRAW.uniform(0.5, 2, 64).astype(np.float32)
    parts = {
        "weight": torch.from_numpy(numbers),
        "SCB": torch.from_numpy(largest),
        "weight_format": torch.tensor(0, dtype=torch.uint8),
    }
    path = folder(tmp_path, parts, settings("bitsandbytes", load_in_8bit=True, load_in_4bit=False))
    expected = numbers.astype(np.float32) * (largest / np.float32(127))[:, None]
    assert np.array_equal(unpacked(path)[0].numpy(), expected)
    assert findings(verify(path).report) == {}


@pytest.mark.parametrize("nested", [False, True])
def test_bitsandbytes_in_four_bits(tmp_path: Path, nested: bool) -> None:
    halves = DRAW.integers(0, 16, 64 * 64)
    code = np.sort(DRAW.standard_normal(16)).astype(np.float32)
    state: dict[str, Any] = {"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [64, 64]}
    parts = {
        "weight": torch.from_numpy((halves[0::2] << 4 | halves[1::2]).astype(np.uint8)[:, None]),
        "weight.quant_map": torch.from_numpy(code),
    }
    if nested:
        inner = DRAW.integers(0, 256, 64).astype(np.uint8)
        table = np.sort(DRAW.uniform(-1, 1, 256)).astype(np.float32)
        outer = DRAW.uniform(0.1, 1, 2).astype(np.float32)
        state |= {"nested_blocksize": 32, "nested_dtype": "float32", "nested_offset": 0.25}
        largest = table[inner] * outer[np.arange(64) // 32] + np.float32(0.25)
        parts |= {
            "weight.absmax": torch.from_numpy(inner),
            "weight.nested_absmax": torch.from_numpy(outer),
            "weight.nested_quant_map": torch.from_numpy(table),
        }
    else:
        largest = DRAW.uniform(0.1, 1, 64).astype(np.float32)
        parts["weight.absmax"] = torch.from_numpy(largest)
    name = "weight.quant_state.bitsandbytes__nf4"
    parts[name] = torch.tensor(list(json.dumps(state).encode()), dtype=torch.uint8)
    keys = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": nested}
    path = folder(tmp_path, parts, settings("bitsandbytes", **keys))
    values, kind = unpacked(path)
    assert kind == "bitsandbytes NF4"
    assert np.array_equal(values.numpy(), (code[halves] * largest[np.arange(64 * 64) // 64]).reshape(64, 64))
    assert findings(verify(path).report) == {}
    lie = folder(tmp_path / "lie", parts, settings("bitsandbytes", **keys | {"bnb_4bit_use_double_quant": not nested}))
    assert findings(verify(lie).report)["configuration.quantization"].endswith("bnb_4bit_use_double_quant")
    parts[name] = torch.tensor(list(b'{"shape": [64, 63], "blocksize": 64}'), dtype=torch.uint8)
    broken = folder(tmp_path / "broken", parts, settings("bitsandbytes", **keys))
    assert findings(verify(broken).report)["tensors.packed-state"] == f"'{NAME}.{name}'"


@pytest.mark.parametrize("bits", [2, 3, 4, 6, 8])
def test_mlx(tmp_path: Path, bits: int) -> None:
    numbers = DRAW.integers(0, 1 << bits, (64, 64))
    scales, biases = DRAW.uniform(0.01, 0.1, (2, 64, 2)).astype(np.float16)
    words = torch.from_numpy(packed_bits(numbers.T, bits).T.copy().view(np.uint32))
    parts = {"weight": words, "scales": torch.from_numpy(scales), "biases": torch.from_numpy(biases)}
    path = folder(tmp_path, parts, {"quantization": {"group_size": 32, "bits": bits}})
    order = np.arange(64) // 32
    expected = numbers.astype(np.float32) * scales[:, order].astype(np.float32) + biases[:, order].astype(np.float32)
    values, kind = unpacked(path)
    assert kind == f"MLX {bits}-bit"
    assert np.array_equal(values.numpy(), expected)
    assert findings(verify(path).report) == {}


def test_a_method_that_is_not_read(tmp_path: Path) -> None:
    path = folder(tmp_path, {"weight": torch.ones(64, 64)}, settings("aqlm", nbits_per_codebook=16))
    found = findings(verify(path).report)
    assert found["configuration.quantization-unknown"] == "quantization_config"


def test_nothing_is_packed_as_the_settings_say(tmp_path: Path) -> None:
    path = folder(tmp_path, {"weight": torch.ones(64, 64)}, settings("gptq", bits=4, group_size=32))
    assert findings(verify(path).report) == {"configuration.quantization": "quantization_config"}
