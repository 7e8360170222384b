"""Settings of any kind and size, from a stranger: a report or one of our errors, and never more work than asked for.

A share of the cases is run; all of them with OMA_FUZZ set."""

import copy
import json
import os
from pathlib import Path
from typing import Any

import made_checkpoints as made
import pytest
import safetensors.torch
import tiny
import torch

from openmodelatlas.verify.checkpoint import verify

ODD: tuple[Any, ...] = (None, True, -1, 0, 7, 3.5, 1e308, 1 << 62, 10**30, "text", [-1, 5], {"a": 1})
EVERY = 1 if "OMA_FUZZ" in os.environ else 11  # shares no factor with the number of odd values and one
FAMILIES = {tiny.variant(name).family: name for name in reversed(tiny.representatives())}

PACKED = {
    "gptq": {"bits": 4, "group_size": 32, "sym": True, "desc_act": False, "checkpoint_format": "gptq"},
    "awq": {"bits": 4, "group_size": 32, "version": "gemm", "zero_point": True},
    "fp8": {"weight_block_size": [32, 32], "fmt": "e4m3"},
    "bitsandbytes": {"load_in_4bit": True, "bnb_4bit_use_double_quant": False},
    "compressed-tensors": {
        "format": "pack-quantized",
        "config_groups": {"group_0": {"weights": {"num_bits": 4, "group_size": 32, "block_structure": None}}},
    },
}
SHAPES: list[tuple[int, ...]] = [(), (0,), (3,), (64,), (1, 1), (0, 8), (64, 7), (2, 3, 4)]
STATE = {"quant_type": "nf4", "blocksize": 64, "shape": [64, 64]}


def parts(method: str, base: str) -> dict[str, torch.Tensor]:
    words, scales = torch.zeros(8, 64, dtype=torch.int32), torch.ones(2, 64)
    if method in ("gptq", "awq"):
        zeros = torch.full((2, 8), 0x77777777, dtype=torch.int32)
        words = words if method == "gptq" else torch.zeros(64, 8, dtype=torch.int32)
        return {f"{base}.qweight": words, f"{base}.qzeros": zeros, f"{base}.scales": scales}
    if method == "fp8":
        return {
            f"{base}.weight": torch.ones(64, 64).to(torch.float8_e4m3fn),
            f"{base}.weight_scale_inv": torch.ones(2, 2),
        }
    if method == "bitsandbytes":
        return {
            f"{base}.weight": torch.zeros(2048, 1, dtype=torch.uint8),
            f"{base}.weight.absmax": torch.ones(64),
            f"{base}.weight.quant_map": torch.ones(16),
            f"{base}.weight.quant_state.bitsandbytes__nf4": torch.tensor(
                list(json.dumps(STATE).encode()), dtype=torch.uint8
            ),
        }
    return {
        f"{base}.weight_packed": torch.zeros(64, 8, dtype=torch.int32),
        f"{base}.weight_scale": torch.ones(64, 2),
        f"{base}.weight_shape": torch.tensor([64, 64]),
    }


def odd(config: Any) -> list[Any]:
    """The settings with each key's value replaced by each odd one, and without the key."""
    found = []

    def visit(section: Any, path: tuple[str, ...]) -> None:
        for key, value in section.items():
            for other in (*ODD, KeyError):
                changed = copy.deepcopy(config)
                place = changed
                for step in path:
                    place = place[step]
                if other is KeyError:
                    del place[key]
                else:
                    place[key] = other
                found.append(changed)
            if isinstance(value, dict):
                visit(value, (*path, key))

    visit(config, ())
    return found


@pytest.mark.parametrize("name", FAMILIES.values(), ids=FAMILIES)
def test_any_settings(tmp_path: Path, name: str) -> None:
    of = tiny.variant(name)
    made.huggingface_folder(tmp_path, of)
    kinds = list(FAMILIES)
    for config in odd(made.settings(of, "huggingface"))[kinds.index(of.family) :: len(kinds) * EVERY]:  # its share
        made.write_json(tmp_path / "config.json", config)
        verify(tmp_path)


def test_any_settings_of_meta_s(tmp_path: Path) -> None:
    of = tiny.variant("llama-3-8b")
    made.meta_folder(tmp_path, of, ranks=2)
    for params in odd(made.settings(of, "meta") | {"multiple_of": 32, "ffn_dim_multiplier": 0.5})[::EVERY]:
        made.write_json(tmp_path / "params.json", params)
        verify(tmp_path)


@pytest.mark.parametrize("method", PACKED)
def test_any_settings_of_a_packing(tmp_path: Path, method: str) -> None:
    of = tiny.variant("llama-3-8b")
    made.huggingface_folder(tmp_path, of)
    weights = made.tensors(of, "huggingface")
    base = "model.layers.0.self_attn.q_proj"
    del weights[f"{base}.weight"]
    safetensors.torch.save_file(weights | parts(method, base), tmp_path / "model.safetensors")
    plain = made.settings(of, "huggingface")
    quantization = {"quant_method": method} | PACKED[method]
    for config in [{"quantization_config": quantization}, *odd({"quantization_config": quantization})[::EVERY]]:
        made.write_json(tmp_path / "config.json", plain | config)
        verify(tmp_path, values=True)


@pytest.mark.parametrize("method", PACKED)
@pytest.mark.parametrize("shape", SHAPES[:: 1 if EVERY == 1 else 3])
def test_parts_of_any_shape(tmp_path: Path, method: str, shape: tuple[int, ...]) -> None:
    of = tiny.variant("llama-3-8b")
    made.huggingface_folder(tmp_path, of)
    weights = made.tensors(of, "huggingface")
    base = "model.layers.0.self_attn.q_proj"
    del weights[f"{base}.weight"]
    made.write_json(
        tmp_path / "config.json",
        made.settings(of, "huggingface") | {"quantization_config": {"quant_method": method} | PACKED[method]},
    )
    for name, part in parts(method, base).items():
        changed = parts(method, base) | {name: torch.ones(shape).to(part.dtype)}
        safetensors.torch.save_file(weights | changed, tmp_path / "model.safetensors")
        assert not verify(tmp_path, values=True).report.ok
