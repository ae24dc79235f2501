"""The end of Fieller's interval from few distributions.

An end is where numerator - r denominator, as noisy as it is, just reaches zero: x D = q(r) s(r), with x how far r lies
beyond the ratio of both, s the standard error of the noise and q its quantile in standard errors. For a given q that is
a quadratic equation. Working q out takes a distribution, and it hardly changes with r, so the end is found by solving,
working q out where the solution lies and solving again: mostly with one distribution more than the start takes.
"""

from __future__ import annotations

from math import isfinite, sqrt

import numpy as np

from sfumato.arrays import Floats
from sfumato.frozen import dataclass
from sfumato.intervals.noises import Noises

SETTLED = 2.5e-4  # of the distance from value to end: a move after which the end is taken, rounded outwards by as much
ROUNDS = 4  # in which it settles, or is searched for otherwise


@dataclass(frozen=True, eq=False)
class Side:
    """What is left before a ratio r is too large: numerator - r * denominator, and what its noise adds.

    top, n: the numerator and the weights of its noises. bottom, d: the denominator and its weights, for ratios from 0
    on and for negative ones.
    """

    noises: Noises
    confidence: float
    top: float
    n: Floats
    bottom: tuple[float, float]
    d: tuple[Floats, Floats]

    def room(self, r: float) -> float:
        """What is left; not negative where r is compatible with what is known."""
        return self.top - r * self.bottom[int(r < 0.0)] + self.noises.width(self._weights(r), self.confidence)

    def settled_end(self, start: float, limit: float) -> float | None:
        """The greatest r up to a limit with room, from a start; None where it has to be searched for.

        It is past the end, never short of it, or the start where that has no room.
        """
        r, guessed = start, self._guess(start)
        if guessed is not None and start < guessed < limit:
            r = guessed
        for _ in range(ROUNDS):
            onward = self._solved(self._reach(r))
            if onward is None:
                return None
            if r == start and onward <= start:
                return start
            onward = min(max(onward, start), limit)
            if abs(onward - r) <= SETTLED * (onward - start):
                return min(max(onward, r) + SETTLED * (onward - start), limit)
            r = onward
        return None

    def _guess(self, start: float) -> float | None:
        """Where the end would be if the noises were about normal together; None where they are not."""
        q = self.noises.nearly(self._weights(start), self.confidence)
        return None if q is None else self._solved(q)

    def _weights(self, r: float) -> Floats:
        return np.asarray(self.n - r * self.d[int(r < 0.0)])

    def _reach(self, r: float) -> float:
        """The quantile of the noise at r, in standard errors."""
        weights = self._weights(r)
        error = sqrt(float(self.noises.variances @ weights**2))
        return self.noises.width(weights, self.confidence) / error if error > 0.0 else 0.0

    def _solved(self, q: float) -> float | None:
        """Where nothing is left if the quantile is q standard errors everywhere; None where that is nowhere."""
        error = sqrt(float(self.noises.variances @ self.n**2))
        negative = int(self.top + q * error < 0.0)  # nothing is left at zero
        bottom, d = self.bottom[negative], self.d[negative]
        if not bottom > 0.0:
            return None
        ratio = self.top / bottom
        left = self.n - ratio * d
        with_itself, with_d, of_d = (
            float(self.noises.variances @ (one * other)) for one, other in ((left, left), (left, d), (d, d))
        )
        # (x bottom)^2 = q^2 (with_itself - 2 x with_d + x^2 of_d), for x = r - ratio >= 0.
        square = bottom * bottom - q * q * of_d
        if not square > 0.0:
            return None
        half = -(q * q) * with_d
        found = ratio + (half + sqrt(half * half + square * (q * q) * with_itself)) / square
        return found if isfinite(found) else None
