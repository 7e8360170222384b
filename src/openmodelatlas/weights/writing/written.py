"""A file or folder that is written beside its place and takes it whole, or leaves nothing."""

import fcntl
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch
from torch import Tensor

from openmodelatlas.errors import WriteError

PART = ".oma-part-"
OLD = "old"
FRESH = 60
"""Seconds in which a folder may not have its lock yet."""
SPARE = 1 << 20
"""Room for headers, indices and tokenizer files, in bytes."""


def raw(piece: Tensor) -> memoryview:
    """The bytes of a contiguous tensor, little-endian as every format here has them."""
    if sys.byteorder != "little":  # pragma: no cover
        raise WriteError("checkpoints are written on little-endian machines only")
    return piece.reshape(-1).view(torch.uint8).numpy().data


def need_room(target: Path, needed: int) -> None:
    """WriteError if the file system of `target` has less room than that."""
    free = shutil.disk_usage(target.parent).free
    if free < needed + SPARE:
        found = f"{_size(free)} free"
        raise WriteError("not enough room", where=str(target), expected=_size(needed + SPARE), found=found)


def _size(count: int) -> str:
    return f"{count / 1e9:,.2f} GB" if count >= 10**7 else f"{count:,} bytes"


@contextmanager
def placed(target: Path, *, force: bool = False) -> Iterator[Path]:
    """A path to write a file or folder at, of the same name; it becomes `target` when the block ends well.

    It stands in a hidden folder beside `target`, which vanishes when the block ends, however it does; what a process
    leaves that was killed at once goes when the next one begins. Without `force` nothing that is there is replaced,
    even if it came after the block began; with it, the old one goes as the new one is whole. WriteError says what the
    system refuses."""
    holder: Path | None = None
    lock = -1
    try:
        try:
            _sweep(target.parent)
            holder = Path(tempfile.mkdtemp(prefix=PART, dir=target.parent))
            lock = os.open(holder, os.O_RDONLY)
            with suppress(OSError):  # a file system without locks
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            new = holder / target.name
            yield new
            _settle(new)
            _take(new, target, holder, force)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise WriteError("cannot write", where=str(target), found=reason) from error
    finally:
        if holder is not None:
            _restore(holder, target)
            shutil.rmtree(holder, ignore_errors=True)
        if lock >= 0:
            os.close(lock)


def _sweep(folder: Path) -> None:
    """Remove what processes left that are no more: theirs is not locked, and not of this minute. One that holds a
    checkpoint which was to be replaced is left alone."""
    for left in folder.glob(f"{PART}*"):
        with suppress(OSError):
            handle = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if time.time() - os.fstat(handle).st_mtime > FRESH and not (left / OLD).exists():
                    shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(handle)


def taken(target: Path) -> bool:
    """Whether something stands there that would be lost; an empty folder is nothing."""
    if target.is_dir() and not target.is_symlink():
        return any(target.iterdir())
    return target.is_symlink() or target.exists()


def _settle(new: Path) -> None:
    """Have everything on the disk before it gets its name."""
    for path in sorted(new.rglob("*")) if new.is_dir() else [new]:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _take(new: Path, target: Path, holder: Path, force: bool) -> None:
    if force and (target.is_dir() and not target.is_symlink()):
        os.rename(target, holder / OLD)
    if new.is_dir():
        if not force and taken(target):
            raise WriteError("something came to stand there meanwhile", where=str(target))
        if force and (target.is_symlink() or target.is_file()):
            os.unlink(target)
        os.rename(new, target)
    elif force:
        os.replace(new, target)
    else:
        _link(new, target)


def _link(new: Path, target: Path) -> None:
    """Take the name only if it is free; where the file system has no links, look and then rename."""
    try:
        os.link(new, target)
    except FileExistsError:
        raise WriteError("something came to stand there meanwhile", where=str(target)) from None
    except OSError:
        if target.exists():
            raise WriteError("something came to stand there meanwhile", where=str(target)) from None
        os.rename(new, target)


def _restore(holder: Path, target: Path) -> None:
    """The old folder back in its place if the new one did not take it."""
    old = holder / OLD
    if old.exists() and not target.exists():
        with suppress(OSError):
            os.rename(old, target)
