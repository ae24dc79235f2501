"""Privacy accounting by cell: one rule of composition, by which no cell may bear more than the budget.

A mechanism opens one charge. Every row i it measures, with noise of scale b_i, loads cell c with |A[i, c]| / b_i, and
the charge keeps the sum of these loads for every cell, exactly. Adding one row of data to cell c changes the log of the
probability of everything published so far by at most that cell's load, so a person with k rows changes it by at most k
times the load of the fullest cell. A measurement that would lift any cell above budget / k is refused before any noise
is drawn. Sequential, parallel and adaptive composition are all this one rule (docs/privacy.md, theorem 2).

Under zero-concentrated privacy loads are A[i, c]^2 / (2 sigma_i^2) and k rows cost k^2 times the load of that cell.
"""

from __future__ import annotations

from fractions import Fraction
from math import lcm

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import MOST_TRACKED
from sfumato.errors import PrivacyError
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.measurement import Gaussian, Laplace, Noise

SAFE = 2**62  # loads are kept in int64 below this and in Python integers above


@dataclass(frozen=True, eq=False)
class Load:
    """Privacy load of cells: an integer per cell (or one for all cells) times an exact unit.

    by_group: amounts are of the charge's groups of cells, each that of its fullest cell.
    """

    amounts: NDArray[np.int64] | int
    unit: Fraction
    by_group: bool = False


class Charge:
    """Privacy accountant of one mechanism: its budget, and the load that every cell has borne.

    groups: number of groups of cells. Where the cells are too many to track, each group has one load for all its cells,
    to which every measurement adds what its fullest cell bears: never less than any cell has borne.
    """

    def __init__(self, budget: Budget, contributions: int, cells: int, groups: int = 1) -> None:
        self.budget = budget
        self.contributions = contributions
        self.cells = cells
        self.groups = groups
        self._denominator = 1
        self._loads: NDArray[np.int64] | NDArray[np.object_] | int = 0

    @property
    def pure(self) -> bool:
        return self.budget.is_pure

    @property
    def limit(self) -> Fraction:
        """The largest load that one cell may bear."""
        return self.budget.amount / (self.contributions if self.pure else self.contributions**2)

    @property
    def tracked(self) -> bool:
        """Whether loads are kept by cell; otherwise one bound serves all cells, or all of a group."""
        return self.cells <= MOST_TRACKED

    @property
    def fullest(self) -> Fraction:
        """The load of the fullest cell."""
        top = self._loads if isinstance(self._loads, int) else int(self._loads.max(initial=0))
        return Fraction(top, self._denominator)

    def admit(self, loads: list[Load]) -> None:
        """Add loads to the cells, or refuse and change nothing if any cell would bear too much."""
        denominator = lcm(self._denominator, *(load.unit.denominator for load in loads))
        total = _times(self._loads, denominator // self._denominator)
        for load in loads:
            if load.unit < 0 or (np.min(load.amounts) if not isinstance(load.amounts, int) else load.amounts) < 0:
                raise PrivacyError("a load is negative; the charge only ever grows")
            amounts = load.amounts
            if load.by_group and (self.tracked or isinstance(amounts, int) or amounts.shape != (self.groups,)):
                raise PrivacyError("a load by group is one for each group of a charge that does not track its cells")
            if not self.tracked and not load.by_group and not isinstance(amounts, int):
                amounts = int(amounts.max(initial=0))
            total = _plus(total, _times(amounts, int(load.unit * denominator)))
        top = total if isinstance(total, int) else int(total.max(initial=0))
        if Fraction(top, denominator) > self.limit:
            raise PrivacyError(
                f"this measurement would bring a cell to {Fraction(top, denominator)} of a budget of {self.limit} "
                f"per row ({self.fullest} is borne already); ask for less or open a larger budget"
            )
        self._loads, self._denominator = total, denominator


def noise_for(budget: Budget, contributions: int, *, l1: Fraction, l2_squared: Fraction) -> Noise:
    """Least noise, equal on every row, that a budget pays for.

    l1, l2_squared: the most that one row of data changes all answers together, as a sum and as a sum of squares. It is
    the charge's rule read the other way: the load of the fullest cell, l1 / scale, equals what a cell may bear.
    """
    if budget.is_pure:
        return Laplace(contributions * l1 / budget.amount)
    return Gaussian(contributions**2 * l2_squared / (2 * budget.amount))


def load_of(
    noise: Noise, l1: NDArray[np.int64] | int, l2_squared: NDArray[np.int64] | int, unit: int | Fraction = 1
) -> Load:
    """The load of answers with this noise on cells. l1, l2_squared: of each cell's column; unit: what a row adds."""
    if isinstance(noise, Laplace):
        return Load(l1, Fraction(unit) / noise.scale)
    return Load(l2_squared, Fraction(unit) ** 2 / (2 * noise.sigma_squared))


Amounts = NDArray[np.int64] | NDArray[np.object_] | int


def _times(amounts: Amounts, factor: int) -> Amounts:
    """Exact product: int64 while that is safe, Python integers otherwise."""
    if isinstance(amounts, int) or factor == 1:
        return amounts * factor
    if amounts.dtype != object and int(amounts.max(initial=0)) * factor < SAFE:
        return np.asarray(amounts * np.int64(factor), dtype=np.int64)
    return np.asarray(amounts.astype(object) * factor, dtype=object)


def _plus(a: Amounts, b: Amounts) -> Amounts:
    """Exact sum: int64 while that is safe, Python integers otherwise."""
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    a, b = (np.asarray(x, dtype=object if isinstance(x, int) and x >= SAFE else None) for x in (a, b))
    if object not in (a.dtype, b.dtype) and int(a.max(initial=0)) + int(b.max(initial=0)) < SAFE:
        return np.asarray(a + b, dtype=np.int64)
    return np.asarray(a.astype(object) + b.astype(object), dtype=object)
