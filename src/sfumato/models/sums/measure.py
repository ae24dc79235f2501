"""Measure sums of measures for adaptive mechanisms: an allocation over tables of sums, learned in two stages.

    1  from the noisy counts, the least share of the cells that bounds the loss of every kind of query (measure.py)
    2  variance components from it; the shares with least regret for the remainder, measured at once
    3  variance components from everything; the posterior mean of every cell (posterior.py)

Each table holds every cell once, so its charges add up to the budget, which the kernel checks. All choices depend on
the schema, the workload and earlier noisy answers alone. Own method.

Allocate a measure's budget among tables of sums: minimise regret under a bound on the loss of any kind of query.

If all cells held equally many rows, the tables would decompose cell space into orthogonal subspaces, one per table (an
analysis of variance). Subspace s has a prior variance p_s, in `BINS` bins from the emptiest to the fullest regions, and
every table t that refines it adds precision (cells of a region) / (noise variance of t). A kind of query with energy
e_s in subspace s has variance: sum over s of e_s / (1 / p_s + precision_s).

First, the least share of the table of cells with which no kind exceeds `MOST_LOST` times the error of noise on every
cell, whatever averages are. Then regret is minimised: the variance of a kind over that with the whole remainder on its
best table, averaged over kinds, by coordinate exchange in steps that are halved. Own method.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from sfumato.answers.fit import Fit
from sfumato.arrays import Codes, Floats
from sfumato.domain import Domain
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import noise_for
from sfumato.kernel.curator import Curator
from sfumato.kernel.sampling.noise import VARIANCES
from sfumato.measurement import LARGEST_SCALE, Laplace, Measurement, Noise, as_one, with_missing
from sfumato.models.base.measure_and_fit import plain_cells
from sfumato.models.sums.fit import AveragesFit, seen_in
from sfumato.models.sums.posterior import Effects, Table, candidates, expected, gathered, learned
from sfumato.queries import AllRanges, Identity, Kron, Queries, Stack, Workload, default_workload
from sfumato.queries.kron import over
from sfumato.queries.workload import NAMED, places_among, some_sets
from sfumato.schema import Schema
from sfumato.schema.parts import ROWS

BINS = 8  # of regions of a table, from the emptiest to the fullest, whose variances are told apart


@dataclass(frozen=True, eq=False)
class QueryKinds:
    """Kinds of query: their energy (mean squared length) in every subspace, and their weights.

    tables: of whose regions the subspaces are the variation, the total first and cells last. energies: (kinds, spaces).
    weights: (kinds,), sum 1.
    """

    tables: Sequence[Table]
    energies: Floats
    weights: Floats

    @classmethod
    def of(cls, tables: Sequence[Table], kinds: Sequence[Floats], weights: Floats) -> QueryKinds:
        """Mean squared length of sample queries in every subspace, by kind.

        kinds: sample queries of each kind, as weights on cells, (queries, cells). weights: of the kinds.
        """
        labels = [table.labels() for table in tables[:-1]]
        rows = []
        for questions in kinds:
            inside = [_projected(questions, label, table) for label, table in zip(labels, tables, strict=False)]
            inside.append(float(np.square(questions).sum(axis=1).mean()))
            rows.append(_apart(tables, inside))
        return cls(tables, np.array(rows), weights / weights.sum())


def precisions(tables: Sequence[Table], variances: Floats) -> Floats:
    """Precision of every subspace (spaces,) from tables measured once with these noise variances; inf: unmeasured."""
    inside = np.array([[one.within(space) for one in tables] for space in tables], dtype=np.float64)
    return np.asarray(inside @ (np.array([table.cells for table in tables]) / variances))


def of_effects(tables: Sequence[Table], counts: Floats, effects: Effects) -> Floats:
    """Prior variance of every subspace by bins of its regions, (spaces, BINS), from variance components."""
    terms = [(tables[-1], _binned(effects.own(counts)))]
    for table, variance in zip(effects.tables, effects.between, strict=True):
        in_regions = gathered(table.labels(), counts, table.size)
        terms.append((table, _binned(variance * np.square(in_regions) / table.cells)))
    nothing = np.zeros(BINS)
    return np.array([sum((bins for table, bins in terms if table.within(space)), nothing) for space in tables])


def of_anything(tables: Sequence[Table], counts: Floats, besides: float) -> Floats:
    """Largest prior variance of every subspace by bins, (spaces, BINS), whatever averages are.

    A row adds between -1 and 1, so a sum is off by at most its count. besides: variance of a cell's sum from the error
    of its count.
    """
    in_regions = [gathered(table.labels(), counts, table.size) for table in tables[:-1]] + [counts]
    pairs = zip(tables, in_regions, strict=True)
    return np.array([_binned(np.square(rows) / table.cells + besides) for table, rows in pairs])


def _binned(values: Floats) -> Floats:
    """Means of `BINS` equal parts of the sorted values."""
    ranks = np.sort(values)
    if len(ranks) < BINS:
        return ranks[np.arange(BINS) * len(ranks) // BINS]
    starts = np.arange(BINS) * len(ranks) // BINS
    return np.asarray(np.add.reduceat(ranks, starts) / np.diff([*starts, len(ranks)]))


def _projected(questions: Floats, label: Codes, table: Table) -> float:
    """Mean squared norm of queries projected on weights constant within regions."""
    sizes = np.bincount(label, minlength=table.size)
    return float(np.mean([(np.square(gathered(label, one, table.size)) / sizes).sum() for one in questions]))


def _apart(tables: Sequence[Table], inside: Sequence[float]) -> list[float]:
    """Energy in each subspace: a table's energy minus the energies of the coarser tables that it refines."""
    energies: list[float] = []
    for index, table in enumerate(tables):
        around = sum(energies[other] for other in range(index) if table.within(tables[other]))
        energies.append(max(inside[index] - around, 0.0))
    return energies


