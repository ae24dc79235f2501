"""Two ends between which a sum of cells lies, and how far noise reaches beyond one of them.

What is said where nothing holds for every table.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import inf

import numpy as np

from sfumato.answers.intervals.noise_sum import half_width, half_width_of, moments_of
from sfumato.arrays import Codes, Floats
from sfumato.frozen import dataclass
from sfumato.measurement import Design, Measurement, Noise


@dataclass(frozen=True)
class Ends:
    """The truth lies between them, but for the probability that was left for it not to."""

    low: float
    high: float

    def __add__(self, other: Ends) -> Ends:
        return Ends(self.low + other.low, self.high + other.high)


ANYTHING = Ends(-inf, inf)
Find = Callable[[Floats, Floats, float], Ends]  # from least and greatest weights of cells, and the tail beyond each end


def reach(design: Design, rows: Codes, weights: Floats, tail: float) -> float:
    """What a weighted sum of the noises of some measured rows exceeds with probability `tail` at most."""
    if not len(rows) or not weights.any():
        return 0.0
    entering = np.flatnonzero(weights)
    sizes = np.abs(weights[entering])
    kinds = np.zeros(len(entering), dtype=np.int64) if design.which is None else design.which[rows[entering]]
    if sizes[0] == sizes.min() == sizes.max():  # as in every count of whole cells
        many = np.bincount(kinds, minlength=len(design.noises))
        return float(sizes[0]) * reach_of_count(design.noises, tuple(many.tolist()), tail)
    # Kind by kind, the distinct weights and how many rows have each.
    each = [np.unique(sizes[kinds == kind], return_counts=True) for kind in range(len(design.noises))]
    moments = np.array([moments_of(noise) for noise in design.noises]).T.repeat([len(one) for one, _ in each], axis=1)
    distinct, many = (np.concatenate(part) for part in zip(*each, strict=True))
    return half_width_of(distinct, moments[0], moments[1], many.astype(np.float64), 1.0 - 2.0 * tail)


@lru_cache(maxsize=4096)
def reach_of_count(noises: tuple[Noise, ...], many: tuple[int, ...], tail: float) -> float:
    """What the sum of so many of each noise exceeds with probability `tail` at most; groups of a size ask it again."""
    return half_width([(1.0, noise, number) for noise, number in zip(noises, many, strict=True)], 1.0 - 2.0 * tail)


def lowest(measured: Measurement, rows: Codes, weights: Floats, tail: float) -> float:
    """A number that the weighted sum of what was counted in some rows exceeds, but for `tail`."""
    return float(weights @ measured.answers[rows]) - reach(measured.design, rows, weights, tail)


NONE = (
    "there is no guaranteed interval: answers of this release lean on more than what was measured for it; ask for "
    "typical intervals, or release with a mechanism that has guaranteed ones (docs/intervals.md)"
)
