"""Estimate, standard error and interval of one aggregate for every group.

An aggregate is a linear combination of published numbers with public weights, so its error is the same combination of
independent noises, whose distribution is known exactly (noise_sum.py). A `View` holds the cells of one query and a
`NoiseSource` that says which noises enter a weighted sum of them. Where every cell has its own noise of one size
(`CountedNoise`), cells with equal weights are counted, not listed.

Counts from a model (`of_whole_rows`) end at whole numbers and have a long upper tail: rows come in clusters of mean
size d, so a count with mean m has variance m d, taken as a gamma distribution. An occupied cell of which next to none
was expected holds one cluster: the logarithmic series distribution (Fisher 1943).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property, lru_cache
from math import ceil, inf, nan
from statistics import NormalDist
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.answers.fieller import (
    Functional,
    Interval,
    Intervals,
    NormalErrors,
    Shared,
    Term,
    interval_with_errors,
    normal_terms,
    ratio_interval,
)
from sfumato.answers.fit import Fit, Sets
from sfumato.answers.noise_sum import upper_quantile
from sfumato.answers.question import ByStatistic, Gathered, Groups, Kinds, cell_weights, columns_of, total
from sfumato.answers.results import Estimate
from sfumato.answers.suppressed import Suppressed
from sfumato.arrays import Codes, Floats
from sfumato.effort import at_most
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.measurement import Measurement, Noise
from sfumato.schema import Schema
from sfumato.sql import Amount, Column
from sfumato.sql.plan import row_bounds

MOST_SAMPLED = 2**12  # groups with sampling errors of their own
FAR = 25.0  # deviations of the noise, beyond which no noise gets within any confidence that is asked


@dataclass(frozen=True, eq=False)
class Sign:
    """Test statistic for "this set of cells is empty": a precision-weighted sum of noisy counts, mean 0 if it is."""

    value: float
    variance: float
    terms: tuple[tuple[float, Noise, int], ...]

    def is_sure(self, probability: float) -> bool:
        """Whether emptiness is rejected at this one-sided level: the value exceeds the noise's quantile."""
        deviation = self.variance**0.5
        if not 0.0 < self.value <= FAR * deviation:
            return self.value > 0.0
        return self.value > upper_quantile(self.terms, probability)


def signs_of_rows(fit: Fit, within: Sets) -> list[Sign] | None:
    """Test statistic of each set of cells, (cells, sets); None where the fit keeps no measurements of regions."""
    parts = fit.measured_inside(within)
    if parts is None:
        return None
    return [_sign([(measured, rows[:, place]) for measured, rows in parts]) for place in range(within.shape[1])]


def _sign(parts: list[tuple[Measurement, NDArray[np.bool_]]]) -> Sign:
    """Precision-weighted sum of the noisy counts of some measured rows, its variance and its noise terms."""
    value, variance, terms = 0.0, 0.0, list[tuple[float, Noise, int]]()
    for measured, rows in parts:
        answers, which = measured.answers[rows], measured.which
        kinds = np.zeros(len(answers), dtype=np.int64) if which is None else np.asarray(which)[rows]
        for kind, many in enumerate(np.bincount(kinds, minlength=len(measured.noises)).tolist()):
            if many:
                noise = measured.noises[kind]
                precision = 1.0 / noise.continuous_variance
                value += precision * float(answers[kinds == kind].sum())
                variance += precision**2 * noise.variance * many
                terms.append((precision, noise, many))
    return Sign(value, variance, tuple(terms))


Terms = tuple[Term, ...] | None  # the noises of one answer; None where what was measured does not determine it


@dataclass(frozen=True, eq=False)
class Sum:
    """Weights of a linear combination of amounts, by statistic.

    split: on the cells of the group in question, (cells,). whole: on all cells, for every group, (cells,). rest: on the
    remainder of the suppressed cells, (groups,). unseen: number of suppressed cells that may belong to each group,
    (groups,).
    """

    split: ByStatistic
    whole: ByStatistic
    rest: ByStatistic
    unseen: Floats

    @property
    def exact(self) -> bool:
        """Whether value, low and high have the same weights: no cell is cut by a condition."""
        return all(w.exact for kind in (self.split, self.whole, self.rest) for w in kind.values())


