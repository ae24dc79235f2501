"""Expected errors of marginals by the noise of their measurement, before they are measured.

A cell with expected rows m deviates from what smaller margins imply with variance v = (c m)^2 + m; measured with noise
of variance s^2, its posterior error has variance v s^2 / (v + s^2).

With a first look at the data (`foretell`): values are grouped by frequency, so that a table of any size has few kinds
of cells, and the relative spread c of a pair is learned from its noisy misfit, with a prior shared by all pairs (EM).

Without data (`foresee`): rows even over cells, c middling, and the better of even shares for all pairs and the whole
table. A query over some attributes carries the error of every subset of them (table.py). Own method.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import comb, prod, sqrt

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.models.base.mechanism import Foresight
from sfumato.models.calibration.model_error import OF_NORMAL
from sfumato.models.margins.table import Places
from sfumato.queries import Kron, Queries, Stack, Total
from sfumato.queries.workload import sets_of
from sfumato.schema import Schema

GROUPS = 6  # of values of like frequency
RAREST = 1e-3  # of an even share, below which frequencies are taken as this
NOISES = np.logspace(-1.0, 6.0, 36)  # standard deviations at which errors are foretold
SPREADS = np.logspace(-2.0, 0.75, 12)  # relative spreads that a pair may have
ROUNDS = 10  # of learning the prior of spreads
BEYOND_PAIRS = 0.4  # of the usual spread of its pairs, that of what three attributes and more have beyond them
LOOSE = 0.05  # of the misfit that three pairs say, by which that of their three attributes is off without interaction
OF_ONE = 0.1  # of the budget of tables, that a set of three attributes may be worth
CLEAR = 0.1  # of the rows, that the noise of a misfit of three attributes may be
STANDS_OUT = 2.0  # times its noise, that an interaction must be for a search to start with it
MOST_TESTED = 240  # sets of three attributes
MOST_IN_THREES = 20  # attributes, up to which all sets of three are foretold
WHOLE = range(4, 7)  # attributes for which the whole table is


@dataclass(frozen=True, eq=False)
class Foretold:
    """Expected errors of sets of attributes by noise.

    sets: the sets. errors: (sets, noises), sums of absolute cell errors as shares of the rows. weights: (orders, sets),
    weight of a set's error in the mean error of tables of an order. worth: (orders,), weights of the orders. dense:
    sets of three attributes that interact more than usual, by their misfits.
    """

    sets: tuple[Places, ...]
    errors: Floats
    weights: Floats
    worth: Floats
    dense: tuple[Places, ...] = ()


@dataclass(frozen=True, eq=False)
class Misfits:
    """Noisy L1 distances of tables from the products of their margins, and the standard deviation of their noise."""

    values: Mapping[Places, float]
    noise: float


def foretell(
    one_way: Sequence[Floats], unsure: Sequence[Floats], of_pairs: Misfits | None, of_threes: Misfits | None, pure: bool
) -> Foretold:
    """Expected errors of all sets of attributes at every noise in `NOISES`.

    one_way, unsure: estimated margins, and the variance of each value. of_pairs: misfits of all pairs; of_threes: of
    some sets of three. pure: Laplace noise.
    """
    axes, total = len(one_way), max(float(one_way[0].sum()), 1.0)
    orders = [order for order in (1, 2, 3) if order <= axes and (order < 3 or axes <= MOST_IN_THREES)]
    orders += [axes] * (axes in WHOLE)
    listed: list[list[Places]] = [list(combinations(range(axes), order)) for order in orders]
    groups = [_groups(margin, variances) for margin, variances in zip(one_way, unsure, strict=True)]
    frequencies, numbers, rough = (np.array([each[part] for each in groups]) for part in range(3))
    errors: list[Floats] = []
    spreads: dict[Places, float] = {}  # of pairs, which come before what is larger
    dense: list[Places] = []
    for order, sets in zip(orders, listed, strict=True):
        places = np.array(sets)
        cells, number = _cells(frequencies, numbers, places)
        rows = cells * total
        if order == 2:
            besides = _rough_margins(np.minimum(rough / np.maximum(frequencies * total, 1e-9) ** 2, 1.0), places, rows)
            belief = _believed(sets, of_pairs, rows, number, besides, pure)
            spreads = dict(zip(sets, np.exp(belief @ np.log(SPREADS)).tolist(), strict=True))
            errors.append(_errors_by_belief(rows, number, belief))
            continue
        of_sets = np.ones(len(sets)) if order == 1 else _beyond_pairs(spreads, sets)
        errors.append(_errors(rows, number, of_sets))
        if order == 3 and of_pairs is not None and of_threes is not None:
            at = np.array([index for index, each in enumerate(sets) if each in of_threes.values])
            tested, rows, number = [sets[index] for index in at], rows[at], number[at]
            within = [[max(0.0, of_pairs.values[pair]) for pair in combinations(each, 2)] for each in tested]
            besides = np.square(np.array(within) / (OF_NORMAL * total)).sum(axis=1)[:, None] * rows**2
            belief = _believed(tested, of_threes, rows, number, besides, pure, LOOSE)
            errors[-1][at] = _errors_by_belief(rows, number, belief)
            clear = STANDS_OUT * of_threes.noise / (OF_NORMAL * total)
            more = np.exp(belief @ np.log(SPREADS)) > np.maximum(of_sets[at], clear)
            dense += [places for places, flag in zip(tested, more.tolist(), strict=True) if flag]
    weights, worth = _weights(axes, orders)
    return Foretold(
        tuple(places for sets in listed for places in sets),
        np.concatenate(errors) / total,
        np.repeat(weights, [len(sets) for sets in listed], axis=1),
        worth,
        tuple(dense),
    )


def _weights(axes: int, orders: Sequence[int]) -> tuple[Floats, Floats]:
    """Weights of sets' errors by order in errors of tables by order, (orders, orders), and of orders, (orders,)."""
    weights = np.array([[sqrt(comb(k, j)) / comb(axes, j) if j <= k else 0.0 for j in orders] for k in orders])
    worth = np.array([float(max(1, comb(axes - 2, order))) if axes > 2 else 1.0 for order in orders])
    return weights, worth / worth.sum()


