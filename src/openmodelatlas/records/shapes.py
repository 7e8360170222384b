"""Shapes as the atlas prints them."""

from collections.abc import Mapping

from openmodelatlas.records.graph import Port
from openmodelatlas.records.sizes import concrete

AXIS_WORDS = {
    "B": "batch", "T": "positions", "S": "slots", "H": "heads", "K": "kv heads", "L": "blocks", "N": "experts",
    "A": "chosen",
}  # fmt: skip
"""Axes that are printed with a word; any other has its letter in lower case (`4096 d`)."""


def axis_word(axis: str) -> str:
    """`T` to `positions`, `D` to `d`, `K*E` to `kv·e`."""
    return AXIS_WORDS.get(axis) or axis.replace("K", "kv").lower().replace("*", "·")


def axis_text(size: object, axis: str) -> str:
    """One axis: `B batch`, `4096 d`; an axis of one has no word."""
    return str(size) if axis == "1" else f"{size} {axis_word(axis)}"


def shape_text(port: Port, sizes: Mapping[str, int] | None = None) -> str:
    """`[B batch, T positions, 4096 d]`; with `sizes` for B, T and S, all integers."""
    shown = [axis_text(n, axis) for axis, n in zip(port.axes, concrete(port.shape, sizes or {}), strict=True)]
    return f"[{', '.join(shown)}]"
