"""The items of the list of what a family still lacks, in the order in which to work."""

import functools
import importlib
import math
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from openmodelatlas.catalog import find
from openmodelatlas.catalog import records as kept
from openmodelatlas.catalog.annotate import spread
from openmodelatlas.evidence.resolve import resolve
from openmodelatlas.fetch import cache
from openmodelatlas.fetch.progress import Progress
from openmodelatlas.models import tables, variants
from openmodelatlas.models.variant import Variant
from openmodelatlas.records.catalog import Model
from openmodelatlas.records.evidence import Claim, Place
from openmodelatlas.records.report import MetadataRow, TensorRow
from openmodelatlas.trace import docs
from openmodelatlas.verify import parity, parity_run
from openmodelatlas.verify.missing import (
    UNPINNED,
    Outcome,
    Step,
    Subject,
    ToDo,
    fields,
    pattern,
    structure_names,
)
from openmodelatlas.verify.missing_map import TODO
from openmodelatlas.verify.model import check, stale
from openmodelatlas.verify.model import missing as without_record
from openmodelatlas.verify.parity_distances import distance, region
from openmodelatlas.verify.published import counts
from openmodelatlas.weights.configuration import account_configuration
from openmodelatlas.weights.ledger import account
from openmodelatlas.weights.naming import EXPERT, Scheme, name_table

POSITIONS = 48
WHOLE = 4e-6
"""How far the statements in their order may be from the definition: the last digit of a frequency shows."""

LONGEST = 90
MARK = re.compile(rf"\b{TODO}\b")


# --- the definition and its entries -----------------------------------------------------------------------------------


def definition(s: Subject) -> Outcome:
    """The family's file is imported, and every variant is built without storage."""
    module = importlib.import_module(f"openmodelatlas.models.{s.family}")
    if not getattr(module, "VARIANTS", {}):
        return Outcome("", (ToDo(s.file(".py"), "no row under VARIANTS"),))
    for variant in s.variants.values():
        variant.build("meta")
    return Outcome(", ".join(s.variants))


def entries(s: Subject) -> Outcome:
    """The catalogue can be read, and has every variant."""
    left = [
        ToDo("catalog/releases", f'no [[model]] with id = "{name}" (or variant = "{name}")')
        for name, variant in s.variants.items()
        if s.model_of(variant) is None
    ]
    for model in s.models:
        find.claims(model)
    return Outcome("", tuple(left))


# --- the name table ---------------------------------------------------------------------------------------------------


def settings(s: Subject) -> Outcome:
    """Every key of every published configuration stands in a column, and says what the variant says."""
    where, left = s.file(".names.toml"), dict[str, ToDo]()
    for row in s.configurations:
        for key in account_configuration(row["keys"], s.variants[row["model"]]):
            known = key.key in row.get("conflicts", {}) or (row.get("trimmed") and key.value.startswith("absent"))
            if not key.ok and not known:
                left.setdefault(key.key, ToDo(where, f"{key.key} is {key.value}, {_against(key)} ({row['model']})"))
    for name in sorted(set(s.variants) - {row["model"] for row in s.configurations}):
        left[name] = ToDo("tests/data/published_configs.toml", f"no [[config]] of {name}")
    for name, said in s.said.items():
        for key in account_configuration(said.filled, s.variants[name]):
            if not key.ok and not key.value.startswith("absent") and key.key not in left | _known(s, name):
                what = f"{key.key} is {key.value} where {said.model} writes the file anew"
                left[key.key] = ToDo(where, f"{what}, {_against(key)} ({name})")
        for absent, value in name_table(s.family, "huggingface").absent.items():
            if (default := said.default(absent)) is not None and default != value:
                left[f"absent {absent}"] = ToDo(where, f"absent: {absent} means {default} in the library, {value} here")
    for scheme in SCHEMES:
        table = name_table(s.family, scheme)
        numbers = {field for variant in s.structures for field in fields(variant)}
        everywhere = {field for field in numbers if all(field in fields(variant) for variant in s.structures)}
        settled = {table.read.get(key) for key in (*table.required, *table.absent, *table.derived)}
        for field in sorted(numbers - {*table.unstated}):
            head = f"[metadata.{scheme}"
            if field not in table.read.values():
                left[f"{scheme} {field}"] = ToDo(where, f"{head}.read] has no key of {field}, which is not unstated")
            elif field in everywhere - settled and not (scheme == "gguf" and field == "vocab_size"):
                what = f"{head}]: the key of {field} is not required, and neither absent nor derived says what it means"
                left[f"{scheme} {field}"] = ToDo(where, what)
    keys = sum(len(row["keys"]) for row in s.configurations)
    return Outcome(f"{keys} keys of {len(s.configurations)} published files", tuple(left.values()), COLUMNS)