ENDS = ("value", "low", "high")


def distinct_ends(sides: Sequence[Sum]) -> tuple[list[tuple[Sum, str]], list[int]]:
    """Ends of sums that need a column of weights each, and the columns of value, low and high of every sum in turn."""
    columns = [(side, end) for side in sides for end in (ENDS[:1] if side.exact else ENDS)]
    return columns, [columns.index((side, end)) for side in sides for end in (ENDS[:1] * 3 if side.exact else ENDS)]


class NoiseSource(ABC):
    """Source of the noise terms of weighted sums of cells.

    lags: covariance of the errors that two parts share, as a multiple of `recurring`, by lag from 0; None: all 1.
    """

    lags: Floats | None = None

    @abstractmethod
    def terms(self, sides: Sequence[Sum], cells: Gathered, groups: Groups) -> Sequence[Terms]:
        """Noise terms of each present group's sums (numerator, denominator, ...), with the weights of each noise."""

    def recurring(self, sides: Sequence[Sum], cells: Gathered, groups: Groups) -> Floats | None:
        """Covariances of errors that other parts of a series share, (groups, ends, ends); ends as in `Term.weights`.

        None where that is unknown.
        """
        return None

    def drawn(self, sides: Sequence[Sum], cells: Gathered, groups: Groups) -> Floats | None:
        """Covariances of the model's errors that noise caused, (groups, ends, ends), which no other part shares.

        None where nothing is known of that.
        """
        return None

    def signs_of_rows(self, within: NDArray[np.bool_], cells: Gathered) -> list[Sign] | None:
        """Test statistics for rows in sets of cells, (cells, sets); None where the fits keep none."""
        return None

    def largest_model_part(self, side: Sum, groups: Groups) -> tuple[str, ...] | None:
        """Attributes that contribute most of the model error of a sum; None where that is unknown."""
        return None


@dataclass(frozen=True, eq=False)
class View:
    """The cells of a content along the attributes of one query.

    estimated: cells are estimates that need not be whole; since counts are, intervals of counts then end at wholes.
    far: error distributions must hold in the far tails, where `drawn` replaces sums that are taken as normal
    (`Term.in_tail`). sampled: intervals are about the population that rows were drawn from (`Evaluation.sampling`).
    """

    schema: Schema
    cells: Gathered
    noises: NoiseSource
    suppressed: Suppressed | None = None
    estimated: bool = False
    far: bool = False
    drawn: tuple[Noise, int] | None = None
    sampled: bool = False


class Shown(Protocol):
    """Content that shows its cells along the attributes of a query."""

    @property
    def schema(self) -> Schema: ...

    def view(self, kinds: Kinds) -> View: ...


@dataclass(frozen=True, eq=False)
class CountedNoise(NoiseSource):
    """Independent noise on every cell, one size per statistic.

    totals: noise on the totals of a content with suppressed cells.
    """

    noises: Mapping[str, Noise]
    totals: Mapping[str, Noise] = field(default_factory=dict)

    def terms(self, sides: Sequence[Sum], cells: Gathered, groups: Groups) -> Sequence[tuple[Term, ...]]:
        """Noise terms of each present group, computed once for groups with the same counts of equal weights."""
        if len(sides) == 1 and groups.number == 1 and (alone := self._of_one_sum(sides[0], cells)) is not None:
            return [alone] * len(groups.present)
        group = groups.of_cells(cells)
        kinds = [_Kinds(of, sides, self, cells, group, groups.number) for of in self.noises]
        cache: dict[tuple[bytes, ...], tuple[Term, ...]] = {}
        result = []
        for number in groups.present:
            key = tuple(part for kind in kinds for part in kind.signature(number))
            if key not in cache:
                cache[key] = tuple(term for kind in kinds for term in kind.terms(number))
            result.append(cache[key])
        return result

    def _of_one_sum(self, side: Sum, cells: Gathered) -> tuple[Term, ...] | None:
        """Noise terms of a sum without groups whose weights of a statistic are all 0 or the same; None of others."""
        if side.whole or side.rest or not side.exact:
            return None
        terms = []
        for of, weights in side.split.items():
            inside = np.flatnonzero(weights.value)
            if of not in self.noises or not len(inside):  # a statistic may be known without noise
                continue
            weight = weights.value[inside]
            if (weight != weight[0]).any():
                return None
            many = len(inside) if cells.many is None else int(cells.many[inside].sum())
            terms.append(Term.of(self.noises[of], many * cells.merged, *[float(weight[0])] * 3))
        return tuple(terms)


