"""What was measured of a set of cells alone, whatever a fit then made of it.

A fit that leans on a model spreads rows over cells which hold none: next to the last cell with rows, a smooth estimate
has some too. Whether a set of cells holds any rows at all is better asked of the noisy counts of regions that lie
wholly inside it: if it is empty, they are noise and nothing else, and the noise is known.

What the evaluator is given for one query: cells, where their errors come from, and what is not shown of them.

A content that can lay out cells for the attributes of a query, and say which noises a weighted sum of them carries, has
every SELECT answered by the evaluator.

The noises of answers where every cell carries noise of its own, of one size for each statistic.

Cells with the same weights are counted, not listed, and groups with the same counts are worked out once.

The interval of a count that a model has a say in: it ends at whole rows, and is no bell where few rows are expected.

Rows that a model does not know of come in clusters. A count with mean m and variance m d, d being how many rows come
together, has a long tail to the right: the gamma law of that mean and variance. And a cell of which next to no rows are
expected, but which has some, has as many as a cluster has: Fisher's logarithmic law (1943), whatever m is. People ask
about cells that hold rows, so the high end leaves room for that.

One aggregate, for every group: value, standard error and interval.

An aggregate is a sum of published numbers times public weights, so its error is the same sum of independent noises, and
the distribution of that sum is known exactly. Which noises enter is for the content to say (view.py). A content that
does not show every cell adds one more number, the rest: what the suppressed cells hold together (suppressed.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property, lru_cache
from math import ceil, floor, inf, isfinite, isinf, nan, sqrt
from statistics import NormalDist
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.answers.fieller import Functional, Interval, Shared, Term, linear_interval, ratio_interval
from sfumato.answers.fit import Fit, Sets
from sfumato.answers.noise_sum import upper_quantile
from sfumato.answers.question import ByStatistic, Gathered, Groups, cell_weights, columns_of, total
from sfumato.answers.results import Estimate
from sfumato.answers.suppressed import Suppressed
from sfumato.arrays import Codes, Floats
from sfumato.frozen import dataclass
from sfumato.measurement import Measurement, Noise
from sfumato.schema import Schema
from sfumato.sql import Amount, Column
from sfumato.sql.plan import row_bounds

FAR = 25.0  # deviations of the noise, beyond which no noise gets within any confidence that is asked


@dataclass(frozen=True, eq=False)
class Sign:
    """A sum of noisy counts, each by its precision, and the noises in it; about 0 if there are no rows."""

    value: float
    variance: float
    terms: tuple[tuple[float, Noise, int], ...]

    def is_sure(self, probability: float) -> bool:
        """Whether noise alone stays below it with this probability."""
        deviation = self.variance**0.5
        if not 0.0 < self.value <= FAR * deviation:
            return self.value > 0.0
        return self.value > upper_quantile(self.terms, probability)


def signs_of_rows(fit: Fit, within: Sets) -> list[Sign] | None:
    """For each set of cells, what speaks for rows in it; None where a fit is not of a kind that tells.

    within: (cells, sets).
    """
    parts = fit.measured_inside(within)
    if parts is None:
        return None
    return [_sign([(measured, rows[:, place]) for measured, rows in parts]) for place in range(within.shape[1])]


def _sign(parts: list[tuple[Measurement, NDArray[np.bool_]]]) -> Sign:
    value, variance, terms = 0.0, 0.0, list[tuple[float, Noise, int]]()
    for measured, rows in parts:
        answers, which = measured.answers[rows], measured.which
        kinds = np.zeros(len(answers), dtype=np.int64) if which is None else which[rows]
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
    """A linear combination of amounts, as weights.

    split: on the cells of the group asked about. whole: on all cells, whatever the group. rest: for each group, on what
    the suppressed cells hold together. unseen: for each group, how many suppressed cells may belong to it.
    """

    split: ByStatistic
    whole: ByStatistic
    rest: ByStatistic
    unseen: Floats

    @property
    def exact(self) -> bool:
        """Whether value, low and high end are one and the same."""
        return all(w.exact for kind in (self.split, self.whole, self.rest) for w in kind.values())


class NoiseSource(Protocol):
    """Which noises the answers about some cells carry."""

    def terms(self, sides: Sequence[Sum], cells: Gathered, groups: Groups) -> Sequence[Terms]:
        """For every present group, the noises of its numerator and denominator, with the weights of each."""

    def signs_of_rows(self, within: NDArray[np.bool_], cells: Gathered) -> list[Sign] | None:
        """For each set of cells, (cells, sets), what was measured of it alone; None where that is not told."""

    def largest_model_part(self, side: Sum, groups: Groups) -> tuple[str, ...] | None:
        """The attributes that the largest part of the model's error is about; None where that is not told."""