def _against(key: MetadataRow) -> str:
    return "which stands in no column" if key.column == "unaccounted" else f"but {key.reason}"


def _known(s: Subject, name: str) -> dict[str, Any]:
    """Keys of a variant's file that are known to say something else."""
    return next((row.get("conflicts", {}) for row in s.configurations if row["model"] == name), {})


SCHEMES: tuple[Scheme, ...] = ("huggingface", "gguf")
COLUMNS = (
    "columns: read (the model computes with it), must_equal (no model of the family may differ), null, "
    "ignored (and why)"
)


def tensors(s: Subject) -> Outcome:
    """Every tensor of the library's own model has a parameter of its shape, and every parameter a tensor."""
    left = dict.fromkeys(todo for name in s.said for todo in _tensors(s, s.variants[name]))
    left |= dict.fromkeys(_gguf_names(s))
    unknown = {r.parameter for r in name_table(s.family, "huggingface").tensors}
    for parameter in sorted(unknown - {name for variant in s.structures for name in structure_names(variant)}):
        left[ToDo(s.file(".names.toml"), f"a row of {parameter}, which no variant has")] = None
    made = ", ".join(f"{len(said.tensors)} of {said.model} ({said.version})" for said in s.said.values())
    return Outcome(made, tuple(left))


def _tensors(s: Subject, variant: Variant) -> Iterator[ToDo]:
    said, config = s.said[variant.name], s.configuration(variant)
    rows = account(said.header(config or {}, said.model), variant, "huggingface").rows
    known = {row.parameter for row in name_table(s.family, "huggingface").tensors}
    for row in rows:
        if row.status == "surplus" and row.stored is not None:
            stored = pattern(row.stored.name)
            shape = f"{list(row.stored.shape)}"
            name = f"; GGUF calls it {other}" if (other := _gguf(s, stored)) else ""
            yield ToDo(s.file(".names.toml"), f"no [[tensor]] has huggingface = {stored!r}, shape {shape}{name}")
        elif row.status == "shape" and row.stored is not None:
            sizes = f"{list(row.shape or ())} here, {list(row.stored.shape)} in {pattern(row.stored.name)}"
            yield ToDo(s.file(".py"), f"{_parameter(row)} has another shape: {sizes}")
        elif row.status == "missing":
            ours = _parameter(row)
            if ours in known:
                yield ToDo(s.file(".names.toml"), f"{ours}: the library stores no tensor of the name in its row")
            else:
                shape = f"shape {list(row.shape or ())}"
                yield ToDo(s.file(".names.toml"), f"no [[tensor]] has parameter = {ours!r}, {shape}")


def _parameter(row: TensorRow) -> str:
    return re.sub(r"^blocks\.\d+\.", "blocks.{i}.", row.parameter or "")


@functools.cache
def _gguf_map(architecture: str) -> Any:
    import gguf

    known = {name: arch for arch, name in gguf.MODEL_ARCH_NAMES.items()}
    return gguf.get_tensor_name_map(known[architecture], 3) if architecture in known else None


def _gguf(s: Subject, stored: str) -> str | None:
    """What GGUF's own package calls a tensor of a published name; nothing where it merges several."""
    table = name_table(s.family, "gguf")
    mapping = _gguf_map(str(table.must_equal["general.architecture"]))
    if mapping is None or EXPERT in stored:
        return None
    found: str | None = mapping.get_name(stored.replace("{i}", "2"), try_suffixes=(".weight", ".bias"))
    return None if found is None else found.replace(".2.", ".{i}.")


