"""Order of the choices of quantiles, the rows that each is chosen among, and its share of the budget: all public.

The one in the middle is chosen first, among all rows. It divides them, and those below it and above it are chosen on
either side, again from the middle outwards. Sides are disjoint, so m quantiles cost as much as log2(m) + 1 choices one
after the other (Kaplan, Schnapp, Stemmer, ICML 2022). The least and the greatest value come last, at the ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np

from sfumato.arrays import Whole
from sfumato.frozen import dataclass

ENOUGH = 8  # rows in the run next to a cut, in scales of the noise that it is counted with
GROWTH = 4  # how much longer each run of pieces is than the one before it, away from a cut
FINEST = 2**15  # parts of the stretch between two cuts: no run is shorter


@dataclass(frozen=True)
class Choice:
    """One quantile, chosen among the rows between two others (0 and 1: where the line begins and ends).

    share: of the budget for choices.
    """

    quantile: Fraction
    above: Fraction
    below: Fraction
    share: Fraction

    @property
    def within(self) -> Fraction:
        """Quantile level among the rows that it is chosen from."""
        return (self.quantile - self.above) / (self.below - self.above)

    @property
    def spread(self) -> Fraction:
        """Sensitivity of the difference of two candidates' scores, in ranks."""
        return 2 * max(self.within, 1 - self.within) if 0 < self.quantile < 1 else Fraction(1)


def choices(quantiles: Sequence[Fraction]) -> tuple[Choice, ...]:
    """All choices in an order in which those that part the rows come first.

    >>> [(str(one.quantile), str(one.within), str(one.share)) for one in choices([Fraction(k, 4) for k in (1, 2, 3)])]
    [('1/2', '1/2', '1/2'), ('1/4', '1/2', '1/2'), ('3/4', '1/2', '1/2')]
    """
    ends = 0 in quantiles, 1 in quantiles
    inner = sorted(q for q in set(quantiles) if 0 < q < 1)
    return tuple(_chosen(inner, Fraction(0), Fraction(1), Fraction(1), *ends))


def _chosen(
    inner: list[Fraction], above: Fraction, below: Fraction, left: Fraction, least: bool, greatest: bool
) -> list[Choice]:
    if not inner:
        ends = [Fraction(0)] * least + [Fraction(1)] * greatest
        return [Choice(end, above, below, left / len(ends)) for end in ends]
    middle = _middle(inner, least, greatest)
    first = Choice(inner[middle], above, below, left / _levels(inner, least, greatest))
    rest = left - first.share
    lower = _chosen(inner[:middle], above, first.quantile, rest, least, False)
    return [first, *lower, *_chosen(inner[middle + 1 :], first.quantile, below, rest, False, greatest)]


def _middle(inner: list[Fraction], least: bool, greatest: bool) -> int:
    return min(max((len(inner) + least + greatest) // 2 - least, 0), len(inner) - 1)


def _levels(inner: list[Fraction], least: bool, greatest: bool) -> int:
    if not inner:
        return least + greatest
    middle = _middle(inner, least, greatest)
    return 1 + max(_levels(inner[:middle], least, False), _levels(inner[middle + 1 :], False, greatest))


def errors_of(chosen: Sequence[Choice]) -> dict[Fraction, dict[Fraction, float]]:
    """For each inner quantile, the weights of the errors of single choices that its rank is off by.

    A quantile that is chosen between two others inherits their errors in proportion.
    """
    weights: dict[Fraction, dict[Fraction, float]] = {Fraction(0): {}, Fraction(1): {}}
    for one in chosen:
        if 0 < one.quantile < 1:
            part = float(one.within)
            found = {q: (1.0 - part) * weight for q, weight in weights[one.above].items()}
            for q, weight in weights[one.below].items():
                found[q] = found.get(q, 0.0) + part * weight
            weights[one.quantile] = {**found, one.quantile: 1.0}
    return weights


def runs_between(cuts: Mapping[Fraction, int], length: int, rows: float, scale: float) -> Whole:
    """Ends of the runs of pieces whose rows are counted: short next to a cut, the longer the further away.

    cuts: by quantile. rows: about how many there are. scale: of the noise that runs are counted with; a run next to a
    cut is so long that on average it holds a few times as many rows, for fewer would not show.

    >>> runs_between({Fraction(1, 2): 40}, 100, rows=300.0, scale=1.0).tolist()
    [0, 2, 10, 30, 38, 40, 43, 55, 85, 97, 100]
    """
    placed = {Fraction(0): 0, **{q: cut for q, cut in cuts.items() if 0 < q < 1}, Fraction(1): length}
    edges = {*placed.values(), *cuts.values()}
    for (p, a), (q, b) in pairwise(sorted(placed.items())):
        parts = min(max(rows * float(q - p) / (ENOUGH * scale), 1.0), FINEST)
        step = max(1, int((b - a) / parts))
        reach = step
        while 2 * reach < b - a:
            edges |= {a + reach, b - reach}
            step *= GROWTH
            reach += step
    return np.array(sorted(edges), dtype=np.int64)
