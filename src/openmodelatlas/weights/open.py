"""A checkpoint of any format, opened: what stands at the target decides which reader takes it."""

import os
from pathlib import Path

from openmodelatlas.weights.gguf import open_gguf
from openmodelatlas.weights.opened import Opened


def open_checkpoint(target: str | os.PathLike[str]) -> Opened:
    """The headers of the checkpoint at a path. NotACheckpoint says what is wrong with one that cannot be read."""
    return open_gguf(Path(target))