def _rough_margins(variances: Floats, pairs: Codes, rows: Floats) -> Floats:
    """Variance of the cells of product tables from relative variances of both margins, (pairs, kinds of cells)."""
    a, b = variances[pairs[:, 0]], variances[pairs[:, 1]]
    return np.asarray(rows**2 * (a[:, :, None] + b[:, None, :]).reshape(len(pairs), -1), dtype=np.float64)


def _groups(margin: Floats, variances: Floats) -> tuple[Floats, Floats, Floats]:
    """Group values by log frequency: mean frequency, number of values and mean variance, (GROUPS,) each.

    Groups without values have zeros.
    """
    shares = np.sort(margin / max(float(margin.sum()), 1e-12))[::-1]
    levels = np.log(np.maximum(shares, RAREST / len(shares)))
    places = np.floor((levels[0] - levels) / max(levels[0] - levels[-1], 1e-9) * (GROUPS - 1e-6)).astype(np.int64)
    numbers = np.bincount(places, minlength=GROUPS).astype(np.float64)
    unsure = variances[np.argsort(-margin, kind="stable")]
    frequencies, rough = (np.bincount(places, each, GROUPS) / np.maximum(numbers, 1.0) for each in (shares, unsure))
    return frequencies, numbers, rough


def _cells(frequencies: Floats, numbers: Floats, places: Codes) -> tuple[Floats, Floats]:
    """Frequencies and numbers of the kinds of cells of each set under independence, (sets, kinds) each."""
    share, number = frequencies[places[:, 0]], numbers[places[:, 0]]
    for axis in places.T[1:]:
        share = (share[:, :, None] * frequencies[axis][:, None, :]).reshape(len(places), -1)
        number = (number[:, :, None] * numbers[axis][:, None, :]).reshape(len(places), -1)
    return share, number


def _errors(rows: Floats, number: Floats, spreads: Floats) -> Floats:
    """Expected sum of absolute cell errors, (sets, noises); rows, number: (sets, kinds), spreads: (sets,)."""
    held = number > 0.0  # attributes of few values have few kinds, and every set has some
    starts = np.append(0, np.cumsum(held.sum(axis=1))[:-1])
    prior, numbers = ((spreads[:, None] * rows) ** 2 + rows)[held], number[held]
    sums = [np.add.reduceat(numbers * np.sqrt(prior * noise**2 / (prior + noise**2)), starts) for noise in NOISES]
    return OF_NORMAL * np.stack(sums, axis=1)


