"""What was measured of a set of cells alone, whatever a fit then made of it.

A fit that leans on a model spreads rows over cells which hold none: next to the last cell with rows, a smooth estimate
has some too. Whether a set of cells holds any rows at all is better asked of the noisy counts of regions that lie
wholly inside it: if it is empty, they are noise and nothing else, and the noise is known.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.frozen import dataclass
from sfumato.inference.fits.base import Fit
from sfumato.inference.fits.buckets import OverBuckets
from sfumato.inference.fits.measured.fit import innermost
from sfumato.inference.fits.shrinkage import ShrinkageFit
from sfumato.inference.fits.tree import TreeFit
from sfumato.intervals.noise_sum import upper_quantile
from sfumato.measurement import Measurement, Noise
from sfumato.queries import Identity, Ranges

FAR = 25.0  # deviations of the noise, beyond which no noise gets within any confidence that is asked
Sets = NDArray[np.bool_]  # of cells, a column each


@dataclass(frozen=True, eq=False)
class Sign:
    """A sum of noisy counts, each by its precision, and the noises in it; about 0 if there are no rows."""

    value: float
    variance: float
    terms: tuple[tuple[float, Noise, int], ...]

    def is_sure(self, probability: float) -> bool:
        """Whether noise alone stays below it with this probability."""
        deviation = self.variance**0.5
        if not 0.0 < self.value <= FAR * deviation:
            return self.value > 0.0
        return self.value > upper_quantile(self.terms, probability)


def signs_of_rows(fit: Fit, within: Sets) -> list[Sign] | None:
    """For each set of cells, what speaks for rows in it; None where a fit is not of a kind that tells.

    within: (cells, sets).
    """
    parts = _measured_inside(fit, within)
    if parts is None:
        return None
    return [_sign([(measured, rows[:, place]) for measured, rows in parts]) for place in range(within.shape[1])]


def _measured_inside(fit: Fit, within: Sets) -> list[tuple[Measurement, Sets]] | None:
    """Each measurement, with the rows of it that count cells of a set alone."""
    fit = innermost(fit)
    if isinstance(fit, TreeFit) and isinstance(fit.measurement.queries, Ranges):
        ranges = fit.measurement.queries
        before = np.zeros((len(within) + 1, within.shape[1]), dtype=np.int64)
        np.cumsum(~within[fit.tree.order], axis=0, out=before[1:])
        return [(fit.measurement, before[ranges.highs + 1] == before[ranges.lows])]
    if not isinstance(fit, OverBuckets):
        return None
    outside = np.stack([np.bincount(fit.labels, weights=~one) for one in within.T], axis=1)
    found = _measured_inside(fit.totals, outside == 0.0)
    if isinstance(fit, ShrinkageFit):
        totals = fit.totals.measurements[0]
        regions = [(totals, outside == 0.0)] if isinstance(totals.queries, Identity) else []
        return [*regions, (fit.cells, within)]
    return found


def _sign(parts: list[tuple[Measurement, NDArray[np.bool_]]]) -> Sign:
    value, variance, terms = 0.0, 0.0, list[tuple[float, Noise, int]]()
    for measured, rows in parts:
        answers, which = measured.answers[rows], measured.which
        kinds = np.zeros(len(answers), dtype=np.int64) if which is None else which[rows]
        for kind, many in enumerate(np.bincount(kinds, minlength=len(measured.noises)).tolist()):
            if many:
                noise = measured.noises[kind]
                precision = 1.0 / noise.continuous_variance
                value += precision * float(answers[kinds == kind].sum())
                variance += precision**2 * noise.variance * many
                terms.append((precision, noise, many))
    return Sign(value, variance, tuple(terms))
