"""Composition of releases: the epsilon that follows from all entries of an account, and what still fits into a total.

Every release is epsilon-private (pure), rho-zCDP, or (epsilon, delta)-private without a rho (a threshold). Two ways
of adding up are valid (docs/privacy.md, section 13): sums of epsilons and of deltas; or, at any order alpha > 1, sums
of Renyi divergences, with the gap of the conversion in budget.py, and thresholds beside. A total in rho takes releases
that are zCDP or pure.

What is told of an account is the smaller epsilon, by the best order. What is *refused* goes by sums, or by a few orders
that follow from the total, so that it also holds if a curator looks at one release before he asks for the next.

In a series in which a person is counted in at most k periods, the k costliest periods are added up (theorem 11).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from fractions import Fraction
from heapq import nlargest
from itertools import chain
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
class Period:
    """Period of a series. most: number of periods in which a person is counted, at most.

    whose: text of privacy unit and promise, by which series are told apart. span: whether it is a calendar year, which
    stands for all periods in it.
    """

    label: str
    most: int
    whose: str
    span: bool = False


@dataclass(frozen=True)
class Loss:
    """Privacy loss of one release: (epsilon, delta), pure if delta is 0; rho where it is zCDP with a delta.

    period: where a person bears the losses of some periods alone; None where all releases add up.
    """

    epsilon: Fraction
    delta: Fraction = NOTHING
    rho: Fraction | None = None
    period: Period | None = None

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
        """Total of rho-zCDP, whose epsilon is stated at a delta."""
        return cls(epsilon_for(rho, delta or USUAL_DELTA), delta, rho)


@dataclass(frozen=True)
class Composed:
    """Guarantee of several releases together: (epsilon, delta).

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
    losses = _alike(losses)
    sums, by_order = _sums(losses), _by_best_order(losses, told_delta(losses) if delta is None else delta)
    if by_order is None:
        return sums
    is_less = by_order.epsilon * 1000 < sums.epsilon * 999  # else the sum, a round number, is told
    return by_order if is_less or (delta is not None and sums.delta > delta) else sums


def told_delta(losses: Sequence[Loss]) -> Fraction:
    """Default delta of an account without a stated total: the smallest delta times the number of releases.

    Where all are alike it is their sum. A release with a larger delta does not make the epsilons of others smaller.
    """
    losses = _alike(losses)
    concentrated = [loss for loss in losses if loss.rho is not None]
    beside = _sums(loss for loss in losses if loss.by_sums_only).delta
    many = _added(concentrated, lambda _: Fraction(1))
    return beside + (many * min(loss.delta for loss in concentrated) if concentrated else NOTHING)


def sum_of_rho(losses: Sequence[Loss]) -> Fraction | None:
    """Rho of all releases together; None where one of them is a threshold, which has none."""
    if any(loss.by_sums_only for loss in losses):
        return None
    return _added(_alike(losses), lambda loss: loss.concentrated or NOTHING)


def rho_left(losses: Sequence[Loss], total: Fraction, period: Period | None = None) -> Fraction:
    """The rho that one more release, in a period, may have within a total rho."""
    filled = sum_of_rho([*losses, Loss(NOTHING, NOTHING, total, period)])  # with a period that none is costlier than
    return NOTHING if filled is None else max(NOTHING, 2 * total - filled)


def fits(losses: Sequence[Loss], total: Fraction, delta: Fraction | None, rho: Fraction | None = None) -> bool:
    """Whether releases keep to a total (epsilon, delta), by sums or by one of the orders that follow from the total.

    rho: where the total was stated in rho, which then is all that counts. Exact comparisons, no tolerance: the privacy
    of the dataset rests on them.
    """
    if rho is not None:
        spent = sum_of_rho(losses)
        return spent is not None and spent <= rho
    losses = _alike(losses)
    sums = _sums(losses)
    if sums.epsilon <= total and (sums.delta < 1 if delta is None else sums.delta <= delta):
        return True
    return _fit_at_some_order(losses, total, told_delta(losses) if delta is None else delta)


