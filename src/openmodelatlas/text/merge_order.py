"""What a byte-level vocabulary and its merges tell of each other: exchanged ids, and merges that are gone.

No file says what its merges must be. But a vocabulary that was trained gives its ids in the order of the merges, and
each of its entries is what some merge makes; so a few exceptions are worth a look."""

import itertools
from collections.abc import Iterator, Mapping, Sequence

from openmodelatlas.records.shown import shown

MOST_EXCEPTIONS = 0.01
"""Above that share of all merges the vocabulary has another order, and nothing is to be said of it."""


def merge_notes(merges: Sequence[tuple[str, str]], ids: Mapping[str, int], apart: frozenset[int]) -> Iterator[str]:
    """Notes on a vocabulary; `apart`: ids of entries that no merge has to make."""
    if not merges:
        return
    made = [left + right for left, right in merges]
    order = [(ids[token], token) for token in made if token in ids]
    falls = [token for (before, _), (number, token) in itertools.pairwise(order) if number < before]
    if 0 < len(falls) <= MOST_EXCEPTIONS * len(order):
        words = "ids or merges may have been exchanged"
        first = shown(falls[0])
        yield f"{len(falls)} of {len(order):,} merges are not in the order of the ids, the first at {first}: {words}"
    results = set(made)
    if entries := [t for t, number in ids.items() if len(t) > 1 and number not in apart and t not in results]:
        first = min(entries, key=lambda token: ids[token])
        yield f"{len(entries):,} entries are made by no merge, the first {shown(first)} at {ids[first]}"
