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
MOST_IN_THREES = 20  # attributes, up to which all sets of three are foretold
WHOLE = range(4, 7)  # attributes for which the whole table is


@dataclass(frozen=True, eq=False)
class Foretold:
    """Expected errors of sets of attributes by noise.

    sets: the sets. errors: (sets, noises), sums of absolute cell errors as shares of the rows. weights: (orders, sets),
    weight of a set's error in the mean error of tables of an order. worth: (orders,), weights of the orders.
    """

    sets: tuple[Places, ...]
    errors: Floats
    weights: Floats
    worth: Floats


def foretell(
    one_way: Sequence[Floats], unsure: Sequence[Floats], misfits: Floats | None, misfit_noise: float, pure: bool
) -> Foretold:
    """Expected errors of all sets of attributes at every noise in `NOISES`.

    one_way, unsure: estimated margins, and the variance of each value. misfits: (pairs,), noisy, or None; misfit_noise:
    their standard deviation. pure: Laplace noise.
    """
    axes, total = len(one_way), max(float(one_way[0].sum()), 1.0)
    orders = [order for order in (1, 2, 3) if order <= axes and (order < 3 or axes <= MOST_IN_THREES)]
    orders += [axes] * (axes in WHOLE)
    listed: list[list[Places]] = [list(combinations(range(axes), order)) for order in orders]
    groups = [_groups(margin, variances) for margin, variances in zip(one_way, unsure, strict=True)]
    frequencies, numbers, rough = (np.array([each[part] for each in groups]) for part in range(3))
    errors: list[Floats] = []
    spreads = np.ones(0)  # of pairs, which come before what is larger
    for order, sets in zip(orders, listed, strict=True):
        places = np.array(sets)
        cells, number = _cells(frequencies, numbers, places)
        rows = cells * total
        if order == 2:
            besides = _rough_margins(np.minimum(rough / np.maximum(frequencies * total, 1e-9) ** 2, 1.0), places, rows)
            belief = _believed(misfits, misfit_noise, rows, number, besides, pure)
            spreads = np.exp(belief @ np.log(SPREADS))
            by_spread = [_errors(rows, number, np.full(len(sets), spread)) for spread in SPREADS]
            errors.append(np.einsum("pk,kpn->pn", belief, np.array(by_spread)))
        else:
            of_sets = np.ones(len(sets)) if order == 1 else _beyond_pairs(spreads, listed[1], sets)
            errors.append(_errors(rows, number, of_sets))
    weights, worth = _weights(axes, orders)
    return Foretold(
        tuple(places for sets in listed for places in sets),
        np.concatenate(errors) / total,
        np.repeat(weights, [len(sets) for sets in listed], axis=1),
        worth,
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
    prior = (spreads[:, None] * rows) ** 2 + rows
    sums = [(number * np.sqrt(prior * noise**2 / (prior + noise**2))).sum(axis=1) for noise in NOISES]
    return OF_NORMAL * np.stack(sums, axis=1)


def _believed(
    misfits: Floats | None, noise: float, rows: Floats, number: Floats, besides: Floats, pure: bool
) -> Floats:
    """Posterior of the relative spread of each pair on the grid `SPREADS`, (pairs, spreads) (EM prior).

    rows, number: (pairs, kinds of cells). besides: variances of the misfit from the noise of margins, likewise.
    """
    if misfits is None:
        return np.full((len(rows), len(SPREADS)), 1.0 / len(SPREADS))
    expected = [OF_NORMAL * (number * np.sqrt((c * rows) ** 2 + rows + besides)).sum(axis=1) for c in SPREADS]
    off = np.abs(misfits[:, None] - np.stack(expected, axis=1)) / noise
    logs = -sqrt(2.0) * off if pure else -0.5 * off**2
    likely = np.exp(logs - logs.max(axis=1, keepdims=True))
    prior = np.full(len(SPREADS), 1.0 / len(SPREADS))
    for _ in range(ROUNDS + 1):
        belief = likely * prior
        belief /= belief.sum(axis=1, keepdims=True)
        prior = (belief.sum(axis=0) + 1.0 / len(SPREADS)) / (len(misfits) + 1)
    return np.asarray(belief, dtype=np.float64)


def _beyond_pairs(spreads: Floats, pairs: Sequence[Places], sets: Sequence[Places]) -> Floats:
    """Relative spread of sets of three attributes and more: a share of the median of their pairs', (sets,)."""
    at = {places: place for place, places in enumerate(pairs)}
    usual = [np.median([spreads[at[pair]] for pair in combinations(places, 2)]) for places in sets]
    return BEYOND_PAIRS * np.array(usual)


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