def _gguf_names(s: Subject) -> Iterator[ToDo]:
    """The names of the two schemes against the package's own map from one to the other."""
    table = name_table(s.family, "gguf")
    said = {row.parameter: row.stored for row in name_table(s.family, "huggingface").tensors}
    architecture = str(table.must_equal["general.architecture"])
    if _gguf_map(architecture) is None:
        what = f"general.architecture is {architecture!r}, which GGUF's package does not know"
        yield ToDo(s.file(".names.toml"), what)
        return
    for row in table.tensors:
        name = _gguf(s, said.get(row.parameter, EXPERT))
        if name is not None and name not in row.forms:
            yield ToDo(s.file(".names.toml"), f"{row.parameter}: gguf is {row.stored!r}, in GGUF's package {name!r}")


# --- the map ----------------------------------------------------------------------------------------------------------


def pages(s: Subject) -> Outcome:
    """The map derives, and the page table has a row for everything in it and no other."""
    where, left = s.file(".pages.toml"), dict[ToDo, None]()
    for derived in s.maps.values():
        for (section, _), line in derived.gaps.items():
            left[ToDo(where, f"[{section}] lacks {line}")] = None
        for (section, name), axes in derived.wrong.items():
            left[ToDo(where, f"[{section}] {name!r}: the axes are {axes}")] = None
    used = {row for derived in s.maps.values() for row in derived.used}
    table = tables.pages(s.family)
    for section in ("nodes", "tensors", "parameters"):
        for name in table[section]:
            if (section, name) not in used:
                left[ToDo(where, f"[{section}] has {name!r}, which no map has")] = None
    numbers = [sum(node.kind != "tensor" for node in derived.nodes) for derived in s.maps.values()]
    how = f"oma new {s.family} --fill writes the rows, and drops those that no map has; titles and sentences are yours"
    return Outcome(f"{' and '.join(map(str, numbers))} nodes", tuple(left), how)


def points(s: Subject) -> Outcome:
    """Every op has a place in the library's code where its value is, unless no family has one for it."""
    where, (stray, lacking, total) = s.file(".transformers.toml"), pointing(s)
    left = [ToDo(where, f"[points] has {name!r}, which is no op") for name in stray]
    left += [ToDo(where, f"[points] lacks {op!r}") for op in lacking]
    how = (
        f"oma new {s.family} --fill writes those that it finds by running the library; an op whose value the library "
        "has nowhere stands under [unpointed], with the node where it shows"
    )
    return Outcome(f"{total} ops", tuple(left), how)


def pointing(s: Subject) -> tuple[list[str], list[str], int]:
    """Names in the table of points that are no op; ops that lack a point; and how many ops there are."""
    table = tables.transformers(s.family)
    pointed = {name.partition(":")[0] for name in table["points"]}
    regions = {name for derived in s.maps.values() for name in derived.regions}
    ops = {plain(n.id, regions): n.class_ for d in s.maps.values() for n in d.nodes if n.kind == "op"}
    without = {op for op in ops if ops[op] in _pointless(s.family)} | table.get("unpointed", {}).keys()
    return sorted(pointed - set(ops)), [op for op in ops if op not in pointed | without], len(ops)


def plain(node: str, regions: set[str]) -> str:
    """A node's id under `block`, whichever kind its block is of."""
    first = re.split(r"[.:]", node)[0]
    return f"block{node.removeprefix(first)}" if first in regions else node


@functools.cache
def _pointless(family: str) -> set[str]:
    """Classes of ops for which other families have no point: views, and what shows in the very next node."""
    pointed, unpointed = set[str](), set[str]()
    for other, variant in {v.family: v for v in variants().values()}.items():
        if other != family:
            named = {name.partition(":")[0] for name in tables.transformers(other)["points"]}
            shallow = parity.variant_with(variant, num_hidden_layers=parity.depth(variant))
            for path, module in shallow.build("meta").named_modules():
                there = pointed if region(path) in named else unpointed
                there.add(type(module).__name__)
    return unpointed - pointed


# --- values -----------------------------------------------------------------------------------------------------------


def stages(s: Subject) -> Outcome:
    """A tiny twin beside the library, node by node in the order of the forward: the first that differs."""
    left, compared = list[ToDo](), list[str]()
    for model in (m for m in map(s.model_of, s.structures) if m is not None):
        beside = Beside(model, s.progress)
        compared.append(f"{len(beside.outcome.found.sequence)} nodes of {model.id}")
        if (first := beside.first()) is not None:
            left.append(ToDo(first[0], f"{first[1]} ({model.id})"))
        seen = {plain(node, set(beside.kinds)) for node in beside.outcome.found.sequence}
        for name, row in tables.transformers(s.family)["points"].items():
            if name not in seen and "kind" not in row:
                left.append(ToDo(s.file(".transformers.toml"), f"no value at the point of {name!r}: {row['at']}"))
    how = f"oma new {s.family} --fill finds the value where only the point is wrong"
    return Outcome(", ".join(compared), tuple(left), how)


