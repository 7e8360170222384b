"""A new family's entries: its release, the shells of its claims, and what is published of its first model."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from openmodelatlas.catalog.load import references
from openmodelatlas.cli.scaffold_family import Start, installed, numbers
from openmodelatlas.cli.toml_text import key, range_row, value
from openmodelatlas.errors import UsageError
from openmodelatlas.evidence.excerpts import excerpt_hash, lines_of, locate
from openmodelatlas.fetch import cache
from openmodelatlas.records.evidence import Place, Range
from openmodelatlas.verify.library import PACKAGE
from openmodelatlas.verify.missing import UNPINNED
from openmodelatlas.verify.missing_map import TODO
from openmodelatlas.weights.configuration import flat

HOME = "modeling"
ABOUT = ("direct", "contextual", "lacks")
BILLION, MILLION = 10**9, 10**6


def size(parameters: int) -> str:
    """A number of parameters as makers print it."""
    unit, letter = (BILLION, "B") if parameters >= BILLION else (MILLION, "M")
    whole = parameters / unit
    return f"{whole:.1f}".removesuffix(".0") + letter if whole < 3 else f"{whole:.0f}{letter}"


# --- the release ------------------------------------------------------------------------------------------------------


def release(start: Start, kind: str) -> str:
    """The release's file with its first model."""
    positions = numbers(start.like, start.config, start.library).values["max_position_embeddings"]
    return f"""id = {value(start.release)}
title = "{TODO}: as its maker writes it"
maker = "{TODO}"
date = "1970-01"   # {TODO}: year and month of the release, or the day
kind = {value(kind)}
default = {value(start.model)}
sources = ["{TODO}: where the date is stated"]

# Shared by all sizes.
family = {value(start.family)}
reference = {value(reference_id(start))}
not_verified = ["checkpoint", "tokenizer", "tensors"]

[[model]]
id = {value(start.model)}
size = {value(start.model.removeprefix(f"{start.release}-").upper())}   # {TODO}: as its maker writes it
hub = ["{TODO}: its place on the Hub"]
[model.context]
config = {{ positions = {positions}, source = "max_position_embeddings in the config.json named below" }}
[model.configuration]
state = "stated"
source = {value(start.source)}
"""


# --- the reference ----------------------------------------------------------------------------------------------------


def reference_id(start: Start) -> str:
    """The library's code of the family."""
    return f"{PACKAGE}/{start.family}"


def reference(start: Start, siblings: Sequence[Mapping[str, Any]], nodes: Collection[str]) -> str:
    """The reference's file: its places, and a shell of each of a sibling's claims, with those of its nodes that are
    among `nodes`; of several siblings' that of the one whose text stands in the family's file most often.

    Where the very text that the sibling pins stands in the family's file, the shell is pinned to it there; its
    statement is left to whoever has read the lines."""
    home = start.library.file.read_bytes()
    cache.keep_blob(home, instead_of=cache.blob_id(home))
    known = packaged(start.library.version)
    mine = {
        "kind": "wheel",
        "source": PACKAGE,
        "revision": start.library.version,
        "path": start.library.path,
        "blob": cache.blob_id(home),
        "license": known.license,
        "wheel_sha256": known.wheel_sha256,
    }
    texts = max((_Texts(start, sibling, home) for sibling in siblings), key=_Texts.found)
    head = [
        f"id = {value(reference_id(start))}",
        f'title = "{start.title} in {PACKAGE}"',
        f'home = "{HOME}"',
        f"\n# {TODO}: why this code is the reference: the maker's own, or what the published checkpoints name.",
    ]
    head += [line for name, place in {HOME: mine, **texts.shared}.items() for line in _table(f"place.{name}", place)]
    claims = [_shell(start, claim, texts, nodes) for claim in texts.claims]
    return "\n".join(head) + "\n\n" + "\n".join(claim for claim in claims if claim)


def packaged(version: str) -> Place:
    """A place of the catalogue in the library's wheel of that version: it says the wheel's hash."""
    places = [c.pin.place for r in references().values() for c in r.claims if c.pin.place.source == PACKAGE]
    for place in places:
        if place.revision == version:
            return place
    pinned = ", ".join(sorted({place.revision for place in places}))
    raise UsageError(
        "the catalogue pins another version of the library",
        where=PACKAGE,
        expected=pinned,
        found=version,
        fix=f"pip install '{PACKAGE}=={pinned}'",
    )


def _table(name: str, keys: Mapping[str, Any]) -> Iterator[str]:
    yield f"\n[{name}]"
    yield from (f"{key(k)} = {value(v)}" for k, v in keys.items())


