"""A checkpoint made ready to run: file to model and tokenizer."""

import os
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from openmodelatlas.errors import CheckpointError
from openmodelatlas.infer.steady import steady
from openmodelatlas.infer.tokenizer import tokenizer_forms
from openmodelatlas.models.variant import Variant
from openmodelatlas.records.report import Header, Ledger
from openmodelatlas.text.tokenizer import Tokenizer
from openmodelatlas.weights.identify import identify
from openmodelatlas.weights.ledger import account
from openmodelatlas.weights.load import load
from openmodelatlas.weights.open import open_checkpoint

DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16}


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """A model with its weights, and all that the file says of it."""

    model: nn.Module
    tokenizer: Tokenizer
    variant: Variant
    header: Header
    ledger: Ledger


def load_checkpoint(
    path: str | os.PathLike[str],
    *,
    dtype: torch.dtype = torch.float32,
    device: str | torch.device = "cpu",
    variant: Variant | None = None,
    ready: Callable[[Tokenizer, Variant], None] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Loaded:
    """Load the checkpoint at `path` as the atlas's model that its header describes, or as `variant`.

    `ready` is called before any tensor is read, so that a prompt that cannot be run is refused at once;
    `progress(what, done, total)` is called in bytes as tensors are read.

    NotACheckpoint for what is none; CheckpointError for one that holds anything else than its model must."""
    steady()
    with open_checkpoint(path) as file:
        if variant is None:
            identity = identify(file.header, file.scheme)
            if identity.differences:
                first = identity.differences[0]
                raise CheckpointError(
                    f"no model of the atlas; the nearest is {identity.nearest.name}, whose {first.field} differs",
                    where=str(path),
                    expected=first.expected,
                    found=first.found,
                    fix="`oma verify` lists everything",
                )
            variant = identity.nearest
        ledger = account(file.header, variant, file.scheme)
        tokenizer = tokenizer_forms(file, variant).tokenizer()
        rows = variant.config.vocab_size
        if tokenizer.vocab_size > rows:  # fewer are padded
            raise CheckpointError(
                "more tokens than embedding rows", where=str(path), expected=rows, found=tokenizer.vocab_size
            )
        if ready is not None:
            ready(tokenizer, variant)
        model = load(file, variant, ledger, dtype=dtype, device=device, progress=progress)
        return Loaded(model=model, tokenizer=tokenizer, variant=variant, header=file.header, ledger=ledger)
