"""The cache directory: where it is, how a file gets into it whole, and text kept by git blob id."""

import hashlib
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from openmodelatlas.errors import FetchError

PART = ".part-"
MISS_SECONDS = 600
STALE_SECONDS = 24 * 3600  # a pull that still runs after a day is not running


def cache_dir() -> Path:
    """`OMA_CACHE`, else the platform's cache directory for this user. Not created here."""
    if chosen := os.environ.get("OMA_CACHE"):
        return Path(chosen).expanduser().absolute()
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "openmodelatlas"


def folder(*parts: str) -> Path:
    """A folder of the cache, made if needed."""
    path = cache_dir().joinpath(*parts)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FetchError(
            "cannot make the cache folder", where=f"{path}", found=reason(error), fix=_ELSEWHERE
        ) from error
    return path


_ELSEWHERE = "set OMA_CACHE to a folder that can be written"


def reason(error: OSError) -> str:
    """The operating system's own words for an error, without its numbers."""
    return error.strerror or type(error).__name__


@contextmanager
def atomic(target: Path) -> Iterator[BinaryIO]:
    """A file to write that becomes `target` when the block ends well, and vanishes when it does not.

    The temporary file stands beside the target, so the last step is a rename within one file system: a reader sees the
    old file, the whole new one, or none. Of two writers the later rename stays.
    """
    fd, name = tempfile.mkstemp(prefix=PART, dir=target.parent)
    try:
        with os.fdopen(fd, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)  # the temporary file is private; a shared cache must be readable
        os.replace(name, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


def write(target: Path, data: bytes) -> None:
    """`data` at `target`, whole or not at all."""
    try:
        with atomic(target) as file:
            file.write(data)
    except OSError as error:
        raise FetchError("cannot write", where=f"{target}", found=reason(error), fix=_ELSEWHERE) from error


def sweep(path: Path) -> None:
    """Remove what killed processes left in a folder: temporary files and folders older than a day."""
    with suppress(OSError):
        for entry in path.iterdir():
            if entry.name.startswith(PART) and time.time() - entry.stat().st_mtime > STALE_SECONDS:
                shutil.rmtree(entry, ignore_errors=True) if entry.is_dir() else entry.unlink(missing_ok=True)


def sha256(path: Path) -> str:
    """The sha256 of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def blob_id(data: bytes) -> str:
    """The git blob id of a file's bytes: the same in a clone, a wheel and a download."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def load_blob(blob: str) -> bytes | None:
    """The kept file of that blob id; one whose bytes no longer have it is removed."""
    path = cache_dir() / "evidence" / blob
    try:
        data = path.read_bytes()
    except OSError:
        return None
    if blob_id(data) == blob:
        return data
    with suppress(OSError):
        path.unlink()
    return None


def keep_blob(data: bytes, *, instead_of: str) -> None:
    """Keep a file under its own blob id. If it only stands in for another (same lines, other file), note that too."""
    blob = blob_id(data)
    if load_blob(blob) is None:
        write(folder("evidence") / blob, data)
    if blob != instead_of:
        write(folder("evidence") / f"{instead_of}.see", blob.encode())


def load_stand_in(blob: str) -> bytes | None:
    """The kept file that stands in for that blob id, if any."""
    try:
        other = (cache_dir() / "evidence" / f"{blob}.see").read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return None
    return load_blob(other) if re.fullmatch(r"[0-9a-f]{40}", other) else None


def note_miss(key: str, why: str) -> None:
    """Remember for a while that a file could not be had, so that the next run does not wait for it again."""
    with suppress(FetchError):
        write(folder("evidence") / f"{key}.miss", why.encode())


def missed(key: str) -> str | None:
    """Why the file could not be had a moment ago."""
    path = cache_dir() / "evidence" / f"{key}.miss"
    try:
        recent = time.time() - path.stat().st_mtime < MISS_SECONDS
        return path.read_text(errors="replace") if recent else None
    except OSError:
        return None
