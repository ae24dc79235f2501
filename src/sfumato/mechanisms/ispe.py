"""ISPE: cells (I), smoothing (S), regions of similar counts (P), estimation from all that was observed (E).

Xiao, Xiong, Yuan, "ISPE: Adaptive differentially private data release and query estimation", TR-2011-005. Corrected:
regions grow by the absolute difference of neighbours (Algorithm 2 lacks it); observations that share noise are treated
as dependent; a neighbour is evidence with a spread that is estimated; and so intervals hold what they promise.
"""

from __future__ import annotations

from fractions import Fraction

from sfumato.arrays import Codes, Floats
from sfumato.inference.partition_search import grow_buckets
from sfumato.inference.smoothing import noise_left, smooth
from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.mechanisms._two_stage import ordered_axes, release_regions, too_large
from sfumato.queries import Workload
from sfumato.releases.cube import Cube
from sfumato.schema import Schema

APART = 3.0  # deviations of the noise left in a difference of smoothed neighbours, up to which they grow together


def ispe(
    curator: Curator,
    schema: Schema,
    budget: Budget,
    workload: Workload | None = None,
    *,
    first: Fraction = Fraction(3, 4),
    smoothing: str = "gaussian",
    iterations: int = 5,
    xi: float | None = None,
) -> Cube:
    """Measure cells, grow regions of similar smoothed counts, measure the regions, and estimate from both.

    first: the share of the budget for the cells, alpha_1 / alpha in the paper. smoothing: "gaussian", "median" or
    "none", so many iterations of it. xi: smoothed neighbours that differ by less are one region; by default what the
    noise, of which the law is known, leaves in such a difference.
    """
    axes = ordered_axes(schema.domain)

    def regions(noisy: Floats, variance: float) -> Codes:
        left = variance**0.5 * noise_left(axes, smoothing, iterations)
        closeness = xi if xi is not None else max(APART * left, 0.5)  # whole counts that differ by less are equal
        return grow_buckets(smooth(noisy, axes, smoothing, iterations), axes, closeness)

    return release_regions(curator, schema, budget, first, regions)


def refuses(schema: Schema, workload: Workload | None) -> str | None:
    """Why ispe does not fit a schema."""
    return too_large("ispe", schema)