class _Kinds:
    """Cells of one statistic grouped by equal weights, and the number of each kind in every group.

    Weights are rows of value, low and high for the numerator, then for the denominator. A cell outside the group enters
    where an amount is not split by group, and where the remainder (total - published) brings in every cell.
    """

    def __init__(
        self, of: str, sides: Sequence[Sum], noise: CountedNoise, cells: Gathered, group: Codes, groups: int
    ) -> None:
        split = columns_of([side.split.get(of) for side in sides], cells.size)
        whole = columns_of([side.whole.get(of) for side in sides], cells.size)
        kind, example = _alike([*split, *whole], cells.size)
        sizes = None if cells.many is None else cells.many.astype(np.float64)  # whole numbers that a float holds
        label = group * len(example) + kind
        tallied = np.bincount(label, weights=sizes, minlength=groups * len(example)).astype(np.int64)
        self.noise, self.total_noise, self.merged = noise.noises[of], noise.totals.get(of), cells.merged
        self.split = np.stack([column[example] for column in split], axis=1)  # (kinds, weights)
        self.whole = np.stack([column[example] for column in whole], axis=1)
        self.rest = np.stack(columns_of([side.rest.get(of) for side in sides], groups), axis=1)  # by group
        self.inside = tallied.reshape(groups, len(example))  # cells of each kind in each group
        self.everywhere = self.inside.sum(axis=0)

    def signature(self, group: int) -> tuple[bytes, bytes]:
        """Key of the noise terms of a group: equal keys have equal terms."""
        return self.inside[group].tobytes(), self.rest[group].tobytes()

    def terms(self, group: int) -> list[Term]:
        """Noise terms of one group: inside cells, outside cells, and the total where the remainder has weight."""
        terms = []
        remainder = self.rest[group]
        here = self.inside[group]
        for cells, weights in (
            (here, self.split + self.whole - remainder),
            (self.everywhere - here, self.whole - remainder),
        ):
            for kind in np.flatnonzero((cells > 0) & weights.any(axis=1)):
                terms.append(Term.of(self.noise, int(cells[kind]) * self.merged, *weights[kind].tolist()))
        if self.total_noise is not None and remainder.any():
            terms.append(Term.of(self.total_noise, 1, *remainder.tolist()))
        return terms


def _alike(columns: list[Floats], size: int) -> tuple[Codes, Codes]:
    """Label cells by equal weights: the label of each cell, and the index of one cell of each label."""
    kind = np.zeros(size, dtype=np.int64)
    for column in {id(column): column for column in columns}.values():
        if (column == column[:1]).all():
            continue
        value = _numbered(column)
        kind = _numbered(kind * (value.max() + 1) + value)
    return kind, np.unique(kind, return_index=True)[1]


