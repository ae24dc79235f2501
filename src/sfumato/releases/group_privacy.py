"""Group privacy: what a promise to one means for several who belong together, such as a family.

A table without a family is reached from one with it in as many steps as the family has members, and every step costs
what the promise says (Survey, section 2). So c of them have c epsilon. Under rho-zCDP they have c^2 rho, which is an
epsilon at the same delta. Of an epsilon and a delta alone, c steps make c epsilon and delta (1 + e^epsilon + ... +
e^((c - 1) epsilon)).
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
    """What so many together are promised. factor: how much likelier what is shown may be with them than without."""

    people: int
    epsilon: Fraction
    delta: float = 0.0

    @property
    def factor(self) -> float:
        return exp(min(float(self.epsilon), LARGEST))

    @property
    def record(self) -> dict[str, Any]:
        """The promise of types that JSON knows."""
        delta = {"delta": self.delta} if self.delta else {}
        return {"together": self.people, "epsilon": float(self.epsilon), **delta, "factor": self.factor}


def group_privacy(
    epsilon: Amount, *, delta: Amount = 0, rho: Amount | None = None, people: Sequence[int] = FAMILIES
) -> tuple[GroupPromise, ...]:
    """What a release with this guarantee promises to groups of so many privacy units.

    rho: of zero-concentrated privacy, from which epsilon follows at that delta.

    >>> [(one.people, str(one.epsilon), round(one.factor, 1)) for one in group_privacy("0.5")]
    [(1, '1/2', 1.6), (2, '1', 2.7), (4, '2', 7.4)]
    """
    if any(each < 1 or each != int(each) for each in people):
        raise BudgetError("a group has 1, 2, 3, ... members")
    single, small = as_epsilon(epsilon), float(Fraction(str(delta)))
    found = []
    for number in people:
        if rho is not None:
            larger = single if number == 1 else epsilon_for(as_epsilon(rho, "rho") * number**2, delta)
            found.append(GroupPromise(number, larger, small))
        else:
            steps = sum(exp(min(step * float(single), LARGEST)) for step in range(number))
            found.append(GroupPromise(number, number * single, min(1.0, small * steps)))
    return tuple(found)


def in_words(promises: Sequence[GroupPromise]) -> str:
    """One line for a reader.

    >>> in_words(group_privacy(1, people=(1, 2)))
    'For a family left out together: of 1, epsilon 1 (2.72 times); of 2, epsilon 2 (7.39 times).'
    """
    listed = [f"of {one.people}, epsilon {_epsilon(one)} ({one.factor:.3g} times{_delta(one)})" for one in promises]
    return f"For a family left out together: {'; '.join(listed)}."


def _epsilon(one: GroupPromise) -> str:
    return readable(one.epsilon) if len(readable(one.epsilon)) < 8 else f"{float(one.epsilon):.3g}"


def _delta(one: GroupPromise) -> str:
    return f", delta {one.delta:.2g}" if one.delta else ""
