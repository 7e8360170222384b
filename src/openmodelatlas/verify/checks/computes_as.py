"""The sentence "computes as … but for …", run: with the named nodes swapped the scores are equal to the bit."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from openmodelatlas import models
from openmodelatlas.catalog import find
from openmodelatlas.fetch.progress import Progress
from openmodelatlas.models.variant import Variant
from openmodelatlas.records.catalog import Model
from openmodelatlas.records.verification import Measurement, Tier, VerificationRecord
from openmodelatlas.trace.located_watch import Handed, handed
from openmodelatlas.verify import parity, parity_run

TITLE = "computes as its reference's model, but for the nodes that are named"
TIER: Tier = parity_run.TINY
POSITIONS = 192
SAME, APART = "scores, largest difference, with the named nodes swapped", "the same without the swap of"


def applies(model: Model) -> str | None:
    """A model whose reference is its own code has no such sentence."""
    if find.reference(model.reference).release is None:
        return "the reference is a library's own code for this model"
    return "the reference is this release's own code" if find.provenance(model).own else None


def base(model: Model, twin: Variant) -> Variant:
    """The variant of the reference's release with this model's numbers: its classes, and fields that it knows."""
    release = find.reference(model.reference).release
    assert release is not None
    theirs = models.find(find.model(release).variant)
    fields = type(theirs.config).__dataclass_fields__
    return replace(theirs, config=type(theirs.config)(**{name: getattr(twin.config, name) for name in fields}))


def run(model: Model, progress: Progress) -> VerificationRecord:
    """Both definitions on the same weights, as they are and with each named node swapped."""
    progress("running both definitions", 0, 0)
    twin = parity.twin(model.variant)
    reference = filled(base(model, twin))
    nodes = [deviation.node for deviation in model.deviations]
    tokens, positions = inputs(twin.config.vocab_size)
    with torch.no_grad():
        wanted = reference(tokens, positions)
        swapped = paired(twin, reference, nodes)(tokens, positions)
    found = [Measurement(where="logits", what=SAME, value=far(swapped, wanted), bound=0.0)]
    first = []
    for node in nodes:
        others = [n for n in nodes if n != node]
        values = handed(paired(twin, reference, others), tokens, positions)
        apart = far(values[-1].value, wanted)
        found.append(Measurement(where=node, what=f"{APART} {node}", value=apart, bound=None))
        differs = first_different(values, handed(reference, tokens, positions), others)
        first.append(f"without the swap of {node} the first node that differs is {differs}")
        # A node that may be left out of the sentence unnoticed does not belong in it.
        idle = float(apart == 0.0 or differs != node)
        found.append(Measurement(where=node, what="named, but not where it first differs", value=idle, bound=0.0))
    return parity_run.record(
        model,
        __name__,
        TITLE,
        found,
        references=(),
        positions=POSITIONS,
        detail=f"Against {find.reference(model.reference).title}: {'; '.join(first or ['no node is named'])}.",
        nodes=["", *nodes],
    )


def inputs(vocabulary: int) -> tuple[Tensor, Tensor]:
    """Tokens far enough out that a slow frequency shows."""
    tokens = torch.randint(0, vocabulary, (1, POSITIONS), generator=torch.Generator().manual_seed(2))
    return tokens, torch.arange(POSITIONS)[None]


def filled(variant: Variant) -> nn.Module:
    """Random weights, gains too."""
    model, draw = variant.build("cpu", torch.float32), torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            scale = 1.5 / parameter.shape[-1] ** 0.5 if parameter.dim() > 1 else 0.3
            parameter.copy_(torch.randn(parameter.shape, generator=draw) * scale + (parameter.dim() == 1))
    return model


class Identity(nn.Module):
    """In place of an op that the reference's model lacks."""

    def forward(self, x: Tensor) -> Tensor:
        return x


def paired(twin: Variant, reference: nn.Module, swap: Iterable[str]) -> nn.Module:
    """The model with the reference's weights, and its modules at the nodes to be swapped."""
    model = twin.build("cpu", torch.float32)
    weights = dict(reference.named_parameters())
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weights[name])
    theirs: dict[str, Any] = dict(reference.named_modules())
    for node in swap:
        parent, _, leaf = node.rpartition(".")
        setattr(model.get_submodule(parent), leaf, theirs.get(node) or Identity())
    return model


def first_different(ours: list[Handed], theirs: list[Handed], swapped: list[str]) -> str:
    """The first node whose result is not equal, or that the other side lacks; swapped ones are the other side's."""
    known = {(h.path, h.port): h.value for h in theirs}
    for value in ours:
        if value.path in swapped:
            continue
        there = known.get((value.path, value.port))
        if there is None or not torch.equal(there, value.value):
            return value.path
    return "none"


def far(ours: Tensor, theirs: Tensor) -> float:
    """The largest difference."""
    return float((ours - theirs).abs().max())
