"""Tensors shared out over several devices, by the rules that stand beside a family's names; `split` undoes it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from openmodelatlas.errors import UsageError
from openmodelatlas.models.variant import Variant
from openmodelatlas.weights.naming import block_pattern, fill, name_table
from openmodelatlas.weights.writing.outgoing import Outgoing

AXES = {"rows": 0, "vocabulary": 0, "columns": 1}
"""The axis that each rule cuts; a table of tokens is cut as Llama 3's files are, by rows."""


@dataclass(frozen=True, kw_only=True)
class Share:
    """The numbers of `whole` from `start` to `end` along an axis; or all of it, where there is no axis."""

    whole: Outgoing
    axis: int | None
    start: int
    end: int

    def pieces(self) -> Iterator[Tensor]:
        """Runs of rows."""
        at = 0
        for piece in self.whole.pieces():
            if self.axis == 1:
                yield piece[:, self.start : self.end].contiguous()
            elif self.axis is None:
                yield piece
            elif at < self.end and at + len(piece) > self.start:
                yield piece[max(0, self.start - at) : self.end - at].contiguous()
            at += len(piece)


def shares(tensors: Sequence[Outgoing], variant: Variant, ranks: int) -> list[list[Outgoing]]:
    """The tensors of each of so many shares. UsageError if some tensor has no such parts."""
    heads = variant.config.num_key_value_heads
    if ranks < 1 or heads % ranks:
        raise UsageError("key/value heads cannot be shared out so", expected=f"a divisor of {heads}", found=ranks)
    rules = _rules(variant)
    found: list[list[Outgoing]] = [[] for _ in range(ranks)]
    for tensor in tensors:
        axis = AXES.get(rules.get(tensor.name, ""))
        size = 0 if axis is None else tensor.shape[axis]
        if size % ranks:
            raise UsageError("a tensor has no such parts", where=tensor.name, expected=f"{size} in {ranks} equal ones")
        for rank, share in enumerate(found):
            part = size // ranks
            made = Share(whole=tensor, axis=axis, start=rank * part, end=(rank + 1) * part)
            shape = tuple(part if place == axis else other for place, other in enumerate(tensor.shape))
            share.append(Outgoing(name=tensor.name, shape=shape, dtype=tensor.dtype, made=made))
    return found


def _rules(variant: Variant) -> Mapping[str, str]:
    """How each stored tensor is cut, by its name."""
    rows = {row.parameter: row for row in name_table(variant.family, "meta").tensors}
    found = {}
    for parameter, _ in variant.build("meta").named_parameters():
        pattern, index = block_pattern(parameter)
        if (rule := rows[pattern].split) is not None:
            found[fill(rows[pattern].stored, index)] = rule
    return found