MOST_LOST = 2**0.5  # of the error of any kind of question, over that from noise on every cell
FINEST = 6  # times that a share is halved before it is moved
PENALTY = 1e6  # for what is lost beyond that: more than anything can gain
GAIN = 1e-9  # that is not only rounding


@dataclass(frozen=True, eq=False)
class Problem:
    """Variance of every kind of query as a function of the shares.

    prior: (spaces, bins), prior variances. told: (spaces,), precisions from earlier measurements. unit: noise variance
    of a sum that has the whole remainder; plain: of one that has the whole budget. pure: noise variance falls with the
    square of a share.
    """

    asked: QueryKinds
    prior: Floats
    told: Floats
    unit: float
    plain: float
    pure: bool

    def best_shares(self) -> Floats:
        """Shares of the remainder with least regret, (tables,); many are 0."""
        count = len(self.asked.tables)
        starts = [np.full(count, 1.0 / count), *np.eye(count)[[0, -1]]]
        found = [self._moved(start, self._regret) for start in starts]
        return min(found, key=lambda shares: float(self._regret(shares[None])[0]))

    def least_for_cells(self) -> float:
        """Least share of the table of cells with which no kind exceeds the bound on its loss."""
        shares = self._moved(np.eye(len(self.asked.tables))[-1], lambda some: some[:, -1] + self._beyond(some))
        return float(shares[-1])

    def ratios(self, shares: Floats) -> Floats:
        """Variance of each kind of query relative to noisy cells: (candidates, tables) -> (candidates, kinds)."""
        known = self.told + shares ** (2 if self.pure else 1) @ self._inside.T
        left = np.mean(1.0 / (1.0 / self.prior + known[:, :, None]), axis=2)
        return np.asarray(left @ (self.asked.energies / self._of_cells[:, None]).T)

    def _regret(self, shares: Floats) -> Floats:
        """Mean regret over kinds, plus the penalty, (candidates,)."""
        return np.asarray(self.ratios(shares) @ (self.asked.weights / self._best) + self._beyond(shares))

    def _beyond(self, shares: Floats) -> Floats:
        """Penalty for kinds beyond the bound on their loss, (candidates,)."""
        return np.asarray(PENALTY * np.maximum(self.ratios(shares) - MOST_LOST**2, 0.0).sum(axis=1))

    @staticmethod
    def _moved(shares: Floats, price: Callable[[Floats], Floats]) -> Floats:
        """Descend by exchange: move shares between pairs of tables while the objective `price` falls."""
        best = price(shares[None])[0]
        places = np.arange(len(shares))
        giver, taker = (each.reshape(-1) for each in np.meshgrid(places, places))
        for halved in range(FINEST + 1):
            step = 0.5**halved
            while True:
                some = np.minimum(shares[giver], step)
                moved = np.repeat(shares[None], len(giver), axis=0)
                moved[np.arange(len(giver)), giver] -= some
                moved[np.arange(len(giver)), taker] += some
                prices = price(moved)
                first = int(np.argmin(prices))
                if not prices[first] < best - GAIN:
                    break
                shares, best = moved[first], prices[first]
        return shares

    @cached_property
    def _of_cells(self) -> Floats:
        """Variance of every kind from noise on every cell, (kinds,)."""
        return np.asarray(self.plain * self.asked.energies.sum(axis=1))

    @cached_property
    def _inside(self) -> Floats:
        """Precision that each table would add to each subspace with the whole remainder, (spaces, tables)."""
        tables = self.asked.tables
        return np.array([[one.cells * one.within(space) for one in tables] for space in tables]) / self.unit

    @cached_property
    def _best(self) -> Floats:
        """Variance ratio of each kind of question if all of the budget went to the table best for it, (kinds,)."""
        return np.asarray(self.ratios(np.eye(len(self.asked.tables))).min(axis=0))


