"""Executed evidence at full size: the model's numbers, put into the reference's own constructors."""

import ast
import operator
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from openmodelatlas import models
from openmodelatlas.catalog import find
from openmodelatlas.errors import CatalogError
from openmodelatlas.fetch.progress import Progress
from openmodelatlas.records.catalog import Model
from openmodelatlas.records.evidence import Claim
from openmodelatlas.records.verification import Measurement, Tier, VerificationRecord
from openmodelatlas.trace.locate import call, sizes
from openmodelatlas.verify import located, parity_run
from openmodelatlas.verify.sources import unpacked
from openmodelatlas.weights.naming import block_pattern, fill, name_table

TITLE = "the model's numbers build parameters of our shapes in the reference's own constructors"
TIER: Tier = "full-size on the meta device"
WIDTH = "feed-forward-width"
SETTINGS = {"norm_eps": "rms_norm_eps", "rope_theta": "rope_theta"}
"""Listed numbers that no shape shows."""

OPERATORS = {ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv, ast.Add: operator.add, ast.Sub: operator.sub}
"""Arithmetic that a list may write a number in."""


def applies(model: Model) -> str | None:
    """A model whose maker's list is pinned, or whose reference is a library's code that loads its checkpoints."""
    if find.reference(model.reference).release is None or (parity_run.by_meta(model) and model.configuration.claim):
        return None
    return "no list of the maker's is pinned"


def run(model: Model, progress: Progress) -> VerificationRecord:
    """Both models without storage, parameter by parameter."""
    progress("building the reference on the meta device", 0, 0)
    return by_list(model) if parity_run.by_meta(model) else by_loader(model)


# --- the maker's list in the maker's constructors ---------------------------------------------------------------------


def by_list(model: Model) -> VerificationRecord:
    """Meta's listed arguments, in Meta's classes."""
    claim = find.claim(model.configuration.claim or "")
    variant, place = models.find(model.variant), located.packaged(model)
    with tempfile.TemporaryDirectory(prefix="oma-sizes-") as folder:
        listed = arguments(claim, unpacked(claim.pin.place, Path(folder)).read_text(encoding="utf-8"))
        file = unpacked(place, Path(folder))
        answer = call(file, [("ModelArgs", listed), ("Transformer", [{"result": 0}])], device="meta")
    theirs = {name: tuple(shape) for name, shape in answer.results[1].items()}
    ours = shapes(model)
    wrong = [name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name)]
    settings = [k for k, field in SETTINGS.items() if listed[k] != getattr(variant.config, field)]
    if listed["use_scaled_rope"] != located.scaled(model):
        settings.append("use_scaled_rope")
    found = [
        *compared(len(theirs), wrong),
        Measurement(
            where="", what="listed numbers that no shape shows and that differ", value=float(len(settings)), bound=0.0
        ),
    ]
    known = {c.id for c in find.claims(model)}
    return parity_run.record(
        model,
        __name__,
        TITLE,
        found,
        references=(located.yardstick(place, answer.sha256, answer.shims),),
        positions=0,
        tier=TIER,
        dtype="none",
        detail=f"ModelArgs({', '.join(f'{k}={v}' for k, v in listed.items())}).{differing([*wrong, *settings])}",
        nodes=[""],
        claims=[name for name in (claim.id, WIDTH) if name in known],
    )


def compared(count: int, wrong: list[str]) -> list[Measurement]:
    """How many tensors were held against the reference's, and how many did not fit."""
    return [
        Measurement(where="", what="parameters held against the reference's", value=float(count), bound=None),
        Measurement(
            where="", what="parameters of another shape, or of one side only", value=float(len(wrong)), bound=0.0
        ),
    ]


def differing(names: list[str]) -> str:
    """The first few that differ, in words."""
    return f" Differ: {', '.join(sorted(names)[:5])}." if names else ""


def arguments(claim: Claim, text: str) -> dict[str, Any]:
    """The `arch_args` that stand in the pinned lines; read as syntax, not executed."""
    constants = _constants(text)
    for node in _pinned(claim, text):
        if isinstance(node, ast.keyword) and node.arg == "arch_args" and isinstance(node.value, ast.Dict):
            keys = [ast.literal_eval(key) for key in node.value.keys if key is not None]
            return dict(zip(keys, (_value(value, constants) for value in node.value.values), strict=True))
    raise CatalogError("no numbers in the pinned lines", where=claim.id)


def shapes(model: Model) -> dict[str, tuple[int, ...]]:
    """Our full-size parameters under the reference's names; a shared table under both of its names."""
    table = {row.parameter: row.stored for row in name_table(model.family, "meta").tensors}
    built = models.find(model.variant).build("meta")
    found = {}
    for name, parameter in built.named_parameters(remove_duplicate=False):
        pattern, index = block_pattern(name)
        found[fill(table[pattern], index)] = tuple(parameter.shape)
    return found


# --- a library's loader -----------------------------------------------------------------------------------------------


def by_loader(model: Model) -> VerificationRecord:
    """Our tensors under their published names, given to the library's loader; and the maker's list, if one is pinned,
    number by number."""
    variant, place = models.find(model.variant), find.reference(model.reference).home
    claim = find.claim(model.configuration.claim) if model.configuration.claim else None
    with tempfile.TemporaryDirectory(prefix="oma-sizes-") as folder:
        made = sizes(unpacked(place, Path(folder)), variant)
        text = unpacked(claim.pin.place, Path(folder)).read_text(encoding="utf-8") if claim else ""
    total = sum({id(p): p.numel() for p in variant.build("meta").parameters()}.values())
    found = [
        *compared(made.tensors, list(made.wrong)),
        Measurement(
            where="", what="numbers more or fewer in its model", value=float(abs(made.total - total)), bound=0.0
        ),
    ]
    said = f"{made.made_by} took the tensors of the definition by their published names."
    if claim:
        numbers = dict(listed(claim, text))
        wrong = [name for name, value in numbers.items() if value != getattr(variant.config, name, None)]
        found.append(Measurement(where="", what="listed numbers that differ", value=float(len(wrong)), bound=0.0))
        said += f" The maker's list: {', '.join(f'{k} {v}' for k, v in numbers.items())}.{differing(wrong)}"
    return parity_run.record(
        model,
        __name__,
        TITLE,
        found,
        references=(located.yardstick(place, made.sha256, ()),),
        positions=0,
        tier=TIER,
        dtype="none",
        detail=said + differing(list(made.wrong)),
        nodes=[""],
        claims=[claim.id] if claim else [],
    )


def listed(claim: Claim, text: str) -> Iterator[tuple[str, Any]]:
    """The numbers of the pinned lines by our names for them; read as syntax, not executed."""
    names, constants = find.reference(claim.reference).listed, _constants(text)
    for node in _pinned(claim, text):
        if isinstance(node, ast.keyword) and node.arg is not None and node.arg in names:
            yield names[node.arg], _value(node.value, constants)


def _pinned(claim: Claim, text: str) -> Iterator[ast.AST]:
    for node in ast.walk(ast.parse(text)):
        if any(part.first <= getattr(node, "lineno", 0) <= part.last for part in claim.pin.ranges):
            yield node


def _constants(text: str) -> dict[str, Any]:
    return {
        node.targets[0].id: node.value.value
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
    }


def _value(node: ast.expr, constants: Mapping[str, Any]) -> Any:
    """A number that stands there as itself, by a name, or as a product."""
    if isinstance(node, ast.Name):
        return constants[node.id]
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return OPERATORS[type(node.op)](_value(node.left, constants), _value(node.right, constants))
    return ast.literal_eval(node)
