"""A llama of a few thousand random parameters, as a variant and as the parts of a GGUF file."""

import dataclasses
from typing import Any

import numpy as np
from gguf_writer import File, f32

from openmodelatlas.models import find
from openmodelatlas.models.variant import Variant

VOCAB = 272
SIZES = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 96,
    "vocab_size": VOCAB,
    "max_position_embeddings": 256,
}


def variant(like: str = "smollm2-135m", **changes: Any) -> Variant:
    """The tiny model with the structure of the variant `like`."""
    found = find(like)
    config = dataclasses.replace(found.config, **{**SIZES, **changes})
    return dataclasses.replace(found, config=config, name="tiny")


def byte_characters() -> list[str]:
    """The 256 characters of a byte-level vocabulary in the order of their bytes."""
    plain = {*range(33, 127), *range(161, 173), *range(174, 256)}
    moved = iter(range(256, 512))
    return [chr(b) if b in plain else chr(next(moved)) for b in range(256)]


def metadata(of: Variant) -> dict[str, Any]:
    c = of.config
    tokens = ["<|end|>", "<|start|>", *byte_characters(), "he", "ll", "hell", "hello", "Ġhello"]
    tokens += [f"<|unused{n}|>" for n in range(VOCAB - len(tokens))]
    types = [3 if token.startswith("<|") else 1 for token in tokens]
    return {
        "general.architecture": "llama",
        "general.name": "tiny",
        "llama.block_count": c.num_hidden_layers,
        "llama.context_length": c.max_position_embeddings,
        "llama.embedding_length": c.hidden_size,
        "llama.feed_forward_length": c.intermediate_size,
        "llama.attention.head_count": c.num_attention_heads,
        "llama.attention.head_count_kv": c.num_key_value_heads,
        "llama.rope.freq_base": float(c.rope_theta),
        "llama.rope.dimension_count": c.head_dim,
        "llama.attention.layer_norm_rms_epsilon": float(c.rms_norm_eps),
        "llama.vocab_size": c.vocab_size,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": ["h e", "l l", "he ll", "hell o", "Ġ hello"],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 0,
        "tokenizer.chat_template": "{% for m in messages %}<|start|>{{ m.content }}<|end|>{% endfor %}<|start|>",
    }


def arrays(of: Variant, seed: int = 0) -> dict[str, np.ndarray]:
    """Random weights under GGUF names. Large enough that attention and its positions matter."""
    c, draw = of.config, np.random.default_rng(seed)
    width, head, wide = c.hidden_size, c.head_dim, c.intermediate_size
    queries, keys = c.num_attention_heads * head, c.num_key_value_heads * head

    def matrix(rows: int, columns: int) -> np.ndarray:
        return (draw.standard_normal((rows, columns)) * 1.5 / columns**0.5).astype(np.float32)

    def gain() -> np.ndarray:
        return draw.uniform(0.5, 1.5, width).astype(np.float32)

    found = {"token_embd.weight": draw.standard_normal((c.vocab_size, width)).astype(np.float32)}
    for i in range(c.num_hidden_layers):
        found |= {
            f"blk.{i}.attn_norm.weight": gain(),
            f"blk.{i}.attn_q.weight": matrix(queries, width),
            f"blk.{i}.attn_k.weight": matrix(keys, width),
            f"blk.{i}.attn_v.weight": matrix(keys, width),
            f"blk.{i}.attn_output.weight": matrix(width, queries),
            f"blk.{i}.ffn_norm.weight": gain(),
            f"blk.{i}.ffn_gate.weight": matrix(wide, width),
            f"blk.{i}.ffn_up.weight": matrix(wide, width),
            f"blk.{i}.ffn_down.weight": matrix(width, wide),
        }
    found["output_norm.weight"] = gain()
    if "Tied" not in of.parts["unembed"].__name__:
        found["output.weight"] = matrix(c.vocab_size, width)
    return found


def file(of: Variant | None = None, seed: int = 0) -> File:
    """The tiny checkpoint, ready to be changed and written."""
    of = of or variant()
    return File(metadata(of), [f32(name, array) for name, array in arrays(of, seed).items()])
