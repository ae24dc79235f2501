"""Values of measures in synthetic rows: maximum-entropy draws with the estimated mean of each cell.

A release has sums of a measure, hence a mean for every cell and nothing on the spread around it. Rows get the
maximum-entropy distribution on the measure's bounds with this mean (truncated exponential), in whole steps of the
schema with randomised rounding, so that sums are unbiased. Means of noisy cells are shrunk to the overall mean.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np

from sfumato.arrays import Floats
from sfumato.domain import Domain
from sfumato.frozen import dataclass
from sfumato.releases.rows.model import Grouping, RandomNumbers
from sfumato.releases.rows.raking import Layout
from sfumato.schema import Schema
from sfumato.schema.parts import ROWS, Measure

MOST_GROUPS = 64  # of an attribute, by which means are made to fit; cells are too noisy to be fitted one by one
SWEEPS = 2
INDICATOR = Measure(lower=Fraction(0), upper=Fraction(1), step=Fraction(1))  # 1 for a row without a value
STEEPEST = 500.0  # of the exponential laws that are looked up: beyond, the other bound no longer matters


@dataclass(frozen=True, eq=False)
class Sums:
    """Estimated sums of one measure.

    sums: in steps around the centre, by cell, in the shape of the rows. error: standard error of one cell's sum.
    total_rows, total_sum: over all cells.
    """

    measure: Measure
    sums: Floats
    error: float
    total_rows: float
    total_sum: float

    @property
    def overall(self) -> float:
        """Mean of all rows."""
        return self.mean(self.total_sum, max(self.total_rows, 1.0))

    @property
    def worth(self) -> float:
        """Prior weight, in rows, of the overall mean: the noise of one cell's sum over half of the range."""
        return max(self.error / self.measure.half_units, 1e-9)

    def mean(self, in_steps: float, rows: float) -> float:
        """Mean of `rows` rows from their sum in steps."""
        return float(self.means(np.array([in_steps]), np.array([rows]))[0])

    def means(self, in_steps: Floats, rows: Floats) -> Floats:
        """Means clipped to the bounds, from sums in steps and numbers of rows, (n,) each."""
        found = float(self.measure.centre) + in_steps * float(self.measure.step) / rows
        return np.clip(found, float(self.measure.lower), float(self.measure.upper))


def summed(schema: Schema) -> dict[str, Measure]:
    """Measures with published sums, and the indicators of missing values."""
    return {of: schema.measures.get(of, INDICATOR) for of in list(schema.units)[1:] if of != ROWS}


def fit_means(estimated: Sums, rows: Floats, layout: Layout, domain: Domain) -> Floats:
    """Mean of every cell, in the shape of rows: shrunk to the overall mean, then adjusted to one-way means."""
    step, low, high = float(estimated.measure.step), float(estimated.measure.lower), float(estimated.measure.upper)
    pull = (estimated.overall - float(estimated.measure.centre)) / step * estimated.worth
    means = estimated.means(estimated.sums + pull, rows + estimated.worth)
    for _ in range(SWEEPS):
        for number, axis in enumerate(domain):
            grouping = Grouping.of(axis, MOST_GROUPS)
            held = grouping.gather(layout.along(rows, (number,)), 0)
            sums = grouping.gather(layout.along(estimated.sums, (number,)), 0)
            have = grouping.gather(layout.along(rows * means, (number,)), 0) / np.maximum(held, 1e-300)
            # As many cells as a group has, as many noises are in its sum.
            worth = estimated.worth * np.sqrt(np.maximum(grouping.widths * (rows.size / axis.size), 1.0))
            wanted = estimated.means(sums + pull / estimated.worth * worth, held + worth)
            up = np.clip((wanted - have) / np.maximum(high - have, 1e-300), 0.0, 1.0)
            down = np.clip((have - wanted) / np.maximum(have - low, 1e-300), 0.0, 1.0)
            every = layout.back(np.repeat(up, grouping.widths), (number,))
            means += (high - means) * every
            means -= (means - low) * layout.back(np.repeat(down, grouping.widths), (number,))
    return np.clip(means, low, high)


def of_present(measure: Measure, means: Floats, missing: Floats) -> Floats:
    """Mean of the rows with a value, from the mean of all rows with missing ones at the centre.

    missing: share of rows without a value, (rows,).
    """
    centre = float(measure.centre)
    return np.clip(
        centre + (means - centre) / np.maximum(1.0 - missing, 1e-9), float(measure.lower), float(measure.upper)
    )


def spread_values(
    measure: Measure,
    means: Floats,
    random: RandomNumbers,
    within: tuple[Floats, Floats] | None = None,
    step: Fraction | None = None,
) -> Floats:
    """Draw values with given means, (rows,), in whole steps. within: narrower bounds of each row, upper excluded.

    step: the measure's own if None.
    """
    low, high = (np.full(len(means), float(bound)) for bound in (measure.lower, measure.upper))
    if within is not None:
        low, high = within[0], np.maximum(*within)
    span = np.maximum(high - low, 1e-300)
    values = low + span * _spread(np.clip((means - low) / span, 0.0, 1.0), random.uniform(len(means)))
    step = measure.step if step is None else step
    steps = np.floor(values / float(step) + random.uniform(len(means)))
    first, last = np.ceil(low / float(step)), np.floor(high / float(step))
    if within is not None:  # an upper edge is the next cell's
        last = np.where((last * float(step) >= high) & (high < float(measure.upper)), last - 1, last)
    steps = np.clip(
        np.minimum(np.maximum(steps, first), last), float(-(-measure.lower // step)), float(measure.upper // step)
    )
    return np.asarray(steps * step.numerator / step.denominator, dtype=np.float64)


def _spread(means: Floats, uniform: Floats) -> Floats:
    """Truncated exponential draws on [0, 1] with given means, by inversion; means and uniform are (rows,)."""
    slopes, falling = _slopes()
    nearer = np.minimum(means, 1.0 - means)  # a law that rises is one that falls, turned around
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.where(nearer < falling[-1], 1.0 / nearer, np.interp(-nearer, -falling, slopes))
        found = np.where(slope < slopes[1], uniform, -np.log1p(uniform * np.expm1(-slope)) / slope)
    return np.where(means > 0.5, 1.0 - found, found)


@cache
def _slopes() -> tuple[Floats, Floats]:
    """Table of rates of the truncated exponential and its mean at each; beyond it the mean is 1 / rate."""
    slopes = np.geomspace(1e-4, STEEPEST, 4000)
    return np.append(0.0, slopes), np.append(0.5, 1.0 / slopes - 1.0 / np.expm1(slopes))
