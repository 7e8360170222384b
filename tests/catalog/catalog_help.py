"""The nodes of a model, read off its definition, and how an expression is looked for in text."""

from functools import cache

from openmodelatlas import models
from openmodelatlas.catalog import find
from openmodelatlas.catalog.annotate import spread
from openmodelatlas.records.catalog import Model
from openmodelatlas.records.evidence import Claim
from openmodelatlas.trace.locate import node_id
from openmodelatlas.trace.regions import BLOCKS, kinds


@cache
def regions(variant: str) -> tuple[str, ...]:
    """The kinds of blocks of a variant."""
    return tuple(dict.fromkeys(kinds(models.find(variant).build())))


@cache
def nodes(variant: str) -> frozenset[str]:
    """Every node's id: the model, its containers and its ops."""
    model = models.find(variant).build()
    return frozenset(node_id(path, kinds(model)) for path, _ in model.named_modules() if path != BLOCKS)


@cache
def containers(variant: str) -> frozenset[str]:
    """What only stands for its blocks: the model, and a block of each kind."""
    return frozenset({"", *regions(variant)})


def claims(model: Model) -> list[Claim]:
    """The claims that are made of a model, about its own nodes."""
    return [spread(claim, regions(model.variant)) for claim in find.claims(model)]


def stands_in(expression: str, text: str) -> bool:
    """Whether the pieces between the ellipses stand in the text, in order, whatever the white space."""
    flat, at = " ".join(text.split()), 0
    for piece in expression.split("…"):
        piece = " ".join(piece.split())
        found = flat.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece)
    return True
