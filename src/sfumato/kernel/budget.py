"""Privacy budgets as exact fractions, the conversion between rho-zCDP and (epsilon, delta), and the cost of a release.

A budget is never rounded on its way in: 0.1 means one tenth, not the nearest binary number, so that three tenths fit
into 0.3 exactly. Where a logarithm forces a rounding, it goes the way that costs utility, never privacy.

`Cost` is the cost of a release as the ledger counts it: epsilon and, with Gaussian noise, a delta.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import cached_property, lru_cache

from sfumato.errors import BudgetError
from sfumato.frozen import dataclass
from sfumato.plain_text import readable

Amount = str | int | float | Fraction | Decimal

MOST = 10**6  # no guarantee is left long before this; a larger number is a slip of the keyboard
FINEST = 10**300  # the largest denominator: sums stay quick and texts short
LONGEST_TEXT = 50
LARGEST_EXPONENT = 300  # '1e999999999' is small as text and gigabytes as a number
SMALLEST_DELTA = Fraction(1, 10**100)

_NUMBER = re.compile(r"([+-]?)(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]([+-]?[0-9]+))?|[0-9]+/0*[1-9][0-9]*)")


def as_epsilon(value: Amount, what: str = "epsilon") -> Fraction:
    """Parse an amount of privacy exactly: 0.1 is one tenth.

    >>> as_epsilon(0.1), as_epsilon("1/3"), as_epsilon("1e-3")
    (Fraction(1, 10), Fraction(1, 3), Fraction(1, 1000))
    """
    amount = value if isinstance(value, Fraction) else _parse(value, what)
    if amount <= 0:
        raise BudgetError(f"{what} must be greater than 0, such as {_example(what)}; give a positive number")
    if amount > MOST:
        raise BudgetError(f"{what} is above {MOST}, which protects nobody; give a smaller number, usually 0.1 to 10")
    if amount.denominator > FINEST:
        raise BudgetError(
            f"{what} has too many decimals to be kept exactly; give a shorter one such as {_example(what)}"
        )
    return Fraction(amount)


def _example(what: str) -> str:
    """Example of a sensible amount, for messages; a delta of 0.5 would protect nobody."""
    return "1e-6" if "delta" in what else "0.5 or 1/3"


def _parse(value: object, what: str) -> Fraction:
    if isinstance(value, bool):
        raise BudgetError(f"{what} must be a number such as {_example(what)}, not {value}")
    if isinstance(value, float):
        text = float.__repr__(value)  # the shortest decimal that means this float: what the user typed
    elif isinstance(value, str | Decimal):
        text = str(value).strip()
    else:
        try:
            return Fraction(operator.index(value))  # type: ignore[arg-type]
        except TypeError:
            kind = type(value).__name__
            raise BudgetError(f"{what} must be a number such as {_example(what)}, not a {kind}") from None
    if len(text) > LONGEST_TEXT:
        raise BudgetError(f"{what} is {len(text)} characters long; give a shorter number such as {_example(what)}")
    found = _NUMBER.fullmatch(text)
    if found is None:
        raise BudgetError(f"{what} must be a number such as {_example(what)}, not {text!r}")
    if abs(int(found[2] or 0)) > LARGEST_EXPONENT:
        raise BudgetError(f"{what} {text} is out of any sensible range; give a number such as {_example(what)}")
    return Fraction(text)


@dataclass(frozen=True)
class Budget:
    """An amount of privacy to spend: pure epsilon, or rho of zero-concentrated differential privacy.

    >>> [str(share) for share in Budget.pure("0.5").split(1, 4)]
    ['epsilon 0.1', 'epsilon 0.4']
    """

    epsilon: Fraction | None = None
    rho: Fraction | None = None

    def __post_init__(self) -> None:
        if (self.epsilon is None) == (self.rho is None):
            raise BudgetError("a budget is either an epsilon or a rho; use Budget.pure('0.5') or Budget.zcdp('0.1')")
        for name in ("epsilon", "rho"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, as_epsilon(getattr(self, name), name))

    @classmethod
    def pure(cls, epsilon: Amount) -> Budget:
        """A budget of pure epsilon-differential privacy."""
        return cls(epsilon=as_epsilon(epsilon))

    @classmethod
    def zcdp(cls, rho: Amount) -> Budget:
        """A budget of rho-zCDP, the currency of Gaussian noise."""
        return cls(rho=as_epsilon(rho, "rho"))

    @property
    def is_pure(self) -> bool:
        """Whether this is an amount of epsilon; otherwise it is one of rho."""
        return self.epsilon is not None

    @property
    def amount(self) -> Fraction:
        """The amount, of epsilon or of rho."""
        return self._stated()[1]

    def split(self, *weights: int | Fraction) -> tuple[Budget, ...]:
        """Split the budget in proportion to weights; the shares sum to it exactly."""
        if not weights or any(type(weight) not in (int, Fraction) or weight <= 0 for weight in weights):
            raise BudgetError("a budget is split by positive whole numbers or fractions, such as split(1, 9)")
        kind, amount = self._stated()
        return tuple(Budget(**{kind: amount * weight / sum(weights)}) for weight in weights)

    def evenly(self, count: int) -> tuple[Budget, ...]:
        """Split the budget into equal shares."""
        if type(count) is not int or count < 1:
            raise BudgetError("a budget is divided evenly into 1, 2, 3, ... shares, such as evenly(10)")
        return self.split(*[1] * count)

    def __str__(self) -> str:
        kind, amount = self._stated()
        return f"{kind} {readable(amount)}"

    def _stated(self) -> tuple[str, Fraction]:
        kind = "epsilon" if self.is_pure else "rho"
        return kind, getattr(self, kind)


# From rho-zCDP to (epsilon, delta): Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy" (2020),
# corollary 13. The proof, for P and Q the outputs on two neighbouring tables and Z = ln P/Q drawn under P:
#   delta(epsilon) = sup over events of P(S) - e^epsilon Q(S) = E[max(0, 1 - e^(epsilon - Z))].
#   For u = Z - epsilon >= 0 and any alpha > 1, with t = e^-u: (1 - t) t^(alpha-1) is largest at t = 1 - 1/alpha, so
#     max(0, 1 - e^-u) <= e^((alpha-1) u) (1 - 1/alpha)^alpha / (alpha - 1), which holds for u < 0 as well.
#   rho-zCDP says E[e^((alpha-1) Z)] <= e^((alpha-1) alpha rho) for every alpha > 1. Together, for EVERY alpha > 1:
#     delta(epsilon) <= e^((alpha-1)(alpha rho - epsilon)) (1 - 1/alpha)^alpha / (alpha - 1).
# The logarithm of this, with x = alpha - 1, says that (epsilon, delta) holds as soon as
#     epsilon >= alpha rho + gap,  gap = ln x - (ln delta + alpha ln alpha) / x,
# a straight line for each alpha. So alpha may come from floating point, since a poor one is merely wasteful, and only
# the three logarithms must be bracketed. The best alpha has slope zero: rho x^2 = -ln(alpha delta).


def rho_for(epsilon: Amount, delta: Amount) -> Fraction:
    """The rho, rounded down, whose rho-zCDP implies (epsilon, delta)-differential privacy.

    >>> round(float(rho_for(1, "1e-6")), 5)
    0.02436
    """
    epsilon, delta = as_epsilon(epsilon), as_delta(delta)
    x = order_for(epsilon, delta)
    rho = (epsilon - conversion_gap(x, delta)) / (1 + x)
    # A trillionth less, so that epsilon_for leads back to no more than epsilon in spite of both roundings.
    rho = rounded(rho * (1 - Fraction(1, 10**12)), Context(prec=12, rounding=ROUND_FLOOR))
    if rho <= 0:
        raise BudgetError("no rho fits this epsilon and delta; give a larger epsilon, or a delta below 0.5")
    return rho


@lru_cache(maxsize=256)
def order_for(epsilon: Fraction, delta: Fraction) -> Fraction:
    """alpha - 1 of the order alpha at which the largest rho implies (epsilon, delta); any other is valid too."""
    target, log = float(epsilon), _float_log(delta)
    return _crossing(lambda x: (2 * x + 1) * (-log - math.log1p(x)) / x**2 - math.log1p(1 / x) > target)


def epsilon_for(rho: Amount, delta: Amount) -> Fraction:
    """The epsilon, rounded up, at which rho-zCDP implies (epsilon, delta)-DP; 0 where delta alone suffices.

    >>> round(float(epsilon_for("0.1", "1e-6")), 4)
    2.1419
    """
    rho, delta = as_epsilon(rho, "rho"), as_delta(delta)
    target, log = float(rho), _float_log(delta)
    x = _crossing(lambda x: (-log - math.log1p(x)) / x**2 > target)
    epsilon = (1 + x) * rho + conversion_gap(x, delta)
    return max(Fraction(0), rounded(epsilon, Context(prec=18, rounding=ROUND_CEILING)))


def as_delta(value: Amount) -> Fraction:
    """Parse a delta exactly; it must lie between 0 and 1."""
    delta = as_epsilon(value, "delta")
    if not SMALLEST_DELTA <= delta < 1:
        raise BudgetError("delta must lie between 1e-100 and 1; give a small one such as 1e-6")
    return delta


@lru_cache(maxsize=256)
def conversion_gap(x: Fraction, delta: Fraction) -> Fraction:
    """epsilon - alpha rho at alpha = 1 + x in the zCDP conversion, rounded up: each logarithm at its worse end."""
    alpha = 1 + x
    return _log(x, ROUND_CEILING) - (_log(delta, ROUND_FLOOR) + alpha * _log(alpha, ROUND_FLOOR)) / x


@lru_cache(maxsize=256)
def _log(value: Fraction, rounding: str) -> Fraction:
    """Bound of ln(value) from below or above: the division rounded outwards, the logarithm right to its last digit."""
    context = Context(prec=250, rounding=rounding)
    bound = context.ln(context.divide(Decimal(value.numerator), Decimal(value.denominator)))
    return Fraction(context.next_minus(bound) if rounding == ROUND_FLOOR else context.next_plus(bound))


def rounded(value: Fraction, context: Context) -> Fraction:
    return Fraction(context.divide(Decimal(value.numerator), Decimal(value.denominator)))


def _float_log(value: Fraction) -> float:
    return math.log(value.numerator) - math.log(value.denominator)


def _crossing(is_below: Callable[[float], bool]) -> Fraction:
    """Largest x > 0 for which `is_below` holds, by bisection of its logarithm."""
    low, high = -60.0, 240.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if is_below(math.exp(middle)) else (low, middle)
    return Fraction(math.exp(low))


USUAL_DELTA = Fraction(1, 10**6)


@dataclass(frozen=True)
class Cost:
    """Cost (epsilon, delta) of a release, stated once; the budget that its mechanism may spend follows from it.

    rho: where the cost was stated in rho; epsilon is then what it amounts to at delta, rounded up.

    >>> Cost.stated("0.5").budget.epsilon, Cost.stated(1, "1e-6").budget.epsilon
    (Fraction(1, 2), None)
    """

    epsilon: Fraction
    delta: Fraction = Fraction(0)
    rho: Fraction | None = None

    @classmethod
    def stated(cls, epsilon: Amount | None, delta: Amount | None = None, rho: Amount | None = None) -> Cost:
        """Cost from stated amounts, an epsilon or a rho; an epsilon without a delta is pure."""
        if (epsilon is None) == (rho is None):
            raise BudgetError("a release costs an epsilon or a rho; give one of them, such as --epsilon 1 or --rho 0.1")
        if epsilon is None:
            spent, at = as_epsilon(rho or 0, "rho"), USUAL_DELTA if delta is None else as_delta(delta)
            told = epsilon_for(spent, at)
            if told == 0:
                raise BudgetError(
                    "this rho is so small that delta alone says more; give a larger rho or a smaller delta"
                )
            return cls(as_epsilon(told), at, spent)
        return cls(as_epsilon(epsilon), Fraction(0) if delta is None else as_delta(delta))

    @classmethod
    def of(cls, budget: Budget, delta: Fraction = USUAL_DELTA) -> Cost:
        """Cost of spending a budget; for rho-zCDP the epsilon at this delta, rounded up."""
        return cls(budget.amount) if budget.is_pure else cls(epsilon_for(budget.amount, delta), delta)

    @property
    def without_delta(self) -> Cost:
        """Cost of a pure release in its place: the same epsilon, or for a rho the largest with epsilon^2 / 2 <= rho."""
        if self.rho is None:
            return Cost(self.epsilon)
        fine = 10**12
        root = Fraction(math.isqrt(2 * fine**2 * self.rho.numerator // self.rho.denominator), fine)
        return Cost(as_epsilon(root, "epsilon of this rho"))

    @property
    def pure(self) -> bool:
        return self.delta == 0

    @cached_property
    def budget(self) -> Budget:
        """The budget to spend: epsilon, or the largest rho, rounded down, whose zCDP implies this (epsilon, delta)."""
        if self.pure:
            return Budget.pure(self.epsilon)
        return Budget.zcdp(rho_for(self.epsilon, self.delta) if self.rho is None else self.rho)
