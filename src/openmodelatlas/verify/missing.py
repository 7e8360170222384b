"""What a family still lacks, in the order in which to work: each item computed by running, none by asking."""

import dataclasses
import functools
import importlib
import re
import sys
import tomllib
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from openmodelatlas import models
from openmodelatlas.catalog import find
from openmodelatlas.errors import AtlasError
from openmodelatlas.fetch.progress import Progress, silent
from openmodelatlas.models import tables
from openmodelatlas.models.variant import Variant
from openmodelatlas.records.catalog import Model
from openmodelatlas.verify import library, parity
from openmodelatlas.verify.library import Library
from openmodelatlas.verify.missing_map import Derived

State = Literal["done", "to do", "waits"]

UNPINNED = (1, 1)
"""The lines of a claim that nobody has pinned yet."""


@dataclass(frozen=True)
class ToDo:
    """One thing that is missing: the file, node or key, and what to do there."""

    where: str
    what: str


@dataclass(frozen=True)
class Outcome:
    """What an item's run showed: in a few words, what is left, and how that is done."""

    note: str
    left: tuple[ToDo, ...] = ()
    how: str = ""


@dataclass(frozen=True, kw_only=True)
class Item:
    """One line of the list. `waits`: not run, since `note`, an item before it, is not done."""

    name: str
    title: str
    state: State
    note: str
    left: tuple[ToDo, ...]
    how: str


@dataclass(frozen=True)
class Step:
    """How an item is computed, and which items must be done before."""

    name: str
    title: str
    run: Callable[["Subject"], Outcome]
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class Checkout:
    """A source tree of this project: its root, and the package's folder in it."""

    root: Path
    package: Path

    @property
    def data(self) -> Path:
        """What is published of the models."""
        return self.root / "tests" / "data"

    @property
    def equations(self) -> Path:
        """The equations in NumPy."""
        return self.root / "tests" / "equations"

    def shown(self, path: Path) -> str:
        """A path of the tree as one types it at its root."""
        return path.relative_to(self.root).as_posix()


class Subject:
    """A family, and what its items share: each is computed once."""

    def __init__(self, family: str, tree: Checkout, progress: Progress = silent) -> None:
        self.family, self.tree, self.progress = family, tree, progress

    def file(self, end: str) -> str:
        """One of the family's files in `models`, as a message names it."""
        return f"models/{self.family}{end}"

    @functools.cached_property
    def variants(self) -> dict[str, Variant]:
        """The family's variants by name."""
        return {name: v for name, v in models.variants().items() if v.family == self.family}

    @functools.cached_property
    def structures(self) -> list[Variant]:
        """One variant for each way in which the family's models are put together."""
        return models.structures(self.family)

    @functools.cached_property
    def models(self) -> list[Model]:
        """The family's models in the catalogue."""
        return [model for model in find.models() if model.family == self.family]

    @functools.cached_property
    def configurations(self) -> list[dict[str, Any]]:
        """What is published of the family's variants: rows of published_configs.toml, `keys` with the nulls in it."""
        path = self.tree.data / "published_configs.toml"
        rows = tomllib.loads(path.read_text(encoding="utf-8"))["config"]
        own = [row for row in rows if row["model"] in self.variants]
        return [{**row, "keys": {**row["keys"], **dict.fromkeys(row.get("null", ()))}} for row in own]

    def configuration(self, variant: Variant) -> Mapping[str, Any] | None:
        """The whole published configuration of a variant."""
        whole = [row for row in self.configurations if not row.get("trimmed")]
        return next((row["keys"] for row in whole if row["model"] == variant.name), None)

    @functools.cached_property
    def said(self) -> dict[str, Library]:
        """What the library says of one whole configuration of each structure, by variant."""
        classes = tables.transformers(self.family)["classes"]
        known = [(variant.name, self.configuration(variant)) for variant in self.structures]
        return {name: library.ask(config, classes) for name, config in known if config is not None}

    @functools.cached_property
    def maps(self) -> dict[str, Derived]:
        """The map of each structure's twin, by variant."""
        return {variant.name: Derived(small(variant)) for variant in self.structures}

    def model_of(self, variant: Variant) -> Model | None:
        """A catalogue model of that variant."""
        return next((model for model in self.models if model.variant == variant.name), None)

    def equations(self, name: str) -> ModuleType:
        """A module of the equations in NumPy, which stand among the tests."""
        folder = str(self.tree.equations.parent)
        if folder not in sys.path:
            sys.path.insert(0, folder)
        return importlib.import_module(f"{self.tree.equations.name}.{name}")


def small(variant: Variant) -> Variant:
    """A twin of the variant with no two sizes equal, so that an axis cannot be taken for another."""
    try:
        return parity.twin(variant, uneven=True)
    except TypeError:  # a configuration without one of the usual numbers
        return variant


def items(subject: Subject, steps: Sequence[Step]) -> Iterator[Item]:
    """Every item as soon as it is computed; one whose forerunners are not done waits for the first of them."""
    done: set[str] = set()
    for step in steps:
        before = next((name for name in step.after if name not in done), None)
        if before is not None:
            yield Item(name=step.name, title=step.title, state="waits", note=before, left=(), how="")
            continue
        outcome = attempted(step, subject)
        if not outcome.left:
            done.add(step.name)
        state: State = "to do" if outcome.left else "done"
        how = outcome.how if outcome.left else ""
        yield Item(name=step.name, title=step.title, state=state, note=outcome.note, left=outcome.left, how=how)


def attempted(step: Step, subject: Subject) -> Outcome:
    """An item's outcome; an error on the way is what is to do."""
    try:
        return step.run(subject)
    except AtlasError as error:
        return Outcome("", (ToDo(error.where or subject.file(".py"), str(error)),))
    except Exception as error:  # the family's code is unfinished, and may raise whatever it likes
        return Outcome("", (ToDo(place(error, subject), f"{type(error).__name__}: {error}"),))


def place(error: BaseException, subject: Subject) -> str:
    """The line of the family's own files that an error came through, or the last one of this project's."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_short(error.filename, subject)}:{error.lineno}"
    root = str(subject.tree.root)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(root)]
    own = [f for f in frames if Path(f.filename).stem == subject.family]
    last = (own or frames)[-1:]
    return f"{_short(last[0].filename, subject)}:{last[0].lineno}" if last else subject.file(".py")


def _short(path: str, subject: Subject) -> str:
    for top in (subject.tree.package, subject.tree.root):
        if Path(path).is_relative_to(top):
            return Path(path).relative_to(top).as_posix()
    return path


def pattern(name: str) -> str:
    """A stored name with `{i}` for its block and `{e}` for its expert."""
    return re.sub(r"\.\d+\.", ".{e}.", re.sub(r"\.\d+\.", ".{i}.", name, count=1))


def structure_names(variant: Variant) -> set[str]:
    """Every parameter of a variant, with `{i}` for the block."""
    names = variant.build("meta").named_parameters()
    return {re.sub(r"^blocks\.\d+\.", "blocks.{i}.", name) for name, _ in names}


def fields(variant: Variant) -> set[str]:
    """The numbers of a variant's configuration."""
    return {field.name for field in dataclasses.fields(variant.config)}
