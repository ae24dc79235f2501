"""Fuse linear releases: least squares over all measurements of one table, or the sum of fits to disjoint tables.

Of one table: stack the queries of all releases, [A_1; A_2] x + noise, each row with its own noise, and solve by
generalised least squares. Rows are weighted by the inverse of their variance, so that with equal queries and Gaussian
noise two releases of rho are one of 2 rho. Every noise keeps its exact distribution, and intervals are as exact as
those of one release.
"""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.answers.fit import Fit, NoisyCells
from sfumato.measurement import Measurement, as_one
from sfumato.models.linear.fit import LinearFit, SolvedFit, SummedFit
from sfumato.queries import Queries, Stack
from sfumato.releases.contents.cube import Cube

CAN = (
    "those by cells, hierarchical, wavelet, matrix and laplace can be, with each other; those by residual, by margins "
    "or by sfumato each among themselves, with --disjoint not by sfumato; any two can be compared (`sfumato compare`)"
)
LINEAR = (NoisyCells, LinearFit, SolvedFit, SummedFit)


def fuse_cubes(cubes: Sequence[Cube], *, disjoint: bool) -> Cube:
    """Cube of all releases together, statistic by statistic."""
    by_statistic = zip(*(cube.fits for cube in cubes), strict=True)
    return Cube(cubes[0].schema, tuple(_sum(fits) if disjoint else _fuse(fits) for fits in by_statistic))


def _fuse(fits: Sequence[Fit]) -> Fit:
    """Least-squares fit to the measurements of one statistic in all releases of one table."""
    return LinearFit.of_answers(stacked([measured for fit in fits for measured in fit.measurements]))


def _sum(fits: Sequence[Fit]) -> Fit:
    """Sum of the fits of one statistic to disjoint tables."""
    return SummedFit.of_answers([measured for fit in fits for measured in fit.measurements])


def stacked(measurements: Sequence[Measurement]) -> Measurement:
    """All measurements of one statistic as one, its blocks next to each other."""
    blocks: list[Queries] = []
    for measured in measurements:
        blocks += measured.queries.blocks if type(measured.queries) is Stack else [measured.queries]
    return as_one(measurements, Stack(*blocks))
