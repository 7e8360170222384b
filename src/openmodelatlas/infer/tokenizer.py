"""The tokenizers of a checkpoint, opened or not: a folder may have a tokenizer and no weights."""

import os
from pathlib import Path

from openmodelatlas.errors import CheckpointError, NotACheckpoint
from openmodelatlas.models.variant import Variant
from openmodelatlas.text import huggingface
from openmodelatlas.text.forms import MODEL, Forms, forms
from openmodelatlas.text.tokenizer import Tokenizer
from openmodelatlas.weights.identify import identify
from openmodelatlas.weights.open import open_checkpoint
from openmodelatlas.weights.opened import Opened
from openmodelatlas.weights.reading.folder import small_files
from openmodelatlas.weights.reading.place import LocalPlace

FILES = (huggingface.FORM, MODEL)


def tokenizer_forms(opened: Opened, variant: Variant | None) -> Forms:
    """Every form that it brings; vocabularies among its settings are read in full."""
    settings = {**opened.header.metadata, **opened.section("tokenizer.")}
    return forms(opened.beside, settings, variant)


def tokenizer_at(target: str | os.PathLike[str]) -> Tokenizer:
    """The tokenizer of the checkpoint at a path or on the Hub, of a folder without weights, or in a file of its own.

    NotACheckpoint if there is nothing of the kind; CheckpointError for one that cannot be built."""
    path = Path(target)
    if path.name in FILES and path.is_file():
        return _of_files(path.parent, {*FILES} - {path.name})
    try:
        opened = open_checkpoint(target)
    except NotACheckpoint:
        if path.is_dir() and any((path / name).is_file() for name in FILES):
            return _of_files(path, set())
        raise
    with opened:
        return tokenizer_forms(opened, _model(opened)).tokenizer()


def _model(opened: Opened) -> Variant | None:
    """The model that the header describes, if it is one of the atlas: it tells releases apart."""
    try:
        identity = identify(opened.header, opened.scheme)
    except CheckpointError:
        return None
    return identity.nearest if identity.matches else None


def _of_files(folder: Path, without: set[str]) -> Tokenizer:
    """The tokenizer that the files of a folder make, some left out."""
    place = LocalPlace(folder)
    there = small_files(place)
    beside = {name: there[name] for name in there if name in _OWN and name not in without}
    return forms(beside, {}, None).tokenizer()


_OWN = {
    *FILES,
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "generation_config.json",
    "chat_template.jinja",
    "chat_template.json",
}
"""The files of a tokenizer."""
