"""Tiny checkpoints of any variant in every format, written by the libraries that own the formats.

The values are those of `tiny.file(variant, seed)`, so folders and GGUF files of one seed are one model."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import tiny
import torch
from gguf_writer import I32, U16, File, f32, value
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor

from openmodelatlas.models import tied
from openmodelatlas.models.variant import Variant
from openmodelatlas.weights.naming import Scheme, block_pattern, name_table, pieces
from openmodelatlas.weights.writing.stated import nested

BY_ROWS = ("tok_embeddings", "output", "wq", "wk", "wv", "w1", "w3")
BY_COLUMNS = ("wo", "w2")


def definition(of: Variant, seed: int = 0) -> dict[str, Tensor]:
    """Every parameter in the definition's own layout, by its name there."""
    stored = tiny.arrays(of, seed)
    names = {row.parameter: row for row in name_table(of.family, "gguf").tensors}
    found = {}
    for parameter, meant in of.build("meta").named_parameters():
        pattern, index = block_pattern(parameter)
        parts = [stored[name] for name in pieces(names[pattern].stored, index, meant.shape[0])]
        weight = torch.from_numpy(parts[0] if len(parts) == 1 else np.stack(parts)).reshape(meant.shape)
        found[parameter] = weight - 1 if "subtract_one" in names[pattern].steps else weight
    return found


def tensors(of: Variant, scheme: Scheme, seed: int = 0, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    """The checkpoint's tensors as a scheme names them and lays them out."""
    names = {row.parameter: row for row in name_table(of.family, scheme).tensors}
    found = {}
    for parameter, weight in definition(of, seed).items():
        pattern, index = block_pattern(parameter)
        stored = pieces(names[pattern].stored, index, weight.shape[0])
        parts = weight.unbind(0) if len(stored) > 1 else (weight,)
        for name, part in zip(stored, parts, strict=True):
            for step in reversed(names[pattern].steps):
                part = _undone(part, step, of.config)
            found[name] = part.to(dtype).contiguous().clone()
    return found


def _undone(weight: Tensor, step: str, config: Any) -> Tensor:
    """What a conversion step makes `weight` of."""
    if step == "interleave_rotary_rows":
        pairs = weight.reshape(-1, config.head_dim // 2, 2, weight.shape[1])
        return pairs.transpose(1, 2).reshape(weight.shape)
    if step == "subtract_one":
        return weight + 1
    raise AssertionError(step)


def settings(of: Variant, scheme: Scheme) -> dict[str, Any]:
    """Settings that say what the variant is, nested; each number once, under the first key that its table reads."""
    table = name_table(of.family, scheme)
    flat: dict[str, Any] = {key: value for key, value in table.must_equal.items() if "." not in key}
    flat |= {key: values[0] for key, values in table.one_of.items() if "." not in key}
    fields = [*table.read.items(), *((key, rule.field) for key, rule in table.conditional.items())]
    written = set()
    for key, field in fields:
        number = tied(of) if field == "tied" else getattr(of.config, field, None)
        rule = table.conditional.get(key)
        if number is not None and (field, rule is None) not in written:
            written.add((field, rule is None))
            flat[key] = number if rule is None else rule.there[0]
    if scheme == "huggingface":
        flat |= {"bos_token_id": 1, "eos_token_id": 0}
    return nested(flat)


def huggingface_folder(
    path: Path, of: Variant, *, shards: int = 1, dtype: torch.dtype = torch.float32, seed: int = 0
) -> Path:
    """`config.json`, safetensors with an index if there are several, and the tokenizer's files."""
    path.mkdir(parents=True, exist_ok=True)
    write_json(path / "config.json", settings(of, "huggingface") | {"torch_dtype": str(dtype).removeprefix("torch.")})
    write_safetensors(path, tensors(of, "huggingface", seed, dtype), shards)
    write_tokenizer(path)
    return path


def write_safetensors(path: Path, weights: Mapping[str, Tensor], shards: int = 1) -> None:
    """The tensors in turn over so many files, as evenly as their number allows."""
    if shards == 1:
        safetensors.torch.save_file(dict(weights), path / "model.safetensors", metadata={"format": "pt"})
        return
    names, places = list(weights), {}
    for number in range(shards):
        part = names[number * len(names) // shards : (number + 1) * len(names) // shards]
        file = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        safetensors.torch.save_file({n: weights[n] for n in part}, path / file, metadata={"format": "pt"})
        places |= dict.fromkeys(part, file)
    total = sum(weight.numel() * weight.element_size() for weight in weights.values())
    write_json(path / "model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": places})


def write_tokenizer(path: Path) -> None:
    """The tiny tokenizer of GGUF files in the `tokenizers` library's own form."""
    content = tiny.tokenizer()
    tokens = content["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in content["tokenizer.ggml.merges"]]
    made = Tokenizer(models.BPE({token: number for number, token in enumerate(tokens)}, merges))
    splits = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    made.pre_tokenizer, made.decoder = pre_tokenizers.Sequence(splits), decoders.ByteLevel()
    made.add_special_tokens([AddedToken(token, special=True) for token in tokens if token.startswith("<|")])
    made.save(str(path / "tokenizer.json"))
    named = {"bos_token": tokens[1], "eos_token": tokens[0], "chat_template": content["tokenizer.chat_template"]}
    write_json(path / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", **named})
    write_json(path / "generation_config.json", {"bos_token_id": 1, "eos_token_id": 0})


def meta_folder(path: Path, of: Variant, *, ranks: int = 1, dtype: torch.dtype = torch.bfloat16, seed: int = 0) -> Path:
    """`params.json` and `consolidated.NN.pth`, split over model-parallel ranks as Meta's code of Llama 3 does."""
    path.mkdir(parents=True, exist_ok=True)
    write_json(path / "params.json", settings(of, "meta"))
    shares: list[dict[str, Tensor]] = [{} for _ in range(ranks)]
    for name, weight in tensors(of, "meta", seed, dtype).items():
        leaf = name.split(".")[-2]
        axis = 0 if leaf in BY_ROWS else 1 if leaf in BY_COLUMNS else None
        parts = [weight] * ranks if axis is None else weight.chunk(ranks, axis)
        for share, part in zip(shares, parts, strict=True):
            share[name] = part.contiguous().clone()
    for number, share in enumerate(shares):
        torch.save(share, path / f"consolidated.{number:02}.pth")
    return path


def gguf_split(path: Path, of: Variant, *, parts: int, seed: int = 0) -> list[Path]:
    """A GGUF checkpoint in so many files, the settings in the first, as llama.cpp's `gguf-split` writes them."""
    path.mkdir(parents=True, exist_ok=True)
    whole = [f32(name, array) for name, array in tiny.arrays(of, seed).items()]
    found = []
    for number in range(parts):
        share = whole[number * len(whole) // parts : (number + 1) * len(whole) // parts]
        counts = {"split.no": value(number, U16), "split.count": value(parts, U16)}
        counts["split.tensors.count"] = value(len(whole), I32)
        found.append(path / f"tiny-{number + 1:05}-of-{parts:05}.gguf")
        found[-1].write_bytes(File((tiny.metadata(of) if number == 0 else {}) | counts, share).bytes())
    return found


def write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")
