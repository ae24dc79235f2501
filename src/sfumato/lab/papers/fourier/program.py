"""How far margins from noisy Walsh-Hadamard coefficients may be off: bound (5) of theorem 4 in Barak et al. 2007.

A table without negative cells behind noisy Walsh-Hadamard coefficients: the linear program of Barak et al. 2007.

Minimise b subject to w >= 0 and |coefficient - (row, w)| <= b for every coefficient. The true table satisfies it with
the largest noise as b, so no coefficient of the solution is farther from the measured one than that, nor farther than
twice that from the true one. Cells that no value has are left out. The simplex method ends in a corner, where at most
as many cells as there are coefficients, and one more, are not zero: rounding to whole numbers moves all cells together
by half of that, which the bound of theorem 4 rests on.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, exp, log, pi, sqrt

import numpy as np

from sfumato.arrays import Floats, Whole
from sfumato.measurement import Laplace, Noise


def theorem_bound(bits: int, coefficients: int, epsilon: float, delta: float) -> float:
    """The paper's bound on the L1 error of a margin of so many bits, for all margins at once but for a chance delta.

    >>> round(theorem_bound(3, 176, 1.0, 0.05))
    23172
    """
    return float(2**bits) * 2 * coefficients * log(coefficients / delta) / epsilon + coefficients


def largest_noise(coefficients: int, noise: Noise, delta: float) -> int:
    """A size that none of so many noises passes, but for a chance delta: exact for Laplace's distribution on integers.

    >>> from fractions import Fraction
    >>> largest_noise(1, Laplace(Fraction(10)), 0.05)
    30
    """
    if isinstance(noise, Laplace):
        # P(|z| > t) = 2 q^(t + 1) / (1 + q) with q = exp(-1 / scale), for whole t
        scale = float(noise.scale)
        return max(0, ceil(scale * (log(2 * coefficients / delta) - log(1 + exp(-1 / scale))) - 1))
    # P(|z| > t) <= 2 exp(-t^2 / (2 sigma^2)): discrete Gaussian noise is subgaussian (Canonne, Kamath, Steinke 2020)
    return ceil(sqrt(2 * float(noise.sigma_squared) * log(2 * coefficients / delta)))


def margin_bound(bits: int, coefficients: int, noise: Noise, delta: float) -> float:
    """The same bound with the noise that was drawn: twice the largest one on each of 2^bits coefficients, and rounding.

    Rounding moves at most one cell more than there are coefficients, each by a half.
    """
    return float(2**bits) * 2 * largest_noise(coefficients, noise, delta) + (coefficients + 1) / 2


def raise_bound(coefficients: int, noise: Noise) -> float:
    """What must be added to the total so that some table without negative cells has all margins: the sum of |noise|.

    This is its expected size. The true table plus its noise, cell by cell, is nowhere below minus that sum over the
    number of cells, so that raising the total by it does.
    """
    typical = float(noise.scale) if isinstance(noise, Laplace) else sqrt(2 * float(noise.sigma_squared) / pi)
    return coefficients * typical


def bits_of(sizes: Sequence[int]) -> int:
    """The bits of a margin of attributes with so many values each."""
    return sum((size - 1).bit_length() for size in sizes)


def whole_table(rows: Floats, coefficients: Whole) -> Whole | None:
    """Cells that are whole numbers, none negative; None if the solver gives up.

    rows: the Walsh rows over all cells, written out.
    """
    from scipy.optimize import linprog

    number, cells = rows.shape
    if not coefficients.any():
        return np.zeros(cells, dtype=np.int64)
    slack = -np.ones((number, 1))
    bounds = np.vstack([np.hstack([rows, slack]), np.hstack([-rows, slack])])
    # In units of the largest coefficient, so that the solver's tolerances mean the same for every table.
    unit = float(np.abs(coefficients).max())
    scaled = coefficients / unit
    found = linprog(
        np.append(np.zeros(cells), 1.0), A_ub=bounds, b_ub=np.concatenate([scaled, -scaled]), method="highs-ds"
    )
    if found.status != 0:
        return None
    rounded: Whole = np.maximum(np.rint(unit * found.x[:-1]), 0.0).astype(np.int64)
    return rounded
