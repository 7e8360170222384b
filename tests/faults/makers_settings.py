"""Checkpoints whose settings are wrong: each a small function that writes one and gives its place."""

import json
from pathlib import Path
from typing import Any

import made_checkpoints
import numpy as np
import tiny
from gguf_writer import File, f32

from openmodelatlas.models.variant import Variant


def huggingface(path: Path, of: Variant) -> Path:
    return made_checkpoints.huggingface_folder(path / "model", of, shards=2)


def one_file(path: Path, of: Variant) -> Path:
    return made_checkpoints.huggingface_folder(path / "model", of)


def meta(path: Path, of: Variant) -> Path:
    return made_checkpoints.meta_folder(path / "model", of)


def meta_shares(path: Path, of: Variant) -> Path:
    return made_checkpoints.meta_folder(path / "model", of, ranks=2)


def gguf(path: Path, of: Variant) -> Path:
    return write(path, tiny.file(of))


def write(path: Path, content: File | bytes) -> Path:
    target = path / "model.gguf"
    target.write_bytes(content if isinstance(content, bytes) else content.bytes())
    return target


def edit(file: Path, changes: dict[str, Any]) -> None:
    """Change keys of a JSON file; None takes one out."""
    content = json.loads(file.read_text()) | changes
    file.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))


def configured(path: Path, of: Variant, **changes: Any) -> Path:
    """Hugging Face's folder with changes of its settings."""
    folder = huggingface(path, of)
    edit(folder / "config.json", changes)
    return folder


def with_params(path: Path, of: Variant, **changes: Any) -> Path:
    folder = meta(path, of)
    edit(folder / "params.json", changes)
    return folder


def theta_missing(path: Path, of: Variant) -> Path:
    return configured(path, of, rope_theta=None, rope_parameters=None)


def theta_missing_meta(path: Path, of: Variant) -> Path:
    return with_params(path, of, rope_theta=None)


def theta_missing_of_another(path: Path, of: Variant) -> Path:
    """The same of a model that differs from the known one."""
    return with_params(path, of, rope_theta=None, norm_eps=3e-6)


def theta_default(path: Path, of: Variant) -> Path:
    return configured(path, of, rope_theta=10000.0)


def _without(path: Path, of: Variant, *endings: str) -> Path:
    """A GGUF file without the settings whose keys end so."""
    made = tiny.file(of)
    settings = {key: value for key, value in made.metadata.items() if not key.endswith(endings)}
    return write(path, File(settings, made.tensors))


def theta_missing_gguf(path: Path, of: Variant) -> Path:
    return _without(path, of, "rope.freq_base")


def epsilon_missing_gguf(path: Path, of: Variant) -> Path:
    return _without(path, of, "layer_norm_rms_epsilon")


def head_dim_missing_gguf(path: Path, of: Variant) -> Path:
    return _without(path, of, "attention.key_length", "attention.value_length")


def scaling_missing(path: Path, of: Variant) -> Path:
    return configured(path, of, rope_scaling=None)


def scaling_of_another_kind(path: Path, of: Variant) -> Path:
    folder = huggingface(path, of)
    config = json.loads((folder / "config.json").read_text())
    edit(folder / "config.json", {"rope_scaling": config["rope_scaling"] | {"factor": 32.0}})
    return folder


def invented_keys(path: Path, of: Variant) -> Path:
    return with_params(path, of, use_scaled_rope=True, invented=3)


def _rope(of: Variant) -> dict[str, Any]:
    return {"rope_type": "default", "rope_theta": of.config.rope_theta}


def rope_parameters(path: Path, of: Variant) -> Path:
    return configured(path, of, rope_theta=None, rope_parameters=_rope(of))


def rope_by_kind(path: Path, of: Variant) -> Path:
    return configured(path, of, rope_theta=None, rope_parameters={"full_attention": _rope(of)})


def rope_by_two_kinds(path: Path, of: Variant) -> Path:
    """Blocks of two kinds with a base each, as v5 writes them."""
    local = {"rope_type": "default", "rope_theta": of.config.rope_local_base_freq}
    kinds = {"full_attention": _rope(of), "sliding_attention": local}
    return configured(path, of, rope_theta=None, rope_local_base_freq=None, rope_parameters=kinds)


def rope_of_kinds_exchanged(path: Path, of: Variant) -> Path:
    folder = rope_by_two_kinds(path, of)
    kinds = json.loads((folder / "config.json").read_text())["rope_parameters"]
    full, sliding = kinds["full_attention"], kinds["sliding_attention"]
    edit(folder / "config.json", {"rope_parameters": {"full_attention": sliding, "sliding_attention": full}})
    return folder


