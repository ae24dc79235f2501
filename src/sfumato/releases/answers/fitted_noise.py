"""The noises of answers where cells were fitted to measurements of other things: the fits say which noises enter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.arrays import Floats
from sfumato.domain import Domain
from sfumato.inference.fits.base import Fit
from sfumato.intervals.noise_terms import at_once, noises_of, spread_over
from sfumato.releases.answers.cell_weights import ByStatistic
from sfumato.releases.answers.gathered import Gathered
from sfumato.releases.answers.groups import Groups
from sfumato.releases.answers.view import Sum, Terms

ENDS = ("value", "low", "high")


@dataclass(frozen=True, eq=False)
class FittedNoise:
    """The fits of all statistics, over the cells of a domain."""

    fits: tuple[Fit, ...]
    domain: Domain

    def terms(self, sides: Sequence[Sum], cells: Gathered, groups: Groups) -> Sequence[Terms]:
        """Some groups at a time, each with its own column of weights for every end that differs from the value."""
        columns = [(side, end) for side in sides for end in (ENDS[:1] if side.exact else ENDS)]
        answer = [columns.index((side, end)) for side in sides for end in (ENDS[:1] * 3 if side.exact else ENDS)]
        group, names = groups.of_cells(cells), tuple(cells.codes)
        block = max(1, at_once(self.domain.size) // len(columns))
        found: list[Terms] = []
        for start in range(0, len(groups.present), block):
            asked = groups.present[start : start + block]
            inside = (group[:, None] == asked).astype(np.float64)
            weighed = []
            for fit in self.fits:
                each = [
                    _weights(side.split, fit.of, end, cells.size)[:, None] * inside
                    + _weights(side.whole, fit.of, end, cells.size)[:, None]
                    for side, end in columns
                ]
                wide = np.stack(each, axis=2).reshape(cells.size, -1)  # for each group, its ends side by side
                weighed.append((fit, spread_over(self.domain, names, wide)))
            found += noises_of(weighed, [[place * len(columns) + end for end in answer] for place in range(len(asked))])
        return found


def _weights(by_statistic: ByStatistic, of: str, end: str, size: int) -> Floats:
    weights = by_statistic.get(of)
    return np.zeros(size) if weights is None else np.asarray(getattr(weights, end), dtype=np.float64)
