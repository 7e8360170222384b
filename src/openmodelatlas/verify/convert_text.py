"""What goes into a converted checkpoint besides the tensors: tokenizer, ids of special tokens, how to generate."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from openmodelatlas.infer.tokenizer import tokenizer_forms
from openmodelatlas.models.variant import Variant
from openmodelatlas.text import write
from openmodelatlas.text.forms import Forms
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
SPACED_APART = "in tokenizer.json a space is taken to stand behind each of {count} tokens that text can name"
TOKENS = {"bos_token_id": "bos_token_id", "eos_token_id": "eos_token_id", "pad_token_id": "padding_token_id"}
"""Ids as Hugging Face's configurations call them, and as GGUF does."""


@dataclass(frozen=True, kw_only=True)
class Text:
    """Files to stand beside the tensors, and settings among the model's. `left_out` says why there is no tokenizer;
    `note` what it does otherwise in the new form."""

    files: Mapping[str, bytes] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    left_out: str = ""
    note: str = ""


def converted_text(opened: Opened, variant: Variant, scheme: Scheme) -> Text:
    """The source's tokenizer in the form of the scheme. CheckpointError for one that cannot be put in that form."""
    forms = tokenizer_forms(opened, variant)
    if not forms.found and not forms.unread:
        return without(opened, scheme, "the source has none")
    if opened.scheme == scheme:
        names = (*COPIED[scheme], GENERATION)
        files = {name: opened.beside[name] for name in names if name in opened.beside}
        return Text(files=files, settings=opened.section("tokenizer.") if scheme == "gguf" else _ids(opened, scheme))
    return _written(opened, forms, variant, scheme)


def _written(opened: Opened, forms: Forms, variant: Variant, scheme: Scheme) -> Text:
    own = opened.beside.get(write.RANKS)
    if scheme == "meta" and own is not None:
        return Text(files={write.RANKS: own})
    pieces = (form.tokenizer for form in forms.found if form.name == write.RANKS and form.tokenizer is not None)
    tokenizer = forms.tokenizer()
    if scheme == "gguf" and not write.is_byte_level(tokenizer):
        tokenizer = next(pieces, tokenizer)  # the one that has scores
    settings = _ids(opened, "huggingface")
    end = settings["eos_token_id"]
    end = end if isinstance(end, int) else None
    if scheme == "gguf":
        return Text(settings=write.gguf_settings(tokenizer, variant.config.vocab_size, end))
    if scheme == "meta":
        return Text(files=write.ranks_file(tokenizer, variant))
    stated = {"bos_token_id": tokenizer.special.bos, "eos_token_id": write.ends_of(tokenizer)}
    note = SPACED_APART.format(count=len(tokenizer.vocabulary.added)) if write.spaced_apart(tokenizer) else ""
    return Text(files=write.huggingface_files(tokenizer, end), settings={**settings, **stated}, note=note)


def without(opened: Opened, scheme: Scheme, why: str) -> Text:
    """No tokenizer, as the scheme says it; which ids are special is said all the same."""
    settings = {"tokenizer.ggml.model": "none"} if scheme == "gguf" else _ids(opened, scheme)
    both = opened.scheme == scheme and GENERATION in opened.beside
    return Text(left_out=why, settings=settings, files={GENERATION: opened.beside[GENERATION]} if both else {})


def _ids(opened: Opened, scheme: Scheme) -> dict[str, Any]:
    """The special tokens of a `config.json`. One that the source does not name is null there: left out, it would be
    some number that the class of the model has as its default."""
    if scheme != "huggingface":
        return {}
    settings = opened.header.metadata
    keys = {key: f"tokenizer.ggml.{name}" if opened.scheme == "gguf" else key for key, name in TOKENS.items()}
    return {key: settings.get(there) for key, there in keys.items()}
