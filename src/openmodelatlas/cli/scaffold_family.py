"""The files of a new family in `models`, made of a sibling's: what only its people can say is marked TODO."""

import ast
import dataclasses
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any, get_args

from openmodelatlas.cli.toml_text import value as toml
from openmodelatlas.models import tied, variants
from openmodelatlas.models.variant import Variant
from openmodelatlas.verify.library import Library
from openmodelatlas.verify.missing_map import TODO
from openmodelatlas.weights.configuration import flat
from openmodelatlas.weights.naming import NameTable, Scheme, has_names, name_table

WIDEST = 120
SCHEMES = ("gguf", "huggingface")
"""The schemes that a new family starts with; a maker's own names are its author's to add."""


@dataclass(frozen=True, kw_only=True)
class Start:
    """What a family starts from: its name and a sibling's, the id of its first model and of the release, who states
    its configuration, the parsed `config.json`, and what the library makes of it."""

    family: str
    like: str
    model: str
    release: str
    source: str
    config: Mapping[str, Any]
    library: Library

    @property
    def title(self) -> str:
        """What the library calls the family."""
        return self.library.model.removesuffix("ForCausalLM")


# --- numbers ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Numbers:
    """A row: the sibling's variant that it is built like, its numbers by field, and the fields whose number is still
    the sibling's, since no source states one."""

    pattern: Variant
    values: Mapping[str, Any]
    unstated: tuple[str, ...]


def numbers(like: str, config: Mapping[str, Any], library: Library) -> Numbers:
    """The configuration read through the sibling's name table, into the kind of variant that it fits best."""
    shared = bool(library.filled.get("tie_word_embeddings"))
    rows = [_row(variant, config, library) for variant in variants().values() if variant.family == like]
    return min(rows, key=lambda row: (len(row.unstated), tied(row.pattern) != shared))


def _row(variant: Variant, config: Mapping[str, Any], library: Library) -> Numbers:
    table = name_table(variant.family, "huggingface")
    known = [{table.canonical(key): value for key, value in flat(said).items()} for said in (config, library.filled)]
    values, unstated = {}, []
    for field in dataclasses.fields(variant.config):
        found = next((n for said in known for n in _stated(field.name, said, table)), None)
        found = next(_derived(field.name, {**known[1], **known[0]}, table), None) if found is None else found
        if found is None:
            unstated.append(field.name)
            found = getattr(variant.config, field.name)
        values[field.name] = float(found) if field.type is float else found
    return Numbers(variant, values, tuple(unstated))


def _stated(field: str, said: Mapping[str, Any], table: NameTable) -> Iterator[Any]:
    for key, name in table.read.items():
        if name == field and isinstance(said.get(key), (int, float)) and not isinstance(said[key], bool):
            yield said[key]


def _derived(field: str, said: Mapping[str, Any], table: NameTable) -> Iterator[Any]:
    for key, name in table.read.items():
        rule = rules(table).get(key) if name == field else None
        first, _, second = (rule or "").partition(" / ")
        if isinstance(said.get(first), int):
            yield said[first] // said[second] if second else said[first]


def rules(table: NameTable) -> dict[str, str]:
    """What a key means by others where it is not stated: by the table, or by another family's."""
    found: dict[str, str] = {}
    for family in {variant.family for variant in variants().values()}:
        if has_names(family, "huggingface"):
            found |= name_table(family, "huggingface").derived
    return {**found, **table.derived}


# --- the definition ---------------------------------------------------------------------------------------------------


def definition(start: Start, text: str) -> str:
    """The sibling's file with one row, read from the configuration, and every docstring to be read again."""
    tree, row = ast.parse(text), numbers(start.like, start.config, start.library)
    edits = [(1, tree.body[0].end_lineno or 1, _docstring(start))]
    edits += [edit for node in tree.body if isinstance(node, ast.ClassDef) for edit in _reread(node, text)]
    table = next(n for n in tree.body if isinstance(n, ast.Assign) and _name(n) == "VARIANTS")
    shared = {s.value.id for s in ast.walk(table) if isinstance(s, ast.Starred) and isinstance(s.value, ast.Name)}
    for node, before in zip(tree.body[1:], tree.body, strict=False):
        note = isinstance(node, ast.Expr) and isinstance(before, ast.Assign) and _name(before) in shared
        if note or (isinstance(node, ast.Assign) and _name(node) in shared):
            edits.append((node.lineno, node.end_lineno or node.lineno, ""))
    edits.append((table.lineno, table.end_lineno or table.lineno, _variants(start, row, table)))
    return re.sub(r"\n{4,}", "\n\n\n", replaced(text, edits))


