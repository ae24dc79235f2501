"""From an amount (a weighted sum over rows) to weights on the published numbers.

An amount is known only up to the spread of rows inside cells: where a condition cuts a cell, or a value is known by its
bin only, the truth lies between two sums, the least and the greatest it can be. So an amount becomes three sets of
weights: for its value, if rows are spread evenly, and for its low and its high end, whatever their spread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.domain import Domain
from sfumato.domain.boxes import Box, cover
from sfumato.frozen import dataclass
from sfumato.schema import Schema
from sfumato.schema.parts import missing_of
from sfumato.sql import Amount


@dataclass(frozen=True, eq=False)
class Weights:
    """Weights for the value, the least and the greatest an amount can be; one and the same array where exact."""

    value: Floats
    low: Floats
    high: Floats

    @classmethod
    def exactly(cls, value: Floats) -> Weights:
        return cls(value, value, value)

    @property
    def exact(self) -> bool:
        return self.value is self.low and self.value is self.high

    def __add__(self, other: Weights) -> Weights:
        if self.exact and other.exact:
            return Weights.exactly(self.value + other.value)
        return Weights(self.value + other.value, self.low + other.low, self.high + other.high)

    def times(self, factor: float) -> Weights:
        """All weights times a factor; a negative one swaps the ends."""
        if self.exact:
            return Weights.exactly(self.value * factor)
        low, high = (self.low, self.high) if factor >= 0 else (self.high, self.low)
        return Weights(self.value * factor, low * factor, high * factor)


ByStatistic = dict[str, Weights]


def total(parts: Iterable[ByStatistic]) -> ByStatistic:
    """The sum of several sets of weights, statistic by statistic."""
    summed: ByStatistic = {}
    for part in parts:
        for of, weights in part.items():
            summed[of] = summed[of] + weights if of in summed else weights
    return summed


def columns_of(sides: list[Weights | None], size: int) -> list[Floats]:
    """Value, low and high weights of each side, one after the other; nothing counts as zero."""
    nothing = np.zeros(size)
    found: list[Floats] = []
    for side in sides:
        found += [nothing] * 3 if side is None else [side.value, side.low, side.high]
    return found


def cell_weights(amount: Amount, schema: Schema, codes: Mapping[str, Codes], size: int) -> ByStatistic:
    """What an amount takes from each of a list of cells, given by their places on the axes."""
    share, sure, possible = (np.broadcast_to(w, size) for w in amount.predicate.weights(schema.domain, codes))
    exact = bool(np.array_equal(sure, possible))
    if amount.of is None:
        parts = {"count": Weights.exactly(share) if exact else Weights(share, sure, possible)}
        if amount.present is not None:
            parts[missing_of(amount.present)] = _less(share, sure, exact)
        return {of: weights.times(amount.factor) for of, weights in parts.items()}
    torn = possible - sure
    if amount.of in schema.measures:
        measure = schema.measures[amount.of]
        step, centre = float(measure.step), float(measure.centre)
        if exact:
            parts = {amount.of: Weights.exactly(share * step), "count": Weights.exactly(share * centre)}
        else:
            # In a cut cell some of the rows count, each with a value between the bounds; none of them may count.
            low, high = min(float(measure.lower), 0.0), max(float(measure.upper), 0.0)
            parts = {
                amount.of: Weights(share * step, sure * step, sure * step),
                "count": Weights(share * centre, sure * centre + torn * low, sure * centre + torn * high),
            }
        if measure.missing == "keep":
            parts[missing_of(amount.of)] = _less(share * centre, sure * centre, exact)
    else:
        axis = schema.domain[amount.of]
        least, _, greatest = (a[codes[amount.of]] for a in axis.amounts)
        if exact and np.array_equal(least, greatest):
            parts = {"count": Weights.exactly(share * least)}
        else:
            value = np.zeros(size)
            for box in amount.predicate.boxes:
                value += _along(box, schema.domain, amount.of, codes, size)
            parts = {
                "count": Weights(
                    value,
                    sure * least + torn * np.minimum(least, 0.0),
                    sure * greatest + torn * np.maximum(greatest, 0.0),
                )
            }
    return {of: weights.times(amount.factor) for of, weights in parts.items()}


def _less(value: Floats, sure: Floats, exact: bool) -> Weights:
    """What is taken back for rows in which a measure is missing; they are among the rows of a cell."""
    return Weights.exactly(-value) if exact else Weights(-value, -sure, -sure)


def volume(amount: Amount, schema: Schema, group_by: tuple[str, ...]) -> tuple[Floats, Floats, bool]:
    """An amount's sum over all cells of the domain if each held one row, for each group.

    Returns it for the value and for the cells that may belong to it, and whether all cells of the domain surely do.
    """
    domain = schema.domain
    groups = [domain[name].size for name in group_by] if amount.grouped else []
    value, possible = np.zeros(groups), np.zeros(groups)
    for box in amount.predicate.boxes:
        shares, touched = np.ones(groups), np.ones(groups)
        for axis in domain:
            covered = cover(axis, box[axis.name])
            along = axis.moment(box[axis.name]) if axis.name == _valued(amount, schema) else covered.share
            if amount.grouped and axis.name in group_by:
                place = [-1 if name == axis.name else 1 for name in group_by]
                shares, touched = shares * along.reshape(place), touched * covered.possible.reshape(place)
            else:
                shares, touched = shares * along.sum(), touched * covered.possible.sum()
        value, possible = value + shares, possible + touched
    boxes = amount.predicate.boxes
    whole = len(boxes) == 1 and all(cover(domain[name], values).sure.all() for name, values in boxes[0].sets)
    return value.reshape(-1), possible.reshape(-1), bool(whole and not groups)


def _valued(amount: Amount, schema: Schema) -> str | None:
    """The attribute whose own values are summed, if that is what the amount does."""
    return amount.of if amount.of is not None and amount.of not in schema.measures else None


def _along(box: Box, domain: Domain, of: str, codes: Mapping[str, Codes], size: int) -> Floats:
    """The share of each listed cell inside a box, times the mean value there of the attribute that is summed."""
    product = np.broadcast_to(domain[of].moment(box[of])[codes[of]], size).copy()
    for name, values in box.sets:
        if name != of:
            product *= cover(domain[name], values).share[codes[name]]
    return product
