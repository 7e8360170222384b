"""A checkpoint of any format, opened: what stands at the target decides which reader takes it."""

import os
from pathlib import Path

from openmodelatlas.weights.folder import open_file_in_folder, open_folder
from openmodelatlas.weights.opened import Opened

HUB = "hf:"


def open_checkpoint(target: str | os.PathLike[str]) -> Opened:
    """The headers of the checkpoint at a path (a folder, or a file of one), or on the Hub as `hf:ORG/NAME[@REVISION]`.

    NotACheckpoint says what is wrong with one that cannot be read; FetchError why the Hub did not give it."""
    path = Path(target)
    return open_folder(path) if path.is_dir() else open_file_in_folder(path)
