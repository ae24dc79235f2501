"""What a release costs the people in the data, as the ledger counts it: epsilon and, with Gaussian noise, a delta."""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property

from sfumato.frozen import dataclass
from sfumato.kernel.budget import Amount, Budget, as_delta, as_epsilon, epsilon_for, rho_for

USUAL_DELTA = Fraction(1, 10**6)


@dataclass(frozen=True)
class Cost:
    """An (epsilon, delta) that is stated once; what the mechanism may spend follows from it.

    >>> Cost.stated("0.5").budget.epsilon, Cost.stated(1, "1e-6").budget.epsilon
    (Fraction(1, 2), None)
    """

    epsilon: Fraction
    delta: Fraction = Fraction(0)

    @classmethod
    def stated(cls, epsilon: Amount, delta: Amount | None = None) -> Cost:
        """The cost that was written down; without a delta it is pure epsilon."""
        return cls(as_epsilon(epsilon), Fraction(0) if delta is None else as_delta(delta))

    @classmethod
    def of(cls, budget: Budget, delta: Fraction = USUAL_DELTA) -> Cost:
        """What spending a budget costs; rho-zCDP costs some epsilon for every delta, rounded up."""
        return cls(budget.amount) if budget.is_pure else cls(epsilon_for(budget.amount, delta), delta)

    @property
    def pure(self) -> bool:
        return self.delta == 0

    @cached_property
    def budget(self) -> Budget:
        """What may be spent: epsilon, or the largest rho whose rho-zCDP implies this (epsilon, delta), rounded down."""
        return Budget.pure(self.epsilon) if self.pure else Budget.zcdp(rho_for(self.epsilon, self.delta))
