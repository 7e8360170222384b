"""A checkpoint's parameters one by one, as the definition has them: what another checkpoint's can be held against."""

from collections.abc import Iterator
from typing import NamedTuple

from torch import Tensor

from openmodelatlas.models.variant import Variant
from openmodelatlas.records.report import Ledger, StoredTensor, TensorRow
from openmodelatlas.weights import steps
from openmodelatlas.weights.opened import Opened


class Unit(NamedTuple):
    """A parameter, or the share of one expert in it."""

    parameter: str
    expert: int | None

    def __str__(self) -> str:
        return self.parameter if self.expert is None else f"{self.parameter}[{self.expert}]"


class _Place(NamedTuple):
    """Where a unit is stored: a tensor of its own, or one index of the first axis of a stack."""

    row: TensorRow
    stored: StoredTensor
    expert: int | None


class Units:
    """Every unit that a checkpoint has a tensor of the right shape for."""

    def __init__(self, opened: Opened, variant: Variant, ledger: Ledger) -> None:
        self._opened, self._config = opened, variant.config
        self._places: dict[Unit, _Place] = {}
        experts: dict[str, int] = {}
        for row in ledger.rows:
            if row.parameter is None or row.status == "surplus":
                continue
            expert = None
            if steps.STACK in row.steps:
                expert = experts.get(row.parameter, 0)
                experts[row.parameter] = expert + 1
            if row.stored is not None and row.status == "matched":
                self._places[Unit(row.parameter, expert)] = _Place(row, row.stored, None)

    def __iter__(self) -> Iterator[Unit]:
        return iter(self._places)

    def __contains__(self, unit: object) -> bool:
        return unit in self._places

    def take_apart(self, like: "Units") -> None:
        """Show the stacks whose experts `like` stores apart as one unit an expert."""
        apart = {unit.parameter for unit in like._places if unit.expert is not None}
        for unit in [unit for unit in self._places if unit.expert is None and unit.parameter in apart]:
            place = self._places.pop(unit)
            for index in range(place.stored.shape[0]):
                self._places[Unit(unit.parameter, index)] = place._replace(expert=index)

    def stored(self, unit: Unit) -> StoredTensor:
        """The tensor that holds the unit, or the stack that it is in."""
        return self._places[unit].stored

    def shape(self, unit: Unit) -> tuple[int, ...]:
        """The unit's own shape."""
        place = self._places[unit]
        return place.stored.shape if place.expert is None else place.stored.shape[1:]

    def steps(self, unit: Unit) -> tuple[str, ...]:
        """The layout conversions between file and definition."""
        return self._places[unit].row.steps

    def values(self, unit: Unit) -> Tensor:
        """The unit's values in the definition's layout, in the stored type where that is a plain one."""
        place = self._places[unit]
        if place.expert is None:
            return steps.apply(self._opened.values(place.stored.name), place.row.steps, self._config)
        piece = self._opened.values(place.stored.name, place.expert, place.expert + 1)[0]
        return steps.apply(piece, place.row.steps, self._config)

    def first_row(self, unit: Unit) -> Tensor:
        """The unit's first stored row, which no layout step moves; a vector whole and converted."""
        place = self._places[unit]
        if place.expert is not None or len(place.stored.shape) == 1:
            values = self.values(unit)
            return values if values.ndim == 1 else values[0]
        return self._opened.values(place.stored.name, 0, 1)[0]
