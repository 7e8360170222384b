"""Expressions in B, T and S, as graphs hold them: sums of products of integers and symbols."""

from collections.abc import Mapping

from openmodelatlas.records.graph import Size


def evaluate(size: Size, values: Mapping[str, int]) -> int:
    """The integer that `size` stands for when the axes have these sizes."""
    if isinstance(size, int):
        return size
    return sum(_product(term, values) for term in size.replace(" - ", " + -").split(" + "))


def _product(term: str, values: Mapping[str, int]) -> int:
    sign = -1 if term.startswith("-") else 1
    product = sign
    for factor in term.removeprefix("-").replace("**", "^").split("*"):
        base, _, power = factor.partition("^")
        product *= (values[base] if base in values else int(base)) ** int(power or 1)
    return product


def concrete(shape: tuple[Size, ...], values: Mapping[str, int]) -> tuple[Size, ...]:
    """A shape with every axis that `values` knows replaced; unchanged when it knows none."""
    return tuple(evaluate(n, values) for n in shape) if values else shape
