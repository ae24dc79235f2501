"""COUNT(DISTINCT x): the number of listed values that have rows, from the noisy counts of all values together.

A value surely has rows if the interval of its count lies above 0, and may have rows unless that interval lies below 1.
The intervals of K values hold together (Bonferroni: each at 1 - (1 - confidence) / K), and then the true number lies
between that of the sure and that of the possible values. The estimate is the number of sure ones: what noise lifts
above 0 is not counted.

A model spreads rows over values that have none. So with a model error, "no row has this value" is tested by the
measurements inside the value's cells alone (`Sign`), and every listed value may have rows. Where a fit keeps no such
measurements, the number is unknown, until guaranteed intervals of the counts decide (guaranteed_columns.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import isnan, nan
from statistics import NormalDist
from typing import Protocol

import numpy as np

from sfumato.answers.evaluate import Evaluation
from sfumato.answers.question import Gathered, Groups, cell_weights
from sfumato.answers.results import Estimate
from sfumato.answers.spreads import EVERY_ROW
from sfumato.arrays import Codes
from sfumato.domain.predicates import Predicate
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.sql.plan import Amount, Column, Distinct

MOST_COUNTS = 5_000  # of values times groups: as much work as a GROUP BY of so many
_INSTEAD = "the counts themselves have intervals: SELECT COUNT(*) ... GROUP BY"


class Interval(Protocol):
    """Ends of an interval of a count."""

    @property
    def low(self) -> float: ...

    @property
    def high(self) -> float: ...


def values_with_rows(counts: Iterable[Interval]) -> tuple[int, int]:
    """Least and greatest number of values that have rows, from intervals of their counts that hold together.

    An interval between 0 and 1, which no count can lie in, is that of a value with rows.
    """
    listed = list(counts)
    sure = sum(count.low > 0.0 for count in listed)
    return sure, sum(count.low > 0.0 or not count.high < 1.0 for count in listed)


@dataclass(frozen=True)
class ByValue(Groups):
    """Groups split by the values that are counted; cells of no such value are numbered after the last one.

    base: the groups. value: number of the value of each gathered cell, (cells,).
    """

    base: Groups
    value: Codes

    @classmethod
    def of_rule(cls, rule: Distinct, evaluation: Evaluation) -> ByValue:
        """Groups by value, for a view whose cells have one value each."""
        base, cells = evaluation.groups if rule.grouped else EVERY_ROW, evaluation.view.cells
        values = len(rule.predicates)
        value = np.full(cells.size, values, dtype=np.int64)
        for number, column in enumerate(rule.counts):
            rows = cell_weights(column.numerator[0], evaluation.view.schema, cells.codes, cells.size)["count"].low
            value[np.broadcast_to(rows > 1.0 - 1e-9, cells.size)] = number
        present = (base.present[:, None] * (values + 1) + np.arange(values)).ravel()
        return cls((), (base.number, values + 1), present, base, value)

    def of_cells(self, gathered: Gathered) -> Codes:
        """Number of the group and value of each gathered cell, (cells,)."""
        return self.base.of_cells(gathered) * self.shape[1] + self.value


def distinct_values(rule: Distinct, evaluation: Evaluation) -> list[Estimate]:
    """Number of values with rows, for every present group."""
    values, confidence = len(rule.predicates), evaluation.confidence
    if evaluation.view.suppressed is not None:
        raise QueryError(f"COUNT(DISTINCT {rule.of}): this release leaves out small cells; {_INSTEAD} {rule.of}")
    groups = ByValue.of_rule(rule, evaluation)
    if len(groups.present) > MOST_COUNTS:
        raise QueryError(
            f"the values of {rule.of} in all groups are {len(groups.present):,} counts, and {MOST_COUNTS:,} is the "
            "most; group by fewer attributes"
        )
    each = 1.0 - (1.0 - confidence) / max(1, values)
    at = replace(evaluation, groups=groups, confidence=each)
    counts = at.evaluate(Column("", (Amount(Predicate.everything(), None),)))
    estimates = []
    for start in range(0, len(counts), values) if values else [0] * len(groups.base.present):
        here = counts[start : start + values]
        least, most = values_with_rows(here)
        unknown = bool(here) and all(isnan(count.value) for count in here)
        if any(count.model > 0.0 for count in here):
            sure = _sure_by_measurement(at, groups.present[start : start + values])
            least, most, unknown = sure or 0, values, unknown or sure is None
        error = (most - least) / 2.0 / NormalDist().inv_cdf((1.0 + confidence) / 2.0)
        value, error = (nan, nan) if unknown else (float(least), error)
        estimates.append(Estimate(value, error, float(least), float(most), confidence, error))
    return estimates if rule.grouped else estimates * len(evaluation.groups.present)


def _sure_by_measurement(at: Evaluation, present: Codes) -> int | None:
    """Number of values whose own measurements say that there are rows; None where a fit keeps none."""
    signs = at.view.noises.signs_of_rows(at.group[:, None] == present, at.view.cells)
    return None if signs is None else sum(sign.is_sure(at.confidence) for sign in signs)


def settled(estimate: Estimate) -> Estimate:
    """Point estimate of a count of distinct values from its guaranteed ends: the lower one."""
    if not isnan(estimate.value):
        return estimate
    error = (estimate.high - estimate.low) / 2.0 / NormalDist().inv_cdf((1.0 + estimate.confidence) / 2.0)
    return replace(estimate, value=estimate.low, stderr=error, noise=error)


def check_settled(rule: Distinct, estimates: Iterable[Estimate], evaluation: Evaluation) -> None:
    """Refuse a COUNT(DISTINCT) that neither measurements nor guaranteed intervals of the counts decide."""
    if not evaluation.undetermined and any(isnan(one.value) for one in estimates):
        raise QueryError(
            f"COUNT(DISTINCT {rule.of}): this release is fitted by a model, which gives rows to values that have none; "
            f"{_INSTEAD} {rule.of}"
        )
