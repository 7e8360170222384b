"""Where bytes of a checkpoint come from: a file here, or one elsewhere of which ranges are fetched."""

import os
import stat
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from openmodelatlas.errors import CheckpointError, NotACheckpoint
from openmodelatlas.records.findings import refusal
from openmodelatlas.records.shown import printable


class Source(ABC):
    """A file of known size, read in pieces. `name` as the checkpoint calls it, `where` as a message does."""

    name: str
    where: str
    size: int

    @abstractmethod
    def read_into(self, start: int, buffer: memoryview) -> None:
        """Fill the buffer from that byte on. The caller has held the range against `size`."""

    def read(self, start: int, count: int) -> bytes:
        """That many bytes; fewer where the file ends before."""
        buffer = bytearray(max(0, min(count, self.size - start)))
        if buffer:
            self.read_into(start, memoryview(buffer))
        return bytes(buffer)


class LocalFile(Source):
    """A regular file. It is opened for every read, so that any number of shards can be in use, and must then be the
    one that it was: a read never mixes two versions of a file, and one that shrinks is an error and not a crash."""

    def __init__(self, path: Path, name: str | None = None) -> None:
        self.path, self.name, self.where = path, name or path.name, printable(str(path))
        status = _regular(path)
        self.size, self._version = status.st_size, _version(status)

    def read_into(self, start: int, buffer: memoryview) -> None:
        try:
            handle = os.open(self.path, os.O_RDONLY)
        except OSError as error:
            raise unreadable(error, self.where) from None
        try:
            if _version(os.fstat(handle)) != self._version:
                raise refusal("files.changed", self.where)
            while buffer:
                count = os.preadv(handle, [buffer], start)
                if count == 0:
                    raise refusal("files.changed", self.where, found=f"no byte {start}")
                buffer, start = buffer[count:], start + count
        except OSError as error:
            raise unreadable(error, self.where) from None
        finally:
            os.close(handle)


def _version(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _regular(path: Path) -> os.stat_result:
    """The status of a regular file that may be read; NotACheckpoint says what else stands there."""
    where = printable(str(path))
    try:
        status = os.stat(path)
    except FileNotFoundError:
        if path.is_symlink():
            raise refusal("files.dangling-link", where, found=f"a link to {os.readlink(path)!r}") from None
        raise refusal("files.missing", where) from None
    except (OSError, ValueError) as error:
        raise unreadable(error, where) from None
    if stat.S_ISDIR(status.st_mode):
        raise refusal("files.directory", where)
    if not stat.S_ISREG(status.st_mode):  # a pipe would block, a device has no size
        raise refusal("files.not-regular", where)
    if status.st_size == 0:
        raise refusal("files.empty", where)
    if not os.access(path, os.R_OK):
        raise refusal("files.unreadable", where, found="no permission")
    return status


def unreadable(error: Exception, where: str) -> NotACheckpoint:
    """What the system says against a file."""
    reason: Any = getattr(error, "strerror", None) or error
    return refusal("files.unreadable", where, found=reason)


def headers_only(where: str) -> CheckpointError:
    """Why a tensor has no values here."""
    fix = "fetch the files and name their folder"
    return CheckpointError("only headers are fetched", where=where, fix=fix, code="values.unreadable")
