"""What a command's PATH|NAME argument means."""

import re
from dataclasses import dataclass
from pathlib import Path

from openmodelatlas.catalog import checkpoints, find
from openmodelatlas.errors import NotACheckpoint, UnknownName
from openmodelatlas.fetch.checkpoints import place, present
from openmodelatlas.records.catalog import Checkpoint, Model
from openmodelatlas.weights.open import HUB

ABSENT = "files.missing"
_ON_HUB = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(@[\w./-]+)?", re.A)


@dataclass(frozen=True, kw_only=True)
class Target:
    """A checkpoint's folder or file, or its `hf:ORG/NAME`; and its entry in the catalogue if it was asked for by that
    name."""

    path: Path | str
    checkpoint: Checkpoint | None


def resolve(text: str) -> Target:
    """An existing path wins over a name. NotACheckpoint for neither, and for a known checkpoint that is not here."""
    if text.startswith(HUB):
        return Target(path=text, checkpoint=None)
    if _exists(text):
        return Target(path=Path(text), checkpoint=None)
    try:
        found = checkpoints.find(text)
    except UnknownName as error:
        fix = f"on the Hub it is {HUB}{text}" if _ON_HUB.fullmatch(text) else error.fix
        what = "no such file, and no checkpoint of that name"
        raise NotACheckpoint(what, where=repr(text), fix=fix, code=ABSENT) from None
    if not present(found):
        raise NotACheckpoint(
            "the checkpoint is not here", where=found.id, fix=f"run `oma pull {found.id}`", code=ABSENT
        )
    return Target(path=place(found), checkpoint=found)


def model_of(text: str) -> Model | None:
    """The model of that id, unless a path or a checkpoint has the name; a release stands for its default size."""
    if _exists(text) or text.strip().lower() in checkpoints.checkpoints():
        return None
    try:
        return find.model(text)
    except UnknownName:
        return None


def _exists(text: str) -> bool:
    try:
        return bool(text) and Path(text).exists()
    except (OSError, ValueError):  # a name too long for a file, a null character
        return False
