"""Measures under a mechanism that adapts: sums of regions, as few or as many as the noisy counts say are worth it.

Plain noise on every cell adds up over the cells of a region, a hundred of them to ten times the noise of one. So tables
of sums are measured instead (models/sums/tables.py), of which each region's average is even but for what regions
and cells turn out to differ by:

    1  from the noisy counts, the least share with which cells can be kept from losing much, whatever averages are
       (models/sums/shares.py); with many rows in every cell it is most of the budget, with few it is none
    2  how far averages differ is learned from it; the best shares of all that is left, measured at once
    3  how far they differ, again, from everything; the posterior mean of every cell

Every table holds each cell once, so that its shares sum to the budget: the kernel sees to it. What is asked hangs on
the schema, the workload and on what was published before.
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
from sfumato.models.sums.shares import Asked, Problem, of_anything, of_effects, precisions
from sfumato.models.sums.tables import Table, candidates
from sfumato.queries import AllRanges, Identity, Kron, Queries, Stack, Workload, default_workload
from sfumato.queries.kron import over
from sfumato.queries.workload import places_among, some_sets
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
    """The fits of all measures, each with its share of the budget."""
    if not shares:
        return ()
    domain, units, measures = schema.domain, schema.units, curator.statistics[1:]
    noises = [_whole(share, curator, units[of]) for of, share in zip(measures, shares, strict=True)]
    if domain.size <= FEW_CELLS or not all(map(_can_be_drawn, noises)):
        return plain_cells(curator, shares)
    rows = np.maximum(count.estimate, 0.0)
    asked = _asked(domain, workload)
    tables = asked.tables
    found: list[Fit] = []
    for of, share, noise in zip(measures, shares, noises, strict=True):
        besides = noise.continuous_variance / units[of] ** 2  # counts of cells are off by about as much as sums
        measured = _measured(curator, of, noise, asked, rows, units[of], pure=share.is_pure)
        for one in map(_together, zip(*map(with_missing, measured), strict=True)):
            unit = units[one.of]
            effects = learned(rows, expected(tables, besides), seen_in(one, domain.shape, unit))
            found.append(AveragesFit.fitted(one, domain.shape, rows, unit, effects))
    return tuple(found)


def _measured(
    curator: Curator, of: str, whole: Noise, asked: Asked, rows: Floats, unit: int, *, pure: bool
) -> list[Measurement]:
    """The cells, with what they need at least, and everything else."""
    tables, noise = asked.tables, whole.continuous_variance / unit**2
    effects, told = expected(tables, noise), np.zeros(len(tables))
    left, found = PARTS, list[Measurement]()
    anything = Problem(asked, of_anything(tables, rows, noise), told, noise, noise, pure=pure)
    first = round(PARTS * anything.least_for_cells())
    first = PARTS if PARTS - first < LEAST else first
    if first >= LEAST:
        found.append(_ask(curator, of, whole, tables[-1:], [first]))
        (seen,) = seen_in(found[0], curator.domain.shape, unit)
        effects, left = learned(rows, effects, [seen]), PARTS - first
        told = precisions(tables, np.array([*[np.inf] * (len(tables) - 1), seen.variance]))
    if not left:
        return found
    remaining = noise * (PARTS / left) ** (2 if pure else 1)
    problem = Problem(asked, of_effects(tables, rows, effects), told, remaining, noise, pure=pure)
    shares = _in_parts(problem.best_shares(), left)
    chosen = [place for place, share in enumerate(shares) if share]
    found.append(_ask(curator, of, whole, [tables[place] for place in chosen], [shares[place] for place in chosen]))
    return found


def _ask(curator: Curator, of: str, whole: Noise, tables: Sequence[Table], shares: Sequence[int]) -> Measurement:
    scales = [whole.parameter * Fraction(PARTS, share) for share in shares]
    queries = Stack(*(table.queries() for table in tables))
    if len(scales) == 1:
        return curator.measure(queries, of=of, scales=scales[0])
    which = np.repeat(np.arange(len(tables)), [table.size for table in tables])
    return curator.measure(queries, of=of, scales=scales, which=which)


def _together(parts: tuple[Measurement, ...]) -> Measurement:
    blocks = [block for part in parts if isinstance(part.queries, Stack) for block in part.queries.blocks]
    return as_one(parts, Stack(*blocks))


def _in_parts(shares: Floats, left: int) -> list[int]:
    """Whole numbers that sum to what is left; what is too little goes to the largest."""
    found = [int(share * left) for share in shares]
    found = [part if part >= LEAST else 0 for part in found]
    found[int(np.argmax(shares))] += left - sum(found)
    return found


def least_by_region(schema: Schema, budget: Budget) -> dict[str, Budget]:
    """The least that a table of a measure's sums is measured with; with noise too large for that, cells are instead."""
    shares = dict(zip(schema.weights, budget.split(*schema.weights.values()), strict=True))
    return {of: shares[of].split(LEAST, PARTS - LEAST)[0] for of in schema.measures}


def _whole(budget: Budget, curator: Curator, unit: int) -> Noise:
    """What sums that cost everything carry."""
    return noise_for(budget, curator.charge.contributions, l1=Fraction(unit), l2_squared=Fraction(unit**2))


def _can_be_drawn(whole: Noise) -> bool:
    return whole.parameter * PARTS <= LEAST * (LARGEST_SCALE if isinstance(whole, Laplace) else VARIANCES[1])


@lru_cache(maxsize=4)
def _asked(domain: Domain, workload: Workload | None) -> Asked:
    return Asked.of(candidates(domain), *_kinds(domain, workload))


def _kinds(domain: Domain, workload: Workload | None) -> tuple[list[Floats], Floats]:
    """Some questions of every kind, and how much each kind matters."""
    if workload is not None:
        places = sorted(set(places_among(len(workload.blocks), MOST_KINDS).tolist()))
        few = len(workload.blocks) <= MOST_KINDS
        groups = [[block] for block in (workload.blocks if few else [workload.blocks[place] for place in places])]
    else:
        groups = _usual(domain)
    count = sum(map(len, groups))
    each = max(1, min(QUESTIONS, MOST_NUMBERS // (domain.size * count)))
    weights = [1.0 / len(group) for group in groups for _ in group]
    return [_some(block, each) for group in groups for block in group], np.array(weights)


def _usual(domain: Domain) -> list[list[Queries]]:
    """Tables by one attribute, by two, cells, and ranges; each as much as any other."""
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
    return isinstance(block, AllRanges) or (isinstance(block, Kron) and any(map(_has_ranges, block.factors)))


def _some(block: Queries, count: int) -> Floats:
    places = np.arange(block.rows) if block.rows <= count else np.unique(places_among(block.rows, count))
    return np.asarray(block[places].dense(), dtype=np.float64)
