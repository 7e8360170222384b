"""Room for keys and values, and the bookkeeping of which slot holds which position."""

from typing import Any

import torch
from torch import Tensor, nn

from openmodelatlas.errors import InputError
from openmodelatlas.parts.cache import BlockCache, Cache

PADDING = -1


class Session:
    """A batch of texts on their way through a model: buffers of `slots` slots a row, filled from the left.

    A slot is a column of the batch, so every call adds T columns for all rows; rows of unequal length are padded on
    the left with position -1.
    """

    def __init__(self, model: nn.Module, batch: int, slots: int) -> None:
        self.model, self.slots, self.filled = model, slots, 0
        config: Any = model.config
        weight = next(model.parameters())
        shape = (batch, slots, config.num_key_value_heads, config.head_dim)
        self._blocks = tuple(
            BlockCache(weight.new_zeros(shape), weight.new_zeros(shape)) for _ in range(config.num_hidden_layers)
        )
        self._positions = torch.full((batch, slots), PADDING, dtype=torch.int64, device=weight.device)

    def advance(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Logits `[B, T, V]` of the next T columns; both arguments `[B, T]`, position -1 for padding.

        InputError if the buffers are full."""
        start, end = self.filled, self.filled + tokens.shape[1]
        if end > self.slots:
            raise InputError("the cache is full", expected=f"at most {self.slots} positions", found=end)
        self._positions[:, start:end] = positions
        # Only what is filled is handed on: the buffers are views, so a step costs what it needs and no more.
        cache = Cache(
            slots=torch.arange(start, end, device=tokens.device),
            positions=self._positions[:, :end],
            blocks=tuple(BlockCache(block.k[:, :end], block.v[:, :end]) for block in self._blocks),
        )
        # Entered at each step: gradient mode belongs to a thread, and a caller may resume a generator in another.
        with torch.no_grad():
            logits: Tensor = self.model(tokens, positions, cache)
        self.filled = end
        return logits


def left_padded(rows: list[list[int]], device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
    """Rows of tokens as one batch: tokens and positions `[B, T]`, shorter rows padded on the left."""
    width = max(len(row) for row in rows)
    tokens = [[0] * (width - len(row)) + row for row in rows]
    positions = [[PADDING] * (width - len(row)) + list(range(len(row))) for row in rows]
    return torch.tensor(tokens, device=device), torch.tensor(positions, device=device)
