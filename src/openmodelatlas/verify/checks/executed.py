"""Executed evidence: the reference's own functions for rotary angles and their scaling, on our inputs."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from openmodelatlas import models
from openmodelatlas.fetch.progress import Progress
from openmodelatlas.records.catalog import Model
from openmodelatlas.records.verification import Measurement, Tier, VerificationRecord
from openmodelatlas.trace.locate import call
from openmodelatlas.verify import located, parity_run
from openmodelatlas.verify.sources import unpacked

TITLE = "the reference's own rotary functions give our frequencies and our table"
TIER: Tier = parity_run.TINY
SCALING, ANGLES = "apply_scaling", "precompute_freqs_cis"
TABLE_BOUND = 2.0**-22
"""Of a cosine or sine: two units in the last place of float32 near one. The reference takes them by another kernel."""

applies = parity_run.runs_here


def run(model: Model, progress: Progress) -> VerificationRecord:
    """At the model's real head width and theta, for every position that its configuration takes."""
    place, config = located.place_of(model, "wheel"), models.find(model.variant).config
    rope = models.find(model.variant).build("meta").get_submodule("rope")
    frequencies = rope.get_submodule("frequencies")(torch.device("cpu"))
    scaled, patches, end = located.scaled(model), located.patches(model), config.max_position_embeddings
    calls: list[tuple[str, Sequence[Any]]] = [(ANGLES, [config.head_dim, end, config.rope_theta, scaled])]
    if scaled:
        calls.append((SCALING, [{"float32": frequencies.tolist()}]))
    progress("running the reference's functions", 0, 0)
    with tempfile.TemporaryDirectory(prefix="oma-executed-") as folder:
        file = unpacked(place, Path(folder))
        answer = call(file, calls, patches)
        as_written = call(file, calls[1:]) if patches else None
    found = table(rope, end, answer.results[0])
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


def table(rope: nn.Module, end: int, theirs: Tensor) -> list[Measurement]:
    """Our cosines and sines of the first `end` positions against the reference's unit complex numbers."""
    with torch.no_grad():
        ours = rope(torch.arange(end)[None])
    parts = (("cos", ours.cos[0], theirs[:end].real), ("sin", ours.sin[0], theirs[:end].imag))
    return [
        Measurement(
            where="rope.table", what=f"{name}, largest difference", value=float((a - b).abs().max()), bound=TABLE_BOUND
        )
        for name, a, b in parts
    ]


def scaling(rope: nn.Module, frequencies: Tensor, theirs: Tensor, what: str, bound: float | None) -> list[Measurement]:
    """Scaled frequencies: the same arithmetic in the same order, so that nothing may differ."""
    apart = (rope.get_submodule("scale")(frequencies) - theirs).abs().max()
    return [Measurement(where="rope.scale", what=what, value=float(apart), bound=bound)]
