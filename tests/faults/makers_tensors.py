"""Checkpoints whose tensors are missing, too many, misshapen, or hold what they must not."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import made_checkpoints
import numpy as np
import tiny
import torch
from gguf_writer import File, f32
from makers_settings import edit, gguf, meta_shares, one_file, write
from torch import Tensor

from openmodelatlas.models.variant import Variant

Weights = dict[str, Tensor]


def changed(path: Path, of: Variant, change: Callable[[Weights], Weights]) -> Path:
    """Hugging Face's folder of one file whose tensors are changed before they are written."""
    folder = one_file(path, of)
    made_checkpoints.write_safetensors(folder, change(made_checkpoints.tensors(of, "huggingface")))
    return folder


def arrays(path: Path, of: Variant, change: Callable[[dict[str, np.ndarray]], None]) -> Path:
    found = tiny.arrays(of)
    change(found)
    return write(path, File(tiny.metadata(of), [f32(name, array) for name, array in found.items()]))


def prefixed(path: Path, of: Variant) -> Path:
    return changed(path, of, lambda weights: {f"language_model.{name}": w for name, w in weights.items()})


def prefix_of_nobody(path: Path, of: Variant) -> Path:
    return changed(path, of, lambda weights: {f"net.{name}": w for name, w in weights.items()})


def layer_too_many(path: Path, of: Variant) -> Path:
    def add(weights: Weights) -> Weights:
        last = {n.replace("layers.1.", "layers.2."): w + 1 for n, w in weights.items() if "layers.1." in n}
        return weights | last

    return changed(path, of, add)


def tensor_missing(path: Path, of: Variant) -> Path:
    return changed(path, of, lambda w: {n: t for n, t in w.items() if n != "model.layers.1.self_attn.k_proj.weight"})


def tensor_surplus(path: Path, of: Variant) -> Path:
    return changed(path, of, lambda w: w | {"model.layers.0.self_attn.q_proj.bias": torch.ones(64)})


def rotary_leftovers(path: Path, of: Variant) -> Path:
    names = [f"model.layers.{n}.self_attn.rotary_emb.inv_freq" for n in range(2)]
    return changed(path, of, lambda w: w | {name: torch.ones(8) for name in names})


def head_norm_for_all(path: Path, of: Variant) -> Path:
    """A norm of queries over all heads where the model has one for each head, or the other way round."""
    name = "model.layers.0.self_attn.q_norm.weight"

    def turn(weights: Weights) -> Weights:
        size = 64 if weights[name].numel() == 16 else 16
        return weights | {name: torch.linspace(0.5, 1.5, size)}

    return changed(path, of, turn)


def transposed(path: Path, of: Variant) -> Path:
    name = "model.layers.0.mlp.down_proj.weight"
    return changed(path, of, lambda w: w | {name: w[name].T.contiguous()})


def expert_missing(path: Path, of: Variant) -> Path:
    gone = "model.layers.0.block_sparse_moe.experts.2.w2.weight"
    return changed(path, of, lambda w: {n: t for n, t in w.items() if n != gone})


def expert_transposed(path: Path, of: Variant) -> Path:
    name = "model.layers.0.block_sparse_moe.experts.2.w2.weight"
    return changed(path, of, lambda w: w | {name: w[name].T.contiguous()})


def expert_matrices_transposed(path: Path, of: Variant) -> Path:
    """The downs of all experts, as one release of the family's maker has them."""
    return changed(path, of, lambda w: {n: t.T.contiguous() if n.endswith(".w2.weight") else t for n, t in w.items()})


def experts_fused(path: Path, of: Variant, order: tuple[int, int] = (0, 1)) -> Path:
    """As transformers keeps them in memory: one tensor for the gates and ups of all experts, one for the downs."""

    def fuse(weights: Weights) -> Weights:
        found = {n: w for n, w in weights.items() if ".experts." not in n and ".block_sparse_moe.gate." not in n}
        for layer in range(2):
            old, new = f"model.layers.{layer}.block_sparse_moe", f"model.layers.{layer}.mlp"
            each = [[weights[f"{old}.experts.{e}.w{k}.weight"] for e in range(4)] for k in (1, 2, 3)]
            gate, down, up = map(torch.stack, each)
            found |= {f"{new}.experts.gate_up_proj": torch.cat([(gate, up)[n] for n in order], 1).contiguous()}
            found |= {f"{new}.experts.down_proj": down, f"{new}.gate.weight": weights[f"{old}.gate.weight"]}
        return found

    return changed(path, of, fuse)


def experts_fused_beside_apart(path: Path, of: Variant) -> Path:
    made_checkpoints.huggingface_folder(path / "original", of)
    return experts_fused(path, of)


def experts_fused_ups_first(path: Path, of: Variant) -> Path:
    made_checkpoints.huggingface_folder(path / "original", of)
    return experts_fused(path, of, order=(1, 0))


def float8(path: Path, of: Variant) -> Path:
    """Matrices of blocks in eight bits with no scales, which a cast leaves."""
    kind = torch.float8_e4m3fn
    return changed(path, of, lambda w: {n: t.to(kind) if n.endswith("_proj.weight") else t for n, t in w.items()})


def bfloat16(path: Path, of: Variant) -> Path:
    return made_checkpoints.huggingface_folder(path / "model", of, dtype=torch.bfloat16)