def _errors_by_belief(rows: Floats, number: Floats, belief: Floats) -> Floats:
    """Expected sum of absolute cell errors, (sets, noises), by the posterior of each set's spread (sets, spreads)."""
    by_spread = [_errors(rows, number, np.full(len(rows), spread)) for spread in SPREADS]
    return np.asarray(np.einsum("pk,kpn->pn", belief, np.array(by_spread)), dtype=np.float64)


def _believed(
    sets: Sequence[Places],
    misfits: Misfits | None,
    rows: Floats,
    number: Floats,
    besides: Floats,
    pure: bool,
    loose: float = 0.0,
) -> Floats:
    """Posterior of the relative spread of each set on the grid `SPREADS`, (sets, spreads) (EM prior).

    rows, number: (sets, kinds of cells). besides: variances of the misfit from smaller margins, likewise. loose: share
    of the misfit that these say by which it may be off.
    """
    if misfits is None:
        return np.full((len(rows), len(SPREADS)), 1.0 / len(SPREADS))
    expected = [OF_NORMAL * (number * np.sqrt((c * rows) ** 2 + rows + besides)).sum(axis=1) for c in SPREADS]
    noise = np.hypot(misfits.noise, loose * OF_NORMAL * (number * np.sqrt(besides)).sum(axis=1))
    measured = np.array([misfits.values[places] for places in sets])
    off = np.abs(measured[:, None] - np.stack(expected, axis=1)) / noise[:, None]
    logs = -sqrt(2.0) * off if pure else -0.5 * off**2
    likely = np.exp(logs - logs.max(axis=1, keepdims=True))
    prior = np.full(len(SPREADS), 1.0 / len(SPREADS))
    for _ in range(ROUNDS + 1):
        belief = likely * prior
        belief /= belief.sum(axis=1, keepdims=True)
        prior = (belief.sum(axis=0) + 1.0 / len(SPREADS)) / (len(sets) + 1)
    return np.asarray(belief, dtype=np.float64)


def _beyond_pairs(spreads: Mapping[Places, float], sets: Sequence[Places]) -> Floats:
    """Relative spread of sets of three attributes and more: a share of the median of their pairs', (sets,)."""
    within = np.sort([[spreads[pair] for pair in combinations(places, 2)] for places in sets], axis=1)
    middle = within.shape[1] // 2
    return np.asarray(BEYOND_PAIRS * (within[:, -1 - middle] + within[:, middle]) / 2.0, dtype=np.float64)


def threes_to_test(shape: Sequence[int], rows: float, amount: float, share: float) -> list[Places]:
    """Sets of three attributes whose misfit may change what is measured, those of fewest cells first.

    amount: budget of all tables, in rho; share: the largest part of it for these misfits. A set is left out if with
    `OF_ONE` of the budget its noise would be all rows; there are no more than leave noise of `CLEAR` of the rows to
    each misfit.
    """
    sets: list[Places] = list(combinations([place for place, size in enumerate(shape) if size > 1], 3))
    cells = {places: prod(shape[place] for place in places) for places in sets}
    small = sorted(cells, key=lambda each: (cells[each], each))
    most = min(MOST_TESTED, int(2.0 * share * amount * (CLEAR * rows) ** 2))
    return [places for places in small if OF_NORMAL * sqrt(0.5 / (OF_ONE * amount)) * cells[places] <= rows][:most]


USUAL_ROWS = 20_000  # where none are stated
SPREAD = 0.3  # of a pair's cells around the product of their margins, as a share of it: the middle of many tables
COUNT = 3  # weight of counts against those of measures
FOR_TABLES = 0.85  # of the budget, besides first looks and checks


