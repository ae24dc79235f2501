"""Rows weighed by where they lie on one attribute: what quantiles and variances are made of.

A count becomes a sum of the values (or of 1 up to a value and 0 beyond it) by a factor for each cell of the attribute.
The factor may differ by group, since every cell belongs to one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import numpy as np

from sfumato.answers.cell_weights import ByStatistic, Weights, cell_weights
from sfumato.answers.evaluate import Evaluation
from sfumato.answers.groups import Groups
from sfumato.answers.view import Sum
from sfumato.arrays import Codes, Floats
from sfumato.domain import Axis
from sfumato.domain.predicates import Predicate
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.sql import Amount
from sfumato.sql.statistics.rules import Quantile, Spread

Factor = Callable[[Codes, Codes], Floats]  # of groups and of cells along the attribute

MOST_BY_GROUP = 2**24  # counts of all groups by value that are laid out at once
EVERY_ROW = Groups((), (), np.zeros(1, dtype=np.int64))


@dataclass(frozen=True, eq=False)
class Along:
    """The rows of a predicate, by group and by the cells of an attribute."""

    evaluation: Evaluation
    predicate: Predicate
    axis: Axis

    @classmethod
    def of(cls, rule: Quantile | Spread, evaluation: Evaluation) -> Along:
        """The rows that a statistic is about; of all groups together where GROUP BY does not split it."""
        if not rule.grouped:
            evaluation = replace(evaluation, groups=EVERY_ROW)
        axis = evaluation.view.schema.domain[rule.of]
        if evaluation.groups.number * axis.size > MOST_BY_GROUP:
            raise QueryError(
                f"quantiles and variances of {axis.name} lay out {evaluation.groups.number * axis.size:,} counts here "
                f"and {MOST_BY_GROUP:,} is the most; group by fewer attributes"
            )
        return cls(evaluation, rule.predicate, axis)

    @property
    def counted(self) -> Amount:
        return Amount(self.predicate, None)

    @cached_property
    def code(self) -> Codes:
        """Where each cell lies on the attribute."""
        return np.asarray(self.evaluation.view.cells.codes[self.axis.name], dtype=np.int64)

    @cached_property
    def base(self) -> Weights:
        cells = self.evaluation.view.cells
        return cell_weights(self.counted, self.evaluation.view.schema, cells.codes, cells.size)["count"]

    @cached_property
    def rests(self) -> tuple[Floats, Floats]:
        """For (group, cell of the attribute): the share of the rest there, and how many unpublished cells."""
        groups = self.evaluation.groups
        shares, unseen = (np.zeros((groups.number, self.axis.size)) for _ in range(2))
        suppressed, cells = self.evaluation.view.suppressed, self.evaluation.view.cells
        if suppressed is not None:
            for cell in range(self.axis.size):
                amount = replace(self.counted, predicate=self.predicate & _at(self.axis, cell))
                rest = suppressed.rest_weights(amount, cells, groups, self.evaluation.group)
                shares[:, cell], unseen[:, cell] = rest.weights["count"].value, rest.unseen
        return shares, unseen

    @cached_property
    def everyone(self) -> bool:
        """Whether all rows of the table are meant, so that the rest is known to belong to it."""
        return not self.evaluation.groups.names and not self.predicate.names and bool(self.predicate)

    def sum(self, factor: Factor) -> Sum:
        """The rows, each times a factor."""
        groups = self.evaluation.groups
        split: ByStatistic = {"count": _times(self.base, factor(self.evaluation.group, self.code))}
        if self.evaluation.view.suppressed is None:
            return Sum(split, {}, {}, np.zeros(groups.number))
        shares, unseen = self.rests
        group, cell = np.divmod(np.arange(groups.number * self.axis.size), self.axis.size)
        factors = factor(group, cell).reshape(shares.shape)
        low, high = (
            end(factors, axis=1, where=unseen > 0.5, initial=edge)
            for end, edge in ((np.min, np.inf), (np.max, -np.inf))
        )
        some = unseen.sum(axis=1) > 0.5
        if not self.everyone:
            low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
        rest = Weights((shares * factors).sum(axis=1), np.where(some, low, 0.0), np.where(some, high, 0.0))
        return Sum(split, {}, {"count": rest}, unseen.sum(axis=1))

    def histogram(self) -> tuple[Floats, Floats, Floats]:
        """The rows of every (group, cell of the attribute): value, least and most, the rest left out."""
        groups, values = self.evaluation.groups, self.evaluation.view.cells.values["count"]
        place = self.evaluation.group * self.axis.size + self.code
        size = groups.number * self.axis.size
        value, low, high = (
            np.asarray(np.bincount(place, weights=part * values, minlength=size), dtype=np.float64)
            for part in (self.base.value, self.base.low, self.base.high)
        )
        shape = groups.number, self.axis.size
        return value.reshape(shape), low.reshape(shape), high.reshape(shape)


def _times(base: Weights, factor: Floats) -> Weights:
    """Weights times a factor for each cell; where it is negative the ends change places."""
    if base.exact:
        return Weights.exactly(base.value * factor)
    ends = base.low * factor, base.high * factor
    return Weights(base.value * factor, np.where(factor > 0, *ends), np.where(factor > 0, *reversed(ends)))


def _at(axis: Axis, cell: int) -> Predicate:
    """The rows of one cell of an axis."""
    return Predicate.where(axis.name, axis.values_in(cell))