class Beside:
    """A run of a model's twin beside the library."""

    def __init__(self, model: Model, progress: Progress) -> None:
        progress(f"running {model.id} beside the library", 0, 0)
        twin, case = parity_run.twin(model), parity.case(POSITIONS, batch=2)
        outcomes, _ = parity_run.against(model, twin, {"text": case}, progress)
        self.outcome, self.kinds = outcomes["text"], parity.kinds(twin)
        (self.ours,) = parity.ours(parity.filled(twin, parity.stored(twin)), case)

    def first(self) -> tuple[str, str] | None:
        """The first node in the order of the forward, every block's own, that is beyond its bar; and by how much."""
        bars = {row.where: row.bound for row in parity_run.every(self.outcome) if row.bound is not None}
        theirs = self.outcome.sides[parity_run.HUB][0]
        for before, node in enumerate(node for node in self.ours if node in theirs):
            apart, bar = distance(self.ours[node], theirs[node]), bars.get(region(node, self.kinds), 0.0)
            if apart > bar:
                what = f"first to differ, by {apart:.1e} where {bar:.1e} is the bar"
                if math.isinf(apart):
                    what = "first to differ: another shape, or something else is masked"
                return node, f"{what}; the {before} values before it agree"
        return None


def equations(s: Subject) -> Outcome:
    """Each op's equation has its statement in NumPy, and the family its whole model."""
    known = s.equations("statements").STATEMENTS
    left = dict[ToDo, None]()
    kinds = {type(m) for v in s.structures for m in v.build("meta").modules()}
    printed = [(kind.__name__, docs.page(kind).equation) for kind in sorted(kinds, key=lambda k: k.__name__)]
    nodes = {node.class_ for derived in s.maps.values() for node in derived.nodes if node.kind == "op"}
    for name, equation in printed:
        if name in nodes and not equation:
            left[ToDo(name, "its docstring has no Equation:")] = None
        elif equation and (name, equation) not in known:
            left[ToDo("tests/equations/statements.py", f"no statement of {name}: {equation}")] = None
    if not (s.tree.equations / "whole" / f"{s.family}.py").is_file():
        left[ToDo(f"tests/equations/whole/{s.family}.py", "not there: the whole model, statement by statement")] = None
    elif not left:
        left |= dict.fromkeys(_whole(s))
    return Outcome(f"{sum(bool(text) for _, text in printed)} equations", tuple(left))


def _whole(s: Subject) -> Iterator[ToDo]:
    """The whole model in NumPy gives our scores; kept are the library's, which other tests hold it against."""
    twins, whole = s.equations("twins"), s.equations("whole")
    kept = s.equations("outside").stored()
    for variant in s.structures:
        small, given = twins.twin(variant.name), twins.whole()
        model = twins.filled(small, torch.float64)
        weights = {name: p.detach().numpy() for name, p in model.named_parameters()}
        said = whole.logits(s.family, small.config, weights, given.tokens.numpy(), given.positions.numpy())
        with torch.no_grad():
            ours = model(given.tokens, given.positions).numpy()
        real = given.positions.numpy() >= 0
        apart = float(abs(ours - said)[real].max() / abs(ours)[real].max())
        if not apart < WHOLE:
            what = f"its scores of {variant.name} are {apart:.1e} from those of the definition, relative to the largest"
            yield ToDo(f"tests/equations/whole/{s.family}.py", what)
        elif variant.name not in kept:
            what = f"no scores of {variant.name}: python -m tests.equations.outside"
            yield ToDo("tests/equations/outside.toml", what)


def count(s: Subject) -> Outcome:
    """The published number of parameters, the library's and ours are one."""
    left, published, totals = list[ToDo](), counts(), dict[str, int]()
    for name, variant in s.variants.items():
        ours = totals[name] = sum(p.numel() for p in variant.build("meta").parameters())
        said = s.said.get(name)
        if said is not None and said.total != ours:
            left.append(ToDo(s.file(".py"), f"{name}: {ours:,} parameters, in the library's model {said.total:,}"))
        there = published.get(name, {"count": 0})["count"]
        if there != ours:
            what = f"{name}: {there:,} published, {ours:,} here" if there else f"{name}: no published count"
            what += "; the same row stands in verify/published_counts.toml"
            left.append(ToDo("tests/data/parameter_counts.toml", what))
    return Outcome("; ".join(f"{name}: {total:,}" for name, total in totals.items()), tuple(left))


