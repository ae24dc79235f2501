"""What errors to expect of margins, by the noise that they would be measured with, before they are.

The values of an attribute are put into few groups of like frequency, so that a margin of any size is foretold from a
few kinds of cells. A cell that is expected to hold m rows deviates from what smaller margins say with variance
(c m)^2 + m; measured with noise of variance s^2 it is then off by the root of v s^2 / (v + s^2). The spread c of a pair
is learned from its noisy misfit, with a prior that all pairs share.

What errors to expect of margins, before any data is read: as if all pairs got even shares, or the whole table did.

The mechanism does better, for it learns which pairs matter; but by how much depends on the table. Rows are taken to lie
evenly, cells to deviate from what fewer attributes say by a middling share, and errors add up as those of a joined
table do (models/margins/table.py): a query over some attributes carries the error of every set of them, each for
the cells of that set that it sums.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import comb, prod, sqrt

import numpy as np

from sfumato.arrays import MOST_DENSE, Codes, Floats
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.models.base.mechanism import Foresight
from sfumato.models.calibration.model_error import OF_NORMAL
from sfumato.models.margins.table import Places
from sfumato.queries.workload import default_workload, sets_of
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
    """Sets of attributes with their errors at every noise, in shares of the rows, and how much each counts.

    weights: (orders, sets), of the error of a set in the mean error of the margins of an order. worth: of the orders.
    """

    sets: tuple[Places, ...]
    errors: Floats
    weights: Floats
    worth: Floats


def foretell(
    one_way: Sequence[Floats], unsure: Sequence[Floats], misfits: Floats | None, misfit_noise: float, pure: bool
) -> Foretold:
    """one_way, unsure: margins as known by now, and the variance of each value; misfits: of all pairs, if known."""
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
    """How much the errors of sets of one order count in those of another, and what the errors of each are worth."""
    weights = np.array([[sqrt(comb(k, j)) / comb(axes, j) if j <= k else 0.0 for j in orders] for k in orders])
    worth = np.array([float(max(1, comb(axes - 2, order))) if axes > 2 else 1.0 for order in orders])
    return weights, worth / worth.sum()


def _rough_margins(variances: Floats, pairs: Codes, rows: Floats) -> Floats:
    """The variance that relative errors of both margins leave in the products of pairs."""
    a, b = variances[pairs[:, 0]], variances[pairs[:, 1]]
    return np.asarray(rows**2 * (a[:, :, None] + b[:, None, :]).reshape(len(pairs), -1), dtype=np.float64)


def _groups(margin: Floats, variances: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean frequency, number of values and mean variance in groups of like frequency; unused groups have none."""
    shares = np.sort(margin / max(float(margin.sum()), 1e-12))[::-1]
    levels = np.log(np.maximum(shares, RAREST / len(shares)))
    places = np.floor((levels[0] - levels) / max(levels[0] - levels[-1], 1e-9) * (GROUPS - 1e-6)).astype(np.int64)
    numbers = np.bincount(places, minlength=GROUPS).astype(np.float64)
    unsure = variances[np.argsort(-margin, kind="stable")]
    frequencies, rough = (np.bincount(places, each, GROUPS) / np.maximum(numbers, 1.0) for each in (shares, unsure))
    return frequencies, numbers, rough


def _cells(frequencies: Floats, numbers: Floats, places: Codes) -> tuple[Floats, Floats]:
    """Frequencies and numbers of the kinds of cells of each set, as if its attributes were independent."""
    share, number = frequencies[places[:, 0]], numbers[places[:, 0]]
    for axis in places.T[1:]:
        share = (share[:, :, None] * frequencies[axis][:, None, :]).reshape(len(places), -1)
        number = (number[:, :, None] * numbers[axis][:, None, :]).reshape(len(places), -1)
    return share, number


def _errors(rows: Floats, number: Floats, spreads: Floats) -> Floats:
    """The expected sum of the sizes of all cells' errors, for every set and noise."""
    prior = (spreads[:, None] * rows) ** 2 + rows
    sums = [(number * np.sqrt(prior * noise**2 / (prior + noise**2))).sum(axis=1) for noise in NOISES]
    return OF_NORMAL * np.stack(sums, axis=1)


def _believed(
    misfits: Floats | None, noise: float, rows: Floats, number: Floats, besides: Floats, pure: bool
) -> Floats:
    """How likely each spread is for each pair. besides: variances that the misfit has from the noise of margins."""
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
    at = {places: place for place, places in enumerate(pairs)}
    usual = [np.median([spreads[at[pair]] for pair in combinations(places, 2)]) for places in sets]
    return BEYOND_PAIRS * np.array(usual)


