"""Ends from noisy tables along some attributes: Frechet's bounds, with noise.

A sum of counts over cells of several attributes is at most the sum over the cells of any table, each with the largest
weight of the cells that are summed in it, and at least that with the smallest. Rows that lie in two sets are at least
those in one and those in the other, less all rows. Which tables are measured hangs on noise of earlier ones; a table is
made use of, and has its share of the tail, by what was asked until then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, prod

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.frozen import dataclass
from sfumato.inference.margins.table import Places
from sfumato.intervals.guaranteed.ends import Ends, lowest
from sfumato.measurement import Measurement

# Of the tail, for all rows, tables of one attribute, of some and of all attributes of a question; and of one attribute.
SHARES = {"total": 1 / 8, "single": 1 / 8, "some": 1 / 4, "all": 1 / 2}
SHARES_OF_ONE = {"single": 1 / 2, "all": 1 / 2}
BETTER = 0.5  # times the variance of an earlier table of the same attributes, from which a table is used too


@dataclass(frozen=True, eq=False)
class _Used:
    """A table that bounds the sum. along: the attributes of the question that it has.

    inside: of a set of values for each attribute, how many rows lie in those of the table's, at least.
    """

    along: Places
    ends: Ends
    inside: float


@dataclass(frozen=True, eq=False)
class Tables:
    """Noisy tables of one statistic in the order in which they were measured. sizes: of all attributes."""

    sizes: tuple[int, ...]
    measured: Sequence[tuple[Places, Measurement]]
    counts: bool

    def ends(self, low: Floats, high: Floats, kinds: Mapping[int, Codes], tail: float) -> Ends:
        """low, high: weights along the attributes of `kinds`, an axis each. kinds: of the values of each attribute."""
        used, asked = list[_Used](), tuple(kinds)
        product = self.counts and bool(self.measured) and len(asked) > 1 and _is_product(low, asked)
        seen: dict[tuple[str, Places], float] = {}
        number = dict.fromkeys(SHARES, 0)
        for places, table in self.measured:
            along = tuple(place for place in places if place in kinds)
            least, most = _over_others(low, asked, along, np.min), _over_others(high, asked, along, np.max)
            full = np.array_equal(least, low) and np.array_equal(most, high)
            if not full and not (self.counts and along):
                continue
            kind = "all" if full and len(places) > 1 else "single" if len(places) == 1 else "some"
            variance = table.noise.variance * prod(self.sizes[place] for place in places if place not in kinds)
            if variance > BETTER * seen.get((kind, along), inf):
                continue
            seen[kind, along] = variance
            number[kind] += 1
            share = _share(kind, number[kind], len(asked)) * tail
            if product:  # a set of values weighs all or nothing: what is in it serves better than what weighs anyhow
                least = _over_others(low, asked, along, np.max)
            ends = self._of(places, table, least, most, kinds, share)
            used.append(_Used(along, Ends(ends.low if full or not product else 0.0, ends.high), ends.low))
        lows, highs = [one.ends.low for one in used], [one.ends.high for one in used]
        if product:
            lows.append(self._overlap(used, asked, SHARES["total"] * tail))
        return Ends(max(lows, default=-inf), min(highs, default=inf))

    def _of(
        self, places: Places, table: Measurement, low: Floats, high: Floats, kinds: Mapping[int, Codes], tail: float
    ) -> Ends:
        below, above = (_spread(weights, tuple(kinds), places, kinds, self.sizes) for weights in (low, high))
        rows = np.arange(len(table.answers))
        return Ends(lowest(table, rows, below, tail), -lowest(table, rows, -above, tail))

    def _overlap(self, used: Sequence[_Used], asked: Places, tail: float) -> float:
        """Rows in all of several sets, one for each table: what is in each, less all rows but once."""
        _, table = self.measured[0]
        rows = np.arange(len(table.answers))
        every = -lowest(table, rows, -np.ones(len(rows)), tail)
        left, found, sets = set(asked), 0.0, 0
        while left:
            best = max(used, key=lambda one: (len(left & set(one.along)), one.inside), default=None)
            if best is None or not left & set(best.along):
                return -inf
            left -= set(best.along)
            found, sets = found + best.inside, sets + 1
        return found - (sets - 1) * every


def _share(kind: str, number: int, asked: int) -> float:
    """Of the tail, for the n-th table of a kind: every attribute has one of its own first, and others come later."""
    share, first = (SHARES_OF_ONE if asked < 2 else SHARES)[kind], max(1, asked) if kind == "single" else 0
    if first:
        share /= 2.0
    return share / first if number <= first else share / ((number - first) * (number - first + 1))


def _over_others(weights: Floats, asked: Places, along: Places, least_or_most: object) -> Floats:
    """The least or the greatest weight over the attributes that a table does not have; these stay, of length 1."""
    others = tuple(axis for axis, place in enumerate(asked) if place not in along)
    found: Floats = np.asarray(least_or_most(weights, axis=others, keepdims=True))  # type: ignore[operator]
    return np.broadcast_to(found, weights.shape)


def _spread(weights: Floats, asked: Places, places: Places, kinds: Mapping[int, Codes], sizes: Sequence[int]) -> Floats:
    """Weights along the attributes of a question, for every cell of a table."""
    first = weights[tuple(slice(None) if place in places else 0 for place in asked)]
    here = [place for place in asked if place in places]
    for axis, place in enumerate(here):
        first = np.take(first, kinds[place], axis=axis)
    shape = [sizes[place] if place in here else 1 for place in places]
    return np.ascontiguousarray(np.broadcast_to(first.reshape(shape), [sizes[place] for place in places])).reshape(-1)


def _is_product(weights: Floats, asked: Places) -> bool:
    """Whether cells weigh 1 where every attribute has a value of some set of its own, and nothing elsewhere."""
    if not np.isin(weights, (0.0, 1.0)).all():
        return False
    product = np.ones_like(weights)
    for place in asked:
        product = product * _over_others(weights, asked, (place,), np.max)
    return bool(np.array_equal(product, weights))