def rope_type_default(path: Path, of: Variant) -> Path:
    return configured(path, of, rope_scaling={"rope_type": "default"})


def rope_type_old(path: Path, of: Variant) -> Path:
    return configured(path, of, rope_scaling={"type": "default"})


def rope_contradicts(path: Path, of: Variant) -> Path:
    return configured(path, of, rope_scaling={"rope_type": "default", "type": "yarn", "factor": 4.0})


def rope_theta_contradicts(path: Path, of: Variant) -> Path:
    return configured(path, of, rope_theta=10000.0, rope_parameters=_rope(of))


def epsilon_missing(path: Path, of: Variant) -> Path:
    return configured(path, of, rms_norm_eps=None)


def epsilon_default(path: Path, of: Variant) -> Path:
    return configured(path, of, rms_norm_eps=1e-6)


def epsilon_missing_meta(path: Path, of: Variant) -> Path:
    return with_params(path, of, norm_eps=None)


def head_dim_missing(path: Path, of: Variant) -> Path:
    return configured(path, of, head_dim=None)


def head_dim_wrong(path: Path, of: Variant) -> Path:
    return configured(path, of, head_dim=8)


def width_of_the_paper(path: Path, of: Variant) -> Path:
    return with_params(path, of, ffn_dim_multiplier=1.3, multiple_of=32)


def key_heads_of_a_list(path: Path, of: Variant) -> Path:
    """Every head has keys of its own, and the settings say what a list of models has for it."""
    return with_params(path, of, n_kv_heads=2)


def key_heads_stated_twice(path: Path, of: Variant) -> Path:
    return configured(path, of, num_key_value_heads=2 * of.config.num_key_value_heads)


def settings_of_a_list(path: Path, of: Variant) -> Path:
    """All that such a list has: fewer key heads, a width that follows from a factor, a newer base."""
    return with_params(path, of, n_kv_heads=2, ffn_dim_multiplier=1.3, multiple_of=32, rope_theta=500000.0)


def layers_too_few(path: Path, of: Variant) -> Path:
    return configured(path, of, num_hidden_layers=1)


def vocabulary_too_large(path: Path, of: Variant) -> Path:
    return configured(path, of, vocab_size=tiny.VOCAB + 64)


def tied_without_matrix(path: Path, of: Variant) -> Path:
    """Of a model whose table is shared: the flag says that it is not, and nothing is stored."""
    return configured(path, of, tie_word_embeddings=False)


def not_tied_without_matrix(path: Path, of: Variant) -> Path:
    folder = one_file(path, of)
    weights = made_checkpoints.tensors(of, "huggingface")
    made_checkpoints.write_safetensors(folder, {n: w for n, w in weights.items() if n != "lm_head.weight"})
    return folder


def tied_with_another_matrix(path: Path, of: Variant) -> Path:
    folder = one_file(path, of)
    weights = made_checkpoints.tensors(of, "huggingface")
    other = made_checkpoints.tensors(of, "huggingface", seed=1)["model.embed_tokens.weight"]
    made_checkpoints.write_safetensors(folder, weights | {"lm_head.weight": other})
    return folder


def tied_with_its_copy(path: Path, of: Variant) -> Path:
    folder = one_file(path, of)
    weights = made_checkpoints.tensors(of, "huggingface")
    copy = weights["model.embed_tokens.weight"].clone()
    made_checkpoints.write_safetensors(folder, weights | {"lm_head.weight": copy})
    return folder


def ends_disagree(path: Path, of: Variant) -> Path:
    folder = huggingface(path, of)
    edit(folder / "generation_config.json", {"eos_token_id": [2, 3]})
    return folder


def ends_of_the_tokenizer(path: Path, of: Variant) -> Path:
    folder = huggingface(path, of)
    edit(folder / "tokenizer_config.json", {"eos_token": "<|unused1|>"})
    return folder


def more_ends_for_generation(path: Path, of: Variant) -> Path:
    """Settings of generation that stop at the configuration's end, and at another token too."""
    folder = huggingface(path, of)
    edit(folder / "generation_config.json", {"eos_token_id": [0, 3]})
    return folder


def another_architecture(path: Path, of: Variant) -> Path:
    return configured(path, of, model_type="mamba", architectures=["MambaForCausalLM"])


def rope_freqs_wrong(path: Path, of: Variant) -> Path:
    """Scaled rotation whose stored divisors are not those that follow from its settings."""
    made = tiny.file(of)
    return write(path, File(made.metadata, [*made.tensors, f32("rope_freqs.weight", np.full(8, 2.0, np.float32))]))
