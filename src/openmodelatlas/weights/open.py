"""A checkpoint of any format, opened: what stands at the target decides which reader takes it."""

import os
from pathlib import Path

from openmodelatlas.weights.logical import logical
from openmodelatlas.weights.opened import Opened
from openmodelatlas.weights.reading.folder import open_file_in_folder, open_folder

HUB = "hf:"


def open_checkpoint(target: str | os.PathLike[str]) -> Opened:
    """The headers of the checkpoint at a path (a folder, or a file of one), or on the Hub.

    There it is `hf:ORG/NAME[@REVISION][:FILE]`. NotACheckpoint says what is wrong with one that cannot be read;
    FetchError why the Hub did not give it."""
    if isinstance(target, str) and target.startswith(HUB):
        from openmodelatlas.weights.reading.remote import open_hub

        return logical(open_hub(target.removeprefix(HUB)))
    path = Path(target)
    return logical(open_folder(path) if path.is_dir() else open_file_in_folder(path))
