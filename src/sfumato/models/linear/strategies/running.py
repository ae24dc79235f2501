"""Running totals over periods: the square root of the prefix matrix, measured period by period.

The prefix matrix A (ones on and below the diagonal) is C^2 with the lower-triangular Toeplitz matrix C of coefficients
c_k = binom(2k, k) / 4^k (Fichtenberger, Henzinger, Upadhyay 2023). Measuring C x + z, with z of standard deviation s on
each period, gives running totals A x + C z and single periods x + C^-1 z, where C^-1 has d_k = -c_k / (2k - 1). One
person in one period moves C x by a column of C, so s is the noise of one measurement times the longest column:

    standard error of the running total of t periods:  s * sqrt(c_0^2 + ... + c_(t-1)^2)
    of the t-th period alone:                           s * sqrt(d_0^2 + ... + d_(t-1)^2)

Both are known before any data. A sum over periods i to j has the error of the rows j minus i of C. Coefficients are
dyadic, so that with counts times 4^(n-1), or with coefficients rounded to `PARTS`, everything is a whole number.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import sqrt

import numpy as np

from sfumato.arrays import Floats
from sfumato.frozen import dataclass

PARTS = 2**20  # of one, in which a coefficient is stated as a whole number


@lru_cache(maxsize=16)
def coefficients(periods: int) -> tuple[Fraction, ...]:
    """Coefficients binom(2k, k) / 4^k of the square root of the prefix matrix.

    >>> [str(each) for each in coefficients(4)]
    ['1', '1/2', '3/8', '5/16']
    """
    result = [Fraction(1)]
    for k in range(1, periods):
        result.append(result[-1] * Fraction(2 * k - 1, 2 * k))
    return tuple(result)


def inverse(periods: int) -> tuple[Fraction, ...]:
    """Coefficients of the inverse of the square root: those of sqrt(1 - x).

    >>> [str(each) for each in inverse(4)]
    ['1', '-1/2', '-1/8', '-1/16']
    """
    return tuple(each / (1 - 2 * k) for k, each in enumerate(coefficients(periods)))


def in_parts(periods: int) -> list[int]:
    """Coefficients rounded to whole parts: those of a public matrix that is measured exactly on integers."""
    return [round(each * PARTS) for each in coefficients(periods)]


@dataclass(frozen=True)
class Running:
    """Square-root factorisation over a planned number of periods. most: periods in which one person may be counted."""

    periods: int
    most: int = 1

    @property
    def sensitivity(self) -> float:
        """Largest l2 norm of what one person adds to C x: of the sum of the first `most` columns, the longest ones."""
        first = np.array([float(each) for each in coefficients(self.periods)])
        moved = np.cumsum(first)
        most = min(self.most, self.periods)
        moved[most:] -= np.cumsum(first)[: self.periods - most]
        return sqrt(float((moved**2).sum()))

    def totals(self) -> Floats:
        """Standard error of the running total of 1, 2, ... periods, per unit noise of one measurement, (periods,)."""
        return self._errors([float(each) for each in coefficients(self.periods)])

    def single(self) -> Floats:
        """Standard error of every single period, per unit noise of one measurement, (periods,)."""
        return self._errors([float(each) for each in inverse(self.periods)])

    def anew(self) -> Floats:
        """Standard error of running totals where every period is measured anew under the same promise, (periods,)."""
        return np.asarray(np.sqrt(np.arange(1, self.periods + 1) * float(min(self.most, self.periods))))

    def _errors(self, row: list[float]) -> Floats:
        return np.asarray(self.sensitivity * np.sqrt(np.cumsum(np.square(row))), dtype=np.float64)


def rounded_errors(periods: int) -> Floats:
    """Standard errors of running totals with coefficients in whole parts: rows of A C^-1 for the rounded C, (periods,).

    The inverse of a lower-triangular Toeplitz matrix by the recursion of power series.
    """
    row = np.array(in_parts(periods), dtype=np.float64) / PARTS
    back = np.zeros(periods)
    back[0] = 1.0
    for k in range(1, periods):
        back[k] = -float(row[1 : k + 1] @ back[k - 1 :: -1][:k])
    moved = np.cumsum(back)
    return np.asarray(sqrt(float((row**2).sum())) * np.sqrt(np.cumsum(moved**2)), dtype=np.float64)