# --- evidence ---------------------------------------------------------------------------------------------------------


def claims(s: Subject) -> Outcome:
    """Each claim's pin holds; each node has a claim that computes it, and one line of the reference's own."""
    left = dict[ToDo, None]()
    shown = {claim.id: claim for model in s.models for claim in find.shown(model)}
    where = {name: f"claim {name}" for name in shown}
    keep_installed({claim.pin.place for claim in shown.values()})
    for name, (report, *_) in resolve(list(shown.values()), offline=True).items():
        unpinned = [(part.first, part.last) for part in report.pin.ranges] == [UNPINNED]
        if unpinned:
            left[ToDo(where[name], "is not pinned")] = None
        elif report.status == "not available" and report.pin.place.kind == "git":
            continue  # a repository's file that nobody brought here: nothing of the family is missing
        elif report.status != "same":
            left[ToDo(where[name], f"its pin is {report.status}: {report.detail}")] = None
        else:
            wrong = [n for n, said in shown[name].expressions.items() if not stands_in(said, "\n".join(report.text))]
            if wrong:
                nodes = ", ".join(node or '""' for node in wrong)
                left[ToDo(where[name], f"its lines have not what it says of {nodes}")] = None
    for variant in s.structures:
        model = s.model_of(variant)
        if model is not None:
            left |= dict.fromkeys(_evidence(s, model, variant))
    how = f"oma new {s.family} --fill pins what a run can locate; oma evidence --hash FILE FIRST-LAST prints a range"
    return Outcome(f"{len(shown)} claims", tuple(left), how)


def _evidence(s: Subject, model: Model, variant: Variant) -> Iterator[ToDo]:
    derived = s.maps[variant.name]
    made: list[Claim] = [spread(claim, derived.regions) for claim in find.shown(model)]
    ids = {node.id for node in derived.nodes}
    for claim in made:
        if stray := [name for name in (*claim.direct, *claim.contextual) if name not in ids]:
            yield ToDo(f"claim {claim.id}", f"names what {model.id} lacks: {', '.join(stray)}")
    nodes = [node.id for node in derived.nodes if node.kind != "tensor"]
    direct = {name for claim in made for name in claim.direct}
    about = direct | {name for claim in made for name in claim.contextual}
    said = [name for claim in made for name in claim.expressions]
    for node in nodes:
        shown = node or '""'
        if node not in direct and node not in ("", *derived.regions):
            yield ToDo(shown, "no claim has it under direct: whose lines compute it?")
        elif node not in about:
            yield ToDo(shown, "no claim is about it")
        if said.count(node) != 1:
            many = "no claim has" if node not in said else "more than one claim has"
            yield ToDo(shown, f"{many} its line under [claim.expressions]")


def stands_in(expression: str, text: str) -> bool:
    """Whether the pieces between the ellipses stand in the text, in order, whatever the white space."""
    pieces = (re.escape(" ".join(piece.split())) for piece in expression.split("…"))
    return re.search(".*?".join(pieces), " ".join(text.split())) is not None


def keep_installed(places: set[Place]) -> None:
    """Keep files of installed packages that are the pinned ones to the byte, so that no download is needed."""
    for place in places:
        spec = find_spec(place.source) if place.kind == "wheel" and place.source.isidentifier() else None
        if spec is None or spec.origin is None or cache.load_blob(place.blob) is not None:
            continue
        path = Path(spec.origin).parent.parent / place.path
        if path.is_file() and cache.blob_id(path.read_bytes()) == place.blob:
            cache.keep_blob(path.read_bytes(), instead_of=place.blob)