# -- measure

FEW_CELLS = 8  # up to which all are measured: a region with half of the budget gains only if it has more than four
PARTS = 2**10  # that a measure's budget is shared out in
LEAST = 16  # of PARTS: a table with less says too little
MOST_KINDS = 12  # of questions with two attributes, or of a workload's blocks
QUESTIONS = 12  # of each kind that are looked at
MOST_NUMBERS = 2**24  # weights of cells in all of them


def sums_by_region(
    curator: Curator, schema: Schema, shares: Sequence[Budget], count: Fit, workload: Workload | None = None
) -> tuple[Fit, ...]:
    """Fits of all measures, each from its share of the budget."""
    if not shares:
        return ()
    domain, units, measures = schema.domain, schema.units, curator.statistics[1:]
    k = curator.charge.contributions
    noises = [  # of sums that have the whole budget of a measure
        noise_for(share, k, l1=Fraction(units[of]), l2_squared=Fraction(units[of] ** 2))
        for of, share in zip(measures, shares, strict=True)
    ]
    if domain.size <= FEW_CELLS or not all(map(_can_be_drawn, noises)):
        return plain_cells(curator, shares)
    rows = np.maximum(count.estimate, 0.0)
    kinds = _asked(domain, workload)
    tables = kinds.tables
    fits: list[Fit] = []
    for of, share, noise in zip(measures, shares, noises, strict=True):
        if of == ROWS:  # beside their weights, of which few may be many rows: no average is a guide
            fits += plain_cells(curator, [share], [of])
            continue
        besides = noise.continuous_variance / units[of] ** 2  # counts of cells are off by about as much as sums
        measured = _measured(curator, of, noise, kinds, rows, units[of], pure=share.is_pure)
        for measurement in map(_together, zip(*map(with_missing, measured), strict=True)):
            unit = units[measurement.of]
            effects = learned(rows, expected(tables, besides), seen_in(measurement, domain.shape, unit))
            fits.append(AveragesFit.fitted(measurement, domain.shape, rows, unit, effects, schema.possible))
    return tuple(fits)


def _measured(
    curator: Curator, of: str, whole: Noise, kinds: QueryKinds, rows: Floats, unit: int, *, pure: bool
) -> list[Measurement]:
    """Measure the cells with their least share, then the tables with the remainder.

    whole: noise of a sum that has the whole budget of the measure. rows: (cells,), estimated counts.
    """
    tables, noise = kinds.tables, whole.continuous_variance / unit**2
    effects, precision = expected(tables, noise), np.zeros(len(tables))
    left, measured = PARTS, list[Measurement]()
    anything = Problem(kinds, of_anything(tables, rows, noise), precision, noise, noise, pure=pure)
    first = round(PARTS * anything.least_for_cells())
    first = PARTS if PARTS - first < LEAST else first
    if first >= LEAST:
        measured.append(_ask(curator, of, whole, tables[-1:], [first]))
        (seen,) = seen_in(measured[0], curator.domain.shape, unit)
        effects, left = learned(rows, effects, [seen]), PARTS - first
        precision = precisions(tables, np.array([*[np.inf] * (len(tables) - 1), seen.variance]))
    if not left:
        return measured
    remaining = noise * (PARTS / left) ** (2 if pure else 1)
    problem = Problem(kinds, of_effects(tables, rows, effects), precision, remaining, noise, pure=pure)
    shares = _in_parts(problem.best_shares(), left)
    chosen = [index for index, share in enumerate(shares) if share]
    measured.append(_ask(curator, of, whole, [tables[index] for index in chosen], [shares[index] for index in chosen]))
    return measured


