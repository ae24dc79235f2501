"""DPCube: noisy cells, a kd-tree of boxes found in them, noisy counts of the boxes.

Xiao, Xiong, Yuan, "Differentially private data release through multidimensional partitioning", SDM 2010. Corrected: a
box is cut where the cut stands out of the known noise, not by a threshold the user must guess; both measurements enter
the estimate by their variances; and its intervals carry the unevenness of the boxes.
"""

from __future__ import annotations

from fractions import Fraction

from sfumato.inference.partition_search import split_by_tree
from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.mechanisms._two_stage import release_regions, too_large
from sfumato.queries import Workload
from sfumato.releases.contents.cube import Cube
from sfumato.schema import Schema


def kdtree(
    curator: Curator,
    schema: Schema,
    budget: Budget,
    workload: Workload | None = None,
    *,
    first: Fraction = Fraction(3, 4),
) -> Cube:
    """Measure cells, cut the domain into boxes that look even in them, measure the boxes, and use both.

    first: the share of the budget for the cells; the boxes get the rest.
    """
    return release_regions(curator, schema, budget, first, split_by_tree)


def refuses(schema: Schema, workload: Workload | None) -> str | None:
    """Why kdtree does not fit a schema."""
    return too_large("kdtree", schema)
