"""What is asked along an attribute, ranges or single values, and how errors of many cells add up in it.

Errors of neighbours go together where neighbours were taken to be alike. A table keeps errors of single cells only,
which `JoinedErrors` adds up as if they were independent; so these are made so large that what is asked is right on
average, and single values along an order are off by less than is said.
"""

from __future__ import annotations

import numpy as np

from sfumato.arrays import Floats
from sfumato.frozen import dataclass
from sfumato.inference.margins.shrinking import Directions


@dataclass(frozen=True, eq=False)
class Asked:
    """Squared weights of all that is asked, added up: on each direction, and on each value less its share of a total.

    >>> flat = Directions(np.zeros(1), np.array([[1.0], [-1.0]]) / np.sqrt(2))
    >>> Asked.of(flat, np.array([0.5, 0.5]), ordered=False)  # either value
    Asked(on_directions=array([1.]), on_values=array([0.5, 0.5]))
    """

    on_directions: Floats
    on_values: Floats

    @classmethod
    def of(cls, along: Directions, share: Floats, *, ordered: bool) -> Asked:
        """All ranges of values where there is an order, all single values where there is none."""
        size = len(share)
        if not ordered:
            return cls((along.vectors**2).sum(axis=0), 1.0 - 2.0 * share + (share**2).sum())
        below = np.vstack([np.zeros(along.vectors.shape[1]), along.vectors.cumsum(axis=0)])
        rows, place = np.concatenate([[0.0], share.cumsum()]), np.arange(size)
        inside = (place + 1) * (rows.sum() - rows[:-1].cumsum()) - (size - place) * rows[:-1].cumsum()
        on_values = _of_ranges(rows) + (place + 1) * (size - place) - 2.0 * inside
        return cls(np.array([_of_ranges(each) for each in below.T]), on_values)


def _of_ranges(below: Floats) -> float:
    """The sum over all ranges of the square of what they hold; below: what lies below each of their ends."""
    return float(len(below) * (below**2).sum() - below.sum() ** 2)


def together(left: Floats, single: Floats, *asked: Asked) -> float:
    """By how much errors in what is asked exceed those of single cells together; left: of every direction.

    By no more than if all cells erred alike, which bounds it where all rows lie in one cell and nothing can be asked.
    """
    truly, apart = left, single
    for each in asked:
        truly, apart = each.on_directions @ truly, each.on_values @ apart
    return min(max(1.0, float(truly) / max(float(apart), 1e-300)), float(single.size))