class _Texts:
    """A sibling's claims, and its pinned text looked for in the family's file; the two differ in a name at least."""

    def __init__(self, start: Start, sibling: Mapping[str, Any], home: bytes) -> None:
        self.home, self.mine, self.theirs = sibling["home"], lines_of(home), list[str]()
        self.claims = [claim for claim in sibling["claim"] if "caveat" not in claim]
        self.shared = {
            name: place
            for name, place in sibling["place"].items()
            if name != self.home and (place["source"], place["revision"]) == (PACKAGE, start.library.version)
        }
        place = sibling["place"][self.home]
        path = installed(start.library, str(place["path"]))
        if place["source"] == PACKAGE and path.is_file() and cache.blob_id(path.read_bytes()) == place["blob"]:
            self.theirs = lines_of(path.read_bytes())
            self.old, self.new = _prefix(path), _prefix(start.library.file)

    def found(self) -> int:
        """How many more of the pinned ranges stand in the family's file than do not."""
        pins = [row for claim in self.claims if claim["at"] == self.home for row in claim["lines"]]
        return sum(-1 if self.here(first, last) is None else 1 for first, last, _ in pins)

    def here(self, first: int, last: int) -> tuple[int, int] | None:
        """Where the text of those lines stands in the family's file."""
        if not self.theirs:
            return None
        text = [self.renamed(line) for line in self.theirs[first - 1 : last]]
        return locate(Range(first=first, last=last, sha256=excerpt_hash(text)), self.mine)

    def renamed(self, text: str) -> str:
        """The text with the family's name in place of the sibling's."""
        return text.replace(self.old, self.new)

    def row(self, first: int, last: int) -> str:
        """A range as a reference's file has it."""
        return range_row(self.mine, first, last)


def _prefix(path: Path) -> str:
    """The name that the classes of a modeling file start with."""
    found = re.findall(r"^class (\w+?)ForCausalLM\b", path.read_text(encoding="utf-8"), re.M)
    return found[0] if found else path.stem


def _shell(start: Start, claim: Mapping[str, Any], texts: _Texts, nodes: Collection[str]) -> str:
    """A claim without a statement, pinned where that needs no reading; nothing if it is about none of the nodes."""
    about = {name: [n for n in claim.get(name, ()) if n.partition(":")[0] in nodes] for name in ABOUT}
    if not about["direct"] and not about["contextual"]:
        return ""
    there = _there(claim, texts)
    if claim["at"] in texts.shared:
        rows, at, how = [f"    {value(row)}," for row in claim["lines"]], claim["at"], "the same lines"
    elif there:
        rows, at, whole = [texts.row(*pin) for pin in there], HOME, len(there) == len(claim["lines"])
        how = f"its text stands here{', too' if whole else ' in part'}"
    else:
        rows, at, how = [texts.row(*UNPINNED)], HOME, "its text does not stand here"
    statement = f"{TODO} in your words, as {claim['id']}: {how}"
    made = ["[[claim]]", f"id = {value(_id(start, claim['id'], texts))}", f"statement = {value(statement)}"]
    made += [f"at = {value(at)}", "lines = [", *rows, "]"]
    made += [_listed(name, about[name]) for name in ABOUT if about[name]]
    said = {n: text for n, text in claim.get("expressions", {}).items() if n in about["direct"] + about["contextual"]}
    if said:
        rename = texts.renamed if at == HOME else str
        made += ["[claim.expressions]", *(f"{value(node)} = {value(rename(text))}" for node, text in said.items())]
    return "\n".join(made) + "\n"


def _there(claim: Mapping[str, Any], texts: _Texts) -> list[tuple[int, int]]:
    """Where a claim's ranges stand in the family's file; none where two of them would overlap."""
    found = [texts.here(first, last) for first, last, _ in claim["lines"]] if claim["at"] == texts.home else []
    there = sorted(place for place in found if place is not None)
    return there if all(a[1] < b[0] for a, b in pairwise(there)) else []


def _id(start: Start, name: str, texts: _Texts) -> str:
    """The claim's id with the family's name in front instead of the sibling's."""
    first = [claim["id"].partition("-")[0] for claim in texts.claims]
    usual = max(set(first), key=first.count)
    rest = name.removeprefix(f"{usual}-") if first.count(usual) > len(first) / 2 else name
    return f"{start.family.replace('_', '-')}-{rest}"


def _listed(name: str, items: Sequence[str]) -> str:
    line = f"{name} = {value(items)}"
    return line if len(line) <= 120 else "\n".join([f"{name} = [", *(f"    {value(item)}," for item in items), "]"])


# --- what is published ------------------------------------------------------------------------------------------------


def count(start: Start) -> str:
    """A row for the published number of parameters."""
    return f'\n[{value(start.model)}]\ncount = 0\nsource = "{TODO}: who publishes the exact number of parameters"\n'


def configuration(start: Start) -> str:
    """The numbers that the configuration states, by field."""
    row, said = numbers(start.like, start.config, start.library), flat(start.config)
    stated = {name: row.values[name] for name in row.values if name in said}
    shared = {"tie_word_embeddings": said["tie_word_embeddings"]} if "tie_word_embeddings" in said else {}
    lines = [f"{key(name)} = {value(n)}" for name, n in {**stated, **shared}.items()]
    return "\n".join(["", f"[{value(start.model)}]", f"source = {value(start.source)}", *lines, ""])


def published(start: Start) -> str:
    """The whole configuration, every key of it."""
    nulls = [name for name, found in start.config.items() if found is None]
    lost = [name for name, found in flat(start.config).items() if found is None and name not in nulls]
    head = ["", "[[config]]", f"model = {value(start.model)}", f"source = {value(start.source)}"]
    head += [f"null = {value(nulls)}"] if nulls else []
    head += [f"# {TODO}: nulls inside a section, which a TOML table cannot hold: {', '.join(lost)}"] if lost else []
    keys = [f"{key(name)} = {value(found)}" for name, found in start.config.items() if found is not None]
    return "\n".join([*head, "[config.keys]", *keys, ""])
