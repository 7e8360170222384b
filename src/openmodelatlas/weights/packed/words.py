"""Small numbers in words of 32 bits, and scales that hold for many numbers each."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from openmodelatlas.weights.view import Read

WORD = 32
PIECE = 1 << 22
"""Numbers that are unpacked at once."""


def unpacked(words: Tensor, bits: int, count: int, axis: int) -> Tensor:
    """The first `count` numbers of `bits` bits along an axis; the lowest bits of a word come first, and a number may
    begin in one word and end in the next."""
    raw = (words.to(torch.int64) & 0xFFFFFFFF).movedim(axis, 0)
    position = torch.arange(count) * bits
    word, shift = position // WORD, position % WORD
    column = shift.reshape(-1, *[1] * (raw.dim() - 1))
    found = raw[word] >> column
    if WORD % bits:
        after = raw[(word + 1).clamp(max=raw.shape[0] - 1)] << (WORD - column)
        found = torch.where(column + bits > WORD, found | after, found)
    return (found & ((1 << bits) - 1)).to(torch.int32).movedim(0, axis)


def repeated(scales: Tensor, size: int, count: int, axis: int) -> Tensor:
    """Each of the scales for `size` numbers along an axis, `count` in all; the last may stand for fewer."""
    index = torch.arange(count) // size
    return scales.index_select(axis, index.clamp(max=scales.shape[axis] - 1))


def in_pieces(read: Callable[[int, int], Tensor], shape: tuple[int, ...]) -> Read:
    """Rows in any number, unpacked a few at a time into a tensor of plain numbers."""
    step = max(1, PIECE // max(1, math.prod(shape[1:])))

    def rows(start: int, end: int | None) -> Tensor:
        last = shape[0] if end is None else min(end, shape[0])
        if last - start <= step:
            return read(start, last)
        found = torch.empty((last - start, *shape[1:]))
        for low in range(start, last, step):
            high = min(low + step, last)
            found[low - start : high - start] = read(low, high)
        return found

    return rows


class Kept:
    """The last tensor that was read, so that one whose rows come in pieces is read once."""

    def __init__(self, read: Callable[[str], Tensor]) -> None:
        self._read, self._name, self._values = read, "", torch.empty(0)

    def __call__(self, name: str) -> Tensor:
        if name != self._name:
            self._name, self._values = "", torch.empty(0)
            self._values = self._read(name)
            self._name = name
        return self._values
