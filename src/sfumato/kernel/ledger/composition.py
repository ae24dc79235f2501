"""Composition of releases: the epsilon that follows from all entries of an account, and what still fits into a total.

Every release is epsilon-private (pure), rho-zCDP, or (epsilon, delta)-private without a rho (a threshold). Two ways
of adding up are valid (docs/privacy.md, section 13, has the theorems and their proofs):

    sums    epsilons add up, and deltas
    order   for any order alpha > 1 the Renyi divergences of that order add up: alpha * rho of a zCDP release,
            min(epsilon, alpha * epsilon^2 / 2) of a pure one. A sum of r at that order is (r + gap, delta)-private,
            with the gap of the conversion in budget.py. Thresholds stand beside: their epsilons and deltas are added.

A total may also be stated in rho: then every release must be zCDP or pure, and the sum of their rhos keeps to it.

What is told of an account is the smaller epsilon, by the best order. What is *refused* goes by sums, or by a few orders
that follow from the total, so that it also holds if a curator looks at one release before he asks for the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from fractions import Fraction
from math import exp, log, log1p

from sfumato.errors import BudgetError
from sfumato.frozen import dataclass
from sfumato.kernel.budget import (
    MOST,
    SMALLEST_DELTA,
    USUAL_DELTA,
    conversion_gap,
    epsilon_for,
    order_for,
    rho_for,
    rounded,
)

NOTHING = Fraction(0)
ORDERS = 6  # by which it is decided whether a release fits: with sums, seven ways
UP, DOWN = Context(prec=18, rounding=ROUND_CEILING), Context(prec=4, rounding=ROUND_FLOOR)


@dataclass(frozen=True)
class Loss:
    """Privacy loss of one release: (epsilon, delta), pure if delta is 0; rho where it is zCDP with a delta."""

    epsilon: Fraction
    delta: Fraction = NOTHING
    rho: Fraction | None = None

    @property
    def pure(self) -> bool:
        return self.delta == 0

    @property
    def by_sums_only(self) -> bool:
        """Whether it has a delta and no rho, as a threshold has."""
        return not self.pure and self.rho is None

    @property
    def concentrated(self) -> Fraction | None:
        """The rho of its zCDP, epsilon^2 / 2 of a pure one; None for a threshold."""
        return (self.epsilon**2 / 2 if self.pure else None) if self.rho is None else self.rho

    def at(self, alpha: Fraction) -> Fraction:
        """Bound on the Renyi divergence of order alpha."""
        return min(self.epsilon, alpha * self.epsilon**2 / 2) if self.rho is None else alpha * self.rho


@dataclass(frozen=True)
class Total:
    """The most that all releases of a dataset may cost together: an epsilon with or without a delta, or a rho.

    rho: where the total was stated so, what holds; `epsilon` then only tells what it amounts to, at `delta` or 1e-6.
    """

    epsilon: Fraction
    delta: Fraction | None = None
    rho: Fraction | None = None

    @classmethod
    def in_rho(cls, rho: Fraction, delta: Fraction | None = None) -> Total:
        """Total of rho-zCDP, told at a delta."""
        return cls(epsilon_for(rho, delta or USUAL_DELTA), delta, rho)


@dataclass(frozen=True)
class Composed:
    """What a number of releases are together: (epsilon, delta)-private.

    rho: the sum over releases (epsilon^2 / 2 for a pure one), where an order gave the figure; None where sums did.
    """

    epsilon: Fraction
    delta: Fraction
    rho: Fraction | None = None


def composed(losses: Sequence[Loss], delta: Fraction | None) -> Composed:
    """The smallest epsilon that releases have together, at a total delta.

    delta: None where no total was stated; then it is `told_delta`.

    >>> twelve = [Loss(Fraction(1), Fraction(1, 10**9), Fraction(149, 10000))] * 12
    >>> round(float(composed(twelve, None).epsilon), 2)
    3.45
    """
    sums, by_order = _sums(losses), _by_best_order(losses, told_delta(losses) if delta is None else delta)
    if by_order is None:
        return sums
    is_less = by_order.epsilon * 1000 < sums.epsilon * 999  # else the sum, a round number, is told
    return by_order if is_less or (delta is not None and sums.delta > delta) else sums


def told_delta(losses: Sequence[Loss]) -> Fraction:
    """The delta at which an account is told where nobody stated a total: as many of the smallest as there are releases.

    Where all are alike it is their sum. A release with a larger delta does not make the epsilons of others smaller.
    """
    deltas = [loss.delta for loss in losses if not (loss.pure or loss.by_sums_only)]
    beside = _sums(loss for loss in losses if loss.by_sums_only).delta
    return beside + (len(deltas) * min(deltas) if deltas else NOTHING)


def sum_of_rho(losses: Sequence[Loss]) -> Fraction | None:
    """Rho of all releases together; None where one of them is a threshold, which has none."""
    each = [loss.concentrated for loss in losses]
    return None if None in each else sum((rho for rho in each if rho is not None), NOTHING)


def fits(losses: Sequence[Loss], total: Fraction, delta: Fraction | None, rho: Fraction | None = None) -> bool:
    """Whether releases keep to a total (epsilon, delta), by sums or by one of the orders that follow from the total.

    rho: where the total was stated in rho, which then is all that counts. Exact comparisons, no tolerance: the privacy
    of the dataset rests on them.
    """
    if rho is not None:
        spent = sum_of_rho(losses)
        return spent is not None and spent <= rho
    sums = _sums(losses)
    if sums.epsilon <= total and (sums.delta < 1 if delta is None else sums.delta <= delta):
        return True
    return _fit_at_some_order(losses, total, told_delta(losses) if delta is None else delta)


def largest_next(
    losses: Sequence[Loss], total: Fraction, delta: Fraction | None, at: Fraction = NOTHING, rho: Fraction | None = None
) -> Fraction:
    """The largest epsilon, rounded down to four digits, that one more release may have; 0 if none fits.

    at: its delta; 0 for a pure one. rho: of a total that was stated so.
    """
    low, high = NOTHING, min(Fraction(MOST), 2 * total + (0 if rho is None else 1 + rho))
    for _ in range(20):
        middle = rounded((low + high) / 2, DOWN)
        if not low < middle < high:
            break
        low, high = (middle, high) if _fits_one_more(losses, total, delta, middle, at, rho) else (low, middle)
    if rho is not None:
        return low
    whole = max(NOTHING, total - _sums(losses).epsilon)  # what sums leave is told as it is, without a rounding
    return whole if whole > low and _fits_one_more(losses, total, delta, whole, at) else low


def _fits_one_more(
    losses: Sequence[Loss],
    total: Fraction,
    delta: Fraction | None,
    epsilon: Fraction,
    at: Fraction,
    rho: Fraction | None = None,
) -> bool:
    try:
        return fits([*losses, Loss(epsilon, at, rho_for(epsilon, at) if at else None)], total, delta, rho)
    except BudgetError:  # no rho fits
        return False


def _sums(losses: Iterable[Loss]) -> Composed:
    listed = list(losses)
    return Composed(sum((loss.epsilon for loss in listed), NOTHING), sum((loss.delta for loss in listed), NOTHING))


def _by_best_order(losses: Sequence[Loss], delta: Fraction) -> Composed | None:
    """Composition at the order that tells the smallest epsilon; None where no delta is left for it."""
    beside, rest = _sums(loss for loss in losses if loss.by_sums_only), [x for x in losses if not x.by_sums_only]
    room = delta - beside.delta
    if not rest or not SMALLEST_DELTA <= room < 1:
        return None
    pures = [float(loss.epsilon) for loss in rest if loss.pure]
    rhos, chance = sum(float(loss.rho or 0) for loss in rest), log(room.numerator) - log(room.denominator)

    def roughly(logarithm: float) -> float:
        x = exp(logarithm)
        at_order = (1 + x) * rhos + sum(min(each, (1 + x) * each * each / 2) for each in pures)
        return at_order + logarithm - (chance + (1 + x) * log1p(x)) / x

    best, reach = 0.0, 30.0  # the logarithm of alpha - 1, in ever finer steps
    for _ in range(5):
        best = min((best + reach * step / 20 for step in range(-20, 21)), key=roughly)
        reach /= 10
    x = Fraction(exp(best))
    together = sum((loss.at(1 + x) for loss in rest), NOTHING) + conversion_gap(x, room)
    return Composed(rounded(max(NOTHING, together) + beside.epsilon, UP), delta, sum_of_rho(rest))


def _fit_at_some_order(losses: Sequence[Loss], total: Fraction, delta: Fraction) -> bool:
    """Whether divergences add up to no more than the total allows at one of `ORDERS` orders.

    The first is the best one of a single zCDP release of the total; where pure releases take a part of it, what is left
    for the others is best counted at higher orders.
    """
    beside, rest = _sums(loss for loss in losses if loss.by_sums_only), [x for x in losses if not x.by_sums_only]
    room = delta - beside.delta
    if not SMALLEST_DELTA <= room < 1:
        return False
    first = order_for(total, delta)
    return any(
        sum((loss.at(1 + x) for loss in rest), conversion_gap(x, room) + beside.epsilon) <= total
        for x in (first * 2**step for step in range(ORDERS))
    )
