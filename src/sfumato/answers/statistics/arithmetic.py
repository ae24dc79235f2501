"""Sums, products and quotients of more than numbers: of values with their slopes, and of ranges of values."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isnan, nan
from typing import Protocol, Self, TypeVar

import numpy as np

from sfumato.arrays import Floats
from sfumato.frozen import dataclass
from sfumato.sql import Column, Formula


class Number(Protocol):
    """What arithmetic works on."""

    def __add__(self, other: Self) -> Self: ...
    def __mul__(self, other: Self) -> Self: ...
    def __truediv__(self, other: Self) -> Self: ...


N = TypeVar("N", bound=Number)


def work_out(part: Formula | Column | float, of: Callable[[Column | float], N]) -> N:
    """A formula, with its columns and constants as some kind of numbers."""
    if not isinstance(part, Formula):
        return of(part)
    left, right = work_out(part.left, of), work_out(part.right, of)
    if part.operator == "+":
        return left + right
    return left * right if part.operator == "*" else left / right


@dataclass(frozen=True, eq=False)
class Sloped:
    """A value, and how it changes with each of some sums it is made of."""

    value: float
    slope: Floats

    def __add__(self, other: Sloped) -> Sloped:
        return Sloped(self.value + other.value, self.slope + other.slope)

    def __mul__(self, other: Sloped) -> Sloped:
        return Sloped(self.value * other.value, self.slope * other.value + other.slope * self.value)

    def __truediv__(self, other: Sloped) -> Sloped:
        if other.value == 0.0:
            return Sloped(nan, np.full_like(self.slope, nan))
        value = self.value / other.value
        return Sloped(value, (self.slope - value * other.slope) / other.value)


@dataclass(frozen=True)
class Range:
    """All values from low to high.

    >>> Range(1.0, 2.0) / Range(-1.0, 1.0)
    Range(low=-inf, high=inf)
    >>> Range(1.0, 2.0) / Range(3.0, 0.0)
    Range(low=-inf, high=inf)
    >>> Range(1.0, 2.0) * Range(-3.0, 1.0)
    Range(low=-6.0, high=2.0)
    """

    low: float
    high: float

    def __add__(self, other: Range) -> Range:
        return _range([self.low + other.low, self.high + other.high])

    def __mul__(self, other: Range) -> Range:
        # 0 times unbounded is 0: both are limits of finite values, and 0 is one for certain.
        return _range([0.0 if 0.0 in (a, b) else a * b for a in self.ends for b in other.ends])

    def __truediv__(self, other: Range) -> Range:
        if min(other.ends) <= 0.0 <= max(other.ends):  # ends that noise has turned round are ends all the same
            return Range(-inf, inf)
        return self * _range([1.0 / other.low, 1.0 / other.high])

    @property
    def ends(self) -> tuple[float, float]:
        return self.low, self.high


def _range(ends: list[float]) -> Range:
    return Range(-inf, inf) if any(isnan(end) for end in ends) else Range(min(ends), max(ends))
