"""ISPE: cells (I), smoothing (S), regions of similar counts (P), estimation from all that was observed (E).

Xiao, Xiong, Yuan, "ISPE: Adaptive differentially private data release and query estimation", TR-2011-005. Corrected:
regions grow by the absolute difference of neighbours (Algorithm 2 lacks it); observations that share noise are treated
as dependent; a neighbour is evidence with a spread that is estimated; and so intervals hold what they promise.
"""

from __future__ import annotations

from fractions import Fraction

from sfumato.arrays import Codes, Floats
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.models.base.mechanism import Holds, Mechanism
from sfumato.models.partition.search import grow_buckets
from sfumato.models.partition.smoothing import noise_left, smooth
from sfumato.models.partition.two_stage import MOST_CELLS, ordered_axes, release_regions
from sfumato.queries import Workload
from sfumato.releases.contents.cube import Cube
from sfumato.schema import Schema


@dataclass(frozen=True)
class Settings:
    """What was chosen by judgement; the paper leaves all of it to the user.

    first: the share of the budget for the cells, alpha_1 / alpha in the paper. More finds regions better and measures
    them worse. smoothing: "gaussian", "median" or "none", so many iterations of it; more see larger regions and blur
    edges. xi: smoothed neighbours that differ by less are one region. None: what the noise, of which the distribution
    is known, leaves in such a difference, `apart` deviations of it; more make fewer regions.
    """

    first: Fraction = Fraction(3, 4)
    smoothing: str = "gaussian"
    iterations: int = 5
    xi: float | None = None
    apart: float = 3.0


SETTINGS = Settings()


def ispe(
    curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None, *, settings: Settings = SETTINGS
) -> Cube:
    """Measure cells, grow regions of similar smoothed counts, measure the regions, and estimate from both."""
    axes = ordered_axes(schema.domain)
    how = settings.smoothing, settings.iterations

    def regions(noisy: Floats, variance: float) -> Codes:
        left = settings.apart * variance**0.5 * noise_left(axes, *how)
        xi = max(left, 0.5) if settings.xi is None else settings.xi  # whole counts that differ by less are equal
        return grow_buckets(smooth(noisy, axes, *how), axes, xi)

    return release_regions(curator, schema, budget, settings.first, regions, workload)


MECHANISM = Mechanism(
    name="ispe",
    summary="smooths noisy cells into regions, uses both",
    paper="Xiao, Xiong, Yuan 2011",
    run=ispe,
    holds=Holds(most_cells=MOST_CELLS),
)
