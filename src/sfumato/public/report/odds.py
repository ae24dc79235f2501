"""What a guarantee means as odds: how often a guess about somebody can be right.

Somebody knows everything about the table but whether one person's rows are in it, holds both for equally likely, sees
the release and guesses. Under (epsilon, delta) no rule of guessing is right more often than (e^epsilon + delta) /
(1 + e^epsilon): of the chances p and q of saying "in" with and without that person, p <= e^epsilon q + delta and
1 - q <= e^epsilon (1 - p) + delta (Wasserman, Zhou 2010; Kairouz, Oh, Viswanath 2015), and (p + 1 - q) / 2 is largest
where both are met. Under rho-zCDP that holds for every delta with its epsilon, and the Kullback-Leibler divergence is
at most rho, so (Pinsker; Bretagnolle, Huber) a guess is right at most (1 + min(sqrt(rho / 2), sqrt(1 - e^-rho))) / 2;
the least of all these bounds is taken. For several together epsilon is multiplied and rho grows with the square.
"""

from __future__ import annotations

from fractions import Fraction
from math import exp, sqrt
from typing import TYPE_CHECKING

from sfumato.frozen import dataclass
from sfumato.kernel.budget import epsilon_for
from sfumato.releases.description.group_privacy import GroupPromise, group_privacy

if TYPE_CHECKING:
    from sfumato.releases.file.manifest import Guarantee

FAMILIES = (1, 2, 3, 4)
BELIEFS = (0.01, 0.1, 0.5)
DELTAS = tuple(Fraction(1, 10**place) for place in (1, 2, 3, 4, 6, 8))


@dataclass(frozen=True)
class Odds:
    """For so many together: how often a guess between two equally likely tables is right, at most."""

    people: int
    right: float

    @property
    def of_hundred(self) -> int:
        """The same, of a hundred guesses, rounded."""
        return int(self.right * 100.0 + 0.5)


def odds_of(promised: Guarantee) -> tuple[Odds, ...]:
    """The odds for one and for families of up to four."""
    groups = group_privacy(promised.epsilon, delta=promised.delta, rho=promised.rho, people=FAMILIES)
    return tuple(Odds(one.people, min(_right(one), _of_rho(promised.rho, one.people))) for one in groups)


def belief_after(before: float, epsilon: float) -> float:
    """Of pure epsilon: the most that somebody who was so sure beforehand can be sure of afterwards.

    >>> round(belief_after(0.5, 1.0), 3), round(belief_after(0.01, 1.0), 3)
    (0.731, 0.027)
    """
    factor = exp(min(epsilon, 700.0))
    return before * factor / (before * factor + 1.0 - before)


def _right(one: GroupPromise) -> float:
    factor = one.factor
    return min(1.0, (factor + one.delta) / (1.0 + factor))


def _of_rho(rho: Fraction | None, people: int) -> float:
    if rho is None:
        return 1.0
    together = rho * people**2
    pairs = [(exp(min(float(epsilon_for(together, delta)), 700.0)), float(delta)) for delta in DELTAS]
    by_delta = min((factor + delta) / (1.0 + factor) for factor, delta in pairs)
    distance = min(sqrt(float(together) / 2.0), sqrt(1.0 - exp(-float(together))))
    return min(1.0, by_delta, (1.0 + distance) / 2.0)
