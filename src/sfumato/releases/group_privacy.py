"""Group privacy: the guarantee for c privacy units together, such as a family.

A table without the group is c neighbouring steps away (Survey, section 2). Pure epsilon: c epsilon. rho-zCDP: c^2 rho,
converted to an epsilon at the same delta. (epsilon, delta) alone: c epsilon and delta (1 + e^epsilon + ... + e^((c - 1)
epsilon)).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import exp
from typing import Any

from sfumato.errors import BudgetError
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Amount, as_epsilon, epsilon_for, readable

FAMILIES = (1, 2, 4)
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


def in_words(promises: Sequence[GroupPromise]) -> str:
    """Sentence on the guarantees for groups.

    >>> in_words(group_privacy(1, people=(1, 2)))
    'For a family left out together: of 1, epsilon 1 (2.72 times); of 2, epsilon 2 (7.39 times).'
    """
    listed = [f"of {one.people}, epsilon {_epsilon(one)} ({one.factor:.3g} times{_delta(one)})" for one in promises]
    return f"For a family left out together: {'; '.join(listed)}."


def _epsilon(promise: GroupPromise) -> str:
    return readable(promise.epsilon) if len(readable(promise.epsilon)) < 8 else f"{float(promise.epsilon):.3g}"


def _delta(promise: GroupPromise) -> str:
    return f", delta {promise.delta:.2g}" if promise.delta else ""
