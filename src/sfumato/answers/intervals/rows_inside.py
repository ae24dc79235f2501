"""What was measured of a set of cells alone, whatever a fit then made of it.

A fit that leans on a model spreads rows over cells which hold none: next to the last cell with rows, a smooth estimate
has some too. Whether a set of cells holds any rows at all is better asked of the noisy counts of regions that lie
wholly inside it: if it is empty, they are noise and nothing else, and the noise is known.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.answers.fit import Fit, Sets
from sfumato.answers.intervals.noise_sum import upper_quantile
from sfumato.frozen import dataclass
from sfumato.measurement import Measurement, Noise

FAR = 25.0  # deviations of the noise, beyond which no noise gets within any confidence that is asked


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
    parts = fit.measured_inside(within)
    if parts is None:
        return None
    return [_sign([(measured, rows[:, place]) for measured, rows in parts]) for place in range(within.shape[1])]


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
