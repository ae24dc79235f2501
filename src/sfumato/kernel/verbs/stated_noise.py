"""The noise that a measurement was asked to carry: from a budget, or row by row as stated. Nothing here is private."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import isqrt

import numpy as np

from sfumato.arrays import Codes
from sfumato.errors import PrivacyError, QueryError
from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import Charge, noise_for
from sfumato.measurement import Gaussian, Laplace, Noise
from sfumato.queries import Queries


def check_kind(budget: Budget, charge: Charge) -> None:
    """Refuse to spend epsilon from a charge in rho, and the other way round."""
    if budget.is_pure != charge.pure:
        raise QueryError("a charge in epsilon is spent in epsilon, one in rho in rho")


def pure_epsilon(budget: Budget, charge: Charge, what: str) -> Fraction:
    """The epsilon to spend on something that is proved for pure epsilon only."""
    check_kind(budget, charge)
    if not budget.is_pure:
        raise QueryError(f"{what} is for pure epsilon; under rho, measure the queries with Gaussian noise instead")
    return budget.amount


def epsilon_to_choose(budget: Budget) -> Fraction:
    """The epsilon of the exponential mechanism that a budget pays for.

    Choosing with epsilon costs a rho of epsilon^2 / 8 (Bun and Steinke 2016); the square root is rounded down.
    """
    if budget.is_pure:
        return budget.amount
    squared = 8 * budget.amount
    return Fraction(isqrt(squared.numerator * squared.denominator * 4**64), squared.denominator * 2**64)


def in_proportion(noise: Noise, unit: int) -> Noise:
    """Noise on numbers of which one row adds at most 1, in proportion to that on numbers where it adds `unit`."""
    if isinstance(noise, Laplace):
        return Laplace(noise.scale / unit)
    return Gaussian(noise.sigma_squared / unit**2)


def noises_of(
    queries: Queries,
    unit: int,
    budget: Budget | None,
    scales: Fraction | Sequence[Fraction] | None,
    which: Codes | None,
    charge: Charge,
) -> tuple[tuple[Noise, ...], Codes | None]:
    """The distinct noises, and which row carries which; None where all rows carry the first."""
    if (budget is None) == (scales is None):
        raise QueryError("give either a budget or noise scales, so that the budget is stated once")
    family = Laplace if charge.pure else Gaussian
    if budget is not None:
        check_kind(budget, charge)
        if not queries.l1:
            raise QueryError("these queries touch no cell")
        l1, l2_squared = Fraction(queries.l1), Fraction(queries.l2_squared)
        noise = noise_for(budget, charge.contributions, l1=unit * l1, l2_squared=unit**2 * l2_squared)
        return (noise,), None
    assert scales is not None  # noqa: S101 (checked above)
    listed = [scales] if isinstance(scales, Fraction) else list(scales)
    if min(listed) <= 0:
        raise PrivacyError("a noise scale must be positive")
    if which is not None:
        places = np.array(which, dtype=np.int64)  # a copy: nobody may change it between the charge and the draw
        if places.shape != (queries.rows,) or places.min() < 0 or places.max() >= len(listed):
            raise QueryError(f"{queries.rows} rows need as many places in a list of {len(listed)} scales")
        return tuple(family(scale) for scale in listed), places
    if not isinstance(scales, Fraction) and len(listed) != queries.rows:
        raise QueryError(f"{queries.rows} rows need as many scales, got {len(listed)}")
    distinct = sorted(set(listed))
    place = {scale: number for number, scale in enumerate(distinct)}
    found = None if len(distinct) == 1 else np.array([place[scale] for scale in listed], dtype=np.int64)
    return tuple(family(scale) for scale in distinct), found
