"""Estimate error factors by kind of query from noisy sums of |true - estimated|, with a small share of the budget.

A sum of misfits |true - estimated| over many queries has the sensitivity of one of them, so it is cheap. The kinds are
single cells, tiles and blocks of neighbouring cells, single values of one attribute, pairs of values and ranges of two.
Cells and tiles are grouped by their estimate: a row lies in one of them, so groups cost no more than one sum.

For each kind the fit claims a variance of every query, split into a known part (noise, and what goes with measured
totals and marginals) and a part d in doubt (`claims`). The expected sum of misfits is a function of the factor f on
sqrt(d) (model_error.expected_sizes); its noisy value gives a posterior of f, and `factor_of` the factor with which 95 %
intervals cover 95 % on average over it.

Any mechanism whose fit leans on a model may use it: set `part_of_budget` aside, call `measure_errors` with the fit and
that budget, and wrap the fit in a `MeasuredFit` (models/calibration/fit.py) with the result. Own method.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from itertools import combinations, pairwise
from math import log2, sqrt

import numpy as np

from sfumato.answers.fit import PARTS, ByGroup, Errors, Fit, Grouped
from sfumato.arrays import Codes, Flags, Floats
from sfumato.domain import Domain, Partition
from sfumato.domain.binary_tree import Blocks
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import noise_for
from sfumato.kernel.curator import Curator
from sfumato.kernel.verbs.scores import Misfit
from sfumato.measurement import Measurement
from sfumato.models.calibration.fit import (
    BLOCKS,
    EMPTY,
    FILLED,
    ONE_WAY,
    TILES,
    TWO_RANGES,
    TWO_WAY,
    Brought,
    Scales,
    by_group_with_total,
    parts_of,
    with_total,
)
from sfumato.models.calibration.model_error import (
    CLAIMED,
    NORMAL_END,
    chances_of,
    expected_sizes,
    factor_of,
    hidden_deviation,
    thin_deviation,
)
from sfumato.queries import Identity
from sfumato.queries.workload import places_among

AT_ONCE = 2**22  # weights of cells that are laid out at a time
_ESTIMATES_ALONE: ContextVar[bool] = ContextVar("estimates_alone", default=False)


@contextmanager
def estimates_alone() -> Iterator[None]:
    """Context in which errors are not measured, for simulations that only look at estimates.

    Errors are measured last, so that estimates are the same as with them.
    """
    token = _ESTIMATES_ALONE.set(True)
    try:
        yield
    finally:
        _ESTIMATES_ALONE.reset(token)


def claims(brought: Brought, labels: Codes, chosen: Codes) -> tuple[Floats, Floats]:
    """Claimed variances of the counts of some regions: (doubtful, sure), an entry for each chosen region.

    brought: a fit and the counts with which it was updated. labels: (cells,), region of every cell. chosen: the
    regions. Sure are the noise and what measured counts explain; doubtful is the rest, whose size is measured.
    """
    number = np.full(int(labels.max()) + 1, -1)
    number[chosen] = np.arange(len(chosen))
    query = Grouped.of_cells(number[labels], len(chosen), np.ones((len(labels), 1)), None)
    fit, steadied, blocks = brought.fit, brought.along, brought.blocks
    products = None if steadied is None else steadied.products_by_group(query)
    means = None if blocks is None else blocks.by_group(query)
    sure, doubtful = np.empty(len(chosen)), np.empty(len(chosen))
    for index, errors in enumerate(_by_group(fit, number[labels], query)):
        by_block = None if means is None else (means[0][index], means[1][index])
        along = None if products is None else products[index]
        explained, residual = parts_of(errors.model, along, steadied, blocks, by_block)
        noise = errors.design.variances * errors.weights[:, 0] ** 2
        counted = noise.sum() if errors.counts is None else errors.counts @ noise
        sure[index], doubtful[index] = float(explained[0, 0]) + float(counted), float(residual[0, 0])
    return doubtful, sure


def _by_group(fit: Fit, group: Codes, asked: Grouped) -> Sequence[Errors]:
    """Errors of every group's count with the total last, in batches where the fit has no group form."""
    cells, groups = len(group), asked.groups
    if isinstance(fit, ByGroup):
        by_group = by_group_with_total(fit, asked, cells)
        if by_group is not None:
            return by_group
    result: list[Errors] = []
    block = max(1, AT_ONCE // cells)
    for start in range(0, groups, block):
        some = np.arange(start, min(start + block, groups))
        errors = with_total(fit, (group[:, None] == some).astype(np.float64))
        result += [_only(errors, index) for index in range(len(some))]
    return result


def _only(errors: Errors, index: int) -> Errors:
    """Errors of the sum at `index` and of the last sum, the total."""
    both = [index, -1]
    return Errors(
        errors.design, errors.weights[:, both], errors.model[np.ix_(both, both)], errors.unknown[both], errors.counts
    )


LEAST_CELLS = 16  # of a table whose tiles are looked at
LARGER = 8  # times as many tiles as blocks, for blocks to be looked at, too
WORTH = 0.1  # of intervals of one kind widened by noise, against the errors of all that a smaller budget widens
MOST_PART = 0.01  # of the budget, for one kind
HIDING = 3  # times as much for cells where none was looked at by itself: rows hide among those that are not empty, too


def part_of_budget(domain: Domain, without: Collection[int] = (), *, seen: bool = True) -> Fraction:
    """Share of the budget for measuring errors: where marginal loss of accuracy equals marginal gain in error bars.

    without: kinds that need not be measured. seen: every cell was measured. Depends on public facts alone.
    """
    return Fraction(sum(_weights(domain, without, seen=seen).values()), 2**20)


def measure_errors(
    curator: Curator,
    brought: Brought,
    budget: Budget,
    whole: Budget,
    without: Collection[int] = (),
    *,
    seen: bool = True,
    possible: Flags | None = None,
) -> tuple[Scales, tuple[Measurement, ...]]:
    """Measure the error factor of every kind of query.

    brought: the fit, with the counts with which it was updated. budget: for these measurements; whole: that of all
    measurements of the count. without: kinds that need not be measured. seen: every cell was measured, so that a cell
    with far more rows than noise cannot be missed. possible: flags of the cells that are no structural zeros, (cells,):
    kinds are of as many cells as their queries have possible ones. Returns the factors and the measurements.
    """
    if _ESTIMATES_ALONE.get():
        return Scales(*np.zeros((4, 0))), ()
    unit = noise_for(whole, curator.charge.contributions, l1=Fraction(1), l2_squared=Fraction(1)).variance ** 0.5
    weights = _weights(curator.domain, without, seen=seen)
    finished = Finished(curator, brought, whole, unit, seen, possible)
    results: list[Found] = []
    measured: list[Measurement] = []
    for kind, share in zip(weights, budget.split(*weights.values()), strict=True):
        kinds, looked = LOOKS[kind](finished, share)
        results += kinds
        measured += looked
    ends, factors, errors = (
        np.array([getattr(result, name) for result in results]) for name in ("end", "factor", "error")
    )
    return Scales(np.array([result.kind for result in results]), ends, factors, errors), tuple(measured)


def _weights(domain: Domain, without: Collection[int], *, seen: bool) -> dict[int, int]:
    """Share of a release's budget for measuring misfits of each kind, in parts of 2^20."""
    cells, shape = float(domain.size), domain.shape
    # Between a full table, where every cell has its own error, and a sparse one, where hardly any has.
    parts = {EMPTY: (1 if seen else HIDING) * _part(cells**0.5, cells**0.5)}
    if domain.size >= LEAST_CELLS:
        tiles = float(tiles_of(domain).size)
        parts[TILES] = _part(tiles, cells / tiles)
        if tiles >= LARGER * (blocks := float(tiles_of(domain, COARSER).size)):
            parts[BLOCKS] = _part(blocks, cells / blocks)
    for kind, order in ((ONE_WAY, 1), (TWO_WAY, 2)):
        if len(shape) > order:
            values = float(np.mean([np.prod([shape[place] for place in some]) for some in sets_of(domain, order)]))
            # Sets of two attributes differ, so that groups of them are told apart.
            parts[kind] = _part(values / (GROUPS if kind == TWO_WAY else 1), cells / values)
    if ranges_of(domain):
        parts[TWO_RANGES] = _part(RANGES, cells / RANGES)
    return {kind: max(1, round(2**20 * part)) for kind, part in parts.items() if kind not in without}


def _part(questions: float, cells: float) -> float:
    """Share of the budget for a kind of so many queries, each a sum of so many cells.

    In standard deviations of the noise of the whole budget, a measured tree errs by about (1 + log2 cells)^1.5. With a
    share p the relative noise of the sum of errors is 1 / (p errors); interval widths grow with its square, and with p.
    """
    errors = questions * (1.0 + log2(max(cells, 1.0))) ** 1.5
    return float(min(MOST_PART, (2.0 * WORTH / errors**2) ** (1.0 / 3.0)))


RANGES = 16  # into which two attributes are cut, for their errors to be looked at
LOOKED_AT = 128  # questions of a kind whose claimed errors stand for all of them
MOST_SETS, FEW_SETS = 28, 4  # of attributes, and of those where there are very many cells
MOST_LOOKS = 2**21  # at cells, for all sets of a kind
GROUPS = 3  # of questions of a kind, at most
NO_ROW = 0.5  # below which a cell is estimated to hold no row, unless noise is larger
CLEAR = 1.5  # deviations of its noise that a group's errors come to, for it to stand by itself
FINER, COARSER = 0.6, 0.3  # the powers of the number of cells that are the numbers of tiles and of blocks


@dataclass(frozen=True)
class Found:
    """Measured error factor of one group of queries: kind, upper end, factor, and mean error (see `mean_error`)."""

    kind: int
    end: float
    factor: float
    error: float


@dataclass(frozen=True, eq=False)
class Finished:
    """Estimate whose errors are to be measured, with the budget for it.

    brought: the fit and the counts with which it was updated. whole: the whole budget of the count; unit: standard
    deviation of the noise that it buys. seen: a cell with far more rows than that cannot have been missed. possible:
    flags of the cells that are no structural zeros, (cells,); None: all.
    """

    curator: Curator
    brought: Brought
    whole: Budget
    unit: float
    seen: bool = True
    possible: Flags | None = None

    @property
    def cells(self) -> int:
        """Number of cells that are no structural zeros."""
        return self.domain.size if self.possible is None else int(self.possible.sum())

    def held(self, partition: Partition) -> Codes:
        """Regions that hold a cell which is no structural zero."""
        if self.possible is None:
            return np.arange(partition.size)
        return np.flatnonzero(np.bincount(partition.labels, self.possible, partition.size))

    @property
    def fit(self) -> Fit:
        return self.brought.fit

    @property
    def domain(self) -> Domain:
        return self.curator.domain

    def part_of(self, share: Budget) -> float:
        """Ratio of the noise of the whole budget to that of a share, as standard deviations (about)."""
        part = share.amount / self.whole.amount
        return float(part) if share.is_pure else float(part) ** 0.5

    def expected(self, partition: Partition, answers: Floats, targets: Codes, chosen: Codes) -> Floats:
        """Expected mean misfit of some regions at every candidate factor, (factors,)."""
        claimed = claims(self.brought, partition.labels, chosen)
        return expected_sizes(targets[chosen] - answers[chosen], *claimed)


def tiles_of(domain: Domain, power: float = FINER) -> Blocks:
    """Tiles of neighbouring cells, with uneven ends so that they do not align with a tree's nodes."""
    number = max(2, round(domain.size**power))
    return Blocks.at_most(domain, number).uneven(number)


def sets_of(domain: Domain, order: int) -> list[tuple[int, ...]]:
    """Attribute sets of an order whose errors are measured; a subsample where there are many sets or cells."""
    every = list(combinations(range(len(domain.shape)), order))
    most = min(MOST_SETS, max(FEW_SETS, MOST_LOOKS // domain.size))
    return (
        every if len(every) <= most else [every[index] for index in sorted({*places_among(len(every), most).tolist()})]
    )


def ranges_of(domain: Domain) -> list[tuple[int, ...]]:
    """Pairs of attributes that are cut into ranges to measure their errors: those of more values than ranges."""
    if len(domain.shape) < 3:
        return []
    return [(one, other) for one, other in sets_of(domain, 2) if domain.shape[one] * domain.shape[other] > RANGES]


def of_tiles(finished: Finished, share: Budget) -> tuple[list[Found], list[Measurement]]:
    """Measure the error factor of tiles of neighbouring cells."""
    return _of_parts(finished, share, TILES, FINER)


def of_blocks(finished: Finished, share: Budget) -> tuple[list[Found], list[Measurement]]:
    """Measure the error factor of blocks, which are coarser than tiles."""
    return _of_parts(finished, share, BLOCKS, COARSER)


def _of_parts(finished: Finished, share: Budget, kind: int, power: float) -> tuple[list[Found], list[Measurement]]:
    """Measure the factor of tiles of one size, in groups by estimated count; groups are disjoint, hence free."""
    partition = tiles_of(finished.domain, power).partition
    answers, targets = _answers(finished.fit, partition)
    along = np.argsort(answers, kind="stable")
    groups = _groups(finished, partition, answers, targets, along, finished.unit / finished.part_of(share))
    labels = np.empty(partition.size, dtype=np.int64)
    for number, (tiles, _) in enumerate(groups):
        labels[tiles] = number
    misfit = Misfit(Identity(partition.size), targets)
    measured = finished.curator.reduce(partition).measure_misfit(misfit, share, labels)
    expected, held = [len(tiles) * mean for tiles, mean in groups], len(finished.held(partition))
    return [_found(kind, log2(finished.cells / held), measured, expected, held)], [measured]


def of_values(finished: Finished, share: Budget) -> tuple[list[Found], list[Measurement]]:
    """Measure the error factor of single values of one attribute."""
    return of_margins(finished, share, ONE_WAY, sets_of(finished.domain, 1))


def of_pairs(finished: Finished, share: Budget) -> tuple[list[Found], list[Measurement]]:
    """Measure the error factor of pairs of values of two attributes."""
    return of_margins(finished, share, TWO_WAY, sets_of(finished.domain, 2))


def of_ranges(finished: Finished, share: Budget) -> tuple[list[Found], list[Measurement]]:
    """Measure the error factor of ranges of two attributes, whatever the others are, as one sum over all pairs.

    A fit that smooths is off in the same direction along a diagonal of two attributes, which boxes of all attributes
    that a tree measures do not show.
    """
    guesses, expected, ranges = list[tuple[list[str], Codes, Codes]](), list[Floats](), 0
    for places in ranges_of(finished.domain):
        names = [finished.domain.names[index] for index in places]
        cells = Blocks.at_most(finished.domain.along(names), RANGES).uneven(RANGES).partition
        every = Partition(finished.domain, cells.labels[Partition.by(finished.domain, names).labels])
        answers, targets = _answers(finished.fit, every)
        held = finished.held(every)
        guesses.append((names, targets, cells.labels))
        expected.append(len(held) * finished.expected(every, answers, targets, held))
        ranges += len(held)
    together = np.zeros(len(guesses), dtype=np.int64)
    measured = finished.curator.measure_margin_misfits(guesses, share, together)
    size = log2(finished.cells * len(guesses) / ranges)
    return [_found(TWO_RANGES, size, measured, [np.sum(expected, axis=0)], ranges)], [measured]


def of_margins(
    finished: Finished, share: Budget, kind: int, sets: Sequence[tuple[int, ...]]
) -> tuple[list[Found], list[Measurement]]:
    """Measure the error factor of cells of marginals, from misfits summed over sets of attributes with similar errors.

    A sum over many sets costs as much as the misfit of one set.
    """
    guesses, expected, questions = [], [], 0
    for places in sets:
        names = [finished.domain.names[index] for index in places]
        partition = Partition.by(finished.domain, names)
        answers, targets = _answers(finished.fit, partition)
        guesses.append((names, targets))
        held = finished.held(partition)
        some = _some(held, max(1, LOOKED_AT // len(sets)))
        expected.append(len(held) * finished.expected(partition, answers, targets, some))
        questions += len(held)
    groups = _alike(np.array(expected)[:, CLAIMED], [len(guess) for _, guess in guesses], finished, share)
    measured = finished.curator.measure_margin_misfits(guesses, share, groups)
    sums = [
        np.sum([expected[index] for index in np.flatnonzero(groups == group)], axis=0) for group in np.unique(groups)
    ]
    return [_found(kind, log2(finished.cells * len(sets) / questions), measured, sums, questions)], [measured]


def _alike(claimed: Floats, values: Sequence[int], finished: Finished, share: Budget) -> Codes:
    """Group attribute sets by claimed error per value, (sets,): as many groups as stand out from the noise.

    claimed: (sets,), expected sum of misfits as claimed. values: number of cells of each set.
    """
    sets, noise = len(claimed), len(claimed) * finished.unit / finished.part_of(share)
    order, groups = np.argsort(claimed / np.array(values), kind="stable"), np.zeros(sets, dtype=np.int64)
    for number in range(min(GROUPS, sets), 0, -1):
        groups[order] = np.arange(sets) * number // sets
        if np.bincount(groups, claimed).min() >= CLEAR * noise:
            break
    return groups


def of_cells(finished: Finished, share: Budget) -> tuple[list[Found], list[Measurement]]:
    """Measure factors of cells estimated to hold rows, by groups of rows, and the rows hidden in the others."""
    estimate, every = finished.fit.estimate, Partition(finished.domain, np.arange(finished.domain.size))
    targets = np.maximum(np.rint(estimate), 0.0).astype(np.int64)
    least = max(NO_ROW, finished.unit)
    empty = np.flatnonzero(estimate < least)
    filled = np.flatnonzero(estimate >= least)
    filled = filled[np.argsort(estimate[filled], kind="stable")]
    targets[empty] = 0
    first, second = share.split(1, 1)
    noise = finished.unit / finished.part_of(first)
    groups = _groups(finished, every, estimate, targets, filled, noise, peaked=first.is_pure)
    labels = np.zeros(len(estimate), dtype=np.int64)
    for number, (cells, _) in enumerate(groups, start=1 if len(empty) else 0):
        labels[cells] = number
    misfit = finished.curator.measure_misfit(Misfit(Identity(len(estimate)), targets), first, labels)
    # Of those estimated to hold none it told the rows, and |count - 1| tells how many hold any; of others, |count|.
    other = np.where(estimate < least, 1, 0)
    second_look = finished.curator.measure_misfit(Misfit(Identity(len(estimate)), other), second, labels)
    results = []
    if len(empty):
        hidden = hidden_deviation(misfit, second_look, len(empty), finished.unit, seen=finished.seen)
        results.append(Found(EMPTY, least, hidden, mean_error(misfit, [0], len(empty))))
    further, thin = [], True
    for number, (cells, expected) in enumerate(groups, start=1 if len(empty) else 0):
        end, mean = float(estimate[cells[-1]]), mean_error(misfit, [number], len(cells))
        further.append(Found(FILLED, end, factor_of(chances_of(misfit, number, len(cells) * expected)), mean))
        target = float(targets[cells].mean())
        more = thin_deviation(second_look, misfit, number, len(cells), target) if thin else None
        thin = more is not None and more[1] > end
        if more is not None:
            results.append(Found(EMPTY, max(least, min(end + 1.0 / PARTS, more[1])), more[0], mean))
    return results + further, [misfit, second_look]


def _groups(
    finished: Finished,
    partition: Partition,
    answers: Floats,
    targets: Codes,
    along: Codes,
    noise: float,
    *,
    peaked: bool = False,
) -> list[tuple[Codes, Floats]]:
    """Group regions along an order, as many groups as stand out from the noise.

    answers, targets: (regions,), estimates and the whole numbers compared with the data. along: regions in order.
    Returns for each group its regions and its expected mean misfit at every candidate factor, (factors,).
    """
    if not len(along):
        return []
    some = np.sort(_some(np.arange(len(along)), GROUPS * LOOKED_AT))
    chosen = along[some]
    off, claimed = targets[chosen] - answers[chosen], claims(finished.brought, partition.labels, chosen)
    for number in range(min(GROUPS, len(some)), 0, -1):
        ends = np.arange(number + 1) * len(along) // number
        made = []
        for start, end in pairwise(ends):
            own = (some >= start) & (some < end)
            means = expected_sizes(off[own], *(variances[own] for variances in claimed), peaked=peaked)
            made.append((along[start:end], means))
        if number == 1 or all(len(part) * means[CLAIMED] >= CLEAR * noise for part, means in made):
            break
    return made


def _answers(fit: Fit, partition: Partition) -> tuple[Floats, Codes]:
    """Estimated counts of all regions, and the whole numbers nearest to them, (regions,) each."""
    answers: Floats = np.bincount(partition.labels, weights=fit.estimate, minlength=partition.size).astype(np.float64)
    return answers, np.rint(answers).astype(np.int64)


LOOKS = {
    EMPTY: of_cells,
    TILES: of_tiles,
    BLOCKS: of_blocks,
    ONE_WAY: of_values,
    TWO_WAY: of_pairs,
    TWO_RANGES: of_ranges,
}


def _some(indices: Codes, most: int = LOOKED_AT) -> Codes:
    """Evenly spaced subsample of some indices."""
    return indices if len(indices) <= most else np.unique(indices[places_among(len(indices), most)])


def _found(kind: int, end: float, measured: Measurement, expected: Sequence[Floats], questions: int) -> Found:
    """Factor and mean error of a kind. expected: for every group the sum of misfits at each factor, (factors,)."""
    chances = [chances_of(measured, index, sums) for index, sums in enumerate(expected)]
    mean = mean_error(measured, range(len(measured.answers)), questions)
    return Found(kind, end, factor_of(np.array(chances)), mean)


def mean_error(misfit: Measurement, groups: Sequence[int], questions: int) -> float:
    """Mean misfit in rows from noisy sums over groups.

    Where it is below one standard deviation of its noise, minus an upper bound at the 97.5 % quantile of normal noise.
    """
    total, deviation = float(misfit.answers[list(groups)].sum()), sqrt(len(groups) * misfit.noise.variance)
    return (total if total > deviation else -(max(total, 0.0) + NORMAL_END * deviation)) / questions
