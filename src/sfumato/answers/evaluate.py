"""One aggregate, for every group: value, standard error and interval.

An aggregate is a sum of published numbers times public weights, so its error is the same sum of independent noises, and
the distribution of that sum is known exactly. Which noises enter is for the content to say (view.py). A content that
does not show every cell adds one more number, the rest: what the suppressed cells hold together (suppressed.py).
"""

from __future__ import annotations

from dataclasses import field
from functools import cached_property
from math import inf, nan

import numpy as np

from sfumato.answers.cell_weights import cell_weights, total
from sfumato.answers.estimate import Estimate
from sfumato.answers.groups import Groups
from sfumato.answers.intervals.fieller import Functional, Interval, Shared, linear_interval, ratio_interval
from sfumato.answers.view import Sum, View
from sfumato.answers.whole_rows import of_whole_rows
from sfumato.arrays import Codes, Floats
from sfumato.frozen import dataclass
from sfumato.sql import Amount, Column
from sfumato.sql.bounds import row_bounds


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The aggregates of one query over the cells it sees."""

    view: View
    groups: Groups
    confidence: float
    undetermined: list[Column] = field(default_factory=list)  # asked, and not to be had from what was measured

    @cached_property
    def group(self) -> Codes:
        """The group of each cell."""
        return self.groups.of_cells(self.view.cells)

    def evaluate(self, column: Column) -> list[Estimate]:
        """An aggregate for every present group."""
        sides = [self.sum_of(amounts) for amounts in (column.numerator, column.denominator) if amounts is not None]
        values = [self.values_of(side) for side in sides]
        estimates, shared = [], Shared()
        signed = column.denominator is not None and not self._counted(column.denominator)
        every_noise = self.view.noises.terms(sides, self.view.cells, self.groups)
        for group, terms in zip(self.groups.present, every_noise, strict=True):
            top, *bottom = (Functional(*(float(part[group]) for part in side)) for side in values)
            if terms is None:
                self.undetermined.append(column)
                found = Interval(nan, nan, *(column.bounds or (-inf, inf)), nan)
            elif bottom:
                noises = shared.noises(terms)
                found = ratio_interval(top, bottom[0], noises, self.confidence, column.bounds, signed=signed)
            else:
                found = linear_interval(top, shared.noises(terms), self.confidence)
                if self.view.suppressed is not None and _is_plain_count(column):
                    unseen = float(sides[0].unseen[group])
                    found = self.view.suppressed.below_threshold(found, top, terms, unseen, self.confidence)
                if self.view.estimated and _counts_rows(column):
                    found = of_whole_rows(found, self.confidence)
            estimates.append(_estimate(found, column.scale, self.confidence))
        return estimates

    def _counted(self, amounts: tuple[Amount, ...]) -> bool:
        """Whether no table makes their sum negative."""
        return all(amount.factor >= 0.0 <= row_bounds(amount.of, self.view.schema)[0] for amount in amounts)

    def sum_of(self, amounts: tuple[Amount, ...]) -> Sum:
        """A linear combination of amounts, as weights on what is published."""
        schema, cells, suppressed = self.view.schema, self.view.cells, self.view.suppressed
        split = total(cell_weights(amount, schema, cells.codes, cells.size) for amount in amounts if amount.grouped)
        whole = total(cell_weights(amount, schema, cells.codes, cells.size) for amount in amounts if not amount.grouped)
        if suppressed is None:
            return Sum(split, whole, {}, np.zeros(self.groups.number))
        rests = [suppressed.rest_weights(amount, cells, self.groups, self.group) for amount in amounts]
        unseen = np.sum([rest.unseen for rest in rests], axis=0)
        return Sum(split, whole, total(rest.weights for rest in rests), unseen)

    def values_of(self, asked: Sum) -> tuple[Floats, Floats, Floats]:
        """Value, low and high end for every group, noise included."""
        values, suppressed = self.view.cells.values, self.view.suppressed

        def part(name: str) -> Floats:
            answer = np.zeros(self.groups.number)
            for of, weights in asked.split.items():
                products = getattr(weights, name) * values[of]
                answer += np.bincount(self.group, weights=products, minlength=self.groups.number)
            for of, weights in asked.whole.items():
                answer += float(getattr(weights, name) @ values[of])
            for of, weights in asked.rest.items():
                rest = 0.0 if suppressed is None else suppressed.remainder[of]
                # The ends lean on counts of rows, which cannot be negative, whatever the noise says.
                answer += getattr(weights, name) * (rest if name == "value" or weights.exact else max(rest, 0.0))
            return answer

        value = part("value")
        return (value, value, value) if asked.exact else (value, part("low"), part("high"))


def _is_plain_count(column: Column) -> bool:
    return _counts_rows(column) and column.numerator[0].present is None


def _counts_rows(column: Column) -> bool:
    """Whether it counts rows, or those that have a value: never fewer than none."""
    return [(amount.of, amount.factor) for amount in column.numerator] == [(None, 1.0)]


def _estimate(found: Interval, scale: float, confidence: float) -> Estimate:
    low, high = (found.low, found.high) if scale >= 0 else (found.high, found.low)
    size = abs(scale)
    return Estimate(
        found.value * scale,
        found.stderr * size,
        low * scale,
        high * scale,
        confidence,
        found.noise * size,
        found.model * size,
    )
