"""Running totals over periods: the square root of the prefix matrix, on a grid, measured period by period.

The prefix matrix A (ones on and below the diagonal) is C^2 with the lower-triangular Toeplitz matrix C of coefficients
c_k = binom(2k, k) / 4^k (Fichtenberger, Henzinger, Upadhyay 2023). Here C has its coefficients rounded to multiples of
1 / GRID, the first of which is 1: any such matrix may be measured, and this one loses less than 0.02 %. Measuring
C x + z, with z of standard deviation s on each period, gives single periods x + C^-1 z and running totals
A x + A C^-1 z. One person in one period moves C x by a column of C, so s is the noise of one measurement times the
length of the first column, the longest; one in k periods moves it by the sum of k columns (`worst_square`):

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


@lru_cache(maxsize=16)
def worst_square(periods: int, together: int = 1) -> Fraction:
    """Squared length by which each period counts of one row in up to so many periods together, exactly.

    The largest of |sum of the first j columns of GRID * C|^2 / j for j up to `together`: no other j columns have a
    longer sum (docs/privacy.md, theorem 14). Of one period it is the first column's, of which every later one is a
    beginning.

    >>> worst_square(2) / GRID**2, worst_square(2, together=2) / GRID**2
    (Fraction(5, 4), Fraction(13, 8))
    """
    prefix = np.cumsum(np.array(on_grid(periods), dtype=np.int64))  # of 4,096 periods: sums of squares stay below 2^50

    def square(j: int) -> Fraction:
        moved = prefix.copy()
        moved[j:] -= prefix[: periods - j]
        return Fraction(int((moved**2).sum()), j)

    return max(square(j) for j in range(1, min(together, periods) + 1))


@dataclass(frozen=True)
class Running:
    """Errors by this factorisation over a planned number of periods, each per unit noise of one measurement.

    together: periods in which one person may be.
    """

    periods: int
    together: int = 1

    @property
    def sensitivity(self) -> float:
        """Noise on C beside that of one period measured anew: for one period the length of the longest column."""
        return sqrt(worst_square(self.periods, self.together)) / GRID

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
