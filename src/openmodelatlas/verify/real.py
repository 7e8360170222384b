"""Real weights: which checkpoint of the catalogue is of which model, and what is run through it."""

import functools
from pathlib import Path

import torch

from openmodelatlas.catalog.checkpoints import checkpoints, path_of
from openmodelatlas.infer.checkpoint import Loaded, load_checkpoint
from openmodelatlas.records.catalog import Checkpoint, Model
from openmodelatlas.verify.references.exchange import Case, Request

PROMPT = "Once upon a time, in a village between two rivers, there lived"
LIMIT = (
    "Scaled rotary frequencies have not met real weights here: the checkpoint's model has none, so rope.scale is "
    "proven at tiny twins only."
)


def checkpoint_of(model: Model) -> Checkpoint:
    """The catalogue's checkpoint of the model."""
    return next(c for c in checkpoints().values() if c.model == model.id)


def none_here(model: Model) -> str | None:
    """Why no real weights can be run, or None."""
    return None if any(c.model == model.id for c in checkpoints().values()) else "no checkpoint of it in the catalogue"


def loaded(model: Model) -> Loaded:
    """The checkpoint in the definition, in float32."""
    return _loaded(path_of(checkpoint_of(model)))


@functools.cache
def _loaded(path: Path) -> Loaded:
    """Kept, since reading it takes seconds."""
    return load_checkpoint(path)


def text(model: Model) -> list[int]:
    """The prompt's tokens."""
    return loaded(model).tokenizer.encode(PROMPT)


def case_of(tokens: list[int], keep: tuple[str, ...] = ()) -> Case:
    """Those tokens from position 0, in one call."""
    row = torch.tensor([tokens])
    positions = torch.arange(len(tokens))[None]
    return Case(tokens=row, positions=positions, calls=[len(tokens)], past=None, keep=list(keep))


def request_of(model: Model, cases: dict[str, Case], dtype: str = "float32", **options: object) -> Request:
    """Those cases of the file itself, for a reference that reads it."""
    path = str(path_of(checkpoint_of(model)))
    return Request(config={}, tied=False, weights={}, dtype=dtype, options={"gguf": path, **options}, cases=cases)
