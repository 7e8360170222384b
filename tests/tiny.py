"""Models of a few thousand random parameters with the structure of any variant, as variants and as GGUF files."""

import dataclasses
from typing import Any

import numpy as np
from gguf_writer import File, f32

from openmodelatlas.models import find, variants
from openmodelatlas.models.variant import Variant
from openmodelatlas.weights.naming import block_pattern, name_table, pieces

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
    "num_local_experts": 4,
    "sliding_window": 8,
    "sliding_window_pattern": 2,
}


def representatives() -> list[str]:
    """One variant of each kind: family, class of configuration, classes of the parts that vary."""
    found: dict[Any, str] = {}
    for name, of in variants().items():
        found.setdefault((of.model, type(of.config), *of.parts.values()), name)
    return list(found.values())


def variant(like: str = "smollm2-135m", **changes: Any) -> Variant:
    """The tiny model with the structure of the variant `like`."""
    found = find(like)
    fields = {field.name for field in dataclasses.fields(found.config)}
    sizes = {name: size for name, size in SIZES.items() if name in fields}
    return dataclasses.replace(found, config=dataclasses.replace(found.config, **{**sizes, **changes}), name="tiny")


def byte_characters() -> list[str]:
    """The 256 characters of a byte-level vocabulary in the order of their bytes."""
    plain = {*range(33, 127), *range(161, 173), *range(174, 256)}
    moved = iter(range(256, 512))
    return [chr(b) if b in plain else chr(next(moved)) for b in range(256)]


def metadata(of: Variant) -> dict[str, Any]:
    """Settings that say what the variant is, under every key that its family's table reads."""
    table = name_table(of.family, "gguf")
    settings = {"general.architecture": table.must_equal["general.architecture"], "general.name": "tiny"}
    for key, field in table.read.items():
        if hasattr(of.config, field):
            settings[key] = getattr(of.config, field)
    for key, rule in table.conditional.items():
        settings[key] = (rule.there if hasattr(of.config, rule.field) else rule.otherwise)[0]
    return settings | tokenizer()


def tokenizer() -> dict[str, Any]:
    """A byte-level vocabulary with a few merges."""
    tokens = ["<|end|>", "<|start|>", *byte_characters(), "he", "ll", "hell", "hello", "Ġhello"]
    tokens += [f"<|unused{n}|>" for n in range(VOCAB - len(tokens))]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3 if token.startswith("<|") else 1 for token in tokens],
        "tokenizer.ggml.merges": ["h e", "l l", "he ll", "hell o", "Ġ hello"],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 0,
        "tokenizer.chat_template": "{% for m in messages %}<|start|>{{ m.content }}<|end|>{% endfor %}<|start|>",
    }


def arrays(of: Variant, seed: int = 0, form: int = 0) -> dict[str, np.ndarray]:
    """Random weights under GGUF names, in the `form`-th form of those that have several. Large enough that attention
    and its positions matter; every gain near one, as files store it."""
    draw = np.random.default_rng(seed)
    names = {row.parameter: row for row in name_table(of.family, "gguf").tensors}
    found: dict[str, np.ndarray] = {}
    for parameter, tensor in of.build("meta").named_parameters():
        pattern, index = block_pattern(parameter)
        forms = names[pattern].forms
        stored = pieces(forms[min(form, len(forms) - 1)], index, tensor.shape[0])
        array = _drawn(parameter, tuple(tensor.shape), draw)
        found |= {stored[0]: array} if len(stored) == 1 else dict(zip(stored, array, strict=True))
    return found


def _drawn(parameter: str, shape: tuple[int, ...], draw: np.random.Generator) -> np.ndarray:
    if len(shape) == 1:
        return draw.uniform(0.5, 1.5, shape).astype(np.float32)
    values = draw.standard_normal(shape)
    return (values if parameter == "embed.weight" else values * 1.5 / shape[-1] ** 0.5).astype(np.float32)


def file(of: Variant | None = None, seed: int = 0, form: int = 0) -> File:
    """The tiny checkpoint, ready to be changed and written."""
    of = of or variant()
    return File(metadata(of), [f32(name, array) for name, array in arrays(of, seed, form).items()])


def kinds(of: Variant) -> list[Any]:
    """A file's tensors by their names alone, those of the first block and those outside: enough to tell what it is."""
    shallow = dataclasses.replace(of, config=dataclasses.replace(of.config, num_hidden_layers=1))
    names = {row.parameter: row.stored for row in name_table(of.family, "gguf").tensors}
    stored = [names[pattern] for pattern, _ in (block_pattern(n) for n, _ in shallow.build("meta").named_parameters())]
    modules = {path for path, _ in shallow.build("meta").named_modules()}
    stored += [c.stored for c in name_table(of.family, "gguf").constants if c.equals and c.owner in modules]
    return [f32(name.replace("{i}", "0").replace("{e}", "0"), np.ones((1, 32))) for name in stored]
