"""Least squares, logistic and Poisson regression from a release, with intervals from the noise of the sums behind them.

With X the design matrix over rows and y the outcome, beta = (X'X)^-1 X'y. The entries of X'X and X'y are sums over
cells, linear in what was measured: unbiased, with known noise and, where a model filled in, known model error, all with
their correlations. beta is a function of them with gradient

    d beta = (X'X)^-1 (d X'y - d X'X beta),

so its interval is that of function_interval.py; noise in X'X (errors in variables) is in it. An interval exists where
the part of a predictor that the others do not explain, 1 / ((X'X)^-1)_jj, is surely positive.

A generalised linear model with mean m(eta), eta = X beta, solves X'(y - m(eta)) = 0, an equation that is linear in the
counts and so unbiased under noise. Newton's method solves it as least squares with weights m' and outcome eta + (y - m)
/ m' (McCullagh, Nelder 1989); at the solution those sums and their noise give intervals as above.

The truth is the same model on the rows of the table. With `population` the rows are taken as drawn from a population:
the sampling error of X'(y - m) is added, with covariance sum of x x' (y - m)^2 (sandwich; White 1980), as normal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from math import hypot, inf, isfinite, isnan, nan, prod, sqrt
from operator import itemgetter
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.answers.design import NONE, Design, Scarce, in_words, kept_cells, read_formula, scarce_values, without
from sfumato.answers.evaluate import Evaluation, Sum, View
from sfumato.answers.fieller import Functional, Noises, Term, normal_terms, side_by_side
from sfumato.answers.function_interval import Function, function_interval
from sfumato.answers.question import ByStatistic, Groups, Kinds, cell_weights, kinds_asked, total
from sfumato.answers.results import Estimate
from sfumato.answers.spreads import by_factor
from sfumato.arrays import Floats
from sfumato.domain import ValueSet
from sfumato.domain.predicates import Predicate
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.plain_text import html_block
from sfumato.sql import Amount, Column, Select, compile_select

if TYPE_CHECKING:
    from sfumato.answers.answer import Viewed

MOST_CELLS = 2**18  # of all columns of a model together
ROUNDS = 50  # of Newton's method, in which a model settles or has no solution
ROUNDING = 1e-10  # of a column's sum of squares: less than that left unexplained is nothing
LONGEST = 4.0  # step of eta in a round, so that exponentials do not run away


@dataclass(frozen=True, eq=False)
class Regression:
    """Fitted model. It prints as a table; `estimates` are by name of a coefficient.

    rows: estimate of the number of rows. r_squared: of least squares; nan where the outcome is a measure, of which no
    squares are known.
    """

    design: Design
    estimates: Mapping[str, Estimate]
    rows: Estimate
    r_squared: float
    confidence: float
    population: bool
    notes: tuple[str, ...]
    _solved: _Solved

    @property
    def coefficients(self) -> dict[str, float]:
        """Values of the coefficients by name."""
        return {name: one.value for name, one in self.estimates.items()}

    def predict(self, **values: Any) -> Estimate:
        """Mean outcome at some values of the predictors, with its interval: predict(age=40, sex="F")."""
        schema = self._solved.evaluation.view.schema
        known = {name.lower(): name for name in self.design.attributes}
        cells = {}
        for given, value in values.items():
            if given.lower() not in known:
                raise QueryError(f"{given} does not predict here; there are {', '.join(known.values())}")
            cells[known[given.lower()]] = value
        if missing := [name for name in self.design.attributes if name not in cells]:
            raise QueryError(f"a prediction needs a value of {' and '.join(missing)}")
        solved = self._solved
        at = np.ones(len(solved.design.columns))
        for place, column in enumerate(solved.design.columns):
            for factor in column.factors:
                value = cells[factor.attribute]
                if factor.value is None:
                    at[place] *= float(value)
                    continue
                labels = schema.domain[factor.attribute].labels()
                if str(value) not in map(str, labels):
                    raise QueryError(f"{value!r} is no value of {factor.attribute}")
                at[place] *= str(labels[factor.value]) == str(value)
        scarce = {name: {str(schema.domain[name].label(one)) for one in of} for name, of in solved.scarce.items()}
        if any(str(cells[name]) in of for name, of in scarce.items()):
            return solved.unknown
        linear, family = solved.estimate(at), self.design.family
        if family.name == "linear":
            return linear
        value, low, high = (float(family.mean(np.array(one))) for one in (linear.value, linear.low, linear.high))
        steep = float(family.slope(np.array(linear.value)))
        noise, model = steep * linear.noise, steep * linear.model
        return Estimate(value, hypot(noise, model), low, high, self.confidence, noise, model)

    def __str__(self) -> str:
        """Table as statistical programs print it."""
        z = NormalDist()
        tail = (1.0 - self.confidence) / 2.0
        ends = f"[{tail:.3g}", f"{1.0 - tail:.3g}]"
        width = max(map(len, self.design.names))
        lines = [
            f"{self.design.family.title:^{width + 66}}".rstrip(),
            "=" * (width + 66),
            f"Formula: {self.design.formula}",
            f"Rows: {self.rows.value:,.0f} ± {self.rows.stderr:,.0f}"
            + ("" if isnan(self.r_squared) else f"     R-squared: {self.r_squared:.3f}")
            + f"     Intervals: {'population' if self.population else 'this table'}",
            "-" * (width + 66),
            f"{'':{width}}  {'coef':>11}  {'std err':>10}  {'z':>8}  {'P>|z|':>6}  {ends[0]:>10}  {ends[1]:>10}",
            "-" * (width + 66),
        ]
        for name, one in self.estimates.items():
            score = one.value / one.stderr if one.stderr > 0.0 else nan
            chance = nan if isnan(score) else 2.0 * (1.0 - z.cdf(abs(score)))
            numbers = f"{one.value:>11.4g}  {one.stderr:>10.4g}  {score:>8.3f}  {chance:>6.3f}"
            lines.append(f"{name:{width}}  {numbers}  {one.low:>10.4g}  {one.high:>10.4g}")
        return "\n".join([*lines, "=" * (width + 66), *(f"note: {note}" for note in self.notes)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from html import escape

        return html_block(f"<pre>{escape(str(self))}</pre>")


def regress(
    content: Viewed,
    formula: str,
    *,
    where: str | None = None,
    confidence: float = 0.95,
    population: bool = False,
    family: str = "linear",
) -> Regression:
    """Fit a model on a release's cells. where: condition as behind WHERE in SQL. family: as in `read_formula`."""
    schema = content.schema
    design = read_formula(formula, schema, family)
    rows = _rows(design, where, schema)
    measured = design.outcome not in schema.domain
    names = design.attributes if measured else (*design.attributes, design.outcome)
    amounts = tuple(Amount(rows, name) for name in names) or (Amount(rows, None),)
    select = Select((Column("n", amounts),), (), Predicate.everything())
    kinds = kinds_asked(select, schema)
    if prod(int(kind.max()) + 1 for kind in kinds.values()) > MOST_CELLS:
        raise QueryError(
            f"the columns of this model have more than {MOST_CELLS:,} combinations of values; take fewer columns, or "
            "coarser ones"
        )
    sets, fits = {one.union(rows.names) & {*kinds} for one in design.sets(schema)}, list[tuple[int, Regression]]()
    for view, together in _views(content, kinds, sets, family):
        if view.suppressed is not None:
            raise QueryError(
                "a release that holds only cells above a threshold has no regression; take another mechanism"
            )
        evaluation = Evaluation(view, Groups.of(select, schema.domain), confidence)
        with np.errstate(all="ignore"):
            solved = _solve(design, rows, evaluation, population, together, bool(fits))
            estimates = dict(zip(design.names, solved.coefficients(design), strict=True))
            of_rows = (Amount(rows, None, present=solved.present),)
            counted = evaluation.evaluate(Column("n", of_rows, scale=schema.count_step))[0]
        still_open = solved.still_open
        found = design, estimates, counted, solved.r_squared, confidence, population, tuple(solved.notes()), solved
        fits.append((still_open, Regression(*found)))
        if not still_open:
            break
    return min(fits, key=itemgetter(0))[1]


