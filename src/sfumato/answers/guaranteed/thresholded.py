"""Ends of counts where only cells with a noisy count from a threshold on are published, and the total.

Upwards: a cell that is not published had count + noise < threshold, so some cells hold at most what is published of
them, plus threshold - 1 for every other one, less the noises of *all* of them, whose distribution is known. Or they
hold at most the total less what all other cells surely hold.

Downwards the published counts are too high on average: noise chose them. Of a cell with x rows let D be what is
published of it, 0 if nothing is, less x. The moment generating function of D is known for every x, and by Markov's
inequality the sum of all D is at most (sum of log E exp(a D) + log 1 / tail) / a. Cells without rows add next to
nothing each, however many there are; one with x rows adds at most k x more. So with n cells, of which Y rows are
published,

    rows >= (Y - (n log E exp(a D_0) + log 1 / tail) / a) / (1 + k / a),

for any a that is settled beforehand; the tail is split over a few.

Guaranteed ends of counts where only some cells are published.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import ceil, exp, log, log1p
from typing import ClassVar

import numpy as np

from sfumato.answers.gathered import Gathered
from sfumato.answers.guaranteed.ends import Ends, reach_of_count
from sfumato.answers.intervals.source import Asked
from sfumato.arrays import Codes, Floats
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.measurement import Laplace, Noise
from sfumato.sql import Amount

RATES = (0.05, 0.1, 0.2, 0.4, 0.7)  # a, in parts of 1 / scale: small ones serve many cells, large ones few
FAR = 60  # scales above the threshold, from where a cell is always published
MOST_ROWS = 2**18  # of a cell, up to which it is looked at how much each row adds
LEAST = -1.0 + 2.0**-53  # above -1, of which there is no logarithm


@dataclass(frozen=True)
class Thresholded:
    """threshold: the least noisy count that is published. noise: on every cell. total: of all rows, with `on_total`."""

    threshold: int
    noise: Noise
    total: float
    on_total: Noise

    def ends(self, published: float, shown: float, cells: float, others: tuple[float, float], tail: float) -> Ends:
        """Of so many cells, of which some are shown and hold `published`; others: the same of all other cells."""
        if not others[1]:
            above = reach_of_count((self.on_total,), (1,), tail)
            return Ends(self.total - above, self.total + above)
        above = reach_of_count((self.on_total,), (1,), tail / 4.0)
        by_total = self.total + above - self.least(*others, tail / 4.0)
        noise = reach_of_count((self.noise,), (int(cells),), tail / 2.0)
        by_threshold = published + (cells - shown) * (self.threshold - 1) + noise
        return Ends(self.least(published, cells, tail), min(by_total, by_threshold))

    def least(self, published: float, cells: float, tail: float) -> float:
        """What cells hold at least."""
        if not isinstance(self.noise, Laplace):
            raise QueryError("a release of thresholded cells has Laplace noise; this one has another")
        scale = float(self.noise.scale)
        return max(0.0, *(self._by(a / scale, published, cells, tail / len(RATES)) for a in RATES))

    def _by(self, a: float, published: float, cells: float, tail: float) -> float:
        assert isinstance(self.noise, Laplace)  # noqa: S101 (seen above)
        empty, further = _moments(self.threshold, float(self.noise.scale), a)
        return (published - (cells * empty - log(tail)) / a) / (1.0 + further / a)


@lru_cache(maxsize=64)
def _moments(threshold: int, scale: float, a: float) -> tuple[float, float]:
    """log E exp(a D) of an empty cell, and how much more a row adds to it at most."""
    if threshold + FAR * scale > MOST_ROWS:
        raise QueryError(
            "the noise of this release is too large for guaranteed ends of its counts to be worked out; ask for the "
            "typical interval"
        )
    rows = np.arange(threshold + ceil(FAR * scale) + 1)
    found = log_moments(rows, threshold, scale, a)
    return float(found[0]), max(0.0, float(((found[1:] - found[0]) / rows[1:]).max()))


def log_moments(rows: Codes, threshold: int, scale: float, a: float) -> Floats:
    """log E exp(a D) of cells with so many rows."""
    rate, need = exp(-1.0 / scale), (threshold - rows).astype(np.float64)
    mass = (1.0 - rate) / (1.0 + rate)
    up, down = exp(a - 1.0 / scale), exp(-a - 1.0 / scale)  # in one go: exp(a) alone may be beyond all numbers
    every = mass * (1.0 / (1.0 - up) + down / (1.0 - down))
    enough = np.maximum(need, 1.0)  # noise that publishes the cell is positive
    short = np.maximum(1.0 - need, 1.0)  # noise that does not is negative
    shown = np.where(need > 0.0, mass * up**enough / (1.0 - up), every - mass * down**short / (1.0 - down))
    hidden = np.where(need > 0.0, 1.0 - mass * rate**enough / (1.0 - rate), mass * rate**short / (1.0 - rate))
    beyond = shown + np.exp(-a * rows) * hidden - 1.0
    # Of an empty cell, E exp(a D) - 1 = E (exp(a Z) - 1; Z >= threshold): far smaller than what rounding leaves of it.
    if threshold > 0:
        beyond[0] = mass * (up**threshold / (1.0 - up) - rate**threshold / (1.0 - rate))
    return np.asarray([log1p(max(each, LEAST)) for each in beyond.tolist()])  # never less than it is


@dataclass(frozen=True, eq=False)
class FromThreshold:
    """known: what is known of any cells. size: of the domain."""

    signed: ClassVar[bool] = False

    known: Thresholded
    size: float

    @property
    def work(self) -> int:
        return 0

    def refuse(self, amounts: Sequence[Amount]) -> None:
        """By the question alone, whatever is published: cells that are not shown weigh as much as those that are."""
        if any(amount.of is not None or amount.factor != 1.0 for amount in amounts):
            raise QueryError(
                "where only cells above a threshold are published there are guaranteed intervals for counts and "
                "shares; ask for the typical interval of sums and averages"
            )

    def ends(self, asked: Asked, cells: Gathered, tail: float) -> Ends:
        low, high = (each.get("count", np.zeros(cells.size)) for each in (asked.low, asked.high))
        values = cells.values["count"]
        within = float(high.sum()) + asked.unseen
        others = float(values.sum() - high @ values), max(0.0, self.size - within)
        above = self.known.ends(float(high @ values), float(high.sum()), within, others, tail)
        sure = float(low @ values)
        return above if (low == high).all() else Ends(self.known.least(sure, within, tail), above.high)
