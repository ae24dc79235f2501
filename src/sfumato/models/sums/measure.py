"""Measure sums of measures for adaptive mechanisms: an allocation over tables of sums, learned in two stages.

    1  from the noisy counts, the least share of the cells that bounds the loss of every kind of query (shares.py)
    2  variance components from it; the shares with least regret for the remainder, measured at once
    3  variance components from everything; the posterior mean of every cell (posterior.py)

Each table holds every cell once, so its charges add up to the budget, which the kernel checks. All choices depend on
the schema, the workload and earlier noisy answers alone. Own method.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np

from sfumato.answers.fit import Fit
from sfumato.arrays import Floats
from sfumato.domain import Domain
from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import noise_for
from sfumato.kernel.curator import Curator
from sfumato.kernel.sampling.noise import VARIANCES
from sfumato.measurement import LARGEST_SCALE, Laplace, Measurement, Noise, as_one, with_missing
from sfumato.models.base.measure_and_fit import plain_cells
from sfumato.models.sums.fit import AveragesFit, seen_in
from sfumato.models.sums.posterior import expected, learned
from sfumato.models.sums.shares import Problem, QueryKinds, of_anything, of_effects, precisions
from sfumato.models.sums.tables import Table, candidates
from sfumato.queries import AllRanges, Identity, Kron, Queries, Stack, Workload, default_workload
from sfumato.queries.kron import over
from sfumato.queries.workload import NAMED, places_among, some_sets
from sfumato.schema import Schema

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
        besides = noise.continuous_variance / units[of] ** 2  # counts of cells are off by about as much as sums
        measured = _measured(curator, of, noise, kinds, rows, units[of], pure=share.is_pure)
        for measurement in map(_together, zip(*map(with_missing, measured), strict=True)):
            unit = units[measurement.of]
            effects = learned(rows, expected(tables, besides), seen_in(measurement, domain.shape, unit))
            fits.append(AveragesFit.fitted(measurement, domain.shape, rows, unit, effects))
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
    return {of: shares[of].split(LEAST, PARTS - LEAST)[0] for of in schema.measures}


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