USUAL_ROWS = 20_000  # where none are stated
SPREAD = 0.3  # of a pair's cells around the product of their margins, as a share of it: the middle of many tables
COUNT = 3  # weight of counts against those of measures
FOR_TABLES = 0.85  # of the budget, besides first looks and checks


@dataclass(frozen=True)
class Forecast:
    """sizes: of the attributes. rows: expected. share: of the budget that each pair gets; whole: or the whole table."""

    sizes: tuple[int, ...]
    rows: int
    share: float
    whole: float
    pure: bool

    @classmethod
    def of(cls, schema: Schema, budget: Budget) -> Forecast:
        weights, contributions = sum(schema.weights.values()) - 1, schema.privacy_unit.contributions
        weight = COUNT / (COUNT + float(weights))
        amount = FOR_TABLES * weight * float(budget.amount) / (contributions if budget.is_pure else contributions**2)
        pairs = max(1, comb(len(schema.attributes), 2))
        rows = USUAL_ROWS if schema.expected_rows is None else max(1, schema.expected_rows)
        return cls(schema.domain.shape, rows, amount / pairs, amount, budget.is_pure)

    def noise(self, places: Sequence[int]) -> float:
        """The variance of what was measured of a cell of one set of attributes."""
        cells = prod(self.sizes[place] for place in places)
        return 1.0 / max(self._by_pairs(places), self._by_whole(cells), 1e-300)

    def variance(self, places: Sequence[int]) -> float:
        """Of a cell of one set of attributes, beyond what smaller sets have."""
        cells, noise = prod(self.sizes[place] for place in places), self.noise(places)
        if not places:
            return noise
        mean = self.rows / cells
        spread = (1.0, SPREAD)[len(places) - 1] if len(places) < 3 else SPREAD * BEYOND_PAIRS
        prior = (spread * mean) ** 2 + mean
        return prior * noise / (prior + noise)

    def error(self, places: Sequence[int], summed: Mapping[int, float]) -> float:
        """The standard error of a query about some attributes. summed: of each, how many values it adds up."""
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
        return share**2 / 2.0 if self.pure else 2.0 * share

    def _by_pairs(self, places: Sequence[int]) -> float:
        """1 / variance of what all pairs together say of a set."""
        each, parts = self._information(self.share), [1.0 / size for size in self.sizes]
        if len(parts) == 1:  # which is measured itself
            return each * (1.0 if places else parts[0])
        if len(places) == 1:
            return each * (sum(parts) - parts[places[0]])
        if not places:
            return each * (sum(parts) ** 2 - sum(part**2 for part in parts)) / 2.0
        return each if len(places) == 2 else 0.0

    def _by_whole(self, cells: int) -> float:
        every = prod(self.sizes)
        return 0.0 if every > 10**9 else self._information(self.whole) * cells / every


def foresee(schema: Schema, budget: Budget) -> Foresight:
    """About the errors that margins will have; reads no data."""
    forecast, domain = Forecast.of(schema, budget), schema.domain
    one_way = {name: sqrt(forecast.noise((place,))) for place, name in enumerate(domain.names)}
    by_kind = {"all rows": forecast.error((), {})}
    for order, words in enumerate(("one attribute", "two attributes", "three attributes"), 1):
        sets = [[domain.place(axis.name) for axis in axes] for axes in sets_of(domain, order)]
        if sets and order <= len(domain.axes):
            by_kind[words] = sqrt(float(np.mean([forecast.error(places, {}) ** 2 for places in sets])))
    if domain.size > MOST_DENSE:  # no workload of all its cells can be written down
        return Foresight(float(np.exp(np.mean(np.log(list(by_kind.values()))))), one_way, by_kind)
    return Foresight(_of_usual_workload(schema, forecast), one_way, by_kind)


def _of_usual_workload(schema: Schema, forecast: Forecast) -> float:
    """About the error on what everybody asks, in rows a query, as the usual workload of the schema weighs it."""
    domain, asked = schema.domain, default_workload(schema.domain)
    sets = [*([()] if len(domain.axes) > 2 else []), *sets_of(domain, 1), *sets_of(domain, 2)]
    ranges = len(sets)
    sets += sets_of(domain, 3) if len(domain.axes) > 2 else []
    sets += [tuple(domain)] if len(domain.axes) > 3 else []
    errors = []
    for number, axes in enumerate(sets):
        places = [domain.place(axis.name) for axis in axes]
        ordered = [(p, axis) for p, axis in zip(places, axes, strict=True) if axis.ordered and number < ranges]
        errors.append(forecast.error(places, {place: (axis.size + 2) / 3 for place, axis in ordered}))
    return asked.overall(np.array(errors))
