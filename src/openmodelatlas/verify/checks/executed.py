"""Executed evidence: the reference's own functions for rotary angles and their scaling, on our inputs."""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from openmodelatlas import models
from openmodelatlas.catalog import find
from openmodelatlas.fetch.progress import Progress
from openmodelatlas.records.catalog import Model
from openmodelatlas.records.verification import Measurement, Tier, VerificationRecord
from openmodelatlas.trace.locate import Angles, angles, call
from openmodelatlas.verify import located, parity_run
from openmodelatlas.verify.sources import unpacked

TITLE = "the reference's own rotary functions give our frequencies and our table"
TIER: Tier = parity_run.TINY
SCALING, ANGLES = "apply_scaling", "precompute_freqs_cis"
TABLE_BOUND = 2.0**-22
"""Of a cosine or sine: two units in the last place of float32 near one. The reference takes them by another kernel."""


def applies(model: Model) -> str | None:
    """A reference whose functions can be called by name, or a library's class that makes angles of a configuration."""
    if parity_run.by_meta(model) or find.reference(model.reference).release is None:
        return None
    return "the reference has no rotary functions that can be called by themselves"


def run(model: Model, progress: Progress) -> VerificationRecord:
    """At the model's real head width and theta, for every position that its configuration takes."""
    progress("running the reference's functions", 0, 0)
    return by_functions(model) if parity_run.by_meta(model) else by_class(model)


# --- functions --------------------------------------------------------------------------------------------------------


def by_functions(model: Model) -> VerificationRecord:
    """Meta's functions, called by name."""
    place, config = located.packaged(model), models.find(model.variant).config
    rope = models.find(model.variant).build("meta").get_submodule("rope")
    frequencies = rope.get_submodule("frequencies")(torch.device("cpu"))
    scaled, patches, end = located.scaled(model), located.patches(model), config.max_position_embeddings
    calls: list[tuple[str, Sequence[Any]]] = [(ANGLES, [config.head_dim, end, config.rope_theta, scaled])]
    if scaled:
        calls.append((SCALING, [{"float32": frequencies.tolist()}]))
    with tempfile.TemporaryDirectory(prefix="oma-executed-") as folder:
        file = unpacked(place, Path(folder))
        answer = call(file, calls, patches)
        as_written = call(file, calls[1:]) if patches else None
    theirs = answer.results[0][:end]
    found = table("rope", rope, theirs.real, theirs.imag)
    if scaled:
        found += scaling(rope, frequencies, answer.results[1], "rotary frequencies, largest difference", 0.0)
    if as_written:
        unpatched = as_written.results[0]
        found += scaling(rope, frequencies, unpatched, "the same with the factor that is written there", None)
    conflict = f"CONFLICT: the file has a scale factor of {located.FACTOR:g}, the model's configuration "
    conflict += f"{getattr(config, 'rope_factor', 0):g}; run with the model's, which is listed as a stand-in."
    claims = ["rope-frequencies", *(["scaled-rope"] if scaled and not as_written else [])]
    return parity_run.record(
        model,
        __name__,
        TITLE,
        found,
        references=(located.yardstick(place, answer.sha256, answer.shims),),
        positions=end,
        detail=conflict
        if as_written
        else f"{ANGLES} and {SCALING} were called as they stand."
        if scaled
        else f"{ANGLES} was called as it stands.",
        nodes=["rope.frequencies", *(["rope.scale"] if scaled else []), "rope.table"],
        claims=claims,
    )


def table(where: str, rope: nn.Module, cos: Tensor, sin: Tensor) -> list[Measurement]:
    """Our cosines and sines of the first positions against the reference's."""
    with torch.no_grad():
        ours = rope(torch.arange(len(cos))[None])
    parts = (("cos", ours.cos[0], cos), ("sin", ours.sin[0], sin))
    return [
        Measurement(where=f"{where}.table", what=f"{name}, largest difference", value=far(a, b), bound=TABLE_BOUND)
        for name, a, b in parts
    ]


def far(ours: Tensor, theirs: Tensor) -> float:
    """The largest difference."""
    return float((ours - theirs).abs().max())


def scaling(rope: nn.Module, frequencies: Tensor, theirs: Tensor, what: str, bound: float | None) -> list[Measurement]:
    """Scaled frequencies: the same arithmetic in the same order, so that nothing may differ."""
    apart = far(rope.get_submodule("scale")(frequencies), theirs)
    return [Measurement(where="rope.scale", what=what, value=apart, bound=bound)]


# --- a class ----------------------------------------------------------------------------------------------------------


def by_class(model: Model) -> VerificationRecord:
    """A library's class, which makes the angles of each kind of block from the configuration alone."""
    variant, place = models.find(model.variant), find.reference(model.reference).home
    with tempfile.TemporaryDirectory(prefix="oma-executed-") as folder:
        theirs, made_by, sha256 = angles(unpacked(place, Path(folder)), variant)
    ours = dict(ropes(variant.build("meta")))
    used = {name: nearest(rope, theirs) for name, rope in ours.items()}
    found, nodes = [], []
    for name, rope in ours.items():
        found += against(name, rope, used[name])
        nodes += [name, *(f"{name}.{child}" for child, _ in rope.named_children())]
    idle = len(theirs) - len({row.kind for row in used.values()})
    what = "tables of the reference that none of ours is held against"
    found.append(Measurement(where="", what=what, value=float(idle), bound=0.0))
    kinds = [f"{name} is its {row.kind or 'only'} table" for name, row in used.items()]
    return parity_run.record(
        model,
        __name__,
        TITLE,
        found,
        references=(located.yardstick(place, sha256, ()),),
        positions=variant.config.max_position_embeddings,
        detail=f"{made_by} was given the configuration and all positions: {'; '.join(kinds)}.",
        nodes=nodes,
        claims=[c.id for c in find.claims(model) if c.direct and set(c.direct) <= set(nodes) and not c.conflict],
    )


def ropes(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The containers of ours that make angles."""
    for name, child in model.named_children():
        if isinstance(getattr(child, "frequencies", None), nn.Module):
            yield name, child


def plain(rope: nn.Module) -> Tensor:
    """Our frequencies before any scaling."""
    frequencies: Tensor = rope.get_submodule("frequencies")(torch.device("cpu"))
    return frequencies


def nearest(rope: nn.Module, theirs: Sequence[Angles]) -> Angles:
    """The reference's angles that ours are held against."""
    return min(theirs, key=lambda row: far(plain(rope), row.plain))


def against(name: str, rope: nn.Module, theirs: Angles) -> list[Measurement]:
    """Frequencies before scaling and as used, which must be equal, and the table."""
    scale = getattr(rope, "scale", None)
    used = plain(rope) if scale is None else scale(plain(rope))
    what = "rotary frequencies, largest difference"
    found = [Measurement(where=f"{name}.frequencies", what=what, value=far(plain(rope), theirs.plain), bound=0.0)]
    last = f"{name}.frequencies" if scale is None else f"{name}.scale"
    found.append(Measurement(where=last, what=f"{what}, as used", value=far(used, theirs.used), bound=0.0))
    return [*found, *table(name, rope, theirs.cos, theirs.sin)]