def _views(content: Viewed, kinds: Kinds, sets: set[frozenset[str]], family: str) -> Iterator[tuple[View, bool]]:
    """Cells to fit a model on, and whether they serve sums over all columns jointly.

    As they were measured, and for least squares as the release's model has them, if noise leaves coefficients open.
    """
    measured = None
    try:
        measured = content.measured_view(kinds, sets)
    except QueryError as refusal:
        if family != "linear":
            raise QueryError(
                f"a {family} model needs its columns measured together, by cells, residual or a workload: {refusal}"
            ) from None
    if measured is not None:
        yield measured, frozenset(kinds) in sets
    if family == "linear" and ((view := content.view(kinds)).estimated or measured is None):
        yield view, True


def _solve(
    design: Design, rows: Predicate, evaluation: Evaluation, population: bool, together: bool, instead: bool
) -> _Solved:
    """Solution of a design; without the rows of values that have too few of them, if these leave coefficients open."""
    given = rows, evaluation, population, together, instead
    try:
        solved = _Solved(design, *given)
    except QueryError:
        if not (scarce := scarce_values(design, _counts(design, rows, evaluation), evaluation)):
            raise
    else:
        scarce = scarce_values(design, solved.counts, evaluation) if solved.still_open else {}
        if not scarce:
            return solved
    return _Solved(without(design, scarce)[0], *given, scarce)


