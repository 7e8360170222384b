"""Loading from every format: the definition's own numbers, whatever names, shares and stacks they are stored in."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import made_checkpoints as made
import pytest
import safetensors.torch
import tiny
import torch
from torch import Tensor

from openmodelatlas.errors import CheckpointError
from openmodelatlas.models.variant import Variant
from openmodelatlas.weights.ledger import account, tensor_findings
from openmodelatlas.weights.load import load
from openmodelatlas.weights.naming import has_names
from openmodelatlas.weights.open import open_checkpoint


def loaded(path: Path, of: Variant, **how: Any) -> dict[str, Tensor]:
    with open_checkpoint(path) as opened:
        ledger = account(opened.header, of, opened.scheme)
        assert tensor_findings(ledger) == []
        return dict(load(opened, of, ledger, **how).named_parameters())


def same(found: dict[str, Tensor], of: Variant, dtype: torch.dtype = torch.float32) -> None:
    expected = made.definition(of)
    assert set(found) == set(expected)
    for name, weight in expected.items():
        assert torch.equal(found[name], weight.to(dtype)), name


def rewritten(path: Path, of: Variant, change: Any) -> Path:
    made.huggingface_folder(path, of)
    weights = change(made.tensors(of, "huggingface"))
    safetensors.torch.save_file({n: w.contiguous().clone() for n, w in weights.items()}, path / "model.safetensors")
    return path


@pytest.mark.parametrize("name", tiny.representatives())
@pytest.mark.parametrize("shards", [1, 3])
def test_every_family_from_safetensors(tmp_path: Path, name: str, shards: int) -> None:
    of = tiny.variant(name)
    same(loaded(made.huggingface_folder(tmp_path, of, shards=shards), of), of)


@pytest.mark.parametrize(
    "name", [name for name in tiny.representatives() if has_names(tiny.variant(name).family, "meta")]
)
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_every_family_from_shares(tmp_path: Path, name: str, ranks: int) -> None:
    of = tiny.variant(name)
    path = made.meta_folder(tmp_path, of, ranks=ranks, dtype=torch.float32)
    same(loaded(path, of), of)


def test_in_another_type(tmp_path: Path) -> None:
    of = tiny.variant()
    same(loaded(made.huggingface_folder(tmp_path, of), of, dtype=torch.bfloat16), of, torch.bfloat16)


# --- experts in every layout ---

MOE = tiny.variant("mixtral-8x7b")
BLOCK = "model.layers.{}.block_sparse_moe"


def stacked(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """As the library holds them in memory: gate above up, one tensor of all experts."""
    found = {name: weight for name, weight in weights.items() if "block_sparse_moe" not in name}
    for block in range(2):
        old, new = BLOCK.format(block), f"model.layers.{block}.mlp"
        each = {w: [weights[f"{old}.experts.{e}.{w}.weight"] for e in range(4)] for w in ("w1", "w2", "w3")}
        pairs = zip(each["w1"], each["w3"], strict=True)
        found[f"{new}.gate.weight"] = weights[f"{old}.gate.weight"]
        found[f"{new}.experts.gate_up_proj"] = torch.stack([torch.cat((gate, up)) for gate, up in pairs])
        found[f"{new}.experts.down_proj"] = torch.stack(each["w2"])
    return found


def test_experts_apart_and_fused_are_the_same_matrices(tmp_path: Path) -> None:
    same(loaded(rewritten(tmp_path / "apart", MOE, dict), MOE), MOE)
    path = rewritten(tmp_path / "fused", MOE, stacked)
    same(loaded(path, MOE), MOE)
    with open_checkpoint(path) as opened:
        halves = [tensor for tensor in opened.header.tensors if "#" in tensor.name]
        assert {tensor.shape for tensor in halves} == {(4, 96, 64)}
        assert sum(tensor.bytes for tensor in halves) == 2 * 4 * 192 * 64 * 4
        assert torch.equal(opened.values(halves[1].name, 2, 3), opened.values(halves[1].name)[2:3])


# --- names ---

READS_IMAGES = tiny.variant("gemma-3-4b")


@pytest.mark.parametrize(
    ("model", "vision"),
    [("language_model.model.", "vision_tower."), ("model.language_model.", "model.vision_tower.")],
)
def test_a_checkpoint_that_reads_images_too(tmp_path: Path, model: str, vision: str) -> None:
    def change(weights: dict[str, Tensor]) -> dict[str, Tensor]:
        found = {f"{model}{name.removeprefix('model.')}": weight for name, weight in weights.items()}
        return found | {f"{vision}vision_model.post_layernorm.weight": torch.ones(8)}

    path = rewritten(tmp_path, READS_IMAGES, change)
    same(loaded(path, READS_IMAGES), READS_IMAGES)
    with open_checkpoint(path) as opened:
        rows = account(opened.header, READS_IMAGES, "huggingface").rows
        assert any("another part of the model" in step for row in rows for step in row.steps)
        assert "language_model" in opened.notes[0]


def test_a_checkpoint_of_the_class_without_an_unembedding(tmp_path: Path) -> None:
    of = tiny.variant("llama-3.2-1b")
    path = rewritten(tmp_path, of, lambda ws: {name.removeprefix("model."): weight for name, weight in ws.items()})
    same(loaded(path, of), of)


def codes(path: Path, of: Variant) -> dict[str, tuple[str, str]]:
    with open_checkpoint(path) as opened:
        found = tensor_findings(account(opened.header, of, opened.scheme))
        assert len(found) == len({flaw.code for flaw in found})
        return {flaw.code: (flaw.where, flaw.found) for flaw in found}


UNTIED = tiny.variant("llama-3-8b")
COUNT = 2 * 9 + 3


@pytest.mark.parametrize("prefix", ["transformer.", "language_model.", "a.b."])
def test_a_prefix_is_one_finding(tmp_path: Path, prefix: str) -> None:
    path = rewritten(tmp_path, UNTIED, lambda ws: {f"{prefix}{name}": weight for name, weight in ws.items()})
    counts = f"{COUNT} parameters without a tensor, {COUNT} tensors without an owner"
    assert codes(path, UNTIED) == {"tensors.prefix": (repr(prefix), counts)}
    with open_checkpoint(path) as opened, pytest.raises(CheckpointError):
        load(opened, UNTIED, account(opened.header, UNTIED, opened.scheme))


def test_names_of_another_kind_are_one_finding(tmp_path: Path) -> None:
    path = rewritten(tmp_path, UNTIED, lambda ws: {f"t{n}": weight for n, weight in enumerate(ws.values())})
    assert list(codes(path, UNTIED)) == ["tensors.names"]


def test_blocks_beyond_the_last_are_one_finding(tmp_path: Path) -> None:
    """Fault of a module for further tokens, which stands where the next block would."""

    def change(weights: dict[str, Tensor]) -> dict[str, Tensor]:
        more = {name.replace(".1.", ".2."): w for name, w in weights.items() if ".layers.1." in name}
        return weights | more | {"model.layers.2.eh_proj.weight": torch.ones(64, 128)}

    assert codes(rewritten(tmp_path, UNTIED, change), UNTIED) == {
        "tensors.beyond": ("'model.layers.2.*'", "10 tensors")
    }


def test_a_block_of_which_nothing_is_there_is_one_finding(tmp_path: Path) -> None:
    path = rewritten(tmp_path, UNTIED, lambda ws: {n: w for n, w in ws.items() if ".layers.1." not in n})
    assert codes(path, UNTIED) == {"tensors.block-missing": ("blocks.1", "nothing stored")}


def test_rotary_frequencies_left_over_are_ignored(tmp_path: Path) -> None:
    """Fault of loaders that count tensors: 40 more than the model has, one for each block."""
    left = {f"model.layers.{n}.self_attn.rotary_emb.inv_freq": torch.ones(8) for n in range(2)}
    path = rewritten(tmp_path, UNTIED, lambda ws: ws | left)
    same(loaded(path, UNTIED), UNTIED)


# --- memory ---

PEAK = """
import json, sys
sys.path.insert(0, {tests!r})
import tiny, torch
from openmodelatlas.weights.ledger import account
from openmodelatlas.weights.load import load
from openmodelatlas.weights.open import open_checkpoint