@dataclass(frozen=True)
class Forecast:
    """Expected errors from public facts alone.

    sizes: of the attributes. rows: expected number. share: budget of each pair; whole: budget of the whole table.
    """

    sizes: tuple[int, ...]
    rows: int
    share: float
    whole: float
    pure: bool

    @classmethod
    def of(cls, schema: Schema, budget: Budget) -> Forecast:
        """Forecast for a schema and a budget."""
        weights, contributions = sum(schema.weights.values()) - 1, schema.privacy_unit.contributions
        weight = COUNT / (COUNT + float(weights))
        amount = FOR_TABLES * weight * float(budget.amount) / (contributions if budget.is_pure else contributions**2)
        pairs = max(1, comb(len(schema.attributes), 2))
        rows = USUAL_ROWS if schema.expected_rows is None else max(1, schema.expected_rows)
        return cls(schema.domain.shape, rows, amount / pairs, amount, budget.is_pure)

    def noise(self, places: Sequence[int]) -> float:
        """Noise variance of a cell of one set of attributes, by the better of pairs and the whole table."""
        cells = prod(self.sizes[place] for place in places)
        return 1.0 / max(self._by_pairs(places), self._by_whole(cells), 1e-300)

    def variance(self, places: Sequence[int]) -> float:
        """Posterior variance of a cell of one set of attributes, beyond that of smaller sets."""
        cells, noise = prod(self.sizes[place] for place in places), self.noise(places)
        if not places:
            return noise
        mean = self.rows / cells
        spread = (1.0, SPREAD)[len(places) - 1] if len(places) < 3 else SPREAD * BEYOND_PAIRS
        prior = (spread * mean) ** 2 + mean
        return prior * noise / (prior + noise)

    def error(self, places: Sequence[int], summed: Mapping[int, float]) -> float:
        """Standard error of a query about some attributes. summed: number of values that it sums of each."""
        total = 0.0
        for order in range(min(len(places), 3) + 1):
            for part in combinations(places, order):
                cells = prod(summed.get(place, 1.0) for place in part)
                others = (summed.get(place, 1.0) / self.sizes[place] for place in places if place not in part)
                total += self.variance(part) * cells * prod(others) ** 2
        if len(places) > 3:
            total += self.variance(places)
        return sqrt(total)

    def _information(self, share: float) -> float:
        """Precision 1 / variance that a share buys for one cell."""
        return share**2 / 2.0 if self.pure else 2.0 * share

    def _by_pairs(self, places: Sequence[int]) -> float:
        """Precision of a cell of a set from all pairs together."""
        precision, parts = self._information(self.share), [1.0 / size for size in self.sizes]
        if len(parts) == 1:  # which is measured itself
            return precision * (1.0 if places else parts[0])
        if len(places) == 1:
            return precision * (sum(parts) - parts[places[0]])
        if not places:
            return precision * (sum(parts) ** 2 - sum(part**2 for part in parts)) / 2.0
        return precision if len(places) == 2 else 0.0

    def _by_whole(self, cells: int) -> float:
        """Precision of a set with this number of cells from the whole table."""
        every = prod(self.sizes)
        return 0.0 if every > 10**9 else self._information(self.whole) * cells / every


def foresee(schema: Schema, budget: Budget) -> Foresight:
    """Expected errors of a release of marginals; reads no data."""
    forecast, domain = Forecast.of(schema, budget), schema.domain
    one_way = {name: sqrt(forecast.noise((place,))) for place, name in enumerate(domain.names)}
    by_kind = {"all rows": forecast.error((), {})}
    for order, words in enumerate(("one attribute", "two attributes", "three attributes"), 1):
        sets = [[domain.place(axis.name) for axis in axes] for axes in sets_of(domain, order)]
        if sets and order <= len(domain.axes):
            by_kind[words] = sqrt(float(np.mean([forecast.error(places, {}) ** 2 for places in sets])))
    return Foresight(one_way, by_kind, lambda block: _of_block(forecast, block))


def _of_block(forecast: Forecast, block: Queries) -> float:
    """Root mean square error over a block of queries, by the attributes that it names and how many values it sums."""
    if isinstance(block, Stack):
        rows = [part.rows for part in block.blocks]
        return sqrt(float(np.average([_of_block(forecast, part) ** 2 for part in block.blocks], weights=rows)))
    places: list[int] = []
    summed: dict[int, float] = {}
    axis = 0
    for factor in block.factors if isinstance(block, Kron) else (block,):
        first, cells = axis, 1
        while cells < factor.columns:
            cells *= forecast.sizes[axis]
            axis += 1
        if not isinstance(factor, Total):
            several = range(first, axis)
            number = float(factor.column_squares().sum(dtype=np.float64)) / factor.rows
            share = (number / cells) ** (1 / len(several))  # of each axis, where a condition spans several
            places += several
            summed |= {at: max(1.0, forecast.sizes[at] * share) if number > 1.0 else 1.0 for at in several}
    return forecast.error(places, summed)
