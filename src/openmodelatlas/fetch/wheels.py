"""Wheels fixed by hash: from the cache, else by pip; and single members out of them. Nothing is installed."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from openmodelatlas.errors import FetchError
from openmodelatlas.fetch import cache
from openmodelatlas.fetch.progress import Progress, silent

MEMBER_LIMIT = 4 * 2**20
CHUNK = 2**20
POLL_SECONDS = 0.1


def wheel(
    name: str, version: str, sha256: str, *, offline: bool = False, progress: Progress | None = None, size: int = 0
) -> Path:
    """The wheel of `name==version` whose sha256 is this one, in the cache. `size` only scales the progress."""
    target = cached_path(name, version, sha256)
    if target.is_file() and cache.sha256(target) == sha256:
        return target
    what = f"{name}=={version}"
    if offline:
        raise FetchError(f"{what} is not in the cache", where=f"{target.parent}", fix="run once without --offline")
    with _scratch(cache.folder("wheels")) as scratch:
        found = _download(what, scratch, progress or silent, size)
        actual = cache.sha256(found)
        if actual != sha256:
            raise FetchError("wrong hash", where=what, expected=sha256, found=actual, fix="nothing was kept")
        os.replace(found, target)
    return target


def cached_path(name: str, version: str, sha256: str) -> Path:
    """Where the wheel is kept. The name carries the hash, so that two pins of one version can't meet."""
    return cache.cache_dir() / "wheels" / f"{name}-{version}-{sha256[:16]}.whl"


@contextmanager
def _scratch(parent: Path) -> Iterator[Path]:
    cache.sweep(parent)
    try:
        with tempfile.TemporaryDirectory(prefix=cache.PART, dir=parent, ignore_cleanup_errors=True) as name:
            yield Path(name)
    except OSError as error:
        raise FetchError("cannot use the cache", where=f"{parent}", found=cache.reason(error)) from error


def _pip() -> list[str]:
    """pip of this interpreter; an environment made without it may still have one on the path."""
    from importlib.util import find_spec

    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    if found := shutil.which("pip"):
        return [found]
    raise FetchError("pip is not installed in this environment", fix="install pip, or put the wheel into the cache")


def _download(what: str, scratch: Path, progress: Progress, size: int) -> Path:
    """Let pip download one wheel into `scratch`. Its temporary files go there too, so their growth is the progress."""
    out, tmp, log = scratch / "out", scratch / "tmp", scratch / "log"
    out.mkdir()
    tmp.mkdir()
    command = [*_pip(), "download", "--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--no-input", "--quiet"]
    command += ["--progress-bar", "off", "--retries", "1", "--timeout", "15", "--dest", str(out), what]
    env = os.environ | {"TMPDIR": str(tmp), "TEMP": str(tmp), "TMP": str(tmp), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    with log.open("wb") as stderr:
        code = _watch(command, env, stderr.fileno(), lambda: progress(f"download {what}", _bytes_in(scratch), size))
    wheels = list(out.glob("*.whl"))
    if code != 0 or len(wheels) != 1:
        raise FetchError("could not be downloaded", where=what, found=_last_error(log), fix="check the network and pip")
    progress(f"download {what}", wheels[0].stat().st_size, wheels[0].stat().st_size)
    return wheels[0]


def _watch(command: list[str], env: dict[str, str], log: int, tick: Callable[[], None]) -> int:
    """Run to the end, calling `tick` now and then; an interrupt ends the child as well."""
    process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log)
    try:
        while (code := process.poll()) is None:
            tick()
            time.sleep(POLL_SECONDS)
        return code
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def _bytes_in(path: Path) -> int:
    total = 0
    for root, _, names in os.walk(path):
        for name in names:
            try:
                total += os.stat(os.path.join(root, name)).st_size
            except OSError:  # pip moved it meanwhile
                continue
    return total


def _last_error(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    # A fault inside pip is headed `ERROR: Exception:`; what it was stands last.
    errors = [line for line in lines if line.startswith("ERROR") and line != "ERROR: Exception:"]
    return ((errors or lines or ["pip said nothing"])[-1])[:300]


def member(path: Path, name: str, *, limit: int = MEMBER_LIMIT) -> bytes:
    """One small member of a wheel."""
    with _open(path) as archive:
        info = _info(archive, path, name)
        try:
            with archive.open(info) as file:
                data = file.read(limit + 1)
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError, EOFError) as error:
            raise FetchError("damaged member", where=f"{path.name}: {name}", found=f"{error}") from error
    if len(data) > limit:
        raise FetchError("member too large", where=f"{path.name}: {name}", expected=f"at most {limit} bytes")
    return data


def extract(path: Path, name: str, target: Path, *, sha256: str, size: int, progress: Progress | None = None) -> None:
    """One member of a wheel as the file `target`, if it has this size and hash; else nothing is written."""
    show, digest, done = progress or silent, hashlib.sha256(), 0
    where = f"{path.name}: {name}"
    with _open(path) as archive:
        info = _info(archive, path, name)
        if info.file_size != size:
            raise FetchError("wrong size", where=where, expected=size, found=info.file_size, fix="nothing was kept")
        try:
            with archive.open(info) as source, cache.atomic(target) as file:
                while chunk := source.read(CHUNK):
                    file.write(chunk)
                    digest.update(chunk)
                    done += len(chunk)
                    show(f"unpack {target.name}", done, size)
                if digest.hexdigest() != sha256:
                    found = digest.hexdigest()
                    raise FetchError("wrong hash", where=where, expected=sha256, found=found, fix="nothing was kept")
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
            raise FetchError("damaged member", where=where, found=f"{error}", fix="nothing was kept") from error
        except OSError as error:
            raise FetchError("cannot write", where=f"{target}", found=cache.reason(error)) from error


@contextmanager
def _open(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError) as error:
        raise FetchError("not a readable wheel", where=f"{path}", found=f"{error}") from error
    with archive:
        yield archive


def _info(archive: zipfile.ZipFile, path: Path, name: str) -> zipfile.ZipInfo:
    """The one entry of exactly that name. A name never becomes a path, but one that climbs is refused all the same."""
    if name.startswith(("/", "\\")) or "\\" in name or ".." in name.split("/") or ":" in name:
        raise FetchError("not a member name", where=f"{path.name}: {name!r}")
    entries = [info for info in archive.infolist() if info.filename == name]
    if len(entries) != 1:
        raise FetchError("member must be there once", where=f"{path.name}: {name}", found=f"{len(entries)} times")
    if entries[0].is_dir():
        raise FetchError("member is a folder", where=f"{path.name}: {name}")
    return entries[0]
