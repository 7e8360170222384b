"""Executed evidence at full size: the maker's listed numbers, put into the reference's own constructors."""

import ast
import tempfile
from pathlib import Path
from typing import Any

from openmodelatlas import models
from openmodelatlas.catalog import find
from openmodelatlas.errors import CatalogError
from openmodelatlas.fetch.progress import Progress
from openmodelatlas.records.catalog import Model
from openmodelatlas.records.evidence import Claim
from openmodelatlas.records.verification import Measurement, Tier, VerificationRecord
from openmodelatlas.trace.locate import call
from openmodelatlas.verify import located, parity_run
from openmodelatlas.verify.sources import unpacked
from openmodelatlas.weights.naming import block_pattern, fill, name_table

TITLE = "the maker's listed numbers build parameters of our shapes in the reference's own constructors"
TIER: Tier = "full-size on the meta device"
WIDTH = "feed-forward-width"
SETTINGS = {"norm_eps": "rms_norm_eps", "rope_theta": "rope_theta"}
"""Listed numbers that no shape shows."""


def applies(model: Model) -> str | None:
    """A model whose maker's list is pinned."""
    return None if model.configuration.claim else "no list of the maker's is pinned"


def run(model: Model, progress: Progress) -> VerificationRecord:
    """Both models without storage, parameter by parameter."""
    claim = find.claim(model.configuration.claim or "")
    variant, place = models.find(model.variant), located.place_of(model, "wheel")
    progress("building the reference on the meta device", 0, 0)
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
        Measurement(where="", what="parameters held against the reference's", value=float(len(theirs)), bound=None),
        Measurement(
            where="", what="parameters of another shape, or of one side only", value=float(len(wrong)), bound=0.0
        ),
        Measurement(
            where="", what="listed numbers that no shape shows and that differ", value=float(len(settings)), bound=0.0
        ),
    ]
    differ = f" Differ: {', '.join(sorted([*wrong, *settings])[:5])}." if wrong or settings else ""
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
        detail=f"ModelArgs({', '.join(f'{k}={v}' for k, v in listed.items())}).{differ}",
        nodes=[""],
        claims=[name for name in (claim.id, WIDTH) if name in known],
    )


def arguments(claim: Claim, text: str) -> dict[str, Any]:
    """The `arch_args` that stand in the pinned lines; read as syntax, not executed."""
    tree = ast.parse(text)
    constants = {
        node.targets[0].id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        inside = any(part.first <= getattr(node, "lineno", 0) <= part.last for part in claim.pin.ranges)
        if inside and isinstance(node, ast.keyword) and node.arg == "arch_args" and isinstance(node.value, ast.Dict):
            keys = [ast.literal_eval(key) for key in node.value.keys if key is not None]
            values = [constants[v.id] if isinstance(v, ast.Name) else ast.literal_eval(v) for v in node.value.values]
            return dict(zip(keys, values, strict=True))
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
