"""Covariance, correlation and least squares of two columns from noisy counts and sums by bins.

With N rows and S the sums of their x, y and products, C_xy = S_xy - S_x S_y / N is N times the covariance of the bins'
midpoints; C_xx and C_yy likewise. The slope of y on x is C_xy / C_xx, the correlation C_xy / sqrt(C_xx C_yy). All are
functions of six sums, linear in what was measured, so their noise is known with its correlations
(function_interval.py), and so is what a model lacks. y may be a measure where C_yy is not needed: its sums by x are
known.

Rows lie anywhere in their bins. For a smooth density the covariance of midpoints is that of the values, and variances
are off by width^2 / 12 (Sheppard 1898); the interval is widened by that share of the value. It is no bound for every
table, so where bins are wider than a value there is no guaranteed interval.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import hypot, inf, nan, sqrt

import numpy as np

from sfumato.answers.evaluate import Evaluation, Sum, Terms
from sfumato.answers.fieller import Functional
from sfumato.answers.function_interval import Dual, Function, function_interval
from sfumato.answers.question import cell_weights
from sfumato.answers.results import Estimate
from sfumato.answers.spreads import EVERY_ROW, by_factor
from sfumato.arrays import Floats
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.schema import Schema
from sfumato.sql import Amount, Column
from sfumato.sql.plan import CRAMERS_V, Bivariate

RANGES = {"corr": (-1.0, 1.0), "regr_r2": (0.0, 1.0), "regr_sxx": (0.0, inf), "regr_syy": (0.0, inf)}


def relations(column: Column, rule: Bivariate, evaluation: Evaluation) -> list[Estimate]:
    """Statistic of two columns with its interval for every present group."""
    at = evaluation if rule.grouped else replace(evaluation, groups=EVERY_ROW)
    if at.view.suppressed is not None:
        raise QueryError(
            f"{rule.statistic.upper()}: a release that holds only cells above a threshold does not tell how two "
            "columns go together; ask a release by another mechanism"
        )
    key = replace(rule, statistic=""), at.view.far
    if key not in evaluation.shared:
        moments = _moments(rule, at)
        evaluation.shared[key] = moments, [at.values_of(one) for one in moments.sums], at.terms(moments.sums)
    moments, values, every = evaluation.shared[key]
    estimates = []
    for group, terms in zip(at.groups.present, every, strict=True):
        if terms is None:
            evaluation.undetermined.append(column)
        numbers = [Functional(*(float(part[group]) for part in each)) for each in values]
        centre = float(moments.x_centre[group]), float(moments.y_centre[group])
        estimates.append(_estimate(rule, numbers, terms, at.confidence, centre, moments.grain))
    return estimates if rule.grouped else estimates * len(evaluation.groups.present)


def refuse_bins(column: Column, schema: Schema) -> None:
    """Refuse a guaranteed interval of a statistic of two columns that are known by bins."""
    rule = column.rule
    if isinstance(rule, Bivariate) and rule.statistic == CRAMERS_V:
        raise QueryError(f"{column.name} has no guaranteed interval: its own is simulated; ask for a typical one")
    for name in (rule.of, rule.by) if isinstance(rule, Bivariate) else ():
        low, _, high = schema.domain[name].amounts if name in schema.domain else (np.zeros(1),) * 3
        if (high > low).any():
            raise QueryError(
                f"{column.name} has no guaranteed interval: {name} is known by bins, and where rows lie in them "
                "changes it; ask for a typical interval"
            )


@dataclass(frozen=True, eq=False)
class _Moments:
    """Sums of powers of two columns, each less a rough mean of its group.

    sums: rows, x, y, xx, xy and yy, without the last where y is a measure. x_centre, y_centre: (groups,).
    grain: variances of x and y inside bins, were rows spread evenly there.
    """

    sums: list[Sum]
    x_centre: Floats
    y_centre: Floats
    grain: tuple[float, float]


def _moments(rule: Bivariate, at: Evaluation) -> _Moments:
    schema, cells, group = at.view.schema, at.view.cells, at.group
    measure = None if rule.of in schema.domain else schema.measures[rule.of]
    present = rule.of if measure is not None and measure.missing == "keep" else None
    rows = cell_weights(Amount(rule.predicate, None, present=present), schema, cells.codes, cells.size)
    counts = np.maximum(rows["count"].value * cells.values["count"], 0.0)
    total = np.bincount(group, weights=counts, minlength=at.groups.number)

    def along(name: str) -> tuple[Floats, Floats, float]:
        """Midpoint of each cell less its group's centre, (cells,); the centres; mean variance inside bins."""
        low, middle, high = (part[cells.codes[name]] for part in schema.domain[name].amounts)
        sums = np.bincount(group, weights=counts * middle, minlength=at.groups.number)
        centre = np.where(total > 0.0, sums / np.where(total > 0.0, total, 1.0), middle.mean())
        grain = float((counts * (high - low) ** 2).sum() / (12.0 * counts.sum())) if counts.any() else 0.0
        return middle - centre[group], centre, grain

    x, x_centre, x_grain = along(rule.by)
    if measure is None:
        y, y_centre, y_grain = along(rule.of)
        amounts = by_factor(rows, y)
    else:
        y, y_centre, y_grain = None, np.zeros(at.groups.number), 0.0
        amounts = cell_weights(Amount(rule.predicate, rule.of), schema, cells.codes, cells.size)
    weights = [rows, by_factor(rows, x), amounts, by_factor(rows, x * x), by_factor(amounts, x)]
    if y is not None:
        weights.append(by_factor(rows, y * y))
    sums = [Sum(split, {}, {}, np.zeros(at.groups.number)) for split in weights]
    return _Moments(sums, x_centre, y_centre, (x_grain, y_grain))


