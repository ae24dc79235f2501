"""Cells: Laplace noise on every cell, y_c = x_c + Z_c, published as it is.

Xiao, Xiong, Yuan, TR-2010-003, sections 4 and 5. The paper perturbs probability mass and so treats the number of rows
as public; here integer counts carry integer noise and the number of rows stays private.

Sparse cells: noisy counts of the cells that exceed a threshold, and noisy totals.

Cormode, Procopiuc, Srivastava, Tran, "Differentially private summaries for sparse data", ICDT 2012. For domains too
large to lay out: the number and places of empty cells whose noise exceeds the threshold are drawn from their exact
distribution, without visiting every cell.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import ceil, exp, log
from typing import TYPE_CHECKING

from sfumato.arrays import MOST_DENSE, MOST_RUNNING
from sfumato.errors import BudgetError, MechanismError
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import noise_for
from sfumato.kernel.curator import Curator
from sfumato.measurement import Noise, with_missing
from sfumato.models.base.measure_and_fit import every_cell
from sfumato.models.base.mechanism import Forecast, Holds, Mechanism
from sfumato.queries import Cells, Identity, Total, Workload
from sfumato.releases.contents.cube import Cube
from sfumato.schema import Schema
from sfumato.schema.schema import missing_of

if TYPE_CHECKING:  # sparse cells load what answers need, which the plain ones do without
    from sfumato.releases.contents.sparse_cube import SparseCube


def cells(curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None) -> Cube | SparseCube:
    """Publish a noisy count, and a noisy sum of every measure, for every cell.

    budget: split by weight over the count and the measures. A row of data lies in one cell, so every cell gets the
    whole of the share (parallel composition). A domain too large to lay out is published in the sparse form.
    """
    if curator.domain.size > MOST_DENSE:
        return sparse_cells(curator, schema, budget)
    queries = Identity(curator.domain.size)
    shares = zip(curator.statistics, budget.split(*schema.weights.values()), strict=True)
    measurements = (curator.measure(queries, share, of=of) for of, share in shares)
    return Cube.of_cells(schema, [each for measured in measurements for each in with_missing(measured)])


def running_cells(curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None) -> Cube:
    """Publish every cell for one period of a series; in running totals its noise cancels a share of earlier noise.

    Fichtenberger, Henzinger, Upadhyay, ICML 2023: running totals by the square root of the prefix matrix.
    """
    from sfumato.answers.along_time import RunningCells

    measured, trail = curator.measure_running(budget, [*schema.weights.values()])
    return Cube(schema, tuple(RunningCells(each, trail) for each in measured))


CELLS = Mechanism(
    name="cells",
    summary="noise on every cell",
    paper="Xiao, Xiong, Yuan 2010",
    run=cells,
    holds=Holds(most_cells=None, zeros=True),
    forecast=Forecast(strategy=every_cell),
)


def for_running(schema: Schema, name: str, *, pure: bool) -> Mechanism:
    """Mechanism of a series with running totals: noisy cells with Gaussian noise; refuse any other.

    name: of the mechanism that the user chose. pure: whether the budget is pure epsilon, which is refused.
    """
    if name not in ("auto", CELLS.name):
        raise MechanismError(
            f"running: true spreads the noise of single cells over time, which {name} does not measure; leave out "
            "--mechanism, or running"
        )
    if pure:
        raise BudgetError("running: true needs Gaussian noise; add a delta, such as --delta 1e-9", kind="budget")
    if schema.domain.size > MOST_RUNNING:
        raise MechanismError(
            f"running: true keeps the noise of every cell, of {MOST_RUNNING:,} at most, and there are "
            f"{schema.domain.size:,}; give fewer attributes or coarser bins, or leave running out"
        )
    return replace(CELLS, gaussian=True, run=running_cells)


# -- sparse cells


@dataclass(frozen=True)
class Settings:
    """Settings chosen by judgement.

    empty: expected number of empty cells above the threshold; less raises it. An empty cell that is published looks
    like a full one, so an interval that counts it misses the truth: at most once in a hundred releases. One such cell
    on average would lower the threshold by a seventh only, at 10^12 cells.
    shares: of the budget, for the totals and for the cells; more for the totals estimates better what is not published.
    """

    empty: float = 0.01
    shares: tuple[int, int] = (1, 9)


SETTINGS = Settings()


def sparse_cells(
    curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None, *, settings: Settings = SETTINGS
) -> SparseCube:
    """Publish cells whose noisy count reaches a threshold, and the noisy totals.

    budget: split by weight over the count and the measures; a part of each share goes to the total, so that the sum of
    unpublished cells is known.
    """
    from sfumato.releases.contents.sparse_cube import SparseCube

    size, contributions = curator.domain.size, curator.charge.contributions
    published, totals = [], []
    for of, share in zip(curator.statistics, budget.split(*schema.weights.values()), strict=True):
        for_total, for_cells = share.split(*settings.shares)
        totals += with_missing(curator.measure(Total(size), for_total, of=of))
        if of == "count":
            above = threshold(size, for_cells, contributions, settings)
            counts = curator.measure(Identity(size), for_cells, above=above)
            published.append(counts)
        elif len(counts.answers):
            assert counts.cells is not None  # noqa: S101 (measured above a threshold)
            published += with_missing(curator.measure(Cells(size, counts.cells), for_cells, of=of))
    return SparseCube(schema, tuple(published), tuple(totals))


def planned_noises(schema: Schema, budget: Budget) -> dict[str, tuple[Noise, Noise]]:
    """Noise of the total and of the cells of each statistic; reads no data."""

    def noise(unit: int, share: Budget) -> Noise:
        return noise_for(share, schema.most_of_a_unit, l1=Fraction(unit), l2_squared=Fraction(unit) ** 2)

    shares = dict(zip(schema.weights, budget.split(*schema.weights.values()), strict=True))
    shares |= {missing_of(of): share for of, share in shares.items()}
    noises = {}
    for of, unit in schema.units.items():
        total, cells = shares[of].split(*SETTINGS.shares)
        noises[of] = noise(unit, total), noise(unit, cells)
    return noises


def planned_threshold(schema: Schema, budget: Budget) -> int:
    """Threshold of published counts; reads no data."""
    _, for_cells = budget.split(*schema.weights.values())[0].split(*SETTINGS.shares)
    return threshold(schema.domain.size, for_cells, schema.most_of_a_unit)


def threshold(size: int, budget: Budget, contributions: int, settings: Settings = SETTINGS) -> int:
    """Least count t such that the expected number of empty cells with noise >= t is at most settings.empty.

    size: number of cells. The noise is discrete Laplace: P(Z >= t) = exp(-t / scale) / (1 + exp(-1 / scale)).
    """
    assert budget.epsilon is not None  # noqa: S101 (pure epsilon only)
    scale = float(contributions / budget.epsilon)
    # P(Z >= t) = exp(-t / scale) / (1 + exp(-1 / scale)). Public arithmetic: floats do no harm here.
    return max(1, ceil(scale * (log(size / settings.empty) - log(1 + exp(-1 / scale)))))


SPARSE_CELLS = Mechanism(
    name="sparse-cells",
    summary="noise on every cell, but only cells that stand out are published",
    paper="Cormode et al. 2012",
    page="cells",
    run=sparse_cells,
    holds=Holds(most_cells=None, sparse=True, zeros=True),
)