def _numbered(values: NDArray[Any]) -> Codes:
    """Label equal values with equal numbers; without a sort where a sample shows few distinct values."""
    some = np.sort(values[:: max(1, len(values) // 1000)])
    few = np.append(some[:1], some[1:][some[1:] != some[:-1]])  # not by np.unique, which loads masked arrays first
    if len(few) < 10:
        index = np.minimum(np.searchsorted(few, values), len(few) - 1)
        if (few[index] == values).all():
            return np.asarray(index, dtype=np.int64)
    return np.asarray(np.unique(values, return_inverse=True)[1], dtype=np.int64)


RULE_OF_THREE = 3  # none that were seen may be three (Hanley, Lippman-Hand 1983), which no variance tells
LARGEST_CLUSTER = 2**12  # rows that come together, beyond which a normal law says as much


def of_whole_rows(intervals: Intervals, confidence: float) -> Intervals:
    """Widen model-based intervals of counts by the clustering of rows, and round their ends outwards to whole rows."""
    value, stderr, model = intervals.value, intervals.stderr, intervals.model
    bent = (model > 0.0) & (model < inf) & np.isfinite(value)
    few, tail = np.zeros(len(value)), np.full(len(value), -inf)
    if bent.any():
        with np.errstate(all="ignore"):
            # A mean that is small beside its deviation is not known to be so small.
            together = np.minimum(model * (model / np.maximum(value, model / 2.0)), LARGEST_CLUSTER)[bent]
            spread = stderr * (stderr / value)
        sizes = [cluster(round(each, 1), confidence) for each in together.tolist()]
        few[bent] = np.maximum(RULE_OF_THREE, sizes)
        tail = np.where(bent & (value > 0.0), long_tail(value, spread, confidence), tail)
    low = np.fmin(intervals.low, value - RULE_OF_THREE * (few > 0))
    high = np.fmax(np.fmax(intervals.high, value + few), tail)
    return replace(intervals, low=np.maximum(0.0, np.floor(low)), high=np.ceil(high))


def long_tail(mean: Floats, together: Floats, confidence: float) -> Floats:
    """Upper quantiles of gamma distributions with variance `together` * mean (Wilson and Hilferty 1931)."""
    with np.errstate(all="ignore"):
        shape = np.where(together > 0.0, mean / together, inf)
        root = 1.0 - 1.0 / (9.0 * shape) + NormalDist().inv_cdf((1.0 + confidence) / 2.0) / (3.0 * np.sqrt(shape))
        # Without a shape there are so few rows, in clusters so large, that the law is all but a point at none.
        return np.asarray(np.where(shape == 0.0, 0.0, mean * np.maximum(root, 0.0) ** 3))


@lru_cache(maxsize=1024)
def cluster(together: float, confidence: float) -> int:
    """Quantile of the logarithmic series distribution of cluster sizes (Fisher 1943).

    together: mean number of rows that come with a row, the odds share / (1 - share) of the distribution's parameter.

    >>> [cluster(each, 0.95) for each in (0.5, 1.0, 5.0, 20.0)]
    [2, 3, 9, 25]
    """
    share = together / (1.0 + together)
    rows = np.arange(1, ceil(20.0 * together) + 20)
    mass = share**rows / rows
    return int(np.searchsorted(np.cumsum(mass) / mass.sum(), confidence) + 1) if together > 0.0 else 1


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Aggregates of one query over the cells of its view, at one confidence."""

    view: View
    groups: Groups
    confidence: float
    undetermined: list[Column] = field(default_factory=list)  # asked, and not to be had from what was measured
    shared: dict[object, Any] = field(default_factory=dict)  # sums and their noise that several columns rest on

    @cached_property
    def group(self) -> Codes:
        """Group number of each cell, (cells,)."""
        return self.groups.of_cells(self.view.cells)

    def evaluate(self, column: Column) -> list[Estimate]:
        """Estimate and interval of an aggregate for each present group: linear, or a ratio by Fieller's theorem."""
        sides = [self.sum_of(amounts) for amounts in (column.numerator, column.denominator) if amounts is not None]
        values = [self.values_of(side) for side in sides]
        every = self.terms(sides, column.kind)
        if isinstance(every, NormalErrors) and len(every) > 1:
            from sfumato.answers.function_interval import linear_intervals, ratio_intervals

            top, *bottom = ([part[self.groups.present] for part in side] for side in values)
            if bottom:
                intervals, known = ratio_intervals(top, bottom[0], every, self.confidence, column.bounds)
                others = np.flatnonzero(~known)
                if len(others):
                    terms = [every[place] for place in others.tolist()]
                    intervals = intervals.replaced(others, self._one_by_one(column, sides, values, terms, others))
            else:
                self.undetermined.extend([column] * int(every.unknown.sum()))
                intervals = linear_intervals(top, every, self.confidence)
        else:
            intervals = self._intervals_of_equal_noise(values, every) or Intervals.of(
                self._one_by_one(column, sides, values, every)
            )
        if self.view.estimated and column.denominator is None and _counts_rows(column):
            intervals = of_whole_rows(intervals, self.confidence)
        estimates = intervals.at(self.confidence)
        return estimates if column.scale == 1.0 else [one.times(column.scale) for one in estimates]

    def _intervals_of_equal_noise(
        self, values: Sequence[tuple[Floats, ...]], every: Sequence[Terms]
    ) -> Intervals | None:
        """Intervals of a sum where all groups have the same noise and no model error; None otherwise."""
        first = every[0] if len(every) > 1 and len(values) == 1 and self.view.suppressed is None else None
        if first is None or any(terms is not first for terms in every):
            return None
        top = [part[self.groups.present] for part in values[0]]
        return Intervals.of_noise(top, Shared(len(every)).linear(first, self.confidence))

    def _one_by_one(
        self,
        column: Column,
        sides: Sequence[Sum],
        values: Sequence[tuple[Floats, ...]],
        every: Sequence[Terms],
        some: Codes | slice = slice(None),
    ) -> list[Interval]:
        """Interval of an aggregate for some present groups. values: of its sums; every: noise terms of these groups."""
        intervals, shared, ratios = [], Shared(len(every)), dict[tuple[int, Functional, Functional], Interval]()
        schema = self.view.schema
        signed = any(a.factor < 0.0 or row_bounds(a.of, schema)[0] < 0.0 for a in column.denominator or ())
        for group, terms in zip(self.groups.present[some], every, strict=True):
            top, *bottom = (Functional(*(float(part[group]) for part in side)) for side in values)
            if terms is None:
                self.undetermined.append(column)
                interval = Interval(nan, nan, *(column.bounds or (-inf, inf)), nan)
            elif bottom:
                same = id(terms), top, bottom[0]  # as of equal counts with noise of their own
                if same not in ratios:
                    noises = shared.noises(terms)
                    ratios[same] = ratio_interval(top, bottom[0], noises, self.confidence, column.bounds, signed=signed)
                interval = ratios[same]
            else:
                interval = interval_with_errors(top, shared.linear(terms, self.confidence))
                if self.view.suppressed is not None and _counts_rows(column) and column.numerator[0].present is None:
                    unseen = float(sides[0].unseen[group])
                    interval = self.view.suppressed.below_threshold(interval, top, terms, unseen, self.confidence)
            intervals.append(interval)
        return intervals

    def terms(self, sides: Sequence[Sum], kind: str = "") -> Sequence[Terms]:
        """Noise terms of each present group's sums, one value for all groups that share them.

        kind: of the column; sampling errors of "count" and "share" are widened (`sampling`).
        """
        every = self.view.noises.terms(sides, self.view.cells, self.groups)
        if self.view.sampled:
            back = np.arange(3 * len(sides))
            drawn = (normal_terms(one, back, model=False) for one in self.sampling(sides, kind))
            every = [None if one is None else (*one, *more) for one, more in zip(every, drawn, strict=True)]
        if not self.view.far:
            return every
        every, far = [*every], dict[int, Terms]()
        for terms in {id(terms): terms for terms in every}.values():
            far[id(terms)] = None if terms is None else tuple(term.in_tail(self.view.drawn) for term in terms)
        return [far[id(terms)] for terms in every]

    def sampling(self, sides: Sequence[Sum], kind: str) -> Floats:
        """Sampling covariance of the sums' value, low and high of each present group, (groups, ends, ends).

        With n the counts of cells and N their sum, rows drawn from a population give sums w . n the covariance

            (1 - N / population) (sum of n w w' - (w . n)(w . n)' / N),

        without the first factor where the size of the population is not stated. A count of few rows tells little of its
        own variance: z^2 rows more are taken for it, and of a share half of them inside and half outside, with which
        intervals reach as far as Wilson's (1927) where no rows were seen.
        """
        cells, schema = self.view.cells, self.view.schema
        known = all({*side.split, *side.whole} <= {"count"} and not side.rest for side in sides)
        if not known or self.view.suppressed is not None:
            raise QueryError(
                "a release does not tell how a measure, or rows below a threshold, spread in a population; declare the "
                "measure as an attribute too, or ask about this table"
            )
        at_most(
            len(self.groups.present), MOST_SAMPLED, "groups about a population", "ask for fewer, or about this table"
        )
        counts = cells.values["count"]
        rows = max(float(counts.sum()), 1.0)
        split, whole = (
            np.stack(columns_of([getattr(side, kind_of).get("count") for side in sides], cells.size))
            for kind_of in ("split", "whole")
        )
        size, groups = len(split), self.groups.number
        means = np.array([np.bincount(self.group, weights=counts * one, minlength=groups) for one in split])
        means = (means + (whole @ counts)[:, None]).T  # (groups, ends)
        covariance = np.zeros((groups, size, size)) + (whole * counts) @ whole.T
        for i in range(size):
            for j in range(size):
                products = split[i] * split[j] + split[i] * whole[j] + whole[i] * split[j]
                covariance[:, i, j] += np.bincount(self.group, weights=counts * products, minlength=groups)
        covariance -= means[:, :, None] * means[:, None, :] / rows
        if kind in ("count", "share"):
            more = NormalDist().inv_cdf((1.0 + self.confidence) / 2.0) ** 2
            inside = np.repeat([1.0, 1.0], 3)[:size]
            outside = np.repeat([0.0, 1.0], 3)[:size]
            each = (
                np.outer(inside, inside) if size == 3 else (np.outer(inside, inside) + np.outer(outside, outside)) / 2
            )
            left = np.clip(1.0 - means[:, 0] / rows, 0.0, 1.0)
            covariance += more * left[:, None, None] * each
        part = 1.0 if schema.population is None else max(1.0 - rows / schema.population, 0.0)
        return np.asarray(part * covariance[self.groups.present])

    def sum_of(self, amounts: tuple[Amount, ...]) -> Sum:
        """Weights of a linear combination of amounts on the published numbers."""
        schema, cells, suppressed = self.view.schema, self.view.cells, self.view.suppressed
        split = total(cell_weights(amount, schema, cells.codes, cells.size) for amount in amounts if amount.grouped)
        whole = total(cell_weights(amount, schema, cells.codes, cells.size) for amount in amounts if not amount.grouped)
        if suppressed is None:
            return Sum(split, whole, {}, np.zeros(self.groups.number))
        rests = [suppressed.rest_weights(amount, cells, self.groups, self.group) for amount in amounts]
        unseen = np.sum([rest.unseen for rest in rests], axis=0)
        return Sum(split, whole, total(rest.weights for rest in rests), unseen)

    def values_of(self, side: Sum) -> tuple[Floats, Floats, Floats]:
        """Value, low and high of a sum for every group, each (groups,), from the noisy numbers."""
        values, suppressed = self.view.cells.values, self.view.suppressed

        def part(name: str) -> Floats:
            answer = np.zeros(self.groups.number)
            for of, weights in side.split.items():
                products = getattr(weights, name) * values[of]
                answer += np.bincount(self.group, weights=products, minlength=self.groups.number)
            for of, weights in side.whole.items():
                answer += float(getattr(weights, name) @ values[of])
            for of, weights in side.rest.items():
                rest = 0.0 if suppressed is None else suppressed.remainder[of]
                # The ends lean on counts of rows, which cannot be negative, whatever the noise says.
                answer += getattr(weights, name) * (rest if name == "value" or weights.exact else max(rest, 0.0))
            return answer

        value = part("value")
        return (value, value, value) if side.exact else (value, part("low"), part("high"))


def _counts_rows(column: Column) -> bool:
    """Whether a column counts rows, or rows with a value, so that it cannot be negative."""
    return [(amount.of, amount.factor) for amount in column.numerator] == [(None, 1.0)]
