"""Files out of local git clones, by revision and path. Reads objects only: nothing is checked out, run or fetched."""

import os
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from openmodelatlas.errors import FetchError, UsageError

TIMEOUT_SECONDS = 30
LIMIT = 4 * 2**20
FOLDERS_AT_MOST = 500

# A clone is somebody else's: no config of the user or system, no hook, no transport (a partial clone would fetch), no
# replaced objects.
_CONFIG = ("safe.directory=*", "core.hooksPath=/dev/null", "core.fsmonitor=false")
_OPTIONS = ("--no-pager", "--no-replace-objects", *(word for setting in _CONFIG for word in ("-c", setting)))
_ENV = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",  # older gits know only this; it outranks what the clone's own config allows
    "LC_ALL": "C",
}


def clones(folder: Path) -> tuple[Path, ...]:
    """The git directories that `folder` is, holds, or holds one level deeper."""
    if not folder.is_dir():
        raise UsageError("no such folder", where=f"{folder}", fix="--mirror takes a git clone or a folder of clones")
    found = tuple(_git_dirs(folder, depth=2))
    if not found:
        raise UsageError(
            "no git clone found", where=f"{folder}", fix="--mirror takes a git clone or a folder of clones"
        )
    return found


def _git_dirs(folder: Path, depth: int) -> Iterator[Path]:
    if (folder / ".git").is_dir():
        yield folder / ".git"
    elif (folder / "HEAD").is_file() and (folder / "objects").is_dir():
        yield folder
    elif (folder / ".git").is_file():  # a linked work tree: git itself follows the link
        yield folder / ".git"
    elif depth:
        children = sorted(child for child in folder.iterdir() if child.is_dir() and not child.is_symlink())
        for child in children[:FOLDERS_AT_MOST]:
            yield from _git_dirs(child, depth - 1)


def blob_at(clone: Path, revision: str, path: str) -> bytes | None:
    """The file at a revision of a clone, or None."""
    name = f"{revision}:{path}"
    size = _git(clone, "cat-file", "-s", name)
    if size is None or not size.strip().isdigit() or int(size) > LIMIT:
        return None
    return _git(clone, "cat-file", "blob", name)


@cache
def is_of(clone: Path, repo: str) -> bool:
    """Whether a clone is one of `OWNER/NAME`, by its folder's name or its remotes."""
    owner, name = repo.split("/")
    place = str(clone.resolve())
    if f"{owner}+{name}/" in place + "/" or f"{owner}/{name}/" in place.replace(".git", "") + "/":
        return True
    remotes = _git(clone, "config", "--local", "--get-regexp", r"^remote\..*\.url$") or b""
    return any(line.removesuffix(".git").endswith(f"/{repo}") for line in remotes.decode(errors="replace").splitlines())


def _git(clone: Path, *arguments: str) -> bytes | None:
    """The output of a git command that reads one clone; None where it fails."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")} | _ENV
    # `gitfile` links are followed only from a work tree.
    at = ["-C", str(clone.parent)] if clone.is_file() else ["--git-dir", str(clone)]
    try:
        done = subprocess.run(
            ["git", *_OPTIONS, *at, *arguments],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
    except FileNotFoundError as error:
        raise FetchError("git is not installed", fix="--mirror needs it") from error
    except (subprocess.TimeoutExpired, OSError):
        return None
    return done.stdout if done.returncode == 0 else None
