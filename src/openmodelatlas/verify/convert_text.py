"""What goes into a converted checkpoint besides the tensors: tokenizer, ids of special tokens, how to generate."""

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
    ),
    "meta": ("tokenizer.model",),
    "gguf": (),
}
GENERATION = "generation_config.json"
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
    present = bool(opened.section("tokenizer.ggml.tokens")) or any(name in opened.beside for name in _all())
    if not present:
        return without(opened, scheme, "the source has none")
    if opened.scheme == scheme:
        names = (*COPIED[scheme], GENERATION)
        files = {name: opened.beside[name] for name in names if name in opened.beside}
        return Text(files=files, settings=opened.section("tokenizer.") if scheme == "gguf" else _ids(opened, scheme))
    raise CheckpointError(
        f"no way to write a tokenizer of {opened.scheme} for {scheme}",
        where=opened.header.path,
        fix="--no-tokenizer leaves it out",
    )


def without(opened: Opened, scheme: Scheme, why: str) -> Text:
    """No tokenizer, as the scheme says it; which ids are special is said all the same."""
    settings = {"tokenizer.ggml.model": "none"} if scheme == "gguf" else _ids(opened, scheme)
    both = opened.scheme == scheme and GENERATION in opened.beside
    return Text(left_out=why, settings=settings, files={GENERATION: opened.beside[GENERATION]} if both else {})


def _all() -> set[str]:
    return {name for names in COPIED.values() for name in names}


def _ids(opened: Opened, scheme: Scheme) -> dict[str, Any]:
    """The special tokens of a `config.json`. One that the source does not name is null there: left out, it would be
    some number that the class of the model has as its default."""
    if scheme != "huggingface":
        return {}
    settings = opened.header.metadata
    keys = {key: f"tokenizer.ggml.{name}" if opened.scheme == "gguf" else key for key, name in TOKENS.items()}
    return {key: settings.get(there) for key, there in keys.items()}
