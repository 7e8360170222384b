"""Encoding as SentencePiece does: pieces with scores, joined best first (BPE), or the best sum of scores (unigram)."""

import heapq
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from openmodelatlas.errors import InputError
from openmodelatlas.text.spelling import MARK, MarkSpelling
from openmodelatlas.text.tokenizer import Method

UNKNOWN_PENALTY = 10.0  # below the worst score, as the library has it
END = -1


@dataclass(frozen=True, kw_only=True)
class Pieces:
    """A SentencePiece vocabulary: entries and scores by id. `whole`: pieces taken as they stand before anything is
    joined; `plain`: those that joining can make; `byte`: the id of each byte that has one."""

    kind: Literal["bpe", "unigram"]
    scores: Sequence[float]
    plain: Mapping[str, int]
    whole: Mapping[str, int]
    control: Mapping[str, int]
    byte: Mapping[int, int]
    unknown: int | None
    space_at_start: bool


class PieceMethod(Method):
    """Encoding with a SentencePiece vocabulary."""

    def __init__(self, pieces: Pieces) -> None:
        self.pieces = pieces
        self._control, self._whole = _any_of(pieces.control), _any_of(pieces.whole)
        self._longest = max(map(len, pieces.plain), default=0)
        self._worst = min((pieces.scores[number] for number in pieces.plain.values()), default=0.0) - UNKNOWN_PENALTY

    def encode(self, text: str, *, literal: bool) -> list[int]:
        if literal or self._control is None:
            return self._segment(text)
        found, at = [], 0
        for match in self._control.finditer(text):
            found += self._segment(text[at : match.start()])
            found.append(self.pieces.control[match[0]])
            at = match.end()
        return found + self._segment(text[at:])

    def cut(self, text: str) -> list[str]:
        return [text] if text else []

    def _segment(self, text: str) -> list[int]:
        """Text between control tokens."""
        if not text:
            return []
        marked = (MARK if self.pieces.space_at_start else "") + text.replace(" ", MARK)
        join = self._joined if self.pieces.kind == "bpe" else self._best
        if self._whole is None:
            return join(marked)
        found, at = [], 0
        for match in self._whole.finditer(marked):
            found += join(marked[at : match.start()])
            found.append(self.pieces.whole[match[0]])
            at = match.end()
        return found + join(marked[at:])

    def _joined(self, text: str) -> list[int]:
        """Neighbours are joined while the two together are a piece: the best score first, then the leftmost."""
        parts, plain, scores = list(text), self.pieces.plain, self.pieces.scores
        after = [*range(1, len(parts)), END]
        before = list(range(-1, len(parts) - 1))
        queue: list[tuple[float, int, int, str]] = []

        def offer(left: int, right: int) -> None:
            if left != END and right != END and (number := plain.get(both := parts[left] + parts[right])) is not None:
                heapq.heappush(queue, (-scores[number], left, right, both))

        for left in range(len(parts) - 1):
            offer(left, left + 1)
        while queue:
            _, left, right, both = heapq.heappop(queue)
            if after[left] != right or parts[left] + parts[right] != both or not parts[left]:
                continue  # one of the two has been joined since
            parts[left], parts[right] = both, ""
            after[left] = after[right]
            if after[right] != END:
                before[after[right]] = left
            after[right] = END
            offer(before[left], left)
            offer(left, after[left])
        return self._ids(part for part in parts if part)

    def _best(self, text: str) -> list[int]:
        """The pieces whose scores add up to most; a character that is no piece costs more than any piece."""
        best, back = [0.0] + [-math.inf] * len(text), [0] * (len(text) + 1)
        for end in range(1, len(text) + 1):
            for start in range(max(0, end - self._longest), end):
                number = self.pieces.plain.get(text[start:end])
                if number is None and end - start > 1:
                    continue
                score = best[start] + (self._worst if number is None else self.pieces.scores[number])
                if score > best[end]:
                    best[end], back[end] = score, start
        parts, end = [], len(text)
        while end:
            parts.append(text[back[end] : end])
            end = back[end]
        return self._ids(reversed(parts))

    def _ids(self, parts: Iterable[str]) -> list[int]:
        found: list[int] = []
        for part in parts:
            number = self.pieces.plain.get(part)
            if number is not None:
                found.append(number)
            elif all(byte in self.pieces.byte for byte in part.encode()):
                found += [self.pieces.byte[byte] for byte in part.encode()]
            elif self.pieces.unknown is not None:
                if found[-1:] != [self.pieces.unknown]:  # a run of unknown characters is one
                    found.append(self.pieces.unknown)
            else:
                raise InputError("the vocabulary has no token for a character", found=repr(part))
        return found


def _any_of(entries: Mapping[str, int]) -> re.Pattern[str] | None:
    """Any of these, the longest that fits."""
    ordered = sorted(entries, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, ordered))) if ordered else None


def spelling(pieces: Pieces) -> MarkSpelling:
    """How such a vocabulary writes text."""
    return MarkSpelling(space_at_start=pieces.space_at_start)