class _Centred:
    """Sums of squares and products about the means, as functions of the six sums with their gradients."""

    def __init__(self, sums: Floats, centre: tuple[float, float]) -> None:
        every = [Dual(float(value), slope) for value, slope in zip(sums, np.eye(len(sums)), strict=True)]
        self.rows, x, y, xx, xy, *yy = every
        self.x_mean, self.y_mean = x / self.rows, y / self.rows
        self.xx, self.xy = xx - x * self.x_mean, xy - x * self.y_mean
        self.yy = yy[0] - y * self.y_mean if yy else Dual(nan, np.full(len(every), nan))
        self.x_centre, self.y_centre, self.one = (Dual(one, np.zeros(len(every))) for one in (*centre, 1.0))

    @property
    def slope(self) -> Dual:
        return self.xy / self.xx

    @property
    def intercept(self) -> Dual:
        return self.y_mean + self.y_centre - self.slope * (self.x_mean + self.x_centre)


STATISTICS: dict[str, Callable[[_Centred], Dual]] = {
    "covar_pop": lambda of: of.xy / of.rows,
    "covar_samp": lambda of: of.xy / (of.rows - of.one),
    "corr": lambda of: of.xy / (of.xx * of.yy).root(),
    "regr_slope": lambda of: of.slope,
    "regr_intercept": lambda of: of.intercept,
    "regr_sxx": lambda of: of.xx,
    "regr_syy": lambda of: of.yy,
    "regr_sxy": lambda of: of.xy,
}


def _statistic(name: str, centre: tuple[float, float]) -> Function:
    """Statistic and its gradient as a function of the sums; NaN where it is not defined."""

    def at(sums: Floats) -> tuple[float, Floats]:
        result = STATISTICS[name](_Centred(sums, centre))
        return result.value, result.slope

    return at


def _estimate(
    rule: Bivariate,
    sums: list[Functional],
    terms: Terms,
    confidence: float,
    centre: tuple[float, float],
    grain: tuple[float, float],
) -> Estimate:
    """Estimate of one group. centre: subtracted from x and y. grain: of x and y, as in `_Moments`."""
    name = "corr" if rule.statistic == "regr_r2" else rule.statistic
    least, most = RANGES.get(name, (-inf, inf))
    numbers = np.array([one.value for one in sums])
    rows = float(numbers[0])
    less, interval, wider = 1.0 if name == "covar_samp" else 0.0, None, 0.0
    if terms is not None and rows > less:
        divisors = [_rows_less(less, len(sums))]
        if name in ("regr_slope", "regr_intercept", "corr"):
            divisors.append(_statistic("regr_sxx", centre))
        if name == "corr":
            divisors.append(_statistic("regr_syy", centre))
        interval = function_interval(_statistic(name, centre), divisors, sums, terms, confidence)
        wider = _inside_bins(name, numbers, centre, grain)
    if interval is None:
        return Estimate(nan, nan, *RANGES.get(rule.statistic, (-inf, inf)), confidence, nan, nan)
    value = min(max(interval.value, least), most)
    low, high = min(max(interval.low - wider, least), value), max(min(interval.high + wider, most), value)
    noise, model = interval.noise, hypot(interval.model, wider / sqrt(3.0))
    if rule.statistic == "regr_r2":
        ends = sorted((low**2, high**2))
        ends[0] = 0.0 if low <= 0.0 <= high else ends[0]
        slope = max(2.0 * abs(value), (high - low) / 4.0)  # at a correlation of 0 its square has no slope
        return Estimate(
            value**2, slope * hypot(noise, model), ends[0], ends[1], confidence, slope * noise, slope * model
        )
    return Estimate(value, hypot(noise, model), low, high, confidence, noise, model)


def _rows_less(less: float, size: int) -> Function:
    """Rows less a constant, as a function of all sums."""
    gradient = np.eye(size)[0]
    return lambda sums: (float(sums[0] - less), gradient)


def _inside_bins(name: str, sums: Floats, centre: tuple[float, float], grain: tuple[float, float]) -> float:
    """Bound on the error of a statistic that takes rows at the midpoints of bins, to second order in the bins' widths.

    sums: (rows, x, ...), of distances from `centre`. grain: variance of a value inside its bin, of x and of y.
    """
    if not any(grain):
        return 0.0
    rows, x = float(sums[0]), float(sums[1])

    def at(statistic: str) -> float:
        return _statistic(statistic, centre)(sums)[0]

    if name in ("regr_sxx", "regr_syy"):
        return rows * grain[name == "regr_syy"]
    spreads = at("regr_sxx"), at("regr_syy") if grain[1] else inf
    share = sum(rows * one / spread for one, spread in zip(grain, spreads, strict=True) if spread > 0.0)
    if name == "regr_intercept":
        return abs(at("regr_slope") * (centre[0] + x / rows)) * share
    return abs(at(name)) * share