def _ask(curator: Curator, of: str, whole: Noise, tables: Sequence[Table], shares: Sequence[int]) -> Measurement:
    """Measure sums of some tables, with shares in parts of `PARTS`."""
    scales = [whole.parameter * Fraction(PARTS, share) for share in shares]
    queries = Stack(*(table.queries() for table in tables))
    if len(scales) == 1:
        return curator.measure(queries, of=of, scales=scales[0])
    which = np.repeat(np.arange(len(tables)), [table.size for table in tables])
    return curator.measure(queries, of=of, scales=scales, which=which)


def _together(parts: tuple[Measurement, ...]) -> Measurement:
    """Stack the measurements of both stages into one."""
    blocks = [block for part in parts if isinstance(part.queries, Stack) for block in part.queries.blocks]
    return as_one(parts, Stack(*blocks))


def _in_parts(shares: Floats, left: int) -> list[int]:
    """Round shares to whole parts that sum to the remainder; shares below `LEAST` go to the largest."""
    parts = [int(share * left) for share in shares]
    parts = [part if part >= LEAST else 0 for part in parts]
    parts[int(np.argmax(shares))] += left - sum(parts)
    return parts


def least_by_region(schema: Schema, budget: Budget) -> dict[str, Budget]:
    """Least budget of a table of each measure's sums.

    Where its noise would be too large to be drawn, cells are measured instead.
    """
    shares = dict(zip(schema.weights, budget.split(*schema.weights.values()), strict=True))
    return {of: shares[of].split(LEAST, PARTS - LEAST)[0] for of in schema.summed}


def _can_be_drawn(whole: Noise) -> bool:
    """Whether the noise of the least share is within the sampler's range."""
    return whole.parameter * PARTS <= LEAST * (LARGEST_SCALE if isinstance(whole, Laplace) else VARIANCES[1])


@lru_cache(maxsize=4)
def _asked(domain: Domain, workload: Workload | None) -> QueryKinds:
    """Kinds of query and their energies in the candidate tables."""
    return QueryKinds.of(candidates(domain), *_kinds(domain, workload))


def _kinds(domain: Domain, workload: Workload | None) -> tuple[list[Floats], Floats]:
    """Sample queries of every kind, (queries, cells) each, and weights of the kinds, (kinds,)."""
    if workload is not None:
        rest = workload.blocks[workload.named :]
        groups = [_few(workload.asked.blocks), _few(rest)] if workload.named else [[one] for one in _few(rest)]
    else:
        groups = _usual(domain)
    count = sum(map(len, groups))
    each = max(1, min(QUESTIONS, MOST_NUMBERS // (domain.size * count)))
    matters = (NAMED, 1.0 - NAMED) if workload is not None and workload.named else (1.0,) * len(groups)
    weights = [weight / len(group) for group, weight in zip(groups, matters, strict=True) for _ in group]
    return [_some(block, each) for group in groups for block in group], np.array(weights)


def _few(blocks: Sequence[Queries]) -> list[Queries]:
    """Sample of at most MOST_KINDS query blocks."""
    if len(blocks) <= MOST_KINDS:
        return list(blocks)
    return [blocks[place] for place in sorted(set(places_among(len(blocks), MOST_KINDS).tolist()))]


def _usual(domain: Domain) -> list[list[Queries]]:
    """Query blocks without a workload: one-way and two-way tables, cells, and ranges, in groups of equal weight."""
    groups: list[list[Queries]] = [
        [over(domain, {axis.name: Identity(axis.size) for axis in chosen}) for chosen in some_sets(domain, size, most)]
        for size, most in ((1, len(domain.axes)), (2, MOST_KINDS))
        if size <= len(domain.axes)
    ]
    if len(domain.axes) > 2:
        groups.append([Identity(domain.size)])
    ranges = [block for block in default_workload(domain).blocks if _has_ranges(block)]
    return [*groups, ranges[:MOST_KINDS]] if ranges else groups


def _has_ranges(block: Queries) -> bool:
    """Whether a query block contains all ranges of an axis."""
    return isinstance(block, AllRanges) or (isinstance(block, Kron) and any(map(_has_ranges, block.factors)))


def _some(block: Queries, count: int) -> Floats:
    """Evenly spaced subsample of the queries of a block, (queries, cells)."""
    places = np.arange(block.rows) if block.rows <= count else np.unique(places_among(block.rows, count))
    return np.asarray(block[places].dense(), dtype=np.float64)
