"""Choose views (sets of attributes to measure) and shares of the budget, by the errors that are expected of them.

Expected errors. A cell with expected rows m deviates from what smaller margins imply with variance v = (c m)^2 + m;
measured with noise of variance s^2, its posterior error has variance v s^2 / (v + s^2).

With a first look at the data (`foretell`): values are grouped by frequency, so that a table of any size has few kinds
of cells, and the relative spread c of a pair is learned from its noisy misfit, with a prior shared by all pairs (EM).

Without data (`foresee`): rows even over cells, c middling, and the better of even shares for all pairs and the whole
table. A query over some attributes carries the error of every subset of them (table.py). Own method.

Allocation over pairs (`shares`): total expected error under a budget is minimised by one Lagrange multiplier, by
bisection; a pair that is not measured errs by its misfit, and pairs that are not worth any noise level are left out.

Search for views (`Search`). A view determines every margin inside it, with the noise of the cells summed, so several
pairs in one view cost one share. Views are united, widened, narrowed and dropped while the expected error falls, and
shares equalise marginal gains; PriView (Qardaji, Yang, Li 2014) uses a covering design that knows no errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import field, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import comb, prod, sqrt
from typing import NamedTuple

import numpy as np

from sfumato.arrays import MOST_DENSE, Codes, Flags, Floats
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.models.base.mechanism import Foresight
from sfumato.models.calibration.model_error import OF_NORMAL
from sfumato.models.margins.table import ON_GOOD_NUMBERS, Places, independent
from sfumato.queries import Kron, Queries, Stack, Total, Workload
from sfumato.queries.workload import NAMED, default_workload, sets_of
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
FEW_CELLS = 2_048  # of the whole table, up to which it may be foretold to be measured alone


@dataclass(frozen=True, eq=False)
class Foretold:
    """Expected errors of sets of attributes by noise.

    sets: the sets. errors: (sets, noises), sums of absolute cell errors as shares of the rows. weights: (orders, sets),
    weight of a set's error in the mean error of tables of an order. worth: (orders,), weights of the orders. dense:
    sets of three attributes that interact more than usual, by their misfits. missed: of each pair, the root of the
    posterior mean square of the misfit of the product of its margins, in rows.
    """

    sets: tuple[Places, ...]
    errors: Floats
    weights: Floats
    worth: Floats
    dense: tuple[Places, ...] = ()
    missed: Mapping[Places, float] = field(default_factory=dict)


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
    missed: dict[Places, float] = {}
    for order, sets in zip(orders, listed, strict=True):
        places = np.array(sets)
        cells, number = _cells(frequencies, numbers, places)
        rows = cells * total
        if order == 2:
            besides = _rough_margins(np.minimum(rough / np.maximum(frequencies * total, 1e-9) ** 2, 1.0), places, rows)
            belief = _believed(sets, of_pairs, rows, number, besides, pure)
            spreads = dict(zip(sets, np.exp(belief @ np.log(SPREADS)).tolist(), strict=True))
            sizes = np.sqrt(belief @ SPREADS**2) * OF_NORMAL * (number * rows).sum(axis=1)
            missed = dict(zip(sets, sizes.tolist(), strict=True))
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
        missed,
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
    sums, sizes, together = np.empty((len(starts), len(NOISES))), np.empty_like(prior), np.empty_like(prior)
    for place, noise in enumerate(NOISES.tolist()):
        np.divide(np.multiply(prior, noise**2, out=sizes), np.add(prior, noise**2, out=together), out=sizes)
        sums[:, place] = np.add.reduceat(np.multiply(numbers, np.sqrt(sizes, out=sizes), out=sizes), starts)
    return OF_NORMAL * sums


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
TILT = 0.75  # of the budget for tables, for the sets of attributes that a workload names


@dataclass(frozen=True)
class Forecast:
    """Expected errors from public facts alone.

    sizes: of the attributes. rows: expected number. share: budget of each pair; whole: budget of the whole table.
    named: sets of attributes that a workload names, and of_named: the budget of each.
    """

    sizes: tuple[int, ...]
    rows: int
    share: float
    whole: float
    pure: bool
    named: tuple[Places, ...] = ()
    of_named: float = 0.0

    @classmethod
    def of(cls, schema: Schema, budget: Budget, workload: Workload | None = None) -> Forecast:
        """Forecast for a schema, a budget and a workload."""
        weights, contributions = sum(schema.weights.values()) - 1, schema.most_of_a_unit
        weight = COUNT / (COUNT + float(weights))
        amount = FOR_TABLES * weight * float(budget.amount) / (contributions if budget.is_pure else contributions**2)
        pairs = max(1, comb(len(schema.attributes), 2))
        rows = USUAL_ROWS if schema.expected_rows is None else max(1, schema.expected_rows)
        sets, tilt = named_sets(schema, workload)
        rest, of_named = (1.0 - float(tilt)) * amount, float(tilt) * amount / max(1, len(sets))
        return cls(schema.domain.shape, rows, rest / pairs, rest, budget.is_pure, sets, of_named).settled()

    def settled(self) -> Forecast:
        """Forecast by the whole table alone where `Search` would measure nothing else.

        Elsewhere it finds views of several sizes, and the better of pairs and the whole table is taken, query by query.
        """
        if len(self.sizes) < 3 or prod(self.sizes) > FEW_CELLS:
            return self
        pairs, whole = replace(self, whole=0.0), replace(self, share=0.0)
        return whole if whole.objective() < pairs.objective() else self

    def objective(self) -> float:
        """Weighted mean log of expected errors of tables by order, as in `Search`."""
        axes = len(self.sizes)
        orders = [order for order in (1, 2, 3) if order <= axes] + [axes] * (axes in WHOLE)
        _, worth = _weights(axes, orders)
        sets = ([*combinations(range(axes), order)] for order in orders)
        means = [np.mean([prod(self.sizes[at] for at in each) * self.error(each, {}) for each in of]) for of in sets]
        return float(np.log(means) @ worth)

    def noise(self, places: Sequence[int]) -> float:
        """Noise variance of a cell of one set of attributes, by the better of pairs and the whole table."""
        cells = prod(self.sizes[place] for place in places)
        every = max(self._by_pairs(places), self._by_whole(cells), 1e-300)
        return 1.0 / (every + self._by_named({*places}, cells))

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

    def _by_named(self, places: Set[int], cells: int) -> float:
        """Precision of a set with this number of cells from the sets that a workload names."""
        within = (prod(self.sizes[place] for place in each) for each in self.named if places <= {*each})
        return sum(self._information(self.of_named) * cells / every for every in within)


def named_sets(schema: Schema, workload: Workload | None) -> tuple[tuple[Places, ...], Fraction]:
    """Sets of attributes that a stated workload names, and their share of the budget for tables.

    Sets too large to be tables are left out. A workload that stands alone has the share that a tilted one weighs by.
    """
    domain = schema.domain
    if workload is None or (domain.size <= MOST_DENSE and workload is default_workload(domain)):
        return (), Fraction(0)
    blocks = workload.asked.blocks
    parts = [part for block in blocks for part in (block.blocks if isinstance(block, Stack) else (block,))]
    found = dict.fromkeys(tuple(_attributes_of(part, domain.shape)[0]) for part in parts)
    kept = [places for places in found if 0 < len(places) <= MOST_ATTRIBUTES]
    kept = [places for places in kept if prod(domain.shape[place] for place in places) <= MOST_CELLS]
    return tuple(kept), Fraction(TILT if workload.named else NAMED) if kept else Fraction(0)


def foresee(schema: Schema, budget: Budget, workload: Workload | None = None) -> Foresight:
    """Expected errors of a release of marginals; reads no data."""
    forecast, domain = Forecast.of(schema, budget, workload), schema.domain
    one_way = {name: sqrt(forecast.noise((place,))) for place, name in enumerate(domain.names)}
    by_kind = {"all rows": forecast.error((), {})}
    for order, words in enumerate(("one attribute", "two attributes", "three attributes"), 1):
        sets = [[domain.place(axis.name) for axis in axes] for axes in sets_of(domain, order)]
        if sets and order <= len(domain.axes):
            by_kind[words] = sqrt(float(np.mean([forecast.error(places, {}) ** 2 for places in sets])))
    return Foresight(one_way, by_kind, lambda block: _of_block(forecast, block))


def _of_block(forecast: Forecast, block: Queries) -> float:
    """Forecast root mean square error over a block of queries, by its attributes and the numbers of values summed."""
    if isinstance(block, Stack):
        rows = [part.rows for part in block.blocks]
        return sqrt(float(np.average([_of_block(forecast, part) ** 2 for part in block.blocks], weights=rows)))
    return forecast.error(*_attributes_of(block, forecast.sizes))


def _attributes_of(block: Queries, sizes: Sequence[int]) -> tuple[list[int], dict[int, float]]:
    """Attributes that a block of queries distinguishes, and the number of values that a query sums of each."""
    places: list[int] = []
    summed: dict[int, float] = {}
    axis = 0
    for factor in block.factors if isinstance(block, Kron) else (block,):
        first, cells = axis, 1
        while cells < factor.columns:
            cells *= sizes[axis]
            axis += 1
        if not isinstance(factor, Total):
            several = range(first, axis)
            number = float(factor.column_squares().sum(dtype=np.float64)) / factor.rows
            share = (number / cells) ** (1 / len(several))  # of each axis, where a condition spans several
            places += several
            summed |= {at: max(1.0, sizes[at] * share) if number > 1.0 else 1.0 for at in several}
    return places, summed


SIZES = np.logspace(0.0, 5.0, 101)  # standard deviations of noise that are weighed against each other
HALVINGS = 100
AT_ONCE = 2**14  # numbers, in arithmetic on cells by noise
AGAIN = 0.15  # of one-way errors, that is not mended by order and by the sums of pairs


def price_of(deviation: Floats, pure: bool) -> Floats:
    """Cost, in epsilon (Laplace) or rho (Gaussian), of noise with a standard deviation."""
    return np.asarray(sqrt(2.0) / deviation if pure else 1.0 / (2.0 * deviation**2), dtype=np.float64)


def shares(
    one_way: Sequence[Floats],
    precisions: Sequence[float],
    misfits: Mapping[Places, float],
    available: float,
    pure: bool,
) -> dict[Places, float]:
    """Allocate a budget over one-way margins and pairs (one Lagrange multiplier); shares sum to one.

    one_way: estimated margins, each value with `precisions`. misfits: L1 distances of pairs from their products.
    available: the budget.
    """
    total, axes = max(float(one_way[0].sum()), 1.0), len(one_way)
    names: list[Places] = [*((axis,) for axis in range(axes)), *misfits]
    errors = [_of_margin(margin, known, axes) for margin, known in zip(one_way, precisions, strict=True)]
    errors += [_of_pair(independent([one_way[a], one_way[b]], total), misfit) for (a, b), misfit in misfits.items()]
    costs, table = np.append(price_of(SIZES, pure), 0.0), np.array(errors) / total
    low, high = 1e-12, 1e15
    for _ in range(HALVINGS):
        multiplier = sqrt(low * high)
        spent = costs[np.argmin(table + multiplier * costs, axis=1)].sum()
        low, high = (multiplier, high) if spent > available else (low, multiplier)
    taken = costs[np.argmin(table + high * costs, axis=1)]
    if not taken.any():
        return dict.fromkeys(names[:axes], 1.0 / axes)
    return {places: float(cost / taken.sum()) for places, cost in zip(names, taken, strict=True) if cost > 0}


def _of_margin(margin: Floats, precision: float, axes: int) -> Floats:
    """Expected error of a one-way margin at every noise in `SIZES`, and unmeasured, (noises + 1,)."""
    variances = np.append(1.0 / (precision + SIZES**-2.0), 1.0 / precision)[:, None]
    off = np.sqrt(variances * margin**2 / (variances + margin**2 + 1e-300)).sum(axis=1)
    return np.asarray(AGAIN * max(axes - 1, 1) * OF_NORMAL * off, dtype=np.float64)


def _of_pair(product: Floats, misfit: float) -> Floats:
    """Expected error of a pair at every noise in `SIZES`, and unmeasured, (noises + 1,)."""
    expected = (misfit / max(float(product.sum()), 1.0) / OF_NORMAL * product.reshape(-1)) ** 2
    together = max(1, AT_ONCE // len(expected))  # noises, so that a large table takes little memory
    noises = (SIZES[start : start + together, None] ** 2 for start in range(0, len(SIZES), together))
    at = [np.sqrt(expected * each / (expected + each)).sum(axis=1) for each in noises]
    return np.append(OF_NORMAL * np.concatenate(at), misfit)


MOST_CELLS = 100_000  # of a view
MOST_ATTRIBUTES = 8  # of a view: all sets inside one become tables
MOST_COMPARED = 2_000_000  # candidates times sets that are looked at in one step
MOST_UNITED = 400  # views, beyond which two are not united
LEAST_SHARE = 1e-6  # of the budget
STEPS, TRIES = 100, 6  # of the search, and candidates that are tried in each
BETTER = 1e-4  # of the error, by which a step must be better
SETTLING = 12  # rounds in which shares settle; more at the start, fewer where a view is dropped
AT_FIRST, AT_LAST = 30, 4


@dataclass(frozen=True, eq=False)
class Views:
    """Sets of attributes (flags, (views, attributes)), their shares of the budget (views,), and the expected error."""

    sets: Flags
    shares: Floats
    error: float

    def listed(self) -> dict[Places, float]:
        """Shares of the budget by set of attributes, normalised to sum 1."""
        rows = [tuple(np.flatnonzero(row).tolist()) for row in self.sets]
        return dict(zip(rows, (self.shares / self.shares.sum()).tolist(), strict=True))


class _Outlook(NamedTuple):
    """Expected errors at some precisions of the foretold sets, (sets,), of one choice of views or of several.

    slopes: of each set's error by log noise, (sets,). means: weighted, by order, (orders,).
    """

    information: Floats
    slopes: Floats
    means: Floats


@dataclass(frozen=True, eq=False)
class Search:
    """Local search for the views of least expected error.

    foretold: expected errors of sets by noise. sizes: of the attributes. known: (sets,), precision of each foretold set
    so far. budget: to be allocated.
    """

    foretold: Foretold
    sizes: Sequence[int]
    known: Floats
    budget: float
    pure: bool

    def best(self) -> Views:
        """Best views from two starts: attributes, pairs and dense threes, and the whole table where it is small."""
        dense = {*self.foretold.dense}
        starts = [self._inside[[len(places) <= 2 or places in dense for places in self.foretold.sets]]]
        if self._logs.sum() <= np.log(MOST_CELLS) and len(self.sizes) <= MOST_ATTRIBUTES:
            starts.append(np.ones((1, len(self.sizes)), dtype=bool))
        small = (sets[self._cells_of(sets) <= np.log(MOST_CELLS)] for sets in starts)
        results = (self._searched(sets, np.full(len(sets), self.budget / len(sets))) for sets in small if len(sets))
        return min(results, key=lambda views: views.error)

    # -- errors

    @cached_property
    def _logs(self) -> Floats:
        """Log numbers of values, (attributes,)."""
        return np.log(np.array(self.sizes, dtype=np.float64))

    @cached_property
    def _inside(self) -> Flags:
        """Incidence matrix of the forecast's sets and their attributes, (sets, attributes)."""
        flags = np.zeros((len(self.foretold.sets), len(self.sizes)), dtype=bool)
        for row, places in enumerate(self.foretold.sets):
            flags[row, list(places)] = True
        return flags

    def _cells_of(self, sets: Flags) -> Floats:
        """Log numbers of cells of some sets, (sets,)."""
        return np.asarray(sets @ self._logs, dtype=np.float64)

    def _information(self, shares: Floats) -> Floats:
        """Precision 1 / variance of a cell that a share buys."""
        return shares**2 / 2.0 if self.pure else 2.0 * shares

    def _reaching(self, sets: Flags) -> Floats:
        """Part of a view's precision that reaches a foretold set, (views, sets): the ratio of cells, 0 outside."""
        held = _holds(sets, self._inside)
        fewer = np.minimum(self._cells_of(self._inside) - self._cells_of(sets)[:, None], 0.0)
        return np.where(held, np.exp(fewer), 0.0)

    def _outlook(self, information: Floats) -> _Outlook:
        """Interpolate expected errors in log noise, and their weighted means by order."""
        step = np.log(NOISES[1] / NOISES[0])
        along = (-0.5 * np.log(np.maximum(information, 1e-14)) - np.log(NOISES[0])) / step
        index = np.minimum(np.maximum(along.astype(np.int64), 0), len(NOISES) - 2)
        errors = self.foretold.errors
        at = index + np.arange(len(errors)) * errors.shape[1]
        part = np.minimum(np.maximum(along - index, 0.0), 1.0)
        low, high = errors.take(at), errors.take(at + 1)
        means = np.maximum((low * (1.0 - part) + high * part) @ self.foretold.weights.T, 1e-300)
        return _Outlook(information, (high - low) / step, means)

    def _error(self, outlook: _Outlook) -> Floats:
        """Objective: weighted geometric mean over orders of mean expected errors."""
        return np.asarray(np.exp(np.log(outlook.means) @ self.foretold.worth), dtype=np.float64)

    def _gain(self, outlook: _Outlook) -> Floats:
        """Derivative of the log objective by precision, set by set, (sets,)."""
        weights = (self.foretold.worth / outlook.means) @ self.foretold.weights
        gain = outlook.slopes * weights * 0.5 / np.maximum(outlook.information, 1e-14)
        return np.asarray(gain, dtype=np.float64)

    # -- the search

    def _settled(self, sets: Flags, shares: Floats, rounds: int = SETTLING) -> Views:
        """Equalise marginal gains of the views by multiplicative updates of their shares."""
        reaching = self._reaching(sets)
        outlook = self._outlook(self.known + self._information(shares) @ reaching)
        best = Views(sets, shares, float(self._error(outlook)))
        for _ in range(rounds):
            slope = shares if self.pure else np.full(len(shares), 2.0)
            gain = (reaching @ self._gain(outlook)) * slope
            mean = max(float((gain * shares).sum()) / self.budget, 1e-300)
            shares = np.maximum(shares * np.sqrt(np.maximum(gain, 1e-300) / mean), LEAST_SHARE * self.budget)
            shares = shares * (self.budget / shares.sum())
            outlook = self._outlook(self.known + self._information(shares) @ reaching)
            error = float(self._error(outlook))
            if error < best.error:
                best = Views(sets, shares, error)
        return best

    def _pruned(self, views: Views) -> Views:
        """Drop views while the objective does not rise: a tenth at a time, then one by one."""
        drop = max(1, len(views.sets) // 10)
        while len(views.sets) > 1:
            kept = np.sort(np.argsort(views.shares, kind="stable")[min(drop, len(views.sets) - 1) :])
            shares = views.shares[kept]
            fewer = self._settled(views.sets[kept], shares * self.budget / shares.sum(), AT_LAST)
            if fewer.error <= views.error:
                views = fewer
            elif drop > 1:
                drop //= 2
            else:
                break
        return views

    def _searched(self, sets: Flags, shares: Floats) -> Views:
        """Local search over sets of attributes to measure, from some with their shares, while expected error falls."""
        views = self._pruned(self._settled(sets, shares, AT_FIRST))
        for _ in range(STEPS):
            better = self._improved(views)
            if better is None:
                break
            views = self._pruned(better)
        return views

    def _improved(self, views: Views) -> Views | None:
        """Best views after adding one candidate, which replaces the views it contains; None if none improves."""
        new = self._candidates(views.sets)
        if not len(new):
            return None
        reaching = self._reaching(views.sets)
        by_view = self._information(views.shares)[:, None] * reaching
        gone = _holds(new, views.sets)
        freed = gone @ views.shares
        allotted = np.where(freed > 0, freed, np.median(views.shares))
        scale = self.budget / (self.budget - freed + allotted)
        left = self.known + by_view.sum(axis=0) - gone @ by_view
        expected = left + self._information(allotted)[:, None] * self._reaching(new)
        expected = np.maximum(expected * (scale[:, None] ** (2 if self.pure else 1)), self.known)
        guesses = self._error(self._outlook(expected))
        for index in np.argsort(guesses, kind="stable")[:TRIES]:
            kept = ~gone[index]
            sets = np.concatenate([views.sets[kept], new[index : index + 1]])
            tried = self._settled(sets, np.append(views.shares[kept], allotted[index]) * scale[index])
            if tried.error < views.error * (1.0 - BETTER):
                return tried
        return None

    def _candidates(self, sets: Flags) -> Flags:
        """Unions of two overlapping views, and views with one attribute more or less; the smallest if many."""
        candidates = []
        if len(sets) <= MOST_UNITED:
            first, second = np.triu_indices(len(sets), 1)
            meet = (sets[first] & sets[second]).any(axis=1)
            candidates.append(sets[first[meet]] | sets[second[meet]])
        for axis in range(sets.shape[1]):
            changed = sets.copy()
            changed[:, axis] = ~changed[:, axis]
            candidates.append(changed)
        bits = 1 << np.arange(sets.shape[1])[::-1]
        numbers = {*(np.concatenate(candidates) @ bits).tolist()} - {*(sets @ bits).tolist()}
        new = (np.array(sorted(numbers), dtype=np.int64)[:, None] & bits) > 0
        number = new.sum(axis=1)
        new = new[(self._cells_of(new) <= np.log(MOST_CELLS)) & (number > 0) & (number <= MOST_ATTRIBUTES)]
        most = max(100, MOST_COMPARED // len(self.foretold.sets))
        return np.asarray(new[np.argsort(self._cells_of(new), kind="stable")[:most]], dtype=np.bool_)


@ON_GOOD_NUMBERS
def _holds(large: Flags, small: Flags) -> Flags:
    """Whether each of some sets of attributes contains each of others, (large, small). Both: (sets, attributes)."""
    within = np.dot(large.astype(np.float32), small.T.astype(np.float32))
    return np.asarray(within >= small.sum(axis=1) - 0.5)
