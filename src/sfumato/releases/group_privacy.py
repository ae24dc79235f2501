"""Meaning of a guarantee: for c privacy units together, such as a family, and for a guess who is in the table.

A table without the group is c neighbouring steps away (Survey, section 2). Pure epsilon: c epsilon. rho-zCDP: c^2 rho,
converted to an epsilon at the same delta. (epsilon, delta) alone: c epsilon and delta (1 + e^epsilon + ... + e^((c - 1)
epsilon)).

The odds. An adversary knows everything about the table but whether one person's rows are in it, takes both for equally
likely, sees the release and guesses. Under (epsilon, delta) no rule of guessing is right more often than (e^epsilon +
delta) / (1 + e^epsilon): of the chances p and q of saying "in" with and without that person, p <= e^epsilon q + delta
and 1 - q <= e^epsilon (1 - p) + delta (Wasserman, Zhou 2010; Kairouz, Oh, Viswanath 2015), and (p + 1 - q) / 2 is
largest where both are met. Under rho-zCDP that holds for every delta with its epsilon, and the Kullback-Leibler
divergence is at most rho, so (Pinsker; Bretagnolle, Huber) a guess is right at most (1 + min(sqrt(rho / 2), sqrt(1 -
e^-rho))) / 2; the least of all these bounds is taken. For several persons together epsilon is multiplied and rho grows
with the square.

Beliefs. Under pure epsilon Bayes' rule moves the odds of a belief by e^epsilon at most. Under (epsilon, delta) the
files that move them by more than 2 e^epsilon, toward the truth, have a chance of at most 2 delta together: of their
chance P on the true table and Q on the other, P <= e^epsilon Q + delta < P / 2 + delta.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import exp, log, sqrt
from typing import Any

from sfumato.errors import BudgetError
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Amount, as_epsilon, epsilon_for
from sfumato.plain_text import readable

FAMILIES = (1, 2, 4)
UP_TO_FOUR = (1, 2, 3, 4)
PRIORS = (0.001, 0.01, 0.1, 0.5, 0.9)  # beliefs that are shown
DELTAS = tuple(Fraction(1, 10**place) for place in (1, 2, 3, 4, 6, 8))
LARGEST = 700.0  # the exponential of more is no number of a computer


@dataclass(frozen=True)
class GroupPromise:
    """Guarantee for a group of so many privacy units."""

    people: int
    epsilon: Fraction
    delta: float = 0.0

    @property
    def factor(self) -> float:
        """Bound e^epsilon on the ratio of output probabilities with and without the group."""
        return exp(min(float(self.epsilon), LARGEST))

    @property
    def record(self) -> dict[str, Any]:
        """JSON-ready mapping of the guarantee."""
        delta = {"delta": self.delta} if self.delta else {}
        return {"together": self.people, "epsilon": float(self.epsilon), **delta, "factor": self.factor}


def group_privacy(
    epsilon: Amount, *, delta: Amount = 0, rho: Amount | None = None, people: Sequence[int] = FAMILIES
) -> tuple[GroupPromise, ...]:
    """Guarantees for groups of so many privacy units.

    rho: of zero-concentrated privacy, from which epsilon follows at that delta.

    >>> [(one.people, str(one.epsilon), round(one.factor, 1)) for one in group_privacy("0.5")]
    [(1, '1/2', 1.6), (2, '1', 2.7), (4, '2', 7.4)]
    """
    if any(each < 1 or each != int(each) for each in people):
        raise BudgetError("a group has 1, 2, 3, ... members")
    single, small = as_epsilon(epsilon), float(Fraction(str(delta)))
    promises = []
    for number in people:
        if rho is not None:
            larger = single if number == 1 else epsilon_for(as_epsilon(rho, "rho") * number**2, delta)
            promises.append(GroupPromise(number, larger, small))
        else:
            steps = sum(exp(min(step * float(single), LARGEST)) for step in range(number))
            promises.append(GroupPromise(number, number * single, min(1.0, small * steps)))
    return tuple(promises)


def in_words(promises: Sequence[GroupPromise], *, exact: bool = False) -> str:
    """Sentence on the guarantees for groups. exact: beside exact counts, where rows are replaced and none is left out.

    >>> in_words(group_privacy(1, people=(1, 2)))
    'For a family left out together: of 1, epsilon 1 (2.72 times); of 2, epsilon 2 (7.39 times).'
    >>> in_words(group_privacy(1, people=(1, 2)), exact=True)
    'For rows replaced together, with the same exact counts: 1, epsilon 2 (7.39 times).'
    """
    if exact:  # a row replaced is one taken out and one put in
        listed = [(str(one.people // 2), one) for one in promises if one.people % 2 == 0]
    else:
        listed = [(f"of {one.people}", one) for one in promises]
    said = [f"{many}, epsilon {_epsilon(one)} ({one.factor:.3g} times{_delta(one)})" for many, one in listed]
    whom = "rows replaced together, with the same exact counts" if exact else "a family left out together"
    return f"For {whom}: {'; '.join(said)}."


def _epsilon(promise: GroupPromise) -> str:
    return readable(promise.epsilon) if len(readable(promise.epsilon)) < 8 else f"{float(promise.epsilon):.3g}"


def _delta(promise: GroupPromise) -> str:
    return f", delta {promise.delta:.2g}" if promise.delta else ""


@dataclass(frozen=True)
class Odds:
    """Largest probability that a guess between two equally likely tables is right, for a group of persons."""

    people: int
    right: float

    @property
    def of_hundred(self) -> int:
        """Right guesses of a hundred, at most, rounded."""
        return int(self.right * 100.0 + 0.5)


def odds_of(epsilon: Amount, *, delta: Amount = 0, rho: Amount | None = None) -> tuple[Odds, ...]:
    """Largest chance to guess right, from even odds, whether one person, or a family of up to four, is in.

    >>> [one.of_hundred for one in odds_of(1)]
    [73, 88, 95, 98]
    """
    groups = group_privacy(epsilon, delta=delta, rho=rho, people=UP_TO_FOUR)
    return tuple(Odds(one.people, min(_right(one), _of_rho(rho, one.people))) for one in groups)


def belief_after(before: float, epsilon: float) -> float:
    """Largest posterior belief under pure epsilon, from a prior belief.

    >>> round(belief_after(0.5, 1.0), 3), round(belief_after(0.01, 1.0), 3)
    (0.731, 0.027)
    """
    factor = exp(min(epsilon, LARGEST))
    return before * factor / (before * factor + 1.0 - before)


def beliefs_after(before: float, epsilon: Amount, delta: Amount = 0) -> tuple[float, float]:
    """Least and greatest posterior belief from a prior one; with a delta, but for a chance of twice that delta.

    >>> [round(end, 3) for end in beliefs_after(0.1, 1)], [round(end, 3) for end in beliefs_after(0.1, 1, "1e-9")]
    ([0.039, 0.232], [0.02, 0.377])
    """
    within = float(as_epsilon(epsilon)) + (log(2.0) if Fraction(str(delta)) else 0.0)
    return 1.0 - belief_after(1.0 - before, within), belief_after(before, within)


def _right(one: GroupPromise) -> float:
    factor = one.factor
    return min(1.0, (factor + one.delta) / (1.0 + factor))


def _of_rho(rho: Amount | None, people: int) -> float:
    if rho is None:
        return 1.0
    together = as_epsilon(rho, "rho") * people**2
    pairs = [(exp(min(float(epsilon_for(together, delta)), LARGEST)), float(delta)) for delta in DELTAS]
    by_delta = min((factor + delta) / (1.0 + factor) for factor, delta in pairs)
    distance = min(sqrt(float(together) / 2.0), sqrt(1.0 - exp(-float(together))))
    return min(1.0, by_delta, (1.0 + distance) / 2.0)


def as_chance(share: float) -> str:
    """Probability in per cent, with more digits near both ends.

    >>> as_chance(0.5), as_chance(0.0123), as_chance(0.99996)
    ('50.0 %', '1.2 %', '100 %')
    """
    percent = share * 100
    return f"{percent:.1f} %" if 0.95 <= percent < 99.95 else f"{percent:.2g} %" if percent < 1 else f"{percent:.4g} %"
