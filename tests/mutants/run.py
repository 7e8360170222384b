"""Run mutants, each in a forked process of its own, and say which check noticed it."""

import importlib
import importlib.abc
import importlib.util
import os
import pickle
import resource
import select
import sys
import types
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from .code import Mutant
from .killers import PACKAGE, Fixed, Noticed, Subject, definition, statement

SECONDS = 60
"""Of processor time: a mutant that needs more runs without end. Not of the clock, which a busy machine stretches."""

SURVIVED = ""
RELOADED = ("openmodelatlas.parts", "openmodelatlas.models", "openmodelatlas.trace", "equations")
"""Rooms that are imported anew in a mutant's process, since they hold or use what is changed."""


@dataclass(frozen=True)
class Result:
    """What became of a mutant: the check that noticed it, and what it said; both empty for a survivor. `of`: the family
    or other thing that it is a mutant of."""

    key: str
    of: str
    kind: str
    check: str
    said: str


class _Replace(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives one module another source."""

    def __init__(self, name: str, source: str) -> None:
        self.name, self.source = name, source

    def find_spec(self, fullname: str, _path: Any, _target: Any = None) -> ModuleSpec | None:
        return importlib.util.spec_from_loader(fullname, self) if fullname == self.name else None

    def exec_module(self, module: types.ModuleType) -> None:
        module.__file__ = f"{self.name.replace('.', '/')}.py"
        exec(compile(self.source, module.__file__, "exec"), vars(module))

    def get_source(self, _name: str) -> str:
        """What `inspect` shows of it."""
        return self.source


def forget(rooms: str | tuple[str, ...]) -> None:
    """Modules of these rooms are imported anew, however they are asked for."""
    for name in [m for m in sys.modules if m.startswith(rooms)]:
        package, _, child = name.rpartition(".")
        if package in sys.modules:
            delattr(sys.modules[package], child)
        del sys.modules[name]


def judge(mutant: Mutant, fixed: Fixed) -> tuple[str, str]:
    """The check that notices the mutant. Leaves this process's modules changed: run it in a fork."""
    told = mutant.target.startswith("equations")
    forget("equations" if told else RELOADED)
    sys.meta_path.insert(0, _Replace(mutant.target if told else PACKAGE + mutant.target, mutant.source))
    subject = Subject(mutant, fixed)
    try:
        (statement if told else definition)(subject)
    except Noticed as error:
        return subject.now, str(error)
    except Exception as error:
        return subject.now, f"{type(error).__name__}: {error}"[:200]
    return SURVIVED, ""


def run(mutants: Sequence[Mutant], fixed: Fixed, jobs: int = 2, progress: Any = None) -> Iterator[Result]:
    """Every mutant's result, `jobs` at a time, in no order."""
    waiting, running = list(reversed(mutants)), dict[int, tuple[int, Mutant]]()
    done = 0
    while waiting or running:
        while waiting and len(running) < jobs:
            mutant = waiting.pop()
            pipe, pid = _start(mutant, fixed)
            running[pipe] = (pid, mutant)
        ready, _, _ = select.select(list(running), [], [], 1.0)
        for pipe in ready:
            pid, mutant = running.pop(pipe)
            check, said = _finish(pipe, pid)
            done += 1
            if progress:
                progress(done, len(mutants))
            yield Result(mutant.key, mutant.of, mutant.kind, check, said)


def _start(mutant: Mutant, fixed: Fixed) -> tuple[int, int]:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)
        return reader, pid
    os.close(reader)
    try:
        with suppress(Exception):
            resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
            sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
        answer = judge(mutant, fixed)
    except BaseException as error:
        answer = ("build", f"{type(error).__name__}")
    with suppress(OSError):
        os.write(writer, pickle.dumps(answer))
    os._exit(0)


def _finish(pipe: int, pid: int) -> tuple[str, str]:
    data = os.read(pipe, 65536)
    os.close(pipe)
    os.waitpid(pid, 0)
    answer: tuple[str, str] = pickle.loads(data) if data else ("build", "the process died, or ran without end")
    return answer


def sources(root: Path) -> dict[str, str]:
    """What the definition is made of, by module name below the package."""
    found = {f"parts.{p.stem}": p.read_text() for p in sorted((root / "parts").glob("*.py")) if p.stem != "__init__"}
    families = [p for p in sorted((root / "models").glob("*.py")) if "VARIANTS = {" in p.read_text()]
    return found | {f"models.{p.stem}": p.read_text() for p in families}


def score(results: Iterable[Result]) -> dict[tuple[str, str], tuple[int, int]]:
    """Killed and all, by what they are mutants of, and kind."""
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for result in results:
        killed, total = found.get((result.of, result.kind), (0, 0))
        found[result.of, result.kind] = (killed + (result.check != SURVIVED), total + 1)
    return found