def replaced(text: str, edits: Sequence[tuple[int, int, str]]) -> str:
    """The text with whole lines, first to last of each edit, replaced."""
    lines = text.splitlines(keepends=True)
    for first, last, new in sorted(edits, reverse=True):
        lines[first - 1 : last] = [new]
    return "".join(lines)


def _name(node: ast.Assign) -> str:
    target = node.targets[0]
    return target.id if isinstance(target, ast.Name) else ""


def _docstring(start: Start) -> str:
    code = start.library.file.name
    return (
        f'r"""{TODO}: the {start.title} family in one line: what it does otherwise than its neighbours.\n\n'
        f"{TODO}: what follows from it, in a few sentences; which pairs rotation takes; what files store otherwise.\n"
        f"\nSources: transformers, {code} (the pinned lines stand in the catalogue); the published configurations.\n"
        '"""\n'
    )


def _reread(node: ast.ClassDef, text: str) -> Iterator[tuple[int, int, str]]:
    """A mark in the docstring of a module; that of the configuration says nothing of one family."""
    doc = node.body[0]
    if node.decorator_list or not isinstance(doc, ast.Expr) or not isinstance(doc.value, ast.Constant):
        return
    line = text.splitlines(keepends=True)[doc.lineno - 1]
    yield doc.lineno, doc.lineno, line.replace('"""', f'"""{TODO} does this hold? ', 1)


def _variants(start: Start, row: Numbers, table: ast.Assign) -> str:
    assert isinstance(table.value, ast.Dict)
    keys = [key.value for key in table.value.keys if isinstance(key, ast.Constant)]
    call = table.value.values[keys.index(row.pattern.name)]
    assert isinstance(call, ast.Call)
    classes = [arg.id for arg in call.args if isinstance(arg, ast.Name)]
    given = ", ".join([*classes, *map(_number, row.values.values())])
    made = f'    "{start.model}": {ast.unparse(call.func)}({given}),'
    if len(made) > WIDEST:
        made = f'    "{start.model}": {ast.unparse(call.func)}(\n        {given}\n    ),'
    notes = [f"    # {TODO}: no source has {name}; here stands {row.pattern.name}'s number" for name in row.unstated]
    order = wrap(", ".join(row.values), WIDEST - len("    # "))
    return "\n".join(["VARIANTS = {", *(f"    # {line}" for line in order), *notes, made, "}", ""])


def _number(value: Any) -> str:
    """As people write it: 1e-5, not 1e-05."""
    return re.sub(r"e-0(\d)$", r"e-\1", repr(value))


# --- the tables -------------------------------------------------------------------------------------------------------


def pages(start: Start, text: str) -> str:
    """The sibling's page table."""
    about = f"The pages of the {start.title} family: what a node or a tensor is called, its symbol, its axes."
    about += f"\n#\n# {TODO}: read every sentence; one that is true of {start.like} may be false here"
    return _commented(text, about)


def transformers(start: Start, text: str) -> str:
    """The sibling's table of the library's values, with the classes that the configuration names."""
    text = re.sub(r'^config = ".*"$', f'config = "{start.library.config}"', text, flags=re.M)
    text = re.sub(r'^model = ".*"$', f'model = "{start.library.model}"', text, flags=re.M)
    about = f"Where the library computes the nodes of the {start.title} family; llama.transformers.toml explains."
    return _commented(text, about)