def _rows(design: Design, where: str | None, schema: Any) -> Predicate:
    """Rows of a condition that have a value of every attribute of the model."""
    rows = Predicate.everything()
    if where is not None:
        rows = compile_select(f"SELECT COUNT(*) FROM release WHERE {where}", schema).where
    for name in (*design.attributes, design.outcome):
        if name in schema.domain and schema.domain[name].missing:
            rows &= ~Predicate.where(name, ValueSet.missing())
    return rows


class _Solved:
    """Sums of squares and products of a design, their noise, and functions of the solution.

    together: whether cells serve sums over all columns jointly; otherwise only sums over two columns are right.
    instead: whether these cells stand in for the measured ones, the noise of which leaves coefficients open. scarce:
    values whose rows are left out.
    """

    def __init__(
        self,
        design: Design,
        rows: Predicate,
        evaluation: Evaluation,
        population: bool,
        together: bool,
        instead: bool,
        scarce: Scarce = NONE,
    ) -> None:
        self.design, self.evaluation, self.population, self.together = design, evaluation, population, together
        self.instead, self.scarce = instead, scarce
        schema, cells = evaluation.view.schema, evaluation.view.cells
        self.present, kept = _present(design, schema), kept_cells(scarce, evaluation)
        self.counts = by_factor(_counts(design, rows, evaluation), kept)
        columns = [
            prod(
                (one.along(schema.domain)[cells.codes[one.attribute]] for one in column.factors),
                start=np.ones(cells.size),
            )
            for column in design.columns
        ]
        self.scale = np.array([max(float(np.abs(column).max(initial=0.0)), 1e-300) for column in columns])
        self.scaled = np.stack(columns, axis=1) / self.scale  # (cells, columns)
        outcome, self.y = self._outcome(rows)
        self.outcome = by_factor(outcome, kept)
        self.upper = np.triu_indices(len(columns))
        self.eta = self._settled()
        weights = [*self._weights(self.eta), *([] if self.y is None else [by_factor(self.counts, self.y * self.y)])]
        sums = [Sum(split, {}, {}, np.zeros(1)) for split in weights]
        self.sums = [Functional(*(float(part[0]) for part in evaluation.values_of(one))) for one in sums]
        self.terms = evaluation.terms(sums)[0]
        self.values = np.array([one.value for one in self.sums])
        if population and self.y is None:
            raise QueryError(
                "the outcome is a measure, of whose squares nothing is known, and so of its spread in a population; "
                "declare it as an attribute too, or ask about this table"
            )

    def _outcome(self, rows: Predicate) -> tuple[ByStatistic, Floats | None]:
        """Weights of the sum of the outcome, and its value in each cell, (cells,), where it is an attribute."""
        schema, cells = self.evaluation.view.schema, self.evaluation.view.cells
        if self.design.outcome not in schema.domain:
            return cell_weights(Amount(rows, self.design.outcome), schema, cells.codes, cells.size), None
        axis = schema.domain[self.design.outcome]
        truth = axis.kind == "boolean" or self.design.family.name == "logistic"
        middle = np.arange(axis.size) * 1.0 if truth else axis.amounts[1]
        y = np.asarray(middle, dtype=np.float64)[cells.codes[self.design.outcome]]
        return by_factor(self.counts, y), y

    def _weights(self, eta: Floats) -> list[ByStatistic]:
        """Weights of the sums X'WX, above the diagonal by rows, and X'Wz of the least squares of a Newton step."""
        steep, columns = self.design.family.slope(eta), self.scaled.T
        weights = [by_factor(self.counts, steep * columns[i] * columns[j]) for i, j in zip(*self.upper, strict=True)]
        rest = steep * eta - self.design.family.mean(eta)
        if not rest.any():  # of least squares
            return [*weights, *(by_factor(self.outcome, column) for column in columns)]
        return [
            *weights,
            *(total([by_factor(self.outcome, column), by_factor(self.counts, column * rest)]) for column in columns),
        ]

    def _settled(self) -> Floats:
        """Linear predictor of each cell at the solution of the estimating equation, (cells,), by Newton's method."""
        family, values = self.design.family, self.evaluation.view.cells.values
        eta = np.zeros(len(self.scaled))
        if family.name == "linear":
            return eta
        beta = np.zeros(len(self.scale))
        for _ in range(ROUNDS):
            split = self._weights(eta)
            gram, right = self.normal(np.array([sum(w.value @ values[of] for of, w in one.items()) for one in split]))
            if not np.isfinite(gram).all():
                break
            spectrum = np.linalg.eigvalsh(gram)
            if spectrum[0] <= len(gram) * np.finfo(float).eps * spectrum[-1]:  # singular but for rounding
                break
            step = np.linalg.solve(gram, right) - beta
            longest = float(np.abs(self.scaled @ step).max(initial=0.0))
            if not isfinite(longest):
                break
            beta = beta + step * min(1.0, LONGEST / max(longest, LONGEST))
            eta = np.asarray(self.scaled @ beta)
            if longest <= 1e-10 * (1.0 + float(np.abs(eta).max(initial=0.0))):
                return eta
        raise QueryError(
            f"this {family.name} model has no solution on the noisy counts: some of its groups have too few rows, or "
            "its predictors tell the outcome; take fewer or coarser columns, or a release with a larger epsilon"
        )

    def normal(self, sums: Floats) -> tuple[Floats, Floats]:
        """X'X, (columns, columns), and X'y, (columns,), of scaled columns."""
        size, entries = len(self.scale), len(self.upper[0])
        gram = np.zeros((size, size))
        gram[self.upper] = sums[:entries]
        return gram + np.triu(gram, 1).T, sums[entries : entries + size]

    def combination(self, at: Floats) -> Function:
        """at . beta and its gradient, as a function of the sums; at: (columns,), of scaled columns."""
        first, second = self.upper

        def function(sums: Floats) -> tuple[float, Floats]:
            gram, right = self.normal(sums)
            try:
                beta, along = np.linalg.solve(gram, np.stack([right, at], axis=1)).T
            except np.linalg.LinAlgError:
                return nan, np.zeros(len(sums))
            gradient = np.zeros(len(sums))
            products = along[first] * beta[second] + along[second] * beta[first]
            gradient[: len(first)] = -np.where(first == second, products / 2.0, products)
            gradient[len(first) : len(first) + len(at)] = along
            return float(at @ beta), gradient

        return function

    def unexplained(self, column: int) -> Function:
        """Sum of squares of a column that the others do not explain, and its gradient."""
        first, second = self.upper
        unit = np.eye(len(self.scale))[column]

        def function(sums: Floats) -> tuple[float, Floats]:
            gram = self.normal(sums)[0]
            try:
                along = np.linalg.solve(gram, unit)
            except np.linalg.LinAlgError:
                return 0.0, np.zeros(len(sums))
            value = 1.0 / along[column]
            if value <= ROUNDING * gram[column, column]:
                return 0.0, np.zeros(len(sums))
            gradient = np.zeros(len(sums))
            products = along[first] * along[second] * np.where(first == second, 1.0, 2.0)
            gradient[: len(first)] = value**2 * products
            return float(value), gradient

        return function

    @property
    def unknown(self) -> Estimate:
        """Open estimate: no value, interval from minus to plus infinity."""
        return Estimate(nan, nan, -inf, inf, self.evaluation.confidence, nan, nan)

    @cached_property
    def own(self) -> list[Estimate]:
        """Coefficients of the design's columns, with intervals."""
        return [self.estimate(unit) for unit in np.eye(len(self.design.columns))]

    def coefficients(self, design: Design) -> list[Estimate]:
        """Coefficients of a design; those of which too few rows tell are open."""
        places = without(design, self.scarce)[1]
        return [self.own[places[one]] if one in places else self.unknown for one in range(len(design.columns))]

    @property
    def still_open(self) -> int:
        """Number of its coefficients without an interval."""
        return sum(not (isfinite(one.low) and isfinite(one.high)) for one in self.own)

    def estimate(self, at: Floats) -> Estimate:
        """Estimate of a weighted sum of coefficients. at: (columns,)."""
        confidence = self.evaluation.confidence
        scaled = at / self.scale
        if self.terms is None:
            return self.unknown
        function = self.combination(scaled)
        divisors = [self.unexplained(place) for place in np.flatnonzero(at).tolist()]
        interval = function_interval(function, divisors, self.sums, self.noises, confidence)
        if interval is None or not np.isfinite(interval.value):
            return self.unknown
        wider = self._inside_bins(at)
        model = hypot(interval.model, wider / sqrt(3.0))
        ends = interval.low - wider, interval.high + wider
        return Estimate(interval.value, hypot(interval.noise, model), *ends, confidence, interval.noise, model)

    @property
    def r_squared(self) -> float:
        """Share of the outcome's variance that the model explains, on the release's estimates."""
        gram, right = self.normal(self.values)
        if self.y is None or self.design.family.name != "linear":
            return nan
        rest, about_mean = self._left(gram, right), self._about_mean()
        return min(max(1.0 - rest / about_mean, 0.0), 1.0) if about_mean > 0.0 else nan

    def _left(self, gram: Floats, right: Floats) -> float:
        """Residual sum of squares."""
        return float(self.values[-1] - right @ np.linalg.lstsq(gram, right, rcond=None)[0])

    def _about_mean(self) -> float:
        """Sum of squares of the outcome about its mean, or about 0 of a model without an intercept."""
        if self.design.columns[0].factors:
            return float(self.values[-1])
        gram, right = self.normal(self.values)
        return float(self.values[-1] - right[0] ** 2 / gram[0, 0])

    @cached_property
    def noises(self) -> Noises:
        """All errors of the sums side by side: noise, model, and sampling where it counts."""
        return side_by_side([*(self.terms or ()), *self._sampling()])

    def _sampling(self) -> list[Term]:
        """Sampling errors of X'(y - m), with covariance sum of x x' (y - m)^2 over rows."""
        if not self.population or self.y is None:
            return []
        eta = self.eta
        if self.design.family.name == "linear":
            eta = self.scaled @ np.linalg.lstsq(*self.normal(self.values), rcond=None)[0]
        cells = self.evaluation.view.cells
        counts = sum(weights.value * cells.values[of] for of, weights in self.counts.items())
        left = counts * (self.y - self.design.family.mean(eta)) ** 2
        rows, size = float(np.sum(counts)), len(self.scale)
        covariance = (self.scaled.T * left) @ self.scaled * max(rows / (rows - size), 1.0)
        if not self.together:  # squares of residuals are about all columns at once
            gram, right = self.normal(self.values)
            covariance = gram * max(self._left(gram, right), 0.0) / max(rows - size, 1.0)
        if (whole := self.evaluation.view.schema.population) is not None:
            covariance *= max(1.0 - float(cells.values["count"].sum()) / whole, 0.0)
        values, vectors = np.linalg.eigh(covariance)
        every = np.zeros((len(self.sums), len(self.sums)))
        inside = slice(len(self.upper[0]), len(self.upper[0]) + size)
        every[inside, inside] = (vectors * np.maximum(values, 0.0)) @ vectors.T
        return normal_terms(every, np.repeat(np.arange(len(self.sums)), 3), model=True)

    def _inside_bins(self, at: Floats) -> float:
        """Error of a coefficient from rows inside bins, to second order in their widths (bivariate.py)."""
        places = np.flatnonzero(at)
        column = self.design.columns[places[0]] if len(places) == 1 else None
        if column is None or not column.is_number:
            return 0.0
        place = int(places[0])
        axis = self.evaluation.view.schema.domain[column.factors[0].attribute]
        grain = float(((axis.amounts[2] - axis.amounts[0]) ** 2).max()) / 12.0 / self.scale[place] ** 2
        if grain == 0.0:
            return 0.0
        gram, _ = self.normal(self.values)
        rows, spread = float(gram[0, 0]) * self.scale[0] ** 2, self.unexplained(place)(self.values)[0]
        value = self.combination(at / self.scale)(self.values)[0]
        return abs(value) * rows * grain / spread if spread > 0.0 else inf

    def notes(self) -> Iterator[str]:
        """Sentences that a reader of the table should see."""
        domain = self.evaluation.view.schema.domain
        used = [one.attribute for column in self.design.columns for one in column.factors if one.value is None]
        used += [name for name in [self.design.outcome] if name in domain and domain[name].kind != "boolean"]
        binned = [name for name in dict.fromkeys(used) if (domain[name].amounts[2] > domain[name].amounts[0]).any()]
        if self.terms is not None and any(term.model for term in self.terms):
            why = "noise hides these slopes in what was" if self.instead else "not all that these slopes need was"
            yield (
                f"{why} measured: they rest on the release's model, which takes weak dependence for none, so that "
                "intervals may hold less often; --workload measures columns together"
            )
        if self.scarce:
            yield in_words(self.scarce, self.evaluation)
        if binned:
            yield f"{' and '.join(binned)}: rows are taken at the middle of their bin"
        if not self.population:
            yield "intervals are about this table; population=True adds the error of sampling"


def _present(design: Design, schema: Any) -> str | None:
    """Measure that rows must have a value of to be counted."""
    measure = None if design.outcome in schema.domain else schema.measures[design.outcome]
    return design.outcome if measure is not None and measure.missing == "keep" else None


def _counts(design: Design, rows: Predicate, evaluation: Evaluation) -> ByStatistic:
    """Weights of the count of the rows of a design."""
    schema, cells = evaluation.view.schema, evaluation.view.cells
    return cell_weights(Amount(rows, None, present=_present(design, schema)), schema, cells.codes, cells.size)
