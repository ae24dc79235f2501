"""Overdispersion of tables around what smaller ones imply, by cell and by block; Haar contrasts that correct pairs.

Model. A cell with expected rows m deviates from the table joined of smaller ones with variance spread * m. Blocks of
cells (halves of every axis down to sixteenths) have spreads of their own, per unit of a block's size: of a pair
`sizes_of`, of more attributes its rows.

Contrasts. The values of every axis are halved three times (`measure_of`), and Haar contrasts of the blocks of a pair
are measured: sums of rows with a sign for each half. A row enters one contrast of each pair of levels, with weight 1.
Only levels with a small sum are measured (a hyperbolic cross), and fewer for pairs that gain less (`worth_measuring`).

Estimator (`corrected`). A noisy contrast less the estimate's is error plus noise. The error's variance, as a multiple
of what the fit claims, has a mixture prior learned from all pairs (empirical Bayes), apart for contrasts that are even
or odd along both axes, in which a dependence that was shrunk shows, and for the others (`Haar.turned`). Before that,
what was predicted of pairs that nobody measured is brought to the strength that contrasts show (`_strengthened`). The
posterior mean corrects the table by proportional fitting that keeps its margins; the posterior variance per unit of
size is the spread at that scale, divided by `FALL` per level below the finest that was measured. From eighths on it is
only where calibration.py begins, which measures them. Own method; docs/intervals.md says why.

Sums of a measure (`sums_along`): empirical-Bayes shrinkage along one and two attributes.

A sum is rows times a mean. Means of one attribute's values scatter around the overall mean, and those of two attributes
around what the one-way means imply: additively, or, where no value is negative, multiplicatively, weighed by marginal
likelihood. Deviations are expanded in the eigenvectors of a prior covariance (shrinkage.Directions) and shrunk by s /
(s + v), s the prior variance of the coefficient, v that of the noise, averaged over a common factor of s by likelihood.
Shrinking single cells instead would bias every sum of many cells.

Neighbours' errors are correlated, but a table keeps variances of single cells. So these are scaled by one factor
(`together`) such that the average range, or single value if there is no order, has the right variance. Own method.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from functools import cached_property, reduce
from heapq import heappop, heappush
from itertools import product
from math import sqrt
from typing import NamedTuple

import numpy as np

from sfumato.arrays import Codes, Flags, Floats, Whole
from sfumato.frozen import dataclass
from sfumato.models.calibration.model_error import LEAST, SIZES, WIDER, learned_sizes, posterior
from sfumato.models.margins.joining import join_products, join_sums, rounded_up
from sfumato.models.margins.shrinkage import SPREADS, Directions, fit_margins, of_one_shape
from sfumato.models.margins.table import Noisy, Places, Table, along_all, independent, pooled

FINEST = 2**20  # parts of a spread that a file keeps


@dataclass(frozen=True)
class Scaled:
    """Spreads of block errors by level, halves first: from noise, and from the model.

    stripes: for each attribute of a pair, the spread beyond that of cells of single values crossed with halves of the
    other attribute.
    """

    noise: tuple[float, ...]
    model: tuple[float, ...]
    stripes: tuple[float, ...] = ()

    @classmethod
    def combined(cls, every: Sequence[tuple[Scaled, float]]) -> Scaled:
        """Weighted sum of spreads."""
        parts = (
            [[w * size for size in getattr(one, name)] for one, w in every] for name in ("noise", "model", "stripes")
        )
        return cls(*(tuple(map(sum, zip(*part, strict=False))) for part in parts))

    def rounded(self) -> Scaled:
        """Round to the digits of a file."""
        parts = self.noise, self.model, self.stripes
        return Scaled(*(tuple(round(spread * FINEST) / FINEST for spread in part) for part in parts))


@dataclass(frozen=True)
class Spreads:
    """Overdispersion of sets of attributes.

    by_order: spread of sets of one, two, three, ... attributes; the last serves larger sets. single: of sets whose own
    spread was measured. blocks_by_order, blocks: the same for blocks of cells. contrasts: estimated contrast of the
    halves of three attributes, to which tables joined from smaller ones are tilted.
    """

    by_order: tuple[float, ...] = ()
    single: Mapping[Places, float] = field(default_factory=dict)
    blocks_by_order: Mapping[int, Scaled] = field(default_factory=dict)
    blocks: Mapping[Places, Scaled] = field(default_factory=dict)
    contrasts: Mapping[Places, float] = field(default_factory=dict)

    def of(self, places: Places) -> float:
        """Overdispersion factor of a set of attributes.

        >>> Spreads((0.0, 1.0, 2.0), {(0, 1): 5.0}).of((0, 1)), Spreads((0.0, 1.0, 2.0)).of((1, 2, 3, 4))
        (5.0, 2.0)
        """
        if places in self.single:
            return self.single[places]
        return self.by_order[min(len(places), len(self.by_order)) - 1] if self.by_order and places else 0.0

    def of_blocks(self, places: Places) -> Scaled | None:
        """Spreads of the blocks of a set of attributes; None where unknown."""
        return self.blocks.get(places, self.blocks_by_order.get(len(places)))

    def evened(self, every: Sequence[Spreads], times: float, shares: Mapping[Places, float]) -> Spreads:
        """Replace spreads by `times` their mean over the tables `every`; those of blocks are shrunk towards it.

        shares: weight of that mean in the blocks of each set, 1 where it is missing. Contrasts stay.
        """

        def drawn(own: Scaled, others: Sequence[Scaled], share: float) -> Scaled:
            return Scaled.combined([(own, 1.0 - share), *((each, share * times / len(others)) for each in others)])

        orders = [each.by_order for each in every if len(each.by_order) == len(self.by_order)]
        by_order = tuple(times * sum(each) / len(each) for each in zip(*orders, strict=True))
        single = {p: times * float(np.mean([e.single[p] for e in every if p in e.single])) for p in self.single}
        blocks_by_order = {
            order: drawn(own, [e.blocks_by_order[order] for e in every if order in e.blocks_by_order], 1.0)
            for order, own in self.blocks_by_order.items()
        }
        blocks = {
            p: drawn(own, [e.blocks[p] for e in every if p in e.blocks], shares.get(p, 1.0))
            for p, own in self.blocks.items()
        }
        return Spreads(by_order, single, blocks_by_order, blocks, self.contrasts)

    def rounded(self) -> Spreads:
        """Round to the digits of a file."""
        by_order, single = tuple(map(_in_parts, self.by_order)), {p: _in_parts(s) for p, s in self.single.items()}
        blocks_by_order = {order: each.rounded() for order, each in self.blocks_by_order.items()}
        blocks = {places: each.rounded() for places, each in self.blocks.items()}
        contrasts = {places: float(round(each)) for places, each in self.contrasts.items()}
        return Spreads(by_order, single, blocks_by_order, blocks, contrasts)


def in_parts(spread: float) -> int:
    """Round the spread of errors to a whole number of 1 / FINEST, at least 1: 0 in a file marks tables with cells."""
    return max(1, round(spread * FINEST))


def _in_parts(spread: float) -> float:
    """Spread rounded as a file keeps it."""
    return in_parts(spread) / FINEST


LEVELS = 4  # halvings of every axis that errors are known at: halves, quarters, eighths, sixteenths
DEGREE = 4  # of polynomials along an axis, from 2 on, in which the shape of a dependence may be off as a whole
UNSURE = 0.02  # of the square of what an estimate has of them, the variance of that
MEASURED = 3  # those of which contrasts of pairs are measured
FINE = 2  # level of eighths, from which errors of blocks have the size that the check measures
FALL = 2.0  # by which the spread of uncorrected errors falls to the next level: 2 for steps, 8 for slopes
ROUNDS = 12  # of bringing a table to its contrasts, at most
STEPS = 2  # of Gauss-Newton towards the strength of a dependence
AT_ONCE = 2**16  # cells of tables that are changed together
MOST_CHANGE = 4.0  # by which a block's rows are multiplied in one round at most
FINER = 8.0  # by which the spread of single cells is smaller than that of quarters, where only these were seen


def measure_of(margin: Floats, *, by_rows: bool = False) -> Floats:
    """Measure by which an axis is halved, sum 1: half in proportion to rows, half even over values.

    by_rows: by rows alone, as in older files; a long tail is then one block, and averages depend on how it is spread.

    >>> measure_of(np.array([6.0, 2.0, 0.0, 0.0])).tolist()
    [0.5, 0.25, 0.125, 0.125]
    """
    rows, even = np.maximum(margin, 0.0), np.full(len(margin), 1.0 / len(margin))
    if not rows.sum() > 0:
        return even
    return np.asarray(rows / rows.sum() if by_rows else (rows / rows.sum() + even) / 2.0)


def halved(margin: Floats, levels: int = LEVELS, *, by_rows: bool = False) -> list[Codes]:
    """Dyadic blocks of an axis: for each level the block of every value, halved by `measure_of`.

    >>> [each.tolist() for each in halved(np.array([1.0, 1.0, 5.0, 1.0]))]
    [[0, 0, 1, 1], [0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3]]
    """
    share = measure_of(margin, by_rows=by_rows)
    middle = np.cumsum(share) - share / 2.0
    places = [np.minimum((middle * 2**level).astype(np.int64), 2**level - 1) for level in range(1, levels + 1)]
    return [np.asarray(np.unique(each, return_inverse=True)[1], dtype=np.int64) for each in places]


def first_component(table: Floats) -> tuple[Floats, Floats]:
    """First singular component of a two-way table less the product of its margins, left and right (power iteration).

    The left factor has length 1. Empty cells of the table are left out; both are 0 where only rounding is left.

    >>> [each.round(3).tolist() for each in first_component(np.array([[4.0, 1.0, 2.0], [1.0, 4.0, 2.0]]))]
    [[0.707, -0.707], [2.121, -2.121, 0.0]]
    """
    total = float(table.sum())
    off = table - np.where(table > 0.0, independent([table.sum(axis=1), table.sum(axis=0)], total), 0.0)
    off[np.abs(off) <= LEAST * total] = 0.0
    right = off[int(np.argmax(np.square(off).sum(axis=1)))]
    left: Floats = np.zeros(len(off))
    for _ in range(ROUNDS):
        left = off @ right
        left = left / max(sqrt(float(left @ left)), 1e-300)
        right = left @ off
    return left, right


def shape_of(measures: Sequence[Floats], table: Floats | None) -> list[Floats]:
    """Measures of both axes tilted to where a pair depends on each other most, each of sum 1 (`first_component`).

    A dependence that was shrunk or blurred is off most there.
    """
    shapes = list(measures) if table is None else [np.abs(each) for each in first_component(table)]
    return [each / each.sum() if each.sum() > 0.0 else own for each, own in zip(shapes, measures, strict=True)]


def sizes_of(rows: Floats, measures: Sequence[Floats], shapes: Sequence[Floats], total: float) -> Floats:
    """Size of cells or blocks with which error variances grow.

    Five twelfths rows, five the product of the axes' measures, two that of measures tilted to where the axes depend on
    each other (`shape_of`).

    >>> halves, last = [np.array([0.5, 0.5])] * 2, [np.array([0.0, 1.0])] * 2
    >>> sizes_of(np.array([[12.0, 0.0], [0.0, 0.0]]), halves, last, 12.0).tolist()
    [[6.25, 1.25], [1.25, 3.25]]
    """
    return mixed_sizes(rows, *(independent([total * each for each in parts], total) for parts in (measures, shapes)))


def mixed_sizes(rows: Floats, even: Floats, tilted: Floats) -> Floats:
    """Weighted mean size of a cell (`sizes_of`): 5/12 its rows, 5/12 the even product, 2/12 the tilted product."""
    return np.asarray((5.0 * (rows + even) + 2.0 * tilted) / 12.0)


def bends(rows: Floats, measure: Floats) -> Floats:
    """Bends of an axis: its shares of rows plus polynomials of degree 2 to `DEGREE` times these, (bends, values).

    Polynomials of the place in the measure, orthonormal under the rows; none where few values hold rows.
    """
    share = np.maximum(rows, 0.0) / max(float(np.maximum(rows, 0.0).sum()), 1e-300)
    if np.count_nonzero(share) <= DEGREE:
        return np.zeros((0, len(share)))
    root, place = np.sqrt(share), 2.0 * np.cumsum(measure) - measure - 1.0
    basis = np.linalg.qr(root[:, None] * np.polynomial.legendre.legvander(place, DEGREE))[0]
    return np.asarray(share + root * basis[:, 2:].T)


def bent(table: Floats, first: Floats, second: Floats) -> Floats:
    """Error variances of the bends of a pair, (bends, bends): UNSURE times their squared coefficients in `table`."""
    total = max(float(table.sum()), 1e-300)
    margins = table.sum(axis=1) / total, table.sum(axis=0) / total
    off = table / total - np.outer(*margins)
    left, right = (
        np.divide(each, margin, out=np.ones(each.shape), where=margin > 0.0) - 1.0
        for each, margin in zip((first, second), margins, strict=True)
    )
    return np.asarray(UNSURE * (total * (left @ off @ right.T)) ** 2)


@dataclass(frozen=True, eq=False)
class Haar:
    """Haar signs of an axis, (contrasts, values): a row for each block that is halved. level: of every row, from 0."""

    signs: Floats
    level: Codes

    @classmethod
    def of(cls, margin: Floats, levels: int = MEASURED) -> Haar:
        """Haar signs of an axis by its one-way margin; none where one value holds nearly all."""
        whole = np.zeros(len(margin), dtype=np.int64)
        signs, level = [np.zeros(len(margin))[:0].reshape(0, len(margin))], []
        for depth, (outer, inner) in enumerate(
            zip([whole, *halved(margin, levels)], halved(margin, levels), strict=False)
        ):
            for block in range(int(outer.max()) + 1):
                halves = np.unique(inner[outer == block])
                if len(halves) == 2:
                    row = np.where(inner == halves[0], 1.0, -1.0) * (outer == block)
                    signs.append(row[None])
                    level.append(depth)
        return cls(np.concatenate(signs), np.array(level, dtype=np.int64))

    @cached_property
    def levels(self) -> list[int]:
        """Distinct levels, ascending; an axis may have quarters and no halves."""
        return sorted({*self.level.tolist()})

    @cached_property
    def classes(self) -> Codes:
        """Class of every value, (values,): values with equal signs in all contrasts form one class."""
        return np.asarray(np.unique(self.signs, axis=1, return_inverse=True)[1], dtype=np.int64).reshape(-1)

    @cached_property
    def of_classes(self) -> Whole:
        """Haar signs of the classes, (contrasts, classes)."""
        return np.asarray(self.signs[:, np.unique(self.classes, return_index=True)[1]], dtype=np.int64)

    @cached_property
    def turned(self) -> tuple[Floats, Codes]:
        """Rotation of the two contrasts of quarters into even and odd, (contrasts, contrasts), and parity of each row.

        Even: outer quarters less inner ones, as a square has it; odd: 1 -1 1 -1. Parity: 0 even, 1 odd (halves too), 2
        neither. Errors of a dependence that was shrunk have the same parity along both axes.
        """
        turn, parity = np.eye(len(self.level)), np.where(self.level == 0, 1, 2)
        quarters = np.flatnonzero(self.level == 1)
        if len(quarters) == 2:
            turn[np.ix_(quarters, quarters)] = np.array([[1.0, -1.0], [1.0, 1.0]]) / np.sqrt(2.0)
            parity[quarters] = 0, 1
        return turn, np.asarray(parity, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Contrasts:
    """Noisy Haar contrasts of some attributes, an array with an axis of contrasts for each attribute.

    variance: of the noise. depth: only families (sums of levels) below it were measured; the others are 0.
    """

    signs: tuple[Haar, ...]
    noisy: Floats
    variance: float
    depth: int = MEASURED

    def of(self, table: Floats) -> Floats:
        """Haar contrasts of a table (analysis)."""
        return along_all([haar.signs for haar in self.signs], table)

    def rows(self, table: Floats) -> Floats:
        """Sum of a table over the support of each contrast."""
        return along_all([np.abs(haar.signs) for haar in self.signs], table)

    def families(self) -> Codes:
        """Family of each contrast: the sum of its levels, 0 for halves of all axes."""
        return reduce(np.add.outer, [haar.level for haar in self.signs])

    def finest(self) -> Codes:
        """Largest level of each contrast."""
        return reduce(np.maximum.outer, [haar.level for haar in self.signs])


def levels_of(signs: Sequence[Haar], depth: int = MEASURED) -> list[tuple[int, ...]]:
    """Combinations of levels of the axes in families below a depth; a row enters one contrast of each."""
    levels = product(*(haar.levels for haar in signs))
    return sorted((each for each in levels if sum(each) < depth), key=sum)


def worth_measuring(before: Floats, pairs: Sequence[Sequence[Haar]], variance_of: float, pure: bool) -> Codes:
    """Depth of contrasts to measure for each pair so that expected errors are least, (pairs,); 0 for none.

    before: (pairs,), prior standard deviation of the contrast of halves; that of finer ones falls with the root of
    their rows. pairs: signs of both axes. variance_of: noise variance of one contrast measured alone.
    """
    families_of = [[sum(each) for each in levels_of(signs)] for signs in pairs]
    costs = [[each.count(family) for family in range(MEASURED)] for each in families_of]
    depths: Codes = np.zeros(len(pairs), dtype=np.int64)
    places, families = np.nonzero(np.array(costs).reshape(len(pairs), MEASURED))
    if not len(places):
        return depths
    order = np.argsort(-before[places] * 0.5 ** (families / 2.0), kind="stable")
    places, families = places[order], families[order]
    cost, sizes = np.array(costs, dtype=np.float64)[places, families], before[places] * 0.5 ** (families / 2.0)
    noise = np.sqrt(variance_of) * (np.cumsum(cost) if pure else np.sqrt(np.cumsum(cost)))
    if sizes[0] >= noise[0]:
        best = _largest_gain(cost * sizes, sizes, noise)
        np.maximum.at(depths, places[:best], families[:best] + 1)
    return depths


def _largest_gain(worth: Floats, sizes: Floats, noise: Floats) -> int:
    """Number n of leading contrasts with largest total gain: sum of worth * (1 - 1 / hypot(1, size / noise[n - 1])).

    Best-first branch and bound over intervals of n: noise grows with n, so the gain in an interval is at most that of
    its last n with the noise of its first.
    """

    def gain(number: int, at: int) -> float:
        off = noise[at]
        return float((worth[:number] * (1.0 - off / np.sqrt(off**2 + sizes[:number] ** 2))).sum())

    waiting = [(-gain(len(worth), 0), 0, len(worth))]  # less the bound, first and end of a run
    while waiting:
        _, first, end = heappop(waiting)
        if end - first == 1:
            break
        middle = (first + end) // 2
        for low, high in ((first, middle), (middle, end)):
            heappush(waiting, (-gain(high, low), low, high))
    return first + 1


def corrected(
    tables: Mapping[Places, Table], contrasts: Mapping[Places, Contrasts], told: Collection[Places]
) -> tuple[dict[Places, Table], dict[Places, Scaled]]:
    """Correct pair tables by the posterior mean of their measured contrasts; return tables and remaining spreads.

    told: pairs of which cells were measured. Their error sizes are learned apart from those of other pairs.
    """
    looked = {places: item for places, item in contrasts.items() if item.noisy.size}
    tables, unsure = _strengthened(tables, {p: item for p, item in looked.items() if p not in told})
    off = {places: item.noisy - item.of(tables[places].estimate) for places, item in looked.items()}
    claimed = {p: np.maximum(item.rows(tables[p].noise + tables[p].model), LEAST) for p, item in looked.items()}
    result, spreads, roughness = dict(tables), dict[Places, Scaled](), dict[Places, tuple[int, Floats]]()
    means, left, noises = ({places: np.zeros(item.shape) for places, item in off.items()} for _ in range(3))
    turned = {places: [haar.turned for haar in item.signs] for places, item in looked.items()}
    turns = {places: [turn for turn, _ in each] for places, each in turned.items()}
    for places, turn in turns.items():  # noise of one variance stays what it is under a rotation
        off[places] = along_all(turn, off[places])
        claimed[places] = along_all([each**2 for each in turn], claimed[places])
    rows = {p: along_all([turn**2 for turn in turns[p]], item.rows(tables[p].estimate)) for p, item in looked.items()}
    kinds: dict[tuple[int, int, bool], list[tuple[Places, tuple[Codes, ...]]]] = {}
    for places, item in looked.items():
        families, kinship = item.families(), _kinship(*(parity for _, parity in turned[places]))
        kind = np.where(families < item.depth, 3 * families + kinship, -1)
        for each in np.unique(kind[kind >= 0]).tolist():
            kinds.setdefault((*divmod(each, 3), places in told), []).append((places, np.nonzero(kind == each)))
    for (family, _, _), items in sorted(kinds.items()):
        sizes = learned_sizes([(off[p][at], claimed[p][at], looked[p].variance) for p, at in items])
        for (places, at), weights in zip(items, sizes, strict=True):
            mean, variance, noise = posterior(off[places][at], claimed[places][at], looked[places].variance, weights)
            means[places][at], left[places][at], noises[places][at] = mean, variance, noise
            # Of the finest contrasts there are, the variance for each row before it was corrected. The size is a
            # geometric mean: in an arithmetic one, sizes that noise cannot rule out outweigh all that is likely.
            size = float(np.exp(weights @ np.log(SIZES)))
            before = np.array([size * claimed[places][at].sum(), rows[places][at].sum()])
            finest, sums = roughness.get(places, (family, np.zeros(2)))
            roughness[places] = family, before + (sums if finest == family else 0.0)
    changes = {places: along_all([turn.T for turn in turns[places]], means[places]) for places in looked}
    tilted = _all_tilted({places: tables[places].estimate for places in looked}, looked, changes)
    for places, item in looked.items():
        squares = [turn.T**2 for turn in turns[places]]
        table, estimate = tables[places], tilted[places]
        variance, counted = roughness[places][1].tolist()
        rough = variance / max(counted, 1.0)
        model = table.model if places in told else estimate * (1.0 + rough / FINER)
        result[places] = Table(places, estimate, table.noise, model)
        by_factor = unsure.get(places, np.zeros(item.noisy.shape))
        over, noise = (along_all(squares, each[places]) + by_factor for each in (left, noises))
        missed = item.of(table.estimate - estimate) + changes[places]  # what margins and empty cells did not allow
        spreads[places] = _spread(item, table.estimate, WIDER**2 * over + missed**2, noise, rough)
    return result, spreads


def _strengthened(
    tables: Mapping[Places, Table], contrasts: Mapping[Places, Contrasts]
) -> tuple[dict[Places, Table], dict[Places, Floats]]:
    """Rescale the predicted dependence of pairs (powers of their lift) to their measured contrasts (GLS).

    A prediction has the shape of a dependence at scales that no contrast reaches, and seldom its strength: each step
    from column to column loses some of it, of finer shapes more. So its lift, the ratio to the product of margins, is
    raised to a power, which strengthens fine shapes more than coarse ones (a normal copula stays one). The power is
    fitted by generalised least squares (Gauss-Newton), with the variance of misfits where that is larger than claimed;
    the prior of powers is learned from all pairs. Returns the tables, and variances of contrasts from its error.
    """
    result, unsure = dict(tables), dict[Places, Floats]()
    axes = {axis: size for p in contrasts for axis, size in zip(p, tables[p].estimate.shape, strict=True)}
    stacks = [_Stacked.of(some, tables, contrasts) for some in of_one_shape(contrasts, axes)]
    for _ in range(STEPS):
        fits = [stack.fit() for stack in stacks]
        items = [(np.array([power]), np.ones(1), variance) for fit in fits for _, power, variance in fit.powers]
        learned = zip(items, learned_sizes(items), strict=True)
        for stack, fit in zip(stacks, fits, strict=True):
            powers = np.zeros(len(stack.now))
            for (index, _, _), (item, sizes) in zip(fit.powers, learned, strict=False):
                (powers[index],), left, _ = posterior(*item, sizes)
                own = tuple(slice(size) for size in contrasts[stack.places[index]].noisy.shape)
                unsure[stack.places[index]] = left * fit.slopes[index][own] ** 2
            stack.strengthen(powers, [index for index, _, _ in fit.powers])
    for stack in stacks:
        for places, estimate in zip(stack.places, stack.now, strict=True):
            if places in unsure:
                result[places] = Table(places, estimate, tables[places].noise, estimate)
    return result, unsure


class _Powers(NamedTuple):
    """Derivatives of the contrasts of stacked pairs by the powers of their lifts; fitted (index, change, variance)."""

    slopes: Floats
    powers: list[tuple[int, float, float]]


@dataclass(frozen=True, eq=False)
class _Stacked:
    """Pairs of one shape, whose lifts are raised to powers together. now: (pairs, values, values)."""

    places: Sequence[Places]
    now: Floats
    left: Floats
    across: Floats
    noisy: Floats
    measured: Floats
    weights: Floats

    @classmethod
    def of(
        cls, some: Sequence[Places], tables: Mapping[Places, Table], contrasts: Mapping[Places, Contrasts]
    ) -> _Stacked:
        """Stack pairs with their contrasts, which weigh by their claimed variances and noise."""
        items = [contrasts[places] for places in some]
        left, right = (_filled_up([item.signs[axis].signs for item in items]) for axis in (0, 1))
        across, measured = right.transpose(0, 2, 1), _filled_up([item.families() < item.depth for item in items])
        claimed = np.abs(left) @ np.array([tables[p].noise + tables[p].model for p in some]) @ np.abs(across)
        weights = measured / (claimed + np.array([item.variance for item in items])[:, None, None])
        now, noisy = np.array([tables[p].estimate for p in some]), _filled_up([item.noisy for item in items])
        return cls(some, now, left, across, noisy, measured, weights)

    def fit(self) -> _Powers:
        """Changes of the powers by generalised least squares, linear in them around the present tables."""
        slopes = self.measured * (self.left @ _slope(self.now) @ self.across)
        off = self.measured * (self.noisy - self.left @ self.now @ self.across)
        precisions = (self.weights * slopes**2).sum(axis=(1, 2))
        index = np.flatnonzero(precisions > 0.0)
        precisions = precisions[index]
        fitted = (self.weights * slopes * off)[index].sum(axis=(1, 2)) / precisions
        apart = (self.weights[index] * (off[index] - fitted[:, None, None] * slopes[index]) ** 2).sum(axis=(1, 2))
        misfits = np.maximum(apart / np.maximum(self.measured[index].sum(axis=(1, 2)) - 1.0, 1.0), 1.0)
        return _Powers(slopes, list(zip(index.tolist(), fitted.tolist(), (misfits / precisions).tolist(), strict=True)))

    def strengthen(self, powers: Floats, index: Sequence[int]) -> None:
        """Raise the lifts of some pairs to the power 1 + powers (clipped), margins kept; powers: of all pairs."""
        now, by = self.now[index], np.clip(powers[index], -1.0, MOST_CHANGE - 1.0)[:, None, None]
        self.now[index] = fit_margins(now * np.exp(by * _log_lift(now)), now.sum(axis=2), now.sum(axis=1))


def _log_lift(table: Floats) -> Floats:
    """Logarithms of the cells of pairs over the products of their margins; 0 where empty."""
    rows, columns = (table.sum(axis=axis, keepdims=True) for axis in (-1, -2))
    product = rows * columns / np.maximum(rows.sum(axis=-2, keepdims=True), LEAST)
    held = (table > 0.0) & (product > 0.0)
    return np.log(np.where(held, table, 1.0) / np.where(held, product, 1.0))


def _slope(table: Floats) -> Floats:
    """Derivative of pairs by the powers of their lifts, margins kept (alternating projections).

    >>> _slope(np.array([[3.0, 1.0], [1.0, 3.0]])).round(3).tolist()
    [[0.824, -0.824], [-0.824, 0.824]]
    """
    change, margins = _log_lift(table), [np.maximum(table.sum(axis=axis, keepdims=True), LEAST) for axis in (-1, -2)]
    for _ in range(ROUNDS):
        for axis, margin in zip((-1, -2), margins, strict=True):
            change -= (table * change).sum(axis=axis, keepdims=True) / margin
    return table * change


def _kinship(*parities: Codes) -> Codes:
    """Whether contrasts of two axes have the same parity (0), different ones (1), or none on an axis (2)."""
    first, second = np.meshgrid(*parities, indexing="ij")
    return np.asarray(np.where((first == 2) | (second == 2), 2, first != second), dtype=np.int64)


def _all_tilted(
    tables: Mapping[Places, Floats], contrasts: Mapping[Places, Contrasts], changes: Mapping[Places, Floats]
) -> dict[Places, Floats]:
    """Change the contrasts of two-way tables (`_tilted`), those of similar shapes together, filled up with zeros."""
    stacks, result = defaultdict[tuple[int, int], list[Places]](list), dict[Places, Floats]()
    for places, (rows, columns) in ((places, table.shape) for places, table in tables.items()):
        stacks[rounded_up(rows), rounded_up(columns)].append(places)
    for (rows, columns), members in stacks.items():
        together = max(1, AT_ONCE // (rows * columns))
        for start in range(0, len(members), together):
            some = members[start : start + together]
            stacked, moved = (_filled_up([each[places] for places in some]) for each in (tables, changes))
            tilted = _tilted(stacked, moved, [contrasts[places] for places in some])
            for places, each in zip(some, tilted, strict=True):
                rows_held, columns_held = tables[places].shape
                result[places] = each[:rows_held, :columns_held].copy()
    return result


def _filled_up(arrays: Sequence[Floats | Flags]) -> Floats:
    """Stack arrays of several shapes, with zeros behind the shorter ones, (arrays, ...)."""
    result = np.zeros((len(arrays), *(max(sizes) for sizes in zip(*(each.shape for each in arrays), strict=True))))
    for index, each in enumerate(arrays):
        result[index][tuple(slice(size) for size in each.shape)] = each
    return result


def _tilted(tables: Floats, changes: Floats, contrasts: Sequence[Contrasts]) -> Floats:
    """Change the contrasts of tables, margins kept and cells non-negative, by damped proportional fitting.

    tables: (tables, values, values). changes: (tables, contrasts, contrasts).
    """
    left, right = (_filled_up([item.signs[axis].signs for item in contrasts]) for axis in (0, 1))
    across, back = right.transpose(0, 2, 1), left.transpose(0, 2, 1)
    rows, columns, wanted = tables.sum(axis=2), tables.sum(axis=1), left @ tables @ across + changes
    measured = _filled_up([item.families() < item.depth for item in contrasts])
    ahead, behind = np.abs(left), np.abs(across)
    cells = np.array([item.signs[0].signs.shape[1] * item.signs[1].signs.shape[1] for item in contrasts], dtype=float)

    def lacking(candidates: Floats) -> Floats:
        return np.asarray(measured * (wanted - left @ candidates @ across))

    def missed(lack: Floats) -> Floats:
        return np.asarray(np.square(lack).sum(axis=(1, 2)))

    best, least = tables, np.full(len(tables), np.inf)  # some contrasts cannot be had together: a round may lead away
    trial, lack = tables, (before := lacking(tables))
    for _ in range(ROUNDS):
        held = np.maximum(ahead @ trial @ behind, 1.0)
        step = back @ (lack / held) @ right
        step += 1.0
        trial = fit_margins(
            trial * np.clip(step, 1.0 / MOST_CHANGE, MOST_CHANGE, out=step), rows, columns, 3, cells=cells
        )
        lack = lacking(trial)
        off = missed(lack)
        best, least = np.where((off < least)[:, None, None], trial, best), np.minimum(off, least)
    best = fit_margins(best, rows, columns, cells=cells)
    return np.where((missed(lacking(best)) < missed(before))[:, None, None], best, tables)


def _sizes(table: Floats) -> Floats:
    """Sizes of the cells of a two-way table (`sizes_of`)."""
    measures = [measure_of(table.sum(axis=1)), measure_of(table.sum(axis=0))]
    return sizes_of(table, measures, shape_of(measures, table), float(table.sum()))


def _spread(contrasts: Contrasts, table: Floats, left: Floats, noise: Floats, rough: float) -> Scaled:
    """Error variance per unit of size, by level: halves, quarters, and so on.

    left, noise: error variances of the contrasts, and the noise's part; 0 where not measured.
    rough: prior variance per row of the finest measured contrasts, also assumed for unmeasured ones of their level, and
    divided by FALL for each level without measured contrasts.
    """
    rows, levels = np.maximum(contrasts.rows(_sizes(table)), 1.0), contrasts.finest()
    measured, result = contrasts.families() < contrasts.depth, list[tuple[float, float]]()
    whole = np.where(measured, left, rough * contrasts.rows(table))
    for level in range(LEVELS):
        here = levels == level
        if (measured & here).any():
            by_noise, by_both = (float(part[here].sum() / rows[here].sum()) for part in (noise, whole))
            result.append((by_noise, by_both - by_noise))
        else:
            rough = rough / FALL
            result.append((0.0, rough))
    return Scaled(tuple(part for part, _ in result), tuple(part for _, part in result))


@dataclass(frozen=True)
class OfThree:
    """Posterior contrast of the halves of three attributes, the spread of its error, and the prior spread."""

    contrast: float
    spread: float
    before: float


def of_three(
    contrasts: Mapping[Places, Contrasts], joined: Mapping[Places, tuple[float, float]]
) -> dict[Places, OfThree]:
    """Posterior of the contrasts of halves of sets of three attributes (empirical Bayes over sets).

    joined: for each set, the contrast implied by tables of smaller sets, and the number of all rows.
    """
    places = [triple for triple in contrasts if contrasts[triple].noisy.size]
    rows = {triple: max(joined[triple][1], 1.0) for triple in places}
    now = {triple: np.array([joined[triple][0]]) for triple in places}
    off = {triple: contrasts[triple].noisy.reshape(-1) - now[triple] for triple in places}
    items = [(off[triple], np.array([rows[triple]]), contrasts[triple].variance) for triple in places]
    result: dict[Places, OfThree] = {}
    for triple, (deviation, claimed, variance), weights in zip(places, items, learned_sizes(items), strict=True):
        mean, left, _ = posterior(deviation, claimed, variance, weights)
        contrast, spread = float((now[triple] + mean)[0]), WIDER**2 * float(left[0]) / rows[triple]
        result[triple] = OfThree(contrast, spread, float(weights @ SIZES))
    return result


SCATTERS = np.logspace(-5, 1, 25)  # of the largest size of one row's value: what means may scatter by
WIDER_MEANS = 3.5  # times the variance of what was assumed, as means deviate with longer tails than normal ones
MOST_VALUES = 600  # of an attribute whose directions are looked for; the time grows with their cube


def sums_along(
    noisy: Mapping[Places, Noisy],
    counts: Mapping[Places, Floats],
    largest: float,
    level: float | None = None,
    ordered: Sequence[bool] = (),
    *,
    as_measured: bool = False,
) -> tuple[dict[Places, Table], Spreads]:
    """Estimate one- and two-way tables of a measure's sums, in its steps, by shrinking noisy ones.

    Returns the tables by set of axes, () for the total, and the overdispersion of sets of axes that have no table.
    noisy: sums and their noise variance, by set of axes. counts: estimated rows, by set of axes. largest: most steps
    that a row adds or takes away. level: the measure's centre in steps above zero, if it is never negative; then
    multiplicative fits are tried beside additive ones. ordered: whether each axis has an order; empty: none has.
    as_measured: one-way sums are not shrunk, as they are not nearly in proportion to the counts.
    """
    total, variance = pooled(list(noisy.items()), ())
    rows = max(float(counts[()]), 1.0)
    tables: dict[Places, Table] = {(): Table((), np.asarray(total), np.asarray(variance), np.zeros(()))}
    axes = sorted({place for places in noisy for place in places})
    along = {axis: _AxisPrior.of(counts[axis,], ordered=bool(ordered) and ordered[axis]) for axis in axes}
    for axis in axes:
        sums, variance = pooled(list(noisy.items()), (axis,))
        estimate, errors = sums, [np.full(len(sums), variance), np.zeros(len(sums))]
        if not as_measured:
            guess = along[axis].share * float(np.clip(total, -largest * rows, largest * rows))
            estimate, *errors = _drawn(guess, sums, variance, [along[axis]], rows * largest)
        lacking = (float(total) - float(estimate.sum())) / len(estimate)
        tables[axis,] = Table((axis,), estimate + lacking, *errors)
    pairs: list[Places] = sorted(places for places in noisy if len(places) == 2)
    alone: dict[Places, dict[Places, Floats]] = {p: {(k,): tables[p[k],].estimate for k in (0, 1)} for p in pairs}
    ways = [{p: join_sums(counts[p], alone[p]) for p in pairs}]
    if level is not None:
        ways.append({p: join_products(counts[p], alone[p], level) for p in pairs})
    fits = [_best_spread([(way[p], *noisy[p], counts[p]) for p in pairs], (largest * SCATTERS) ** 2) for way in ways]
    belief = np.exp(np.array([likelihood for likelihood, _ in fits]) - max(fits)[0])
    belief /= belief.sum()
    for first, second in pairs:
        guesses = np.array([way[first, second] for way in ways])
        guess = np.tensordot(belief, guesses, axes=1)
        apart = [sqrt(each) * (one - guess) for each, one in zip(belief, guesses, strict=True)]
        shrunk = _drawn(guess, *noisy[first, second], [along[first], along[second]], rows * largest, apart)
        tables[first, second] = Table((first, second), *shrunk)
    return tables, Spreads((0.0, WIDER_MEANS * max(fits)[1]))


@dataclass(frozen=True, eq=False)
class _AxisPrior:
    """An axis: share of the rows by value (values,), directions of its means, and the usual queries along it."""

    share: Floats
    directions: Directions
    asked: UsualQueries

    @classmethod
    def of(cls, rows: Floats, *, ordered: bool) -> _AxisPrior:
        """Axis from its counts (values,)."""
        positive = np.maximum(rows, 0.0)
        share = positive / max(float(positive.sum()), 1.0)
        smooth = ordered and len(rows) <= MOST_VALUES
        alone = Directions(np.zeros(len(rows)), np.eye(len(rows)))  # every value its own direction
        directions = Directions.of(share, smooth) if len(rows) <= MOST_VALUES else alone
        return cls(share, directions, UsualQueries.of(directions, share, ordered=smooth))


def _drawn(
    guess: Floats, sums: Floats, variance: float, along: Sequence[_AxisPrior], size: float, apart: Sequence[Floats] = ()
) -> tuple[Floats, Floats, Floats]:
    """Shrink sums towards a guess whose margins they keep; return estimate, noise variances and model variances.

    size: scale of the sums. apart: deviations of alternative guesses, each times the root of its probability.
    """
    if not all(len(axis.directions.sizes) for axis in along):  # an attribute with one value
        return guess, np.zeros(guess.shape), np.zeros(guess.shape)
    vectors = [axis.directions.vectors for axis in along]
    transposed = [basis.T for basis in vectors]
    off = along_all(transposed, sums - guess)
    sizes = reduce(np.add.outer, [axis.directions.sizes for axis in along])
    trust, left = _sums_posterior(off, sizes + 2.0 * np.log(size), variance)
    for other in apart:
        left = left + ((1.0 - trust) * along_all(transposed, other)) ** 2
    single = along_all([basis**2 for basis in vectors], left)
    single = single * together(left, single, *(axis.asked for axis in along))
    noise = np.minimum(single, variance)
    return guess + along_all(vectors, trust * off), noise, single - noise


def _sums_posterior(off: Floats, sizes: Floats, variance: float) -> tuple[Floats, Floats]:
    """Posterior weights (trust in the measured value) and variances of coefficients.

    off: deviations from the prior mean. sizes: log prior variances up to a common factor, which is averaged over by
    likelihood. variance: of the noise.
    """
    spreads = np.exp(SPREADS.reshape(-1, *[1] * off.ndim) + sizes)
    expected = spreads + variance
    logs = -0.5 * (np.log(expected) + off**2 / expected).reshape(len(SPREADS), -1).sum(axis=1)
    belief = np.exp(logs - logs.max())
    belief = (belief / belief.sum()).reshape(-1, *[1] * off.ndim)
    trusts = spreads / expected
    trust = (belief * trusts).sum(axis=0)
    between = ((belief * trusts**2).sum(axis=0) - trust**2) * off**2
    return trust, variance * trust + np.maximum(between, 0.0)


def _best_spread(tables: Sequence[tuple[Floats, Floats, float, Floats]], scales: Floats) -> tuple[float, float]:
    """Maximum likelihood over a scale of prior variances: (log likelihood, scale).

    tables: (guess, noisy sums, noise variance, array to which prior variances are proportional) of each.
    """
    if not tables:
        return 0.0, float(scales[0])

    def log_likelihood(scale: float) -> float:
        spreads = ((noisy - guess, variance + scale * size) for guess, noisy, variance, size in tables)
        return -0.5 * sum(float((np.log(spread) + off**2 / spread).sum()) for off, spread in spreads)

    return max((log_likelihood(scale), float(scale)) for scale in scales)


@dataclass(frozen=True, eq=False)
class UsualQueries:
    """Sums of squared weights over the usual queries of an axis.

    on_directions: (directions,). on_values: (values,), weights less their share of a total.

    >>> flat = Directions(np.zeros(1), np.array([[1.0], [-1.0]]) / np.sqrt(2))
    >>> UsualQueries.of(flat, np.array([0.5, 0.5]), ordered=False)  # either value
    UsualQueries(on_directions=array([1.]), on_values=array([0.5, 0.5]))
    """

    on_directions: Floats
    on_values: Floats

    @classmethod
    def of(cls, along: Directions, share: Floats, *, ordered: bool) -> UsualQueries:
        """All ranges of an ordered axis, or all single values; share: (values,), of the rows."""
        size = len(share)
        if not ordered:
            return cls((along.vectors**2).sum(axis=0), 1.0 - 2.0 * share + (share**2).sum())
        below = np.vstack([np.zeros(along.vectors.shape[1]), along.vectors.cumsum(axis=0)])
        rows, place = np.concatenate([[0.0], share.cumsum()]), np.arange(size)
        inside = (place + 1) * (rows.sum() - rows[:-1].cumsum()) - (size - place) * rows[:-1].cumsum()
        on_values = _of_ranges(rows) + (place + 1) * (size - place) - 2.0 * inside
        return cls(np.array([_of_ranges(each) for each in below.T]), on_values)


def _of_ranges(below: Floats) -> float:
    """Sum over all ranges of their squared content; below: (values + 1,), cumulative content."""
    return float(len(below) * (below**2).sum() - below.sum() ** 2)


def together(left: Floats, single: Floats, *asked: UsualQueries) -> float:
    """Ratio of the mean variance of the usual queries to that from independent cells; at least 1.

    left: posterior variances by direction; single: variances by cell. At most the number of cells, as if all erred
    alike.
    """
    truly, apart = left, single
    for each in asked:
        truly, apart = each.on_directions @ truly, each.on_values @ apart
    return min(max(1.0, float(truly) / max(float(apart), 1e-300)), float(single.size))