def lines(s: Subject) -> Outcome:
    """Each direct claim's lines compute its nodes, found by running the reference."""
    left, notes = list[ToDo](), list[str]()
    for variant in s.structures:
        model = s.model_of(variant)
        if model is None or (why := check("located").applies(model)) is not None:
            notes.append(why if model is not None else "")
            continue
        s.progress(f"locating {model.id}", 0, 0)
        record = check("located").run(model, s.progress)
        said = re.split(r"(?<=\.) (?=CONFLICT|Not located|No value)", record.detail)
        notes.append(said[0].rstrip("."))
        if record.outcome == "passed":
            continue
        wrong_pins = [ToDo(model.id, text) for text in said[1:] if not text.startswith("No value")]
        left += wrong_pins
        if not wrong_pins:
            wrong = [m for m in record.measurements if m.bound is not None and m.value > m.bound]
            left += [ToDo(m.where or model.id, f"{m.what}: {m.value:g}, at most {m.bound:g}") for m in wrong]
    return Outcome("; ".join(notes), tuple(left))


# --- the rest ---------------------------------------------------------------------------------------------------------


def placeholders(s: Subject) -> Outcome:
    """No TODO is left in the family's files."""
    left = []
    for path in own_files(s):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if MARK.search(line):
                said = line.strip()
                text = said if len(said) <= LONGEST else said[: LONGEST - 1] + "…"
                left.append(ToDo(f"{s.tree.shown(path)}:{number}", text))
    return Outcome("", tuple(left))


def own_files(s: Subject) -> list[Path]:
    """The family's files, and those of all families that have a row of its models."""
    catalog, room = s.tree.package / "catalog", s.tree.package / "models"
    found = [*sorted(room.glob(f"{s.family}.*"))]
    found += [catalog / "releases" / f"{name}.toml" for name in sorted({model.release for model in s.models})]
    ids = {model.reference for model in s.models}
    for path in sorted((catalog / "references").glob("*.toml")):
        text = path.read_text(encoding="utf-8")
        found += [path] if any(f'id = "{name}"' in text for name in ids) else []
    found += [s.tree.equations / "whole" / f"{s.family}.py"]
    found += [*sorted(s.tree.data.glob("*.toml")), s.tree.package / "verify" / "published_counts.toml"]
    return [path for path in found if path.is_file() and path.suffix in (".py", ".toml")]


def records(s: Subject) -> Outcome:
    """Every check that applies has run, passed, and its record speaks of what is here."""
    own, left = {model.id for model in s.models}, list[ToDo]()
    lacking: dict[str, list[str]] = {}
    for model, name in without_record():
        if model in own:
            lacking.setdefault(model, []).append(name)
    for model, names in lacking.items():
        left.append(ToDo(model, f"no record of {', '.join(names)}"))
    made = [record for model in sorted(own) for record in kept.of(model)]
    aged: dict[tuple[str, str], list[str]] = {}
    for record in made:
        if why := stale(record):
            aged.setdefault((record.model, "; ".join(why)), []).append(record.check)
        elif record.outcome == "failed":
            left.append(ToDo(record.model, f"{record.check} failed: oma verify {record.model} --check {record.check}"))
    for (model, why_all), names in aged.items():
        left.append(ToDo(model, f"stale, since {why_all}: {', '.join(names)}"))
    how = "oma verify MODEL --write runs all checks of a model and keeps their records"
    return Outcome(f"{len(made)} records", tuple(left), how)


FAST = ("definition", "entries", "settings", "tensors", "pages", "points")
STEPS = (
    Step("definition", "the file is imported, its variants are built", definition),
    Step("entries", "the catalogue has every variant", entries, ("definition",)),
    Step("settings", "every key of the published configuration has a column", settings, ("definition",)),
    Step("tensors", "every tensor of the library's model has a parameter", tensors, ("definition",)),
    Step("pages", "the map derives, the page table fits it", pages, ("definition",)),
    Step("points", "every op has a place in the library", points, ("definition", "pages")),
    Step("stages", "a tiny twin computes what the library computes", stages, FAST),
    Step("equations", "every equation has its statement in NumPy", equations, ("definition", "pages")),
    Step("count", "the published number of parameters", count, ("definition", "tensors")),
    Step("claims", "every node has a claim, every claim its lines", claims, ("definition", "entries", "pages")),
    Step("lines", "the lines of each claim compute its nodes", lines, (*FAST, "stages", "claims")),
    Step("placeholders", "nothing is left to be filled in", placeholders, ("definition", "entries")),
    Step("records", "every check has run and is kept", records, (*FAST, "stages", "lines", "placeholders")),
)
"""In the order in which to work."""
