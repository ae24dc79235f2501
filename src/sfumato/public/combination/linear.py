"""Fuse linear releases: least squares over all measurements of one table, or the sum of fits to disjoint tables.

Of one table: stack the queries of all releases, [A_1; A_2] x + noise, each row with its own noise, and solve by
generalised least squares. Rows are weighted by the inverse of their variance, so that with equal queries and Gaussian
noise two releases of rho are one of 2 rho. Every noise keeps its exact distribution, and intervals are as exact as
those of one release.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.answers.fit import Fit, NoisyCells
from sfumato.errors import ReleaseFileError
from sfumato.measurement import Measurement, as_one
from sfumato.models.linear.fit import LinearFit, SolvedFit, SummedFit
from sfumato.models.margins.content import Margins
from sfumato.models.margins.file import CELL_BY_CELL
from sfumato.models.margins.table import Places, Table
from sfumato.models.margins.views import NO_NOISE
from sfumato.queries import Queries, Stack
from sfumato.releases.contents.cube import Cube

CAN = (
    "the measurements of releases by cells, hierarchical, wavelet, matrix, laplace and residual can be, those by "
    "residual not with --disjoint; any two can be compared (`sfumato compare`)"
)
LINEAR = (NoisyCells, LinearFit, SolvedFit)


def fuse_cubes(cubes: Sequence[Cube], names: Sequence[str], *, disjoint: bool) -> Cube:
    """Cube of all releases together, statistic by statistic; names: their mechanisms, for refusals."""
    for cube, name in zip(cubes, names, strict=True):
        if cube.trail is not None:
            raise ReleaseFileError(
                "parts of a series with running totals share their noise, and cannot be combined; ask the series itself"
            )
        for fit in cube.fits:
            if not isinstance(fit, (*LINEAR, SummedFit) if disjoint else LINEAR):
                raise ReleaseFileError(
                    f"a release by {name} was fitted by a model whose errors it measured for itself, and cannot be "
                    f"combined; {CAN}"
                )
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


def fuse_margins(contents: Sequence[Margins]) -> Margins:
    """Unbiased marginals of all releases of one table: each component a mean by precision.

    Components of an analysis of variance carry independent noise, set by set, so means of each are least squares.
    """
    tables: dict[str, dict[Places, Table]] = {}
    for of in contents[0].tables:
        sets = dict.fromkeys(places for content in contents for places in content.tables[of])
        by_order = sorted(sets, key=lambda places: (len(places), places))
        known = [content.tables[of] for content in contents]
        tables[of] = {places: _mean([each[places] for each in known if places in each]) for places in by_order}
    measured = tuple(one for content in contents for one in content.measured)
    asked = tuple(how for content in contents for how in content.asked or (CELL_BY_CELL,) * len(content.measured))
    return Margins(contents[0].schema, tables, measured=measured, unbiased=True, asked=asked)


def _mean(tables: Sequence[Table]) -> Table:
    """Mean of independent tables by the inverse of their variances."""
    precision = np.sum([1.0 / np.maximum(table.noise, NO_NOISE) for table in tables], axis=0)
    total = np.sum([table.estimate / np.maximum(table.noise, NO_NOISE) for table in tables], axis=0)
    return Table(tables[0].places, total / precision, 1.0 / precision, np.zeros(precision.shape))
