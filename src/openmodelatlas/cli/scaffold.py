"""`oma new FAMILY --like OTHER`: every file that a family needs, made of a sibling's and of its `config.json`."""

import importlib
import json
import keyword
import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

from openmodelatlas import models
from openmodelatlas.catalog import find, load
from openmodelatlas.cli import scaffold_catalogue as catalogue
from openmodelatlas.cli import scaffold_family as family_files
from openmodelatlas.cli.scaffold_family import Start
from openmodelatlas.errors import UsageError
from openmodelatlas.fetch import cache
from openmodelatlas.models import tables
from openmodelatlas.verify import library, published
from openmodelatlas.verify.missing import Checkout
from openmodelatlas.verify.missing_map import TODO

COUNTS = "published_counts.toml"


def checkout() -> Checkout:
    """The tree that this package runs from. UsageError where it is installed without one."""
    package = Path(str(files("openmodelatlas")))
    found = Checkout(package.parent.parent, package)
    if package.parent.name != "src" or not (found.root / "pyproject.toml").is_file() or not found.data.is_dir():
        raise UsageError(
            "a family is added to a source checkout, and this is none",
            where=str(package),
            fix="clone the repository and `pip install --editable '.[test]'` there",
        )
    return found


def new_name(name: str) -> str:
    """The name of a family that may be made."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise UsageError("not a family's name", found=repr(name), expected="a lower-case Python name, such as qwen3")
    return name


def families() -> set[str]:
    """The families that are there."""
    return {variant.family for variant in models.variants().values()}


def read_configuration(path: Path) -> dict[str, Any]:
    """A parsed `config.json`."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError("not a readable config.json", where=str(path), found=str(error)) from None
    if not isinstance(found, dict):
        raise UsageError("not a configuration", where=str(path), expected="a JSON object")
    return found


def start(
    family: str,
    like: str,
    config: Path,
    *,
    model: str | None = None,
    release: str | None = None,
    source: str | None = None,
) -> Start:
    """What the family starts from. UsageError for what cannot be."""
    if new_name(family) in families():
        raise UsageError("the family is there already", found=family, fix=f"`oma new {family}` says what is missing")
    if like not in families():
        raise UsageError("no such family", found=like, expected=", ".join(sorted(families())))
    raw = read_configuration(config)
    said = library.ask(raw)
    named = f"{family.replace('_', '-')}-{catalogue.size(said.total).lower()}"
    release = release or (re.sub(r"-[^-]*$", "", model) if model and "-" in model else family.replace("_", "-"))
    made = Start(
        family=family,
        like=like,
        model=model or named,
        release=release,
        source=source or f"{TODO}: whose config.json, at which revision, and what carries it",
        config=raw,
        library=said,
    )
    for what, name in (("model", made.model), ("release", made.release)):
        if not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", name):
            raise UsageError(f"not a {what}'s id", found=repr(name), expected="lower case, digits, dots and dashes")
    if made.model in models.names() or made.release in load.releases():
        raise UsageError("there already", found=f"{made.model} or {made.release}", fix="choose --model and --release")
    return made


def plan(of: Start, tree: Checkout) -> dict[Path, str]:
    """Every file by its path: new ones, and those of all families with a row more."""
    room, entries = tree.package / "models", tree.package / "catalog"
    makers = {
        ".py": family_files.definition,
        ".pages.toml": family_files.pages,
        ".names.toml": family_files.names,
        ".transformers.toml": family_files.transformers,
    }
    made = {room / f"{of.family}{end}": make(of, _text(room / f"{of.like}{end}")) for end, make in makers.items()}
    sibling = next(model for model in find.models() if model.family == of.like)
    made[entries / "releases" / f"{of.release}.toml"] = catalogue.release(of, find.release(sibling.release).kind)
    table = tomllib.loads(_text(room / f"{of.like}.pages.toml"))
    shells = catalogue.reference(of, _references(entries / "references", sibling.reference), _nodes(table))
    made[entries / "references" / f"transformers-{of.family}.toml"] = shells
    whole = tree.equations / "whole" / f"{of.like}.py"
    if whole.is_file():
        said = re.sub(r'\A"""', f'"""{TODO} does this hold? ', _text(whole))
        made[tree.equations / "whole" / f"{of.family}.py"] = said
    if there := [path for path in made if path.exists()]:
        raise UsageError("the file is there already", where=tree.shown(there[0]), fix="nothing was written")
    rows = {
        tree.package / "verify" / COUNTS: catalogue.count,
        tree.data / "parameter_counts.toml": catalogue.count,
        tree.data / "configs.toml": catalogue.configuration,
        tree.data / "published_configs.toml": catalogue.published,
    }
    return made | {path: _text(path).rstrip("\n") + "\n" + row(of) for path, row in rows.items()}


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _nodes(table: Mapping[str, Any]) -> set[str]:
    """Every node and every tensor's owner of a page table."""
    return {*table["nodes"], *(name.partition(":")[0] for name in table["tensors"])}


def _references(folder: Path, own: str) -> list[Mapping[str, Any]]:
    """The references whose claims may be followed: the sibling's, or all where that is no code of the library's."""
    there: list[Mapping[str, Any]] = [tomllib.loads(_text(path)) for path in sorted(folder.glob("*.toml"))]
    mine = [table for table in there if table["id"] == own]
    packaged = [t for t in there if t["place"][t["home"]]["source"] == library.PACKAGE]
    return [table for table in mine if table in packaged] or packaged or mine


def write(files_: Mapping[Path, str]) -> None:
    """All of them, or none: what was written before one that cannot be is taken back."""
    before = {path: path.read_bytes() if path.exists() else None for path in files_}
    done: list[Path] = []
    try:
        for path, text in files_.items():
            with cache.atomic(path) as file:
                file.write(text.encode())
            done.append(path)
    except OSError as error:
        for made in done:
            old = before[made]
            with suppress(OSError):
                made.unlink() if old is None else made.write_bytes(old)
        found = cache.reason(error)
        raise UsageError("cannot write", where=str(path), found=found, fix="nothing was written") from error
    forget()


def forget() -> None:
    """What this process has read before."""
    importlib.invalidate_caches()
    for kept in (models.variants, tables.table, load.references, load.releases, published.counts):
        kept.cache_clear()


def known(family: str, tree: Checkout) -> None:
    """UsageError for a family that has no file yet."""
    if not (tree.package / "models" / f"{new_name(family)}.py").is_file():
        raise UsageError(
            "no such family yet",
            where=family,
            fix=f"oma new {family} --like OTHER --config config.json makes its files, after those of OTHER",
        )
