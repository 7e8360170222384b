"""The checks of several models in processes side by side: models of one family in one, since they share runs."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

from openmodelatlas.records.catalog import Model

COMMAND = (sys.executable, "-m", "openmodelatlas.cli.main", "verify")


@dataclass(frozen=True)
class Share:
    """What one process said of its models."""

    models: tuple[str, ...]
    code: int
    out: str


def usual_jobs() -> int:
    """As many processes as cores: every run keeps to one thread."""
    return os.cpu_count() or 1


def shares(models: Sequence[Model]) -> list[tuple[str, ...]]:
    """The models of each family; families with the most structure to check are begun first."""
    families: dict[str, list[str]] = {}
    for model in models:
        families.setdefault(model.family, []).append(model.id)
    return sorted(map(tuple, families.values()), key=len, reverse=True)


def run(models: Sequence[Model], jobs: int, options: Sequence[str]) -> Iterator[Share]:
    """Each share's outcome, as it comes; what a process says on stderr is passed on at once."""
    with ThreadPoolExecutor(jobs) as pool:
        waiting = [pool.submit(_share, names, tuple(options)) for names in shares(models)]
        for done in as_completed(waiting):
            yield done.result()


def _share(names: tuple[str, ...], options: tuple[str, ...]) -> Share:
    command = [*COMMAND, *names, *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, encoding="utf-8", check=False)
    return Share(names, done.returncode, done.stdout)


def joined(found: Sequence[Share]) -> list[Any]:
    """The records of all shares, which were printed as JSON."""
    return [record for share in found if share.out.strip() for record in json.loads(share.out)]