@dataclass(frozen=True, eq=False)
class View:
    """The cells of a content along the attributes of one query.

    estimated: cells are estimates that need not be whole; since counts are, intervals of counts then end at wholes.
    """

    schema: Schema
    cells: Gathered
    noises: NoiseSource
    suppressed: Suppressed | None = None
    estimated: bool = False


@dataclass(frozen=True, eq=False)
class CountedNoise:
    """The noise on each cell, by statistic, and on the totals of a content that does not show every cell."""

    noises: Mapping[str, Noise]
    totals: Mapping[str, Noise] = field(default_factory=dict)

    def largest_model_part(self, side: Sum, groups: Groups) -> None:
        """Not told here."""

    def signs_of_rows(self, within: NDArray[np.bool_], cells: Gathered) -> None:
        """Not told here."""

    def terms(self, sides: Sequence[Sum], cells: Gathered, groups: Groups) -> Sequence[tuple[Term, ...]]:
        group = groups.of_cells(cells)
        kinds = [
            _Kinds.sort(of, sides, noise, self.totals.get(of), cells, group, groups.number)
            for of, noise in self.noises.items()
        ]
        known: dict[tuple[bytes, ...], tuple[Term, ...]] = {}
        found = []
        for number in groups.present:
            key = tuple(part for kind in kinds for part in kind.signature(number))
            if key not in known:
                known[key] = tuple(term for kind in kinds for term in kind.terms(number))
            found.append(known[key])
        return found


@dataclass(frozen=True, eq=False)
class _Kinds:
    """The cells of one statistic, sorted into kinds that carry the same weights.

    Weights are rows of value, low and high for the numerator, then for the denominator. A cell outside the group still
    counts where an amount is not split by group, and where the rest, total less published, brings in every cell.
    """

    noise: Noise
    total_noise: Noise | None
    merged: int
    split: Floats  # a row for each kind
    whole: Floats
    rest: Floats  # a row for each group
    inside: NDArray[np.int64]  # how many cells of each kind lie in each group
    everywhere: NDArray[np.int64]

    @classmethod
    def sort(
        cls,
        of: str,
        sides: Sequence[Sum],
        noise: Noise,
        total: Noise | None,
        cells: Gathered,
        group: Codes,
        groups: int,
    ) -> _Kinds:
        split = columns_of([side.split.get(of) for side in sides], cells.size)
        whole = columns_of([side.whole.get(of) for side in sides], cells.size)
        rest = columns_of([side.rest.get(of) for side in sides], groups)
        kind, example = _alike([*split, *whole], cells.size)
        count = len(example)
        sizes = None if cells.many is None else cells.many.astype(np.float64)  # whole numbers that a float holds
        tallied = np.bincount(group * count + kind, weights=sizes, minlength=groups * count)
        inside = tallied.astype(np.int64).reshape(groups, count)
        return cls(
            noise,
            total,
            cells.merged,
            np.stack([column[example] for column in split], axis=1),
            np.stack([column[example] for column in whole], axis=1),
            np.stack(rest, axis=1),
            inside,
            inside.sum(axis=0),
        )

    def signature(self, group: int) -> tuple[bytes, bytes]:
        """What tells this group's terms from those of others."""
        return self.inside[group].tobytes(), self.rest[group].tobytes()

    def terms(self, group: int) -> list[Term]:
        found = []
        rest = self.rest[group]
        here = self.inside[group]
        for cells, weights in ((here, self.split + self.whole - rest), (self.everywhere - here, self.whole - rest)):
            for kind in np.flatnonzero((cells > 0) & weights.any(axis=1)):
                found.append(Term.of(self.noise, int(cells[kind]) * self.merged, *weights[kind].tolist()))
        if self.total_noise is not None and rest.any():
            found.append(Term.of(self.total_noise, 1, *rest.tolist()))
        return found