def key_heads_twice(path: Path, of: Variant) -> Path:
    """Every key and value head stored twice, as for twice as many devices."""
    folder = path / "model"
    folder.mkdir()
    weights = made_checkpoints.tensors(of, "meta", dtype=torch.bfloat16)
    for name, weight in weights.items():
        if name.endswith(("wk.weight", "wv.weight")):
            weights[name] = weight.reshape(2, -1, 64).repeat_interleave(2, 0).reshape(-1, 64).contiguous()
    torch.save(weights, folder / "consolidated.00.pth")
    made_checkpoints.write_json(folder / "params.json", made_checkpoints.settings(of, "meta") | {"n_kv_heads": 4})
    return folder


def meta_shares_of_four(path: Path, of: Variant) -> Path:
    return made_checkpoints.meta_folder(path / "model", of, ranks=4)


def only_the_first_share(path: Path, of: Variant) -> Path:
    folder = meta_shares_of_four(path, of)
    for number in (1, 2, 3):
        (folder / f"consolidated.{number:02}.pth").unlink()
    return folder


def norm_copy_differs(path: Path, of: Variant) -> Path:
    folder = meta_shares(path, of)
    file = folder / "consolidated.01.pth"
    share = torch.load(file, weights_only=True)
    share["norm.weight"] += 1
    torch.save(share, file)
    return folder


def not_a_number(path: Path, of: Variant) -> Path:
    return arrays(path, of, lambda found: found["blk.1.ffn_down.weight"].__setitem__((3, 7), np.nan))


def all_zero(path: Path, of: Variant) -> Path:
    return arrays(path, of, lambda found: found["blk.0.attn_q.weight"].fill(0))


def one_value(path: Path, of: Variant) -> Path:
    return arrays(path, of, lambda found: found["blk.0.attn_q.weight"].fill(0.5))


def rows_repeat(path: Path, of: Variant) -> Path:
    return arrays(path, of, lambda found: found["blk.0.ffn_up.weight"].__setitem__(5, found["blk.0.ffn_up.weight"][4]))


def block_repeats(path: Path, of: Variant) -> Path:
    name = "blk.{}.ffn_gate.weight"
    return arrays(path, of, lambda found: found.update({name.format(1): found[name.format(0)]}))


def rope_freqs(path: Path, of: Variant) -> Path:
    """The divisors of a scaled rotation, worked out here: short waves stay, long ones are slowed, others blend."""
    made, config = tiny.file(of), of.config
    low, high = config.rope_low_freq_factor, config.rope_high_freq_factor
    divisors = []
    for pair in range(config.head_dim // 2):
        wave = 2 * math.pi * config.rope_theta ** (2 * pair / config.head_dim)
        turns = config.rope_original_max_position_embeddings / wave
        share = min(1.0, max(0.0, (turns - low) / (high - low)))
        divisors.append(1 / (share + (1 - share) / config.rope_factor))
    stored = f32("rope_freqs.weight", np.array(divisors, np.float32))
    return write(path, File(made.metadata, [*made.tensors, stored]))


def _tokens(path: Path, of: Variant, count: int) -> Path:
    made = tiny.file(of)
    tokens = [*made.metadata["tokenizer.ggml.tokens"], *(f"<|more{n}|>" for n in range(count))]
    changes = {"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": [3 if "<|" in t else 1 for t in tokens]}
    return write(path, File(made.metadata | changes, made.tensors))


def tokens_too_many(path: Path, of: Variant) -> Path:
    return _tokens(path, of, 1)


def tokens_too_many_huggingface(path: Path, of: Variant) -> Path:
    folder = one_file(path, of)
    content = json.loads((folder / "tokenizer.json").read_text())
    more = {"id": tiny.VOCAB, "content": "<|more|>", "special": True}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    edit(folder / "tokenizer.json", {"added_tokens": [*content["added_tokens"], more | flags]})
    return folder


def _tokenizer(path: Path, of: Variant, **changes: Any) -> Path:
    """A GGUF file with changes of the settings of its tokenizer; None takes one out."""
    made = tiny.file(of)
    settings = made.metadata | {f"tokenizer.ggml.{key}": value for key, value in changes.items()}
    return write(path, File({key: value for key, value in settings.items() if value is not None}, made.tensors))


def cut_missing(path: Path, of: Variant) -> Path:
    return _tokenizer(path, of, pre=None)


def kind_mislabelled(path: Path, of: Variant) -> Path:
    """A vocabulary of bytes and merges under the word for the older family's pieces."""
    return _tokenizer(path, of, model="llama")


def size_of_the_settings(path: Path, of: Variant) -> Path:
    folder = one_file(path, of)
    edit(folder / "config.json", {"vocab_size": tiny.VOCAB - 8})
    return folder


def gain_stored_whole(path: Path, of: Variant) -> Path:
    """Norms that are kept as what is added to one, written as the gain itself; beside it `original`, as it must be."""
    made_checkpoints.huggingface_folder(path / "original", of)
    return changed(path, of, lambda w: {n: t + 1 if n.endswith("norm.weight") else t for n, t in w.items()})


def some_gains_stored_whole(path: Path, of: Variant) -> Path:
    """The same for the norms whose names end in one way alone."""
    made_checkpoints.huggingface_folder(path / "original", of)
    ending = ".input_layernorm.weight"
    return changed(path, of, lambda w: {n: t + 1 if n.endswith(ending) else t for n, t in w.items()})


def one_added_twice(path: Path, of: Variant) -> Path:
    """A GGUF file to whose gains one was added again."""
    made_checkpoints.huggingface_folder(path / "original", of)

    def again(found: dict[str, np.ndarray]) -> None:
        found.update({name: array + 1 for name, array in found.items() if name.endswith("norm.weight")})

    return arrays(path, of, again)


def gguf_of_the_same(path: Path, of: Variant) -> Path:
    made_checkpoints.huggingface_folder(path / "original", of)
    return gguf(path, of)
