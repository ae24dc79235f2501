"""Rows changed here and there until all tables that are known of them fit, not only those they were drawn by.

After the gradual updates of PrivSyn (Zhang et al., USENIX Security 2021), which move rows from cells with too many to
cells with too few, one table at a time. Here a row that may get another value of an attribute asks all tables of that
attribute at once what they would gain, in chi-square. Rows move with a probability in proportion to the gain, as large
as makes the sum of all chi-squares least: along one direction it is a parabola.

What a table wants of some rows is rounded to wholes, up or down by chance, so that a cell with less than a row gets one
in some blocks of rows and none in others, as is right on average.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.inference.margins.first_rows import Random
from sfumato.inference.margins.table import Places

SOFT = 1.0  # rows by which a cell is taken to expect more, so that single rows in rare cells do not weigh too much
NEVER = 1e9  # what is gained by leaving a cell that must be empty


@dataclass(frozen=True, eq=False)
class Along:
    """A table as one of its attributes sees it. cells: among those of all tables. step: from one value to the next."""

    cells: slice
    step: int
    others: tuple[tuple[int, int], ...]

    def base(self, rows: Codes, chosen: Codes) -> Codes:
        """The cell of each chosen row, if it had the first value of the attribute."""
        return np.asarray(sum(rows[place][chosen] * step for place, step in self.others), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Wanted:
    """The cells of all tables in one line. shares: of the rows. along: the tables of each attribute."""

    shares: Floats
    starts: Codes
    along: tuple[tuple[Along, ...], ...]

    @classmethod
    def by(cls, axes: int, known: Mapping[Places, Floats]) -> Wanted:
        along: list[list[Along]] = [[] for _ in range(axes)]
        shares, starts = [np.zeros(0)], [0]
        for places, table in known.items():
            start, steps = starts[-1], [table[(0,) * (axis + 1)].size for axis in range(len(places))]
            for place, step in zip(places, steps, strict=True):
                others = tuple(each for each in zip(places, steps, strict=True) if each[0] != place)
                along[place].append(Along(slice(start, start + table.size), step, others))
            shares.append(table.reshape(-1) / table.sum())
            starts.append(start + table.size)
        return cls(np.concatenate(shares), np.array(starts), tuple(tuple(each) for each in along))


class Mending:
    """Some rows, and how far each table is from fitting them. rows: codes by attribute and row, changed in place."""

    def __init__(self, wanted: Wanted, rows: Codes, random: Random) -> None:
        self.rows, self._along, self._starts = rows, wanted.along, wanted.starts
        expected = rows.shape[1] * wanted.shares
        self._never = expected <= 0
        self._weight = 1.0 / (expected + SOFT)
        self._lacking = self._rounded(expected, random)
        for place, along in enumerate(self._along):
            for each in along:
                if place < min(other for other, _ in each.others):
                    cells = each.base(rows, np.arange(rows.shape[1])) + rows[place] * each.step
                    self._lacking[each.cells] -= np.bincount(cells, minlength=each.cells.stop - each.cells.start)

    def _rounded(self, expected: Floats, random: Random) -> Floats:
        """Wholes, table by table, none of whose sums from the start is further than a row from what is expected."""
        found = np.zeros(len(expected))
        for start, end, up in zip(self._starts[:-1], self._starts[1:], random.uniform(len(self._starts) - 1), strict=True):
            found[start:end] = np.diff(np.floor(np.cumsum(expected[start:end]) + up), prepend=0.0)
        return found

    def off(self) -> float:
        """The furthest of all tables: its chi-square, for each of its cells."""
        terms = self._lacking**2 * self._weight
        return float((np.add.reduceat(terms, self._starts[:-1]) / np.diff(self._starts)).max())

    def turn(self, place: int, values: Codes, random: Random) -> None:
        """Let rows have other values of an attribute, those of them and as many as bring the tables nearer."""
        before = self.rows[place]
        chosen = np.flatnonzero(values != before)
        old, new = before[chosen], values[chosen]
        gain, bases = np.zeros(len(chosen)), []
        for each in self._along[place]:
            weight = self._weight[each.cells]
            pull = np.where(self._never[each.cells], -NEVER, self._lacking[each.cells] * weight)
            base = each.base(self.rows, chosen)
            gain += (pull - weight / 2)[base + each.step * new] - (pull + weight / 2)[base + each.step * old]
            bases.append(base)
        better = np.flatnonzero(gain > 0)
        must = gain[better] > NEVER / 2
        odds = self._step(place, [base[better] for base in bases], (old[better], new[better]), np.where(must, 0.0, gain[better]))
        moved = better[must | (random.uniform(len(better)) < odds)]
        for each, base in zip(self._along[place], bases, strict=True):
            self._lacking[each.cells] -= _change(each, base[moved], old[moved], new[moved])
        before[chosen[moved]] = new[moved]

    def _step(self, place: int, bases: Sequence[Codes], values: tuple[Codes, Codes], gain: Floats) -> Floats:
        """The gains, times what makes the sum of all chi-squares least if rows move by these odds."""
        slope = bend = 0.0
        for each, base in zip(self._along[place], bases, strict=True):
            change = _change(each, base, *values, gain)
            weighed = change * self._weight[each.cells]
            slope += float(weighed @ self._lacking[each.cells])
            bend += float(weighed @ change)
        return gain * max(0.0, slope / bend) if bend > 0 else gain

    def impossible(self) -> Codes:
        """The rows that lie in a cell which must be empty."""
        found = np.zeros(self.rows.shape[1], dtype=bool)
        every = np.arange(self.rows.shape[1])
        for place, along in enumerate(self._along):
            for each in along:
                if self._never[each.cells].any():
                    found |= self._never[each.cells][each.base(self.rows, every) + self.rows[place] * each.step]
        return np.flatnonzero(found)


def _change(each: Along, base: Codes, old: Codes, new: Codes, weights: Floats | None = None) -> Floats:
    size = each.cells.stop - each.cells.start
    into = np.bincount(base + each.step * new, weights, minlength=size)
    return np.asarray(into - np.bincount(base + each.step * old, weights, minlength=size), dtype=np.float64)