def peak():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) * 1024

of = tiny.variant({name!r}, **{sizes!r})
with open_checkpoint({path!r}) as opened:
    ledger = account(opened.header, of, opened.scheme)
    torch.ones(64, 64) @ torch.ones(64, 64)
    before = peak()
    model = load(opened, of, ledger, dtype=torch.float32)
    largest = max(p.numel() * 4 for p in model.parameters())
    print(json.dumps([peak() - before, sum(p.numel() * 4 for p in model.parameters()), largest]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from Linux's own count")
@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("llama-3-8b", {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 3, "head_dim": 256}),
        ("mixtral-8x7b", {"hidden_size": 1024, "intermediate_size": 2048, "head_dim": 256}),
    ],
)
def test_the_peak_is_the_model_and_one_tensor(tmp_path: Path, name: str, sizes: dict[str, int]) -> None:
    """About 200 MB, from a file of float32; the margin is the allocator's."""
    path = made.huggingface_folder(tmp_path, tiny.variant(name, **sizes))
    tests = str(Path(__file__).parent.parent)
    code = PEAK.format(tests=tests, name=name, sizes=sizes, path=str(path))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=True)
    grown, model, largest = json.loads(done.stdout)
    assert model > 100 << 20
    assert grown < model + largest + (16 << 20), (grown, model, largest)
