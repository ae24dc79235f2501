"""The interval of a difference, from the intervals of what is subtracted.

Where the two carry noise that has nothing to do with each other, how far each end lies from its value is added in
squares (MOVER: Zou and Donner 2008; Howe 1974). For normal noise that is exact. For two Laplace noises of scales b and
r b it holds at least as often as it says from a confidence of about 91 % on: the far tail of a sum of exponentials is
that of the larger one, and sqrt(1 + r^2) overtakes the rest. At 95 % it misses 4.5 % for r = 1, 4.7 % for r = 1/2. So
no interval is worked out at less than LEAST.

Where they may share noise, or ends that hold for every table are wanted, the worst ends are taken: by the union bound
that needs half of the risk for each, and nothing else.
"""

from __future__ import annotations

from math import hypot, inf, isfinite, isnan

from sfumato.answers.estimate import Estimate
from sfumato.frozen import dataclass

LEAST = 0.92  # confidence at which a single interval is worked out


@dataclass(frozen=True)
class Difference:
    """after - before. real: whether noise alone does not explain it; None where nothing is known of it."""

    before: Estimate
    after: Estimate
    low: float
    high: float

    @property
    def value(self) -> float:
        return self.after.value - self.before.value

    @property
    def stderr(self) -> float:
        return hypot(self.before.stderr, self.after.stderr)

    @property
    def real(self) -> bool | None:
        return None if isnan(self.value) else bool(self.low > 0.0 or self.high < 0.0)

    @property
    def clearness(self) -> float:
        """How many times its own half-width the difference lies from zero; above 1 it is real."""
        if isnan(self.value):
            return -1.0
        width = self.value - self.low if self.value > 0.0 else self.high - self.value
        if width <= 0.0:
            return inf if self.value else 0.0
        return abs(self.value) / width if isfinite(width) else 0.0


def difference(before: Estimate, after: Estimate, *, apart: bool) -> Difference:
    """The difference with its interval. apart: the two carry noises of their own."""
    if isnan(before.value) or isnan(after.value):
        return Difference(before, after, -inf, inf)
    if not apart:
        return Difference(before, after, after.low - before.high, after.high - before.low)
    value = after.value - before.value
    low = value - hypot(after.value - after.low, before.high - before.value)
    high = value + hypot(after.high - after.value, before.value - before.low)
    return Difference(before, after, low, high)
