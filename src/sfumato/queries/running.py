"""Running totals over periods: the square root of the prefix matrix, on a grid, measured period by period.

The prefix matrix A (ones on and below the diagonal) is C^2 with the lower-triangular Toeplitz matrix C of coefficients
c_k = binom(2k, k) / 4^k (Fichtenberger, Henzinger, Upadhyay 2023). Here C has its coefficients rounded to multiples of
1 / GRID, the first of which is 1: any such matrix may be measured, and this one loses less than 0.02 %. Measuring
C x + z, with z of standard deviation s on each period, gives single periods x + C^-1 z and running totals
A x + A C^-1 z. One person in one period moves C x by a column of C, so s is the noise of one measurement times the
length of the first column, the longest:

    standard error of the running total of t periods:  s * length of row t of A C^-1, nearly that of row t of C
    of the t-th period alone:                           s * length of row t of C^-1

Both are known before any data. GRID * C is whole, so that GRID * C x is, and noise is drawn in whole GRID-ths of a row.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import sqrt

import numpy as np

from sfumato.arrays import Floats
from sfumato.frozen import dataclass

GRID = 2**10  # coefficients and noise are multiples of 1 / GRID, as estimates in files are


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


@lru_cache(maxsize=16)
def on_grid(periods: int) -> tuple[int, ...]:
    """Coefficients in whole GRID-ths: those of the matrix that is measured.

    >>> on_grid(4)
    (1024, 512, 384, 320)
    """
    return tuple(round(each * GRID) for each in coefficients(periods))


def column_square(periods: int) -> int:
    """Squared length of the longest column of GRID * C, exactly: what one row of one period moves all measurements by.

    Every later column is a beginning of the first.
    """
    return sum(each**2 for each in on_grid(periods))


@dataclass(frozen=True)
class Running:
    """Errors by this factorisation over a planned number of periods, each per unit noise of one measurement."""

    periods: int

    @property
    def sensitivity(self) -> float:
        """Length of the longest column of C."""
        return sqrt(column_square(self.periods)) / GRID

    @property
    def inverse(self) -> Floats:
        """Coefficients of C^-1, by the recursion of power series, (periods,)."""
        row, back = np.array(on_grid(self.periods)) / GRID, np.zeros(self.periods)
        back[0] = 1.0
        for k in range(1, self.periods):
            back[k] = -float(row[1 : k + 1] @ back[k - 1 :: -1][:k])
        return back

    def totals(self) -> Floats:
        """Standard error of the running total of 1, 2, ... periods, (periods,)."""
        return self._errors(np.cumsum(self.inverse))

    def single(self) -> Floats:
        """Standard error of every single period, (periods,)."""
        return self._errors(self.inverse)

    def anew(self) -> Floats:
        """Standard error of running totals where every period is measured anew, (periods,)."""
        return np.asarray(np.sqrt(np.arange(1.0, self.periods + 1)))

    def _errors(self, row: Floats) -> Floats:
        return np.asarray(self.sensitivity * np.sqrt(np.cumsum(row**2)), dtype=np.float64)
