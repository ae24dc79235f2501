"""Rows whose tables along one, two and more attributes are those that are known, up to less than a sample's error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.frozen import dataclass
from sfumato.inference.margins.first_rows import Random, Step, all_ties, plan_steps
from sfumato.inference.margins.mending import Mending, Wanted
from sfumato.inference.margins.table import Places

SWEEPS = 40  # over all attributes, at most
MOST_WORK = 6 * 10**9  # rows that ask a table, over all sweeps of one block: a minute or two
FITS = 0.05  # of what the chi-square of a sample would be: nearer than this no table need be
ANYWHERE = 0.3  # of an attribute's ties, shared evenly: for choosing another one by which new values are drawn
FEWEST = 2**14  # rows that are drawn together; if fewer are wanted they are taken out of these


@dataclass(frozen=True, eq=False)
class Drawing:
    """What rows are drawn by. Made once; every block of rows is drawn afresh."""

    sizes: tuple[int, ...]
    known: Mapping[Places, Floats]
    ties: Floats
    steps: tuple[Step, ...]
    wanted: Wanted

    @classmethod
    def by(cls, one_way: Sequence[Floats], known: Mapping[Places, Floats]) -> Drawing:
        """one_way: margins of all attributes. known: tables along two and more. None is negative, all have one sum."""
        ties = all_ties(one_way, known)
        even = ANYWHERE * ties.sum(axis=1, keepdims=True) / len(one_way)
        paired = np.zeros(ties.shape)
        for places in known:
            if len(places) == 2:
                paired[places] = paired[places[::-1]] = 1.0
        sizes = tuple(len(margin) for margin in one_way)
        steps = tuple(plan_steps(one_way, known, ties))
        every = {(place,): margin for place, margin in enumerate(one_way)} | dict(known)
        return cls(sizes, known, (ties + even) * paired, steps, Wanted.by(len(sizes), every))

    def draw(self, count: int, random: Random) -> Codes:
        """Codes by attribute and row."""
        together = max(count, FEWEST)
        rows: Codes = np.zeros((len(self.sizes), together), dtype=np.int64)
        for step in self.steps:
            rows[step.place] = step.draw_evenly(rows, random)
        self._mend(rows, random)
        if together > count:
            rows = rows[:, random.order(together)[:count]]
        return rows

    def _mend(self, rows: Codes, random: Random) -> None:
        work = rows.shape[1] * sum(len(each) for each in self.wanted.along)
        if not work:
            return
        mending = Mending(self.wanted, rows)
        sweeps = max(1, min(SWEEPS, MOST_WORK // work))
        for _ in range(sweeps):
            misfits = mending.misfits()
            if misfits.max() <= FITS:
                break
            mending.weigh(1.0 + misfits)  # or a strong tie would be one voice among a hundred weak ones
            for place in random.order(len(rows)):
                mending.turn(int(place), self._other_values(int(place), rows, random), random)
        bad = mending.impossible()
        good = np.setdiff1d(np.arange(rows.shape[1]), bad)
        if len(bad) and len(good):
            rows[:, bad] = rows[:, good[(random.uniform(len(bad)) * len(good)).astype(np.int64)]]

    def _other_values(self, place: int, rows: Codes, random: Random) -> Codes:
        """A value for every row, by chance given another attribute, which is chosen by how much it tells."""
        ends = np.cumsum(self.ties[place])
        if not ends[-1] > 0:
            return np.asarray(rows[place])
        other = int(np.searchsorted(ends / ends[-1], random.uniform(1)[0], side="right"))
        table = self.known[min(place, other), max(place, other)]
        return Step.by(place, (other,), table if other < place else table.T).draw(rows, random)
