"""Noise terms of weighted sums of a fitted cube's cells, for every group of a query.

Rows with equal weights are counted together. Of very many distinct rows the 24 of largest variance keep their own
distribution; the others are one normal vector, which moves the end of a 95 % interval by less than 0.3 %.

Three ways to the terms of all groups, the first that the fit offers: over merged cells (least_squares/classes.py), when
a group is a box of attribute values; by `errors_by_group`; by dense weights over all cells, in blocks of groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sfumato.answers.evaluate import NoiseSource, Sign, Sum, Terms, distinct_ends, signs_of_rows
from sfumato.answers.fieller import NEGLIGIBLE, NormalErrors, Term, normal_terms
from sfumato.answers.fit import ByGroup, DrawnByGroup, Errors, Fit, Grouped
from sfumato.answers.question import MUCH_WORK, ByStatistic, Gathered, Groups
from sfumato.arrays import Codes, Floats
from sfumato.domain import Domain
from sfumato.frozen import dataclass
from sfumato.least_squares.classes import Along, Merged, Weighed, told_apart

NUMBERS_AT_ONCE = 2**24  # weights of cells that are laid out at a time
SUMS_AT_ONCE = 240
ALONE = 24  # measured rows that keep their own distribution
MANY = 2**16  # rows from which those of a small share are not looked at one by one
SMALL = 2.0**-12  # of the variance


def spread_over(domain: Domain, names: Sequence[str], columns: Floats) -> Floats:
    """Broadcast weights on the cells of some axes, (cells of these axes, k), to all cells of the domain, (cells, k)."""
    places = sorted(domain.place(name) for name in names)
    shape = [domain.shape[place] if place in places else 1 for place in range(len(domain.shape))]
    wide = np.broadcast_to(columns.reshape([*shape, columns.shape[1]]), [*domain.shape, columns.shape[1]])
    return np.ascontiguousarray(wide).reshape(domain.size, columns.shape[1])


def at_once(cells: int) -> int:
    """Number of sums per block: bounded by memory for the weights and by the square that their covariance takes."""
    return max(6, min(SUMS_AT_ONCE, NUMBERS_AT_ONCE // cells))


def noises_of(fit: Fit, columns: Floats, order: Sequence[Sequence[int]]) -> list[Terms]:
    """Noise terms of several answers; None for an answer that the measurements do not determine.

    columns: weights on the fit's cells, (cells, k). order: for every answer, the columns of its value, low and high,
    then of its denominator.
    """
    if not columns.any():
        return [() for _ in order]
    errors = fit.errors(columns)
    return [_terms_if_known(errors, chosen) for chosen in order]


def _terms_if_known(errors: Errors, chosen: Sequence[int]) -> Terms:
    """Noise terms of one answer; None where the measurements do not determine it."""
    return None if errors.unknown[list(chosen)].any() else tuple(terms_of(errors, chosen))


def terms_of(errors: Errors, chosen: Sequence[int]) -> list[Term]:
    """Noise terms of one answer. chosen: the columns of its value, low and high, then of its denominator."""
    distinct, back = np.unique(chosen, return_inverse=True)
    weights = errors.weights[:, distinct]
    variances = errors.design.variances
    parts = variances[:, None] * weights**2
    whole = parts.sum(axis=0) if errors.counts is None else errors.counts @ parts
    shares = (parts / np.where(whole > 0, whole, 1.0)).max(axis=1)
    rows = np.flatnonzero(shares > NEGLIGIBLE)
    terms: list[Term] = []
    pooled = np.zeros((len(distinct), len(distinct)))
    multiplicity = np.ones(len(shares), dtype=np.int64) if errors.counts is None else errors.counts
    if multiplicity[rows].sum() > MANY:
        # So many that sorting them would take longest of all. A sum of noises none of which has more than a small share
        # of the variance is normal but for a kurtosis of three times that share.
        tiny = rows[shares[rows] <= SMALL]
        pooled, rows = _covariance(weights[tiny], variances[tiny] * multiplicity[tiny]), rows[shares[rows] > SMALL]
    kinds, counts = _alike(errors, weights[rows], rows, multiplicity[rows])
    if len(kinds) > ALONE:
        order = np.argsort(-shares[rows[kinds]] * counts)
        many = order[ALONE:]
        pooled = pooled + _covariance(weights[rows[kinds[many]]], variances[rows[kinds[many]]] * counts[many])
        kinds, counts = kinds[order[:ALONE]], counts[order[:ALONE]]
    for kind, count in zip(kinds, counts, strict=True):
        row, which = rows[kind], errors.design.which
        noise = errors.design.noises[0 if which is None else int(which[row])]
        terms.append(Term.of(noise, int(count), *weights[row][back].tolist()))
    model = errors.model[np.ix_(distinct, distinct)]
    return [*terms, *normal_terms(pooled, back, model=False), *normal_terms(model, back, model=True)]


def _covariance(weights: Floats, variances: Floats) -> Floats:
    """Covariance W^T diag(variances) W of weighted sums; weights is (rows, sums)."""
    return np.asarray(weights.T @ (weights * variances[:, None]))


def _alike(errors: Errors, weights: Floats, rows: Codes, multiplicity: Codes) -> tuple[Codes, Codes]:
    """Merge measured rows of equal noise and weights (to ten digits): a representative and the multiplicity of each."""
    if not len(rows):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    which = np.zeros(len(rows)) if errors.design.which is None else errors.design.which[rows].astype(np.float64)
    scale = np.abs(weights).max(axis=0)
    rounded = np.rint(weights / np.where(scale > 0, scale, 1.0) * 1e10)
    key = np.column_stack([which, rounded])
    kind = told_apart(key)
    return np.unique(kind, return_index=True)[1], np.bincount(kind, multiplicity).astype(np.int64)


@dataclass(frozen=True, eq=False)
class SumWeights:
    """Weights of a query in one statistic: on the cells of a group and on all cells, (cells mentioned, sums).

    names: attributes mentioned. group: of each mentioned cell, (cells,). answer: columns of its value, low and high,
    then of its denominator.
    """

    fit: Fit
    split: Floats
    whole: Floats
    names: tuple[str, ...]
    group: Codes
    answer: Sequence[int]


def merged_terms(query: SumWeights, fit: Merged, domain: Domain, present: Codes) -> dict[int, Terms]:
    """Noise terms over merged cells, by the index of a present group; without those that need the dense computation."""
    result: dict[int, Terms] = {}
    places = sorted(domain.place(name) for name in query.names)
    grid = tuple(domain.shape[place] for place in places)
    statistic = _Statistic(fit, query, grid, places)
    order = np.argsort(query.group, kind="stable")
    starts, ends = (np.searchsorted(query.group[order], present, side=side) for side in ("left", "right"))
    for index, number in enumerate(present.tolist()):
        box = _box(order[starts[index] : ends[index]], grid)
        errors = None if box is None else statistic.errors(number, box)
        if errors is not None:
            result[index] = statistic.noises(errors)
    return result


def _box(cells: Codes, grid: tuple[int, ...]) -> tuple[Codes, ...] | None:
    """Factor a set of cells into values along each axis (a box); None where it is not a product."""
    sides = tuple(np.unique(codes, return_index=True)[0] for codes in np.unravel_index(cells, grid)) if grid else ()
    return sides if prod(map(len, sides)) == len(cells) else None


@runtime_checkable
class TermsByGroup(Protocol):
    """Fit that knows the noise terms of many groups at once, or of some of them."""

    def terms_by_group(self, query: SumWeights, domain: Domain, present: Codes) -> dict[int, Terms]:
        """Noise terms by the index of a present group."""


class _Statistic:
    """Merged-cell errors of one statistic of a query, for all groups."""

    def __init__(self, fit: Merged, query: SumWeights, grid: tuple[int, ...], places: list[int]) -> None:
        sums = query.split.shape[1]
        self._fit, self._group, self._places, self._answer = fit, query.group.reshape(grid), places, query.answer
        self._split, self._whole = query.split.reshape(*grid, sums), query.whole.reshape(*grid, sums)
        whole = query.whole.any()
        self._base = [
            told_apart(np.moveaxis(self._whole, axis, 0)) if whole else np.zeros(size, dtype=np.int64)
            for axis, size in enumerate(grid)
        ]
        self._known: dict[int, tuple[Weighed, Terms]] = {}

    def errors(self, number: int, box: tuple[Codes, ...]) -> Weighed | None:
        """Errors of one group; None where there are too many classes of cells."""
        axes = self._axes(box)
        if axes is None or self._fit.too_many(axes):
            return None
        mentioned = np.ix_(*(axes[place].first for place in self._places))
        weights = self._split[mentioned] * (self._group[mentioned] == number)[..., None] + self._whole[mentioned]
        shape = [len(axis.first) for axis in axes]
        narrow = [size if place in self._places else 1 for place, size in enumerate(shape)]
        sums = weights.shape[-1]
        spread = np.broadcast_to(weights.reshape(*narrow, sums), (*shape, sums)).reshape(-1, sums)
        return self._fit.errors(axes, np.ascontiguousarray(spread))

    def noises(self, weighed: Weighed) -> Terms:
        """Noise terms of one group, cached by its errors; None where the measurements do not determine it."""
        if id(weighed) not in self._known:
            sums = weighed.weights.shape[1]
            errors = Errors(weighed.design, weighed.weights, np.zeros((sums, sums)), ~weighed.known, weighed.counts)
            # The errors are kept too, so that the number by which they are known stays their own.
            self._known[id(weighed)] = weighed, _terms_if_known(errors, self._answer)
        return self._known[id(weighed)][1]

    def _axes(self, box: tuple[Codes, ...]) -> list[Along] | None:
        """Classes of values along every axis of the domain; None where the fit cannot use them."""
        inside = self._split[np.ix_(*box)]
        result = []
        for number, size in enumerate(self._fit.shape):
            classes = np.zeros(size, dtype=np.int64)
            if number in self._places:
                axis = self._places.index(number)
                alike = told_apart(np.moveaxis(inside, axis, 0))
                classes[box[axis]] = 1 + alike
                classes = classes * (int(self._base[axis].max()) + 1) + self._base[axis]
            along = self._fit.along(number, classes)
            if along is None:
                return None
            result.append(along)
        return result


@dataclass(frozen=True, eq=False)
class FittedNoise(NoiseSource):
    """Noise source of a fitted cube: the fits of all statistics over the cells of a domain."""

    fits: tuple[Fit, ...]
    domain: Domain

    @property
    def lags(self) -> Floats | None:  # type: ignore[override]
        return next((fit.lags for fit in self.fits if hasattr(fit, "lags")), None)

    def terms(self, sides: Sequence[Sum], cells: Gathered, groups: Groups) -> Sequence[Terms]:
        """Noise terms of each present group; a column of weights for every end that differs from the value."""
        by_statistic = [self._of_statistic(query, groups.present) for query in self._asked(sides, cells, groups)]
        if len(by_statistic) == 1 and isinstance(by_statistic[0], NormalErrors):
            return by_statistic[0]
        cache: dict[tuple[int, ...], Terms] = {}  # groups with the same noises get them as the same value
        result = []
        for parts in zip(*by_statistic, strict=True) if by_statistic else [() for _ in groups.present]:
            same = tuple(map(id, parts))
            if same not in cache:
                cache[same] = None if None in parts else tuple(term for part in parts for term in part or ())
            result.append(cache[same])
        return result

    def drawn(self, sides: Sequence[Sum], cells: Gathered, groups: Groups) -> Floats | None:
        result = np.zeros((len(groups.present), 3 * len(sides), 3 * len(sides)))
        for query in self._asked(sides, cells, groups):
            fit = query.fit
            every = fit.drawn_by_group(self._grouped(query, groups.present)) if isinstance(fit, DrawnByGroup) else None
            for group, drawn in enumerate(every or ()):
                result[group] += drawn[np.ix_(query.answer, query.answer)]
        return result

    def _asked(self, sides: Sequence[Sum], cells: Gathered, groups: Groups) -> Iterator[SumWeights]:
        """Weights of sums in each statistic that they weigh; a column for every end that differs from the value."""
        columns, answer = distinct_ends(sides)
        group = groups.of_cells(cells)
        for fit in self.fits:
            split, whole = (
                np.stack([_weights(getattr(side, kind), fit.of, end, cells.size) for side, end in columns], axis=1)
                for kind in ("split", "whole")
            )
            if split.any() or whole.any():
                yield SumWeights(fit, split, whole, tuple(cells.codes), group, answer)

    def recurring(self, sides: Sequence[Sum], cells: Gathered, groups: Groups) -> Floats | None:
        """Covariance of the errors shared with other periods, for fits that borrow from them; None for other fits."""
        asked = {of for side in sides for kind in (side.split, side.whole) for of in kind}
        touched = [fit for fit in self.fits if fit.of in asked]
        leaning = [fit for fit in touched if hasattr(fit, "recurring")]
        if not leaning or not all(fit.exact for fit in touched if fit not in leaning):
            return None
        terms = replace(self, fits=tuple(fit.recurring for fit in leaning)).terms(sides, cells, groups)
        return np.stack([covariance_of(each, 3 * len(sides)) for each in terms])

    def _of_statistic(self, query: SumWeights, present: Codes) -> Sequence[Terms]:
        """Noise terms of each present group in one statistic, by the quickest way that the fit offers."""
        fit, result = query.fit, dict[int, Terms]()
        if isinstance(fit, TermsByGroup) and len(present) * len(query.group) > MUCH_WORK:
            result = fit.terms_by_group(query, self.domain, present)
        if len(result) < len(present) and (merged := fit.merged(self.domain)) is not None:
            others = [place for place in range(len(present)) if place not in result]
            some = merged_terms(query, merged, self.domain, present[others])
            result |= {others[place]: terms for place, terms in some.items()}
        elif not result and isinstance(fit, ByGroup) and len(present) > 1:
            every = self._at_once(fit, query, present)
            if every is not None:
                return every
        left = [place for place in range(len(present)) if place not in result]
        block = max(1, at_once(self.domain.size) // query.split.shape[1])
        for start in range(0, len(left), block):
            places = left[start : start + block]
            noises = self._laid_out(query, present[places])
            result.update(zip(places, noises, strict=True))
        return [result[place] for place in range(len(present))]

    def signs_of_rows(self, within: NDArray[np.bool_], cells: Gathered) -> list[Sign] | None:
        """Test statistics for rows in sets of cells, (cells, sets), in blocks."""
        (count,) = (fit for fit in self.fits if fit.of == "count")
        result: list[Sign] = []
        for start in range(0, within.shape[1], at_once(self.domain.size)):
            some = within[:, start : start + at_once(self.domain.size)].astype(np.float64)
            signs = signs_of_rows(count, spread_over(self.domain, tuple(cells.codes), some) > 0.5)
            if signs is None:
                return None
            result += signs
        return result

    def _at_once(self, fit: ByGroup, query: SumWeights, present: Codes) -> Sequence[Terms] | None:
        """Noise terms of all groups in `present`, computed together; None where the fit needs them group by group."""
        errors = fit.errors_by_group(self._grouped(query, present))
        if errors is None:
            return None
        if any(one.weights.any() for one in errors):
            return [_terms_if_known(one, query.answer) for one in errors]
        sums, back = np.unique(query.answer, return_inverse=True)
        model = np.stack([one.model for one in errors])[:, sums[:, None], sums]
        unknown = np.asarray(np.stack([one.unknown for one in errors])[:, sums].any(axis=1))
        return NormalErrors(np.zeros_like(model), model, unknown, back)

    def _grouped(self, query: SumWeights, present: Codes) -> Grouped:
        """Weights of all groups in `present` by cell of the domain."""
        group, number = query.group, np.full(int(query.group.max(initial=0)) + 1, -1)
        here = present[present < len(number)]
        number[here] = np.arange(len(here))
        cells = spread_over(self.domain, query.names, np.arange(float(len(group)))[:, None])[:, 0].astype(np.int64)
        whole = query.whole[cells] if query.whole.any() else None
        return Grouped.of_cells(number[group][cells], len(present), query.split[cells], whole)

    def _laid_out(self, query: SumWeights, present: Codes) -> list[Terms]:
        """Noise terms of some groups from dense weights over the domain."""
        inside = (query.group[:, None] == present).astype(np.float64)
        ends = query.split.shape[1]
        each = query.split[:, None, :] * inside[:, :, None] + query.whole[:, None, :]
        weighed = spread_over(self.domain, query.names, each.reshape(len(inside), len(present) * ends))
        order = [[place * ends + end for end in query.answer] for place in range(len(present))]
        return noises_of(query.fit, weighed, order)


def covariance_of(terms: Terms, ends: int) -> Floats:
    """Covariance of the ends of some sums, (ends, ends), by their noise terms."""
    found = np.zeros((ends, ends))
    for term in terms or ():
        found += term.noise.variance * term.multiplicity * np.outer(term.weights, term.weights)
    return found


def _weights(by_statistic: ByStatistic, of: str, end: str, size: int) -> Floats:
    """Weights of one statistic for one end, (cells,); zeros where it has none."""
    weights = by_statistic.get(of)
    return np.zeros(size) if weights is None else np.asarray(getattr(weights, end), dtype=np.float64)
