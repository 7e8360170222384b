"""A made-up network, a made-up repository, and claims that are pinned to it."""

import hashlib
import os
import subprocess
from pathlib import Path

from openmodelatlas.errors import FetchError
from openmodelatlas.fetch.cache import blob_id
from openmodelatlas.records.evidence import Claim, Pin, Place, Range

SOURCE = "".join(f"line {n}\n" for n in range(1, 21))
PATH = "src/thing.py"
REPO = "acme/thing"


def git(folder: Path, *arguments: str) -> str:
    """git with a fixed author and no configuration of the machine."""
    fixed = {"NAME": "A", "EMAIL": "a@example.invalid", "DATE": "2024-01-01T00:00:00Z"}
    env = os.environ | {f"GIT_{who}_{key}": value for key, value in fixed.items() for who in ("AUTHOR", "COMMITTER")}
    env |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    done = subprocess.run(["git", "-C", str(folder), *arguments], env=env, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def repository(folder: Path, *versions: str) -> list[str]:
    """A work tree whose file has these versions; their revisions."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / PATH).parent.mkdir(parents=True)
    revisions = []
    for text in versions:
        (folder / PATH).write_text(text)
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "--allow-empty", "-m", "version")
        revisions.append(git(folder, "rev-parse", "HEAD"))
    return revisions


def pin(revision: str, *lines: tuple[int, int], text: str = SOURCE, path: str = PATH, repo: str = REPO) -> Pin:
    """Lines of a version of the file."""
    place = Place(
        kind="git",
        source=repo,
        revision=revision,
        path=path,
        blob=blob_id(text.encode()),
        license="none",
        wheel_sha256=None,
    )
    return Pin(place=place, ranges=tuple(part(text, *ends) for ends in lines), same_text=True)


def wheel_pin(sha256: str, *lines: tuple[int, int], text: str = SOURCE, member: str = PATH) -> Pin:
    """The same, in a wheel."""
    place = Place(
        kind="wheel",
        source="thing",
        revision="1.0",
        path=member,
        blob=blob_id(text.encode()),
        license="none",
        wheel_sha256=sha256,
    )
    return Pin(place=place, ranges=tuple(part(text, *ends) for ends in lines), same_text=True)


def part(text: str, first: int, last: int) -> Range:
    """A range, hashed by this test's own reading of the rule."""
    kept = "\n".join(line.rstrip() for line in text.splitlines()[first - 1 : last])
    return Range(first=first, last=last, sha256=hashlib.sha256(kept.encode()).hexdigest())


def claim(own: Pin, *also: Pin, name: str = "c") -> Claim:
    """A claim that stands on these pins."""
    return Claim(
        id=name,
        reference="acme",
        statement="It is so.",
        pin=own,
        also=also,
        direct=(),
        contextual=(),
        expressions={},
        conflict=None,
    )


class Network:
    """What was asked of the network, and what it answers (nothing, unless told)."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.files: dict[str, bytes] = {}

    def download(self, url: str) -> bytes:
        self.asked.append(url)
        for end, data in self.files.items():
            if url.endswith(end):
                return data
        raise FetchError("could not be downloaded", where=url, found="no network")

    def wheel(self, name: str, version: str, _sha256: str, *, offline: bool = False, **_: object) -> Path:
        if offline:
            raise FetchError(f"{name}=={version} is not in the cache", fix="run once without --offline")
        self.asked.append(f"{name}=={version}")
        raise FetchError("could not be downloaded", where=f"{name}=={version}", found="no network")
