"""The key/value cache: the one seam between a whole forward and a step."""

from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor, nn


class BlockCache(NamedTuple):
    """One block's keys and values for S slots, written in place."""

    k: Float[Tensor, "B S K E"]
    v: Float[Tensor, "B S K E"]


class Cache(NamedTuple):
    """All blocks' buffers, with the slots that this call writes (`[T]`) and the position in each slot (`[B, S]`).

    The caller enters this call's positions into `positions` before the call; -1 marks an empty slot or padding.
    """

    slots: Int[Tensor, "T"]
    positions: Int[Tensor, "B S"]
    blocks: tuple[BlockCache, ...]


class KeysValues(NamedTuple):
    """Everything that may be attended to."""

    keys: Float[Tensor, "B S K E"]
    values: Float[Tensor, "B S K E"]


class UpdateCache(nn.Module):
    r"""Writes this call's keys and values into their slots and hands on everything stored so far.

    Without a cache the new keys and values are all there is.

    Equation:
        \out{keys} = \port{cache.k}\left[\port{slots} \leftarrow \port{k}\right] \qquad
        \out{values} = \port{cache.v}\left[\port{slots} \leftarrow \port{v}\right]

    Dtype: the dtype of the buffers.
    """

    def forward(
        self,
        k: Float[Tensor, "B T K E"],
        v: Float[Tensor, "B T K E"],
        cache: BlockCache | None,
        slots: Int[Tensor, "T"] | None,
    ) -> KeysValues:
        if cache is None or slots is None:
            return KeysValues(k, v)
        return KeysValues(cache.k.index_copy_(1, slots, k), cache.v.index_copy_(1, slots, v))