def _alike(columns: list[Floats], size: int) -> tuple[Codes, Codes]:
    """Number the cells so that those with the same weights share a number; and an example of each."""
    kind = np.zeros(size, dtype=np.int64)
    for column in {id(column): column for column in columns}.values():
        if (column == column[:1]).all():
            continue
        value = _numbered(column)
        kind = _numbered(kind * (value.max() + 1) + value)
    return kind, np.unique(kind, return_index=True)[1]


def _numbered(values: NDArray[Any]) -> Codes:
    """Equal values get equal numbers. Most often there are few of them, and then sorting all cells is a waste."""
    few = np.unique(values[:: max(1, len(values) // 1000)])
    if len(few) < 10:
        place = np.minimum(np.searchsorted(few, values), len(few) - 1)
        if (few[place] == values).all():
            return np.asarray(place, dtype=np.int64)
    return np.asarray(np.unique(values, return_inverse=True)[1], dtype=np.int64)


RULE_OF_THREE = 3  # none that were seen may be three (Hanley, Lippman-Hand 1983), which no variance tells
LARGEST_CLUSTER = 2**12  # rows that come together, beyond which a normal law says as much


def of_whole_rows(found: Interval, confidence: float) -> Interval:
    """The interval of a count, widened by what comes in clusters, and ending at wholes."""
    few, tail = 0.0, -inf
    if 0.0 < found.model < inf and isfinite(found.value):
        # A mean that is small beside its deviation is not known to be so small.
        together = found.model * (found.model / max(found.value, found.model / 2.0))
        few = max(RULE_OF_THREE, cluster(round(min(together, LARGEST_CLUSTER), 1), confidence))
        if found.value > 0.0:
            tail = long_tail(found.value, found.stderr * (found.stderr / found.value), confidence)
    low, high = min(found.low, found.value - RULE_OF_THREE * (few > 0)), max(found.high, found.value + few, tail)
    low, high = (low if isinf(low) else floor(low)), (high if isinf(high) else ceil(high))
    return replace(found, low=max(0, low), high=high)


def long_tail(mean: float, together: float, confidence: float) -> float:
    """The upper end of a gamma law with this mean and a variance of `together` times it (Wilson and Hilferty 1931)."""
    shape = mean / together if together > 0.0 else inf
    if shape == 0.0:  # so few rows, in clusters so large, that the law is all but a point at none
        return 0.0
    root = 1.0 - 1.0 / (9.0 * shape) + NormalDist().inv_cdf((1.0 + confidence) / 2.0) / (3.0 * sqrt(shape))
    return mean * max(root, 0.0) ** 3


@lru_cache(maxsize=1024)
def cluster(together: float, confidence: float) -> int:
    """How many rows a cluster has at most, so sure; `together`: the rows that come with a row, on average.

    >>> [cluster(each, 0.95) for each in (0.5, 1.0, 5.0, 20.0)]
    [2, 3, 9, 25]
    """
    share = together / (1.0 + together)
    rows = np.arange(1, ceil(20.0 * together) + 20)
    mass = share**rows / rows
    return int(np.searchsorted(np.cumsum(mass) / mass.sum(), confidence) + 1) if together > 0.0 else 1


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
