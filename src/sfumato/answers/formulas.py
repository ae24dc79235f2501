"""Arithmetic of aggregates without a common denominator, such as the difference of two averages.

All sums under the averages are treated jointly, with the noises they share (function_interval.py) and gradients by
forward-mode differentiation (`Dual`). Where a denominator may be zero, and for quantiles and variances, every part gets
its own interval at 1 - (1 - confidence) / parts (Bonferroni), and interval arithmetic combines them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from functools import cached_property
from math import hypot, inf, isfinite, isnan, nan
from typing import Protocol, Self, TypeVar

import numpy as np

from sfumato.answers.distinct import distinct_values
from sfumato.answers.evaluate import Evaluation, Terms
from sfumato.answers.fieller import NORMAL, SMOOTH, Functional, Interval, Noises, Shared, Term
from sfumato.answers.function_interval import Dual, Function, function_interval
from sfumato.answers.noise_sum import Ends
from sfumato.answers.quantiles import quantiles
from sfumato.answers.results import Estimate
from sfumato.answers.spreads import spreads
from sfumato.arrays import Floats
from sfumato.frozen import dataclass
from sfumato.sql import Amount, Column, Formula
from sfumato.sql.plan import CRAMERS_V, Bivariate, Distinct, Extreme, Quantile


class Number(Protocol):
    """Operand of formula arithmetic: it can be added, multiplied and divided."""

    def __add__(self, other: Self) -> Self: ...
    def __mul__(self, other: Self) -> Self: ...
    def __truediv__(self, other: Self) -> Self: ...


N = TypeVar("N", bound=Number)


def work_out(part: Formula | Column | float, of: Callable[[Column | float], N]) -> N:
    """Evaluate a formula with its columns and constants as numbers of one type."""
    if not isinstance(part, Formula):
        return of(part)
    left, right = work_out(part.left, of), work_out(part.right, of)
    if part.operator == "+":
        return left + right
    return left * right if part.operator == "*" else left / right


def estimates_by_rule(column: Column, evaluation: Evaluation) -> list[Estimate]:
    """Estimate a column that is no ratio of sums, for every present group: by formula or as a statistic."""
    if isinstance(column.rule, Formula):
        with np.errstate(all="ignore"):  # what is beyond all numbers is found unknown, and its interval unbounded
            return _Together(column, column.rule, evaluation).estimates()
    if isinstance(column.rule, Extreme):
        estimates = _extremes(column.rule, evaluation)
    elif isinstance(column.rule, Quantile):
        estimates = quantiles(column, column.rule, evaluation)
    elif isinstance(column.rule, Bivariate):
        with np.errstate(all="ignore"):
            if column.rule.statistic == CRAMERS_V:
                from sfumato.answers.contingency import cramers_v as relations  # asked for by few
            else:
                from sfumato.answers.bivariate import relations
            estimates = relations(column, column.rule, evaluation)
    elif isinstance(column.rule, Distinct):
        estimates = distinct_values(column.rule, evaluation)
    else:
        assert column.rule is not None  # noqa: S101 (for the type checker)
        estimates = spreads(column, column.rule, evaluation)
    return [one.times(column.scale) for one in estimates]


def _extremes(rule: Extreme, evaluation: Evaluation) -> list[Estimate]:
    """Estimate the greatest or least of several columns in every present group.

    Noise chooses which column comes out first. The intervals of all candidates hold together (Bonferroni), so the
    greatest of their low ends and the greatest of their high ends hold the greatest of the true values.
    """
    surer = replace(
        evaluation,
        confidence=1.0 - (1.0 - evaluation.confidence) / len(rule.columns),
        view=replace(evaluation.view, far=evaluation.view.far or len(rule.columns) > 1),
    )
    candidates = [surer.evaluate(one) if one.rule is None else estimates_by_rule(one, surer) for one in rule.columns]
    return [_first(one, rule.greatest, evaluation.confidence) for one in zip(*candidates, strict=True)]


def _first(candidates: Sequence[Estimate], greatest: bool, confidence: float) -> Estimate:
    """The greatest or least of estimates whose intervals hold together; unknown where one of them is."""
    choose = max if greatest else min
    low, high = choose(one.low for one in candidates), choose(one.high for one in candidates)
    found = next((one for one in candidates if isnan(one.value)), None)
    found = found or choose(candidates, key=lambda one: one.value)
    return replace(found, low=low, high=high, confidence=confidence)


@dataclass(frozen=True, eq=False)
class _Together:
    """Formula of several aggregates with its distinct sums (numerators and denominators)."""

    column: Column
    formula: Formula
    evaluation: Evaluation
    _shared: Shared = field(default_factory=Shared)
    _memory: dict[float, list[list[Estimate]]] = field(default_factory=dict)  # of every part, by confidence

    @cached_property
    def sums(self) -> tuple[tuple[Amount, ...], ...]:
        """Distinct numerators and denominators of the formula's columns."""
        parts = (part for one in self.formula.columns for part in (one.numerator, one.denominator) if part)
        return tuple(dict.fromkeys(parts))

    def estimates(self) -> list[Estimate]:
        """Estimate of the formula in every present group: jointly, else by interval arithmetic."""
        at, columns = self.evaluation, self.formula.columns
        bounds = work_out(self.formula, self._bounds)
        if any(one.rule is not None for one in columns):
            return [self._apart(place, bounds) for place in range(len(at.groups.present))]
        sides = [at.sum_of(amounts) for amounts in self.sums]
        values = [at.values_of(side) for side in sides]
        result = []
        for index, terms in enumerate(at.terms(sides)):
            group = at.groups.present[index]
            numbers = [Functional(*(float(part[group]) for part in each)) for each in values]
            if terms is None:
                at.undetermined.append(self.column)
            value = work_out(self.formula, lambda part: self._possible(part, numbers)).value  # noqa: B023
            together = self._jointly(numbers, terms) if isfinite(value) else None
            if together is None:
                result.append(self._apart(index, bounds))
            else:
                result.append(_within(replace(together, value=value), bounds, at.confidence))
        return result

    def _jointly(self, numbers: list[Functional], terms: Terms) -> Interval | None:
        """Interval from the joint distribution of all sums; None where a denominator may be zero."""
        if terms is None:
            return None
        function, divisors = self._function(self.formula), list(self._divisors(self.formula))
        errors: Noises | Sequence[Term] = self._shared.noises(terms)
        if self.evaluation.view.estimated or self._shared.noises(terms).model.any():
            errors = self._adversely(numbers, terms)
        return function_interval(function, divisors, numbers, errors, self.evaluation.confidence)

    def _adversely(self, numbers: list[Functional], terms: Sequence[Term]) -> Sequence[Term]:
        """Replace model errors by one normal error that moves every part in the direction that changes the answer most.

        A model shrinks groups towards each other, so its errors in the two parts of a difference have opposite signs,
        which the covariance of single cells does not show. Where cells are estimates, shrunk by an amount that depends
        on the noise, this holds for all errors.
        """
        assumed: list[Term] = []
        drawn: list[Term] = []
        for term in terms:
            (assumed if term.model or self.evaluation.view.estimated else drawn).append(term)
        x = np.array([one.value for one in numbers])
        variances = np.array([term.noise.variance * term.multiplicity for term in assumed])
        weights = np.array([term.weights[: 3 * len(x) : 3] for term in assumed]).reshape(len(assumed), len(x))
        slopes = self._of_parts(lambda column: self._dual(column, x).value).slope
        moves = np.zeros(len(x))
        for column, slope in zip(self.formula.columns, slopes, strict=True):
            along = self._dual(column, x).slope
            top = self.sums.index(column.numerator)
            if along[top]:  # where not, as in COUNT(*) / COUNT(*), the sums move and the part does not
                size = float(np.sqrt((variances * (weights @ along) ** 2).sum()))
                moves[top] += float(np.sign(slope)) * size / float(along[top]) / SMOOTH
        far = any(term.far for term in assumed)
        one = replace(Term.of(NORMAL, 1, *np.repeat(moves, 3).tolist()), model=True, far=far)
        return [one, *drawn]

    def _function(self, part: Formula | Column | float) -> Function:
        """Value and gradient of a part as a function of the sums."""

        def at(x: Floats) -> tuple[float, Floats]:
            found = work_out(part, lambda one: self._dual(one, x))
            return found.value, found.slope

        return at

    def _divisors(self, part: Formula | Column | float) -> Iterator[Function]:
        """Divisors of the formula as functions of the sums: denominators of averages first."""
        for column in self.formula.columns:
            if column.denominator is not None:
                yield self._function(replace(column, numerator=column.denominator, denominator=None, scale=1.0))
        yield from self._divided_by(part)

    def _divided_by(self, part: Formula | Column | float) -> Iterator[Function]:
        """Right-hand sides of the divisions in a formula."""
        if isinstance(part, Formula):
            yield from (*self._divided_by(part.left), *self._divided_by(part.right))
            if part.operator == "/":
                yield self._function(part.right)

    def _dual(self, part: Column | float, x: Floats) -> Dual:
        """Value and gradient of a column or constant at the sums x, (sums,)."""
        if isinstance(part, float):
            return Dual(part, np.zeros(len(x)))
        top = self._one(part.numerator, x)
        ratio = top if part.denominator is None else top / self._one(part.denominator, x)
        return Dual(ratio.value * part.scale, ratio.slope * part.scale)

    def _possible(self, part: Column | float, numbers: list[Functional]) -> Dual:
        """Value of a part clipped to its range; nan where its noisy denominator is not positive."""
        x = np.array([one.value for one in numbers])
        estimate = self._dual(part, x)
        if isinstance(part, float) or part.denominator is None:
            return estimate
        bounds = self._bounds(part)
        determined = self._one(part.denominator, x).value > 0.0
        return replace(estimate, value=min(max(estimate.value, bounds.low), bounds.high) if determined else nan)

    def _one(self, amounts: tuple[Amount, ...], x: Floats) -> Dual:
        """One sum as a dual number."""
        slope = np.zeros(len(x))
        slope[self.sums.index(amounts)] = 1.0
        return Dual(float(slope @ x), slope)

    def _bounds(self, part: Column | float) -> Ends:
        """Least and greatest value that a part of a formula can have, whatever the private table."""
        if isinstance(part, float):
            return Ends(part, part)
        return Ends(*(part.bounds or (-inf, inf))) * Ends(part.scale, part.scale)

    def _apart(self, index: int, bounds: Ends) -> Estimate:
        """Interval arithmetic on the parts' own intervals, which hold simultaneously (Bonferroni)."""
        columns, at = self.formula.columns, self.evaluation
        apart, surer = (self._parts(c) for c in (at.confidence, 1.0 - (1.0 - at.confidence) / len(columns)))

        def span(part: Column | float) -> Ends:
            if isinstance(part, float):
                return Ends(part, part)
            one = surer[columns.index(part)][index]
            return Ends(one.low, one.high)

        ends = work_out(self.formula, span)
        estimate = self._of_parts(lambda column: apart[columns.index(column)][index].value)
        noise, model = (
            hypot(*(float(s) * getattr(one[index], name) for s, one in zip(estimate.slope, apart, strict=True)))
            for name in ("noise", "model")
        )
        return _within(
            Interval(estimate.value, hypot(noise, model), ends.low, ends.high, noise, model), bounds, at.confidence
        )

    def _of_parts(self, value: Callable[[Column], float]) -> Dual:
        """Value of the formula and its gradient with respect to the parts."""
        columns = self.formula.columns

        def dual(part: Column | float) -> Dual:
            slope = np.zeros(len(columns))
            if isinstance(part, float):
                return Dual(part, slope)
            slope[columns.index(part)] = 1.0
            return Dual(value(part), slope)

        return work_out(self.formula, dual)

    def _parts(self, confidence: float) -> list[list[Estimate]]:
        """Estimates of each aggregate in the formula, for all groups, at one confidence; cached."""
        if confidence not in self._memory:
            at = replace(self.evaluation, confidence=confidence)
            self._memory[confidence] = [
                at.evaluate(one) if one.rule is None else estimates_by_rule(one, at) for one in self.formula.columns
            ]
        return self._memory[confidence]


def _within(interval: Interval, bounds: Ends, confidence: float) -> Estimate:
    """Clip an interval to the possible range; nan value and errors where the value is not finite."""
    low, high = max(interval.low, bounds.low), min(interval.high, bounds.high)
    if not isfinite(interval.value):
        interval = replace(interval, value=nan)
    else:
        low, high = min(low, interval.value), max(high, interval.value)
    stderr, noise, model = (
        nan if isnan(interval.value) else x for x in (interval.stderr, interval.noise, interval.model)
    )
    return Estimate(interval.value, stderr, low, high, confidence, noise, model)
