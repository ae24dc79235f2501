"""Cells: noise on every cell, and nothing else.

Xiao, Xiong, Yuan, TR-2010-003, sections 4 and 5. The paper perturbs probability mass and so treats the number of rows
as public; here integer counts carry integer noise and the number of rows stays private. For domains too large to lay
out, only the cells above a threshold are published, as Cormode, Procopiuc, Srivastava and Tran (ICDT 2012) do it.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, exp, log

from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import noise_for
from sfumato.kernel.curator import Curator
from sfumato.limits import MOST_DENSE
from sfumato.measurement import Noise
from sfumato.queries import Cells, Identity, Total, Workload
from sfumato.releases.contents.cube import Cube
from sfumato.releases.contents.sparse_cube import SparseCube
from sfumato.schema import Schema

EMPTY_PUBLISHED = 0.01  # empty cells that the threshold lets through, on average


def cells(curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None) -> Cube | SparseCube:
    """Publish a noisy count, and a noisy sum of every measure, for every cell.

    budget: split evenly over the count and the measures. A row of data lies in one cell, so every cell is measured with
    the whole of the share. A domain too large to lay out is published in the sparse form.
    """
    if curator.domain.size > MOST_DENSE:
        return sparse_cells(curator, schema, budget)
    every_cell = Identity(curator.domain.size)
    shares = zip(curator.statistics, shares_of(budget, len(curator.statistics), sparse=False), strict=True)
    return Cube.of_cells(schema, [curator.measure(every_cell, for_cells, of=of) for of, (_, for_cells) in shares])


def sparse_cells(curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None) -> SparseCube:
    """Publish only cells whose noisy count reaches a threshold, and the noisy totals.

    budget: split evenly over the count and the measures; a tenth of each share goes to the total, so that what lies in
    unpublished cells is known in sum. With a chance of at most one in a hundred is any empty cell published.
    """
    size, contributions = curator.domain.size, curator.charge.contributions
    published, totals = [], []
    shares = shares_of(budget, len(curator.statistics), sparse=True)
    for of, (for_total, for_cells) in zip(curator.statistics, shares, strict=True):
        totals.append(curator.measure(Total(size), for_total, of=of))
        if of == "count":
            above = threshold(size, for_cells, contributions)
            counts = curator.measure(Identity(size), for_cells, above=above)
            published.append(counts)
        elif len(counts.answers):
            assert counts.cells is not None  # noqa: S101 (measured above a threshold)
            published.append(curator.measure(Cells(size, counts.cells), for_cells, of=of))
    return SparseCube(schema, tuple(published), tuple(totals))


def planned_noises(schema: Schema, budget: Budget, *, sparse: bool) -> dict[str, tuple[Noise, Noise]]:
    """For each statistic, the noise that its total and its cells would carry; reads no data."""
    contributions = schema.privacy_unit.contributions
    units = {"count": 1} | {name: measure.half_units for name, measure in schema.measures.items()}

    def noise(unit: int, share: Budget) -> Noise:
        return noise_for(share, contributions, l1=Fraction(unit), l2_squared=Fraction(unit) ** 2)

    shares = shares_of(budget, len(units), sparse=sparse)
    return {of: (noise(unit, a), noise(unit, b)) for (of, unit), (a, b) in zip(units.items(), shares, strict=True)}


def is_sparse(schema: Schema, mechanism: str) -> bool:
    """Whether a schema's cells are published above a threshold only."""
    return mechanism == "sparse-cells" or schema.domain.size > MOST_DENSE


def shares_of(budget: Budget, statistics: int, *, sparse: bool) -> list[tuple[Budget, Budget]]:
    """What each statistic may spend, on its total and on its cells. The dense form measures no total."""
    return [share.split(1, 9) if sparse else (share, share) for share in budget.evenly(statistics)]  # type: ignore[misc]


def threshold(size: int, budget: Budget, contributions: int) -> int:
    """The least noisy count that lets through, on average, at most a hundredth of an empty cell among `size`.

    An empty cell that is published looks like a full one, so an interval that counts it misses the truth: at most once
    in a hundred releases. Letting through one cell on average would lower the threshold by a seventh only, at 10^12.
    """
    assert budget.epsilon is not None  # noqa: S101 (pure epsilon only)
    scale = float(contributions / budget.epsilon)
    # P(Z >= t) = exp(-t / scale) / (1 + exp(-1 / scale)). Public arithmetic: floats do no harm here.
    return max(1, ceil(scale * (log(size / EMPTY_PUBLISHED) - log(1 + exp(-1 / scale)))))