def largest_next(
    losses: Sequence[Loss],
    total: Fraction,
    delta: Fraction | None,
    at: Fraction = NOTHING,
    rho: Fraction | None = None,
    period: Period | None = None,
) -> Fraction:
    """The largest epsilon, rounded down to four digits, that one more release may have; 0 if none fits.

    at: its delta; 0 for a pure one. rho: of a total that was stated so. period: in which the release is.
    """

    def fit(epsilon: Fraction) -> bool:
        try:
            one_more = Loss(epsilon, at, rho_for(epsilon, at) if at else None, period)
        except BudgetError:  # no rho fits
            return False
        return fits([*losses, one_more], total, delta, rho)

    low, high = NOTHING, min(Fraction(MOST), 2 * total + (0 if rho is None else 1 + rho))
    for _ in range(20):
        middle = rounded((low + high) / 2, DOWN)
        if not low < middle < high:
            break
        low, high = (middle, high) if fit(middle) else (low, middle)
    if rho is not None:
        return low
    # What sums leave is told as it is, without a rounding.
    whole = max(NOTHING, 2 * total - _sums(_alike([*losses, Loss(total, period=period)])).epsilon)
    return whole if whole > low and fit(whole) else low


def borne(losses: Sequence[Loss], period: Period | None) -> tuple[Loss, ...]:
    """Losses that can add up for one person of this period: the period's alone where nobody is in more than one."""
    alone = period is not None and period.most == 1 and _alike(losses) is losses
    return tuple(loss for loss in losses if not alone or loss.period in (period, None))


def _alike(losses: Sequence[Loss]) -> Sequence[Loss]:
    """Drop the periods from losses that are not all of one series, so that all of them add up."""
    if len({loss.period and loss.period.whose for loss in losses}) <= 1:
        return losses
    return [replace(loss, period=None) for loss in losses]


def _added(losses: Iterable[Loss], cost: Callable[[Loss], Fraction]) -> Fraction:
    """Sum of what losses cost; in a series, of its costliest periods: no person is counted in more (theorem 11)."""
    by_period: dict[Period | None, Fraction] = {}
    for loss in losses:
        by_period[loss.period] = by_period.get(loss.period, NOTHING) + cost(loss)
    most = next((period.most for period in by_period if period is not None), 1)
    return sum(nlargest(most, by_period.values()), NOTHING)


def _sums(losses: Iterable[Loss]) -> Composed:
    listed = list(losses)
    return Composed(_added(listed, lambda loss: loss.epsilon), _added(listed, lambda loss: loss.delta))


def _by_best_order(losses: Sequence[Loss], delta: Fraction) -> Composed | None:
    """Composition at the Renyi order that gives the smallest epsilon; None where no delta is left for it."""
    beside, rest = _sums(loss for loss in losses if loss.by_sums_only), [x for x in losses if not x.by_sums_only]
    room = delta - beside.delta
    if not rest or not SMALLEST_DELTA <= room < 1:
        return None
    chance = log(room.numerator) - log(room.denominator)
    periods = {loss.period: (list[float](), list[float]()) for loss in rest}
    for loss in rest:
        periods[loss.period][loss.rho is None].append(float(loss.epsilon if loss.rho is None else loss.rho))
    most = next((period.most for period in periods if period is not None), 1)
    alike = Counter((sum(rhos), tuple(pures)) for rhos, pures in periods.values())

    def roughly(logarithm: float) -> float:
        x = exp(logarithm)
        at_orders = (
            [(1 + x) * rho + sum(min(each, (1 + x) * each * each / 2) for each in pures)] * min(many, most)
            for (rho, pures), many in alike.items()
        )
        at_order = sum(nlargest(most, chain.from_iterable(at_orders)))
        return at_order + logarithm - (chance + (1 + x) * log1p(x)) / x

    best, reach = 0.0, 30.0  # the logarithm of alpha - 1, in ever finer steps
    for _ in range(5):
        best = min((best + reach * step / 20 for step in range(-20, 21)), key=roughly)
        reach /= 10
    x = Fraction(exp(best))
    together = _added(rest, lambda loss: loss.at(1 + x)) + conversion_gap(x, room)
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

    def spent(x: Fraction) -> Fraction:
        return _added(rest, lambda loss: loss.at(1 + x)) + conversion_gap(x, room) + beside.epsilon

    return any(spent(first * 2**step) <= total for step in range(ORDERS))