def names(start: Start, text: str) -> str:
    """The sibling's name table: what names the kind of model, GGUF's prefix and the library's defaults replaced."""
    about = (
        f"The {start.title} family's parameters and settings under the names that checkpoints give them; "
        "llama.names.toml\n# explains.\n#\n"
        f"# {TODO}: which pairs rotation takes, and whether a scheme's rows need a step for it"
    )
    text = _commented(_only(SCHEMES, text), about)
    table = name_table(start.like, "gguf")
    old, new = str(table.must_equal["general.architecture"]), architecture(start)
    text = re.sub(rf'(["/] ?){re.escape(old)}\.', rf"\g<1>{new}.", text)
    text = _set(text, "metadata.gguf.must_equal", {"general.architecture": new})
    said = {key: start.config[key] for key in ("architectures", "model_type") if key in start.config}
    text = _set(text, "metadata.huggingface.must_equal", said)
    return _defaults(start, text)


def architecture(start: Start) -> str:
    """What GGUF files call the kind of model."""
    import gguf

    known = {name: name for name in gguf.MODEL_ARCH_NAMES.values()}
    said = str(start.library.filled.get("model_type", start.family))
    plain = {re.sub(r"\W|_", "", name): name for name in known}
    return known.get(said) or plain.get(re.sub(r"\W|_", "", said)) or f"{TODO}-{said}"


def _defaults(start: Start, text: str) -> str:
    """What a key means that is not stated: what the library's class has there, or what other keys say of it."""
    table, other = name_table(start.like, "huggingface"), dict[str, Any]()
    for key in section(text, "metadata.huggingface.absent"):
        stated = start.library.default(key)
        if stated is not None or key in rules(table):
            other[key] = stated
    text = _set(text, "metadata.huggingface.absent", other)
    derived = {key: rules(table)[key] for key, stated in other.items() if stated is None}
    return _set(text, "metadata.huggingface.derived", derived, add=True)


@functools.cache
def _head(name: str) -> re.Pattern[str]:
    return re.compile(rf"^\[{re.escape(name)}\]\n((?:(?!\[).*\n?)*)", re.M)


def section(text: str, name: str) -> dict[str, str]:
    """The keys of a section of a name table, and what stands behind each."""
    found = _head(name).search(text)
    return dict(re.findall(r'^"([^"]+)" = (.*)$', found[1], re.M)) if found else {}


def _set(text: str, name: str, values: Mapping[str, Any], *, add: bool = False) -> str:
    """Other values in a section; a line whose value is None goes, one that is not there is added only if asked."""
    found = _head(name).search(text)
    if found is None:
        return text
    body, there = found[0], section(text, name)
    for key, value in values.items():
        line = "" if value is None else f'"{key}" = {toml(value)}\n'
        if key in there:
            body = body.replace(f'"{key}" = {there[key]}\n', line, 1)
        elif add:
            body = body.rstrip("\n") + f"\n{line}\n"
    return text[: found.start()] + body + text[found.end() :]


def _only(schemes: Sequence[str], text: str) -> str:
    """The name table without the columns and sections of other schemes."""
    others = "|".join(set(get_args(Scheme)) - set(schemes))
    text = re.sub(rf"(?m)^\[metadata\.({others})[.\]](?:.*\n)(?:(?!\[).*\n?)*", "", text)
    text = re.sub(rf"(?m)^({others})(_steps)? = .*\n", "", text)
    return re.sub(rf"(?m)^\[\[constant\]\]\n(?!(?:.+\n)*?({'|'.join(schemes)}) = )(?:.+\n)*\n?", "", text)


def _commented(text: str, about: str) -> str:
    """The text under a heading of its own, with every other comment to be read again."""
    body = re.sub(r"\A(#.*\n)+", "", text)
    lines, before = [], ""
    for line in body.splitlines(keepends=True):
        first = line.startswith("#") and not before.startswith("#")
        lines.append(line.replace("# ", f"# {TODO} does this hold? ", 1) if first else line)
        before = line
    return f"# {about}\n" + "".join(lines)


def installed(library: Library, path: str) -> Path:
    """A file of the library's package on this machine, by its path in the wheel."""
    return Path(str(library.file)[: -len(library.path)]) / path
