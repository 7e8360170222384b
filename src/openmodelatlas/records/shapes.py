"""Shapes as the atlas prints them."""

from collections.abc import Mapping

from openmodelatlas.records.graph import Port
from openmodelatlas.records.sizes import concrete

AXIS_WORDS = {"B": "batch", "T": "positions", "S": "slots"}
"""Words of the symbolic axes; a sized axis is printed with its letter in lower case (`4096 d`)."""


def axis_word(axis: str) -> str:
    """`T` to `positions`, `D` to `d`, `H*E` to `h·e`."""
    return AXIS_WORDS.get(axis) or axis.lower().replace("*", "·")


def shape_text(port: Port, sizes: Mapping[str, int] | None = None) -> str:
    """`[B batch, T positions, 4096 d]`; with `sizes` for B, T and S, all integers."""
    shown = [
        str(size) if axis == "1" else f"{size} {axis_word(axis)}"
        for axis, size in zip(port.axes, concrete(port.shape, sizes or {}), strict=True)
    ]
    return f"[{', '.join(shown)}]"
