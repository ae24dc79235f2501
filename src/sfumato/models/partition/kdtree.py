"""DPCube: noisy cells, a kd-tree of homogeneous boxes found in them, noisy counts of the boxes.

Xiao, Xiong, Yuan, "Differentially private data release through multidimensional partitioning", SDM 2010. Corrected: a
box is cut where the cut is significant given the known noise, not by a threshold that the user must guess; both
measurements enter the estimate by their precisions; and intervals include the deviation within boxes, of which the size
is measured.
"""

from __future__ import annotations

from fractions import Fraction

from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.models.base.mechanism import Forecast, Holds, Mechanism, per_cell
from sfumato.models.partition.search import split_by_tree
from sfumato.models.partition.two_stage import MOST_CELLS, release_regions
from sfumato.queries import Workload
from sfumato.releases.contents.cube import Cube
from sfumato.schema import Schema


@dataclass(frozen=True)
class Settings:
    """Settings chosen by judgement.

    first: share of the budget for the cells; the boxes get the rest. More finds boxes better and measures them worse.
    """

    first: Fraction = Fraction(3, 4)


SETTINGS = Settings()


def kdtree(
    curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None, *, settings: Settings = SETTINGS
) -> Cube:
    """Measure cells, cut the domain into homogeneous boxes, measure the boxes, and estimate from both."""
    return release_regions(curator, schema, budget, settings.first, split_by_tree, workload)


MECHANISM = Mechanism(
    name="kdtree",
    summary="cuts the noisy cube into even boxes",
    paper="Xiao, Xiong, Yuan 2010",
    run=kdtree,
    holds=Holds(most_cells=MOST_CELLS),
    forecast=Forecast(work=per_cell(2048)),
)
