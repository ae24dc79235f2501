"""Where the least and the greatest value may lie, in estimates that lean on a model.

A model takes neighbours for alike, so beside the last cell that holds rows it has some too, and says that it is sure of
them: right on average over all cells, wrong at the very place where the rows end, which is what MIN and MAX ask for. So
the model has no say here. The least value lies beyond cell j if all cells up to j are empty; then what was measured of
them alone is noise, and is tested as such. The interval ends behind the last cell for which the test finds nothing. It
misses the truth only if the test errs at one place, the cell before the least value, with the probability asked.
"""

from __future__ import annotations

from dataclasses import field

import numpy as np

from sfumato.answers.statistics.along import Along
from sfumato.frozen import dataclass

AT_ONCE = 15  # places along the attribute that are tested together, then between two of them again


@dataclass(eq=False)
class Extremes:
    """The search for the last place where there may be no rows yet, group by group.

    least: whether the least value is asked for. found: what was found, by group; None where nothing is known.
    """

    along: Along
    least: bool
    found: dict[int, int | None] = field(default_factory=dict)

    def ends(self, place: int, begin: int, end: int) -> tuple[int, int]:
        """The cells from which to which the value may lie, of which the model says `begin` and `end`."""
        if place not in self.found:
            self.found[place] = self._search(place)
        sure = self.found[place]
        if sure is None:
            return begin, end
        return (begin, sure) if self.least else (sure, end)

    def _search(self, place: int) -> int | None:
        """The last cell that the value may lie in, counted from the side where it is looked for."""
        evaluation, last = self.along.evaluation, self.along.axis.size - 1
        inside = (evaluation.group == evaluation.groups.present[place]) & (self.along.base.low > 1.0 - 1e-9)
        code = self.along.code if self.least else last - self.along.code
        level = (1.0 + evaluation.confidence) / 2.0
        empty, held = -1, last  # up to here there may be no rows; up to here there are, or the attribute ends
        while held - empty > 1:
            steps = min(held - empty, AT_ONCE + 1)
            places = empty + (held - empty) * np.arange(1, steps, dtype=np.int64) // steps
            within = inside[:, None] & (code[:, None] <= places)
            signs = evaluation.view.noises.signs_of_rows(within, evaluation.view.cells)
            if signs is None:
                return None
            unsure = [at for at, sign in enumerate(signs) if not sign.is_sure(level)]
            ends = [empty, *places.tolist(), held]
            empty, held = ends[unsure[-1] + 1 if unsure else 0], ends[unsure[-1] + 2 if unsure else 1]
        return held if self.least else last - held
