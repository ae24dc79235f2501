"""Choose views (sets of attributes to measure) and shares of the budget; combine noisy views without bias.

Allocation over pairs (`shares`): total expected error under a budget is minimised by one Lagrange multiplier, by
bisection; a pair that is not measured errs by its misfit, and pairs that are not worth any noise level are left out.

Search for views (`Search`). A view determines every margin inside it, with the noise of the cells summed, so several
pairs in one view cost one share. Views are united, widened, narrowed and dropped while the expected error (forecast.py)
falls, and shares equalise marginal gains; PriView (Qardaji, Yang, Li 2014) uses a covering design that knows no errors.

Unbiased combination (`parts`, `as_measured`). A noisy table with equal variances determines the ANOVA component of each
subset of its axes, and components of one table are uncorrelated; so least squares over all tables is an
inverse-variance mean component by component, with noise of mean zero and nothing else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from math import prod, sqrt

import numpy as np

from sfumato.arrays import Flags, Floats
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.measurement import Measurement
from sfumato.models.calibration.model_error import OF_NORMAL
from sfumato.models.margins.file import CELL_BY_CELL, Methods
from sfumato.models.margins.forecast import NOISES, Foretold
from sfumato.models.margins.table import Places, Table, independent, subsets, sum_out
from sfumato.queries import Identity
from sfumato.releases.contents.content import NOT_UNBIASED

SIZES = np.logspace(0.0, 5.0, 101)  # standard deviations of noise that are weighed against each other
HALVINGS = 100
AT_ONCE = 2**14  # numbers, in arithmetic on cells by noise
AGAIN = 0.15  # of one-way errors, that is not mended by order and by the sums of pairs


def price_of(deviation: Floats, pure: bool) -> Floats:
    """Cost in epsilon or rho of noise with this standard deviation."""
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


@dataclass(frozen=True, eq=False)
class Observed:
    """Noisy table. always: axes along which it consists of contrasts, so that it tells nothing of subsets without them.

    variance: of every cell, before margins are taken away along those axes.
    """

    places: Places
    values: Floats
    variance: float
    always: Places = ()


def parts(observed: Iterable[Observed]) -> dict[Places, Table]:
    """ANOVA components of all observed tables, each an inverse-variance mean."""
    tops: dict[Places, Floats] = {}
    weights: dict[Places, float] = {}
    for table in observed:
        others = tuple(attribute for attribute in table.places if attribute not in table.always)
        for some in subsets(others):
            part = tuple(sorted((*table.always, *some)))
            component = sum_out(table.values, part, table.places)
            for axis, attribute in enumerate(part):
                if attribute in some:
                    component = component - component.mean(axis=axis, keepdims=True)
            precision = component.size / (prod(table.values.shape) * table.variance)
            tops[part] = tops.get(part, 0.0) + precision * component
            weights[part] = weights.get(part, 0.0) + precision
    return {
        part: Table(part, top / weights[part], np.full(top.shape, 1.0 / weights[part]), np.zeros(top.shape))
        for part, top in sorted(tops.items(), key=lambda item: (len(item[0]), item[0]))
    }


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


@dataclass(frozen=True, eq=False)
class Search:
    """Local search for views.

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
        """Flags of the foretold sets, (sets, attributes)."""
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
        held = sets.astype(np.float32) @ self._inside.T.astype(np.float32) >= self._inside.sum(axis=1) - 0.5
        fewer = np.minimum(self._cells_of(self._inside) - self._cells_of(sets)[:, None], 0.0)
        return np.where(held, np.exp(fewer), 0.0)

    def _place(self, information: Floats) -> tuple[Floats, Floats, Floats]:
        """Interpolate expected errors in log noise: values below and above, and weight of the latter, (sets,)."""
        step = np.log(NOISES[1] / NOISES[0])
        along = (-0.5 * np.log(np.maximum(information, 1e-14)) - np.log(NOISES[0])) / step
        index = np.clip(along.astype(np.int64), 0, len(NOISES) - 2)
        rows = np.arange(len(self.foretold.sets))
        errors = self.foretold.errors
        return errors[rows, index], errors[rows, index + 1], np.clip(along - index, 0.0, 1.0)

    def _each(self, information: Floats) -> Floats:
        """Expected error of every foretold set at its precision, (sets,)."""
        low, high, part = self._place(information)
        return low * (1.0 - part) + high * part

    def _error(self, information: Floats) -> Floats:
        """Objective: weighted geometric mean over orders of mean expected errors."""
        means = self._each(information) @ self.foretold.weights.T
        return np.asarray(np.exp(np.log(np.maximum(means, 1e-300)) @ self.foretold.worth), dtype=np.float64)

    def _gain(self, information: Floats) -> Floats:
        """Derivative of the log objective by precision, set by set, (sets,)."""
        low, high, _ = self._place(information)
        means = np.maximum(self.foretold.weights @ self._each(information), 1e-300)
        weights = (self.foretold.worth / means) @ self.foretold.weights
        step = np.log(NOISES[1] / NOISES[0])
        gain = (high - low) / step * weights * 0.5 / np.maximum(information, 1e-14)
        return np.asarray(gain, dtype=np.float64)

    # -- the search

    def _settled(self, sets: Flags, shares: Floats, rounds: int = SETTLING) -> Views:
        """Equalise marginal gains of the views by multiplicative updates of their shares."""
        reaching = self._reaching(sets)
        best = Views(sets, shares, float(self._error(self.known + self._information(shares) @ reaching)))
        for _ in range(rounds):
            slope = shares if self.pure else np.full(len(shares), 2.0)
            gain = (reaching @ self._gain(self.known + self._information(shares) @ reaching)) * slope
            mean = max(float((gain * shares).sum()) / self.budget, 1e-300)
            shares = np.maximum(shares * np.sqrt(np.maximum(gain, 1e-300) / mean), LEAST_SHARE * self.budget)
            shares = shares * (self.budget / shares.sum())
            error = float(self._error(self.known + self._information(shares) @ reaching))
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
        """Best views with one candidate added in place of those that it contains; None if none is better."""
        new = self._candidates(views.sets)
        if not len(new):
            return None
        reaching = self._reaching(views.sets)
        by_view = self._information(views.shares)[:, None] * reaching
        gone = new.astype(np.float32) @ views.sets.T.astype(np.float32) >= views.sets.sum(axis=1) - 0.5
        freed = gone @ views.shares
        allotted = np.where(freed > 0, freed, np.median(views.shares))
        scale = self.budget / (self.budget - freed + allotted)
        left = self.known + by_view.sum(axis=0) - gone @ by_view
        expected = left + self._information(allotted)[:, None] * self._reaching(new)
        guesses = self._error(np.maximum(expected * (scale[:, None] ** (2 if self.pure else 1)), self.known))
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
        new = np.unique(np.concatenate(candidates), axis=0)
        number = new.sum(axis=1)
        new = new[(self._cells_of(new) <= np.log(MOST_CELLS)) & (number > 0) & (number <= MOST_ATTRIBUTES)]
        old = {row.tobytes() for row in sets}
        new = new[[row.tobytes() not in old for row in new]]
        most = max(100, MOST_COMPARED // len(self.foretold.sets))
        return np.asarray(new[np.argsort(self._cells_of(new), kind="stable")[:most]], dtype=np.bool_)


NO_NOISE = 1e-100  # in the place of no variance at all, so that means by precision stay numbers


def as_measured(
    shape: Sequence[int], statistics: Sequence[str], measured: Sequence[tuple[Places, Measurement]], asked: Methods
) -> tuple[dict[str, dict[Places, Table]], tuple[tuple[Places, Measurement], ...]]:
    """ANOVA components of every statistic from noisy tables of single cells, and the measurements used.

    asked: how each measurement was asked, where not cell by cell; others than of cells serve calibration alone.
    """
    used, observed = [], defaultdict[str, list[Observed]](list)
    for (places, measurement), method in zip(measured, asked or (CELL_BY_CELL,) * len(measured), strict=True):
        sizes = [shape[place] for place in places]
        by_cell = isinstance(measurement.queries, Identity) and len(measurement.answers) == prod(sizes)
        if method == CELL_BY_CELL and by_cell and measurement.of in statistics:
            used.append((places, measurement))
            values = measurement.answers.astype(np.float64).reshape(sizes)
            observed[measurement.of].append(Observed(places, values, max(measurement.noise.variance, NO_NOISE)))
    tables = {of: parts(observed[of]) for of in statistics}
    if any(() not in components for components in tables.values()):
        raise QueryError(f"this release does not hold the noisy tables that it was made of; {NOT_UNBIASED}")
    return tables, tuple(used)
