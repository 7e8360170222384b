"""What goes into a converted checkpoint besides the tensors: tokenizer, ids of special tokens, how to generate."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from openmodelatlas.errors import CheckpointError
from openmodelatlas.weights.naming import Scheme
from openmodelatlas.weights.opened import Opened

COPIED: dict[Scheme, tuple[str, ...]] = {
    "huggingface": (
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "added_tokens.json",
        "vocab.json",
        "merges.txt",
        "tokenizer.model",
        "chat_template.jinja",
        "chat_template.json",
        "generation_config.json",
    ),
    "meta": ("tokenizer.model",),
    "gguf": (),
}
TOKENS = {"bos_token_id": "bos_token_id", "eos_token_id": "eos_token_id", "pad_token_id": "padding_token_id"}
"""Ids as Hugging Face's configurations call them, and as GGUF does."""


@dataclass(frozen=True, kw_only=True)
class Text:
    """Files to stand beside the tensors, and settings among the model's. `left_out` says why there is no tokenizer."""

    files: Mapping[str, bytes] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    left_out: str = ""


def converted_text(opened: Opened, scheme: Scheme) -> Text:
    """The source's tokenizer in the form of the scheme. CheckpointError for one that cannot be put in that form."""
    present = bool(opened.section("tokenizer.")) or any("token" in name for name in opened.beside)
    if not present:
        return without(scheme, "the source has none")
    if opened.scheme == scheme:
        files = {name: opened.beside[name] for name in COPIED[scheme] if name in opened.beside}
        return Text(files=files, settings=_ids(opened, scheme) if scheme != "gguf" else opened.section("tokenizer."))
    raise CheckpointError(
        f"no way to write a tokenizer of {opened.scheme} for {scheme}",
        where=opened.header.path,
        fix="--no-tokenizer leaves it out",
    )


def without(scheme: Scheme, why: str) -> Text:
    """No tokenizer, as the scheme says it."""
    return Text(left_out=why, settings={"tokenizer.ggml.model": "none"} if scheme == "gguf" else {})


def _ids(opened: Opened, scheme: Scheme) -> dict[str, Any]:
    """The special tokens that a `config.json` names."""
    if scheme != "huggingface":
        return {}
    settings = opened.header.metadata
    keys = {key: f"tokenizer.ggml.{name}" if opened.scheme == "gguf" else key for key, name in TOKENS.items()}
    return {key: settings[there] for key, there in keys.items() if settings.get(there) is not None}


def generation(ids: Mapping[str, Any]) -> bytes:
    """A `generation_config.json` of special tokens alone."""
    return (json.dumps(dict(ids), indent=2) + "\n").encode()
