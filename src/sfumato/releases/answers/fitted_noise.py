"""The noises of answers where cells were fitted to measurements of other things: the fits say which noises enter.

Groups that are alike have the same noises: where fits can say so without laying out cells (releases/answers/merging.py)
they are worked out once for all such groups, and group by group otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Codes, Floats
from sfumato.domain import Domain
from sfumato.inference.fits.base import Fit
from sfumato.intervals.noise_terms import at_once, noises_of, spread_over
from sfumato.intervals.rows_inside import Sign, signs_of_rows
from sfumato.releases.answers.cell_weights import ByStatistic
from sfumato.releases.answers.gathered import Gathered
from sfumato.releases.answers.groups import Groups
from sfumato.releases.answers.merging import Asked, merged_terms
from sfumato.releases.answers.view import Sum, Terms

ENDS = ("value", "low", "high")


@dataclass(frozen=True, eq=False)
class FittedNoise:
    """The fits of all statistics, over the cells of a domain."""

    fits: tuple[Fit, ...]
    domain: Domain

    def terms(self, sides: Sequence[Sum], cells: Gathered, groups: Groups) -> Sequence[Terms]:
        """The noises of every group, each with a column of weights for every end that differs from the value."""
        columns = [(side, end) for side in sides for end in (ENDS[:1] if side.exact else ENDS)]
        answer = [columns.index((side, end)) for side in sides for end in (ENDS[:1] * 3 if side.exact else ENDS)]
        asked = [
            Asked(
                fit,
                np.stack([_weights(side.split, fit.of, end, cells.size) for side, end in columns], axis=1),
                np.stack([_weights(side.whole, fit.of, end, cells.size) for side, end in columns], axis=1),
            )
            for fit in self.fits
        ]
        group, names = groups.of_cells(cells), tuple(cells.codes)
        found = merged_terms(asked, self.domain, names, group, groups.present, answer)
        left = [place for place, terms in enumerate(found) if terms == ()]
        block = max(1, at_once(self.domain.size) // len(columns))
        for start in range(0, len(left), block):
            places = left[start : start + block]
            noises = self._laid_out(asked, names, group, groups.present[places], answer)
            for place, terms in zip(places, noises, strict=True):
                found[place] = terms
        return found

    def signs_of_rows(self, within: NDArray[np.bool_], cells: Gathered) -> list[Sign] | None:
        """What was measured of sets of cells alone."""
        (count,) = (fit for fit in self.fits if fit.of == "count")
        found: list[Sign] = []
        for start in range(0, within.shape[1], at_once(self.domain.size)):
            some = within[:, start : start + at_once(self.domain.size)].astype(np.float64)
            signs = signs_of_rows(count, spread_over(self.domain, tuple(cells.codes), some) > 0.5)
            if signs is None:
                return None
            found += signs
        return found

    def _laid_out(
        self, asked: Sequence[Asked], names: tuple[str, ...], group: Codes, present: Codes, answer: Sequence[int]
    ) -> list[Terms]:
        """The noises of some groups, by weights on all cells of the domain."""
        inside = (group[:, None] == present).astype(np.float64)
        weighed, ends = [], asked[0].split.shape[1]
        for one in asked:
            each = one.split[:, None, :] * inside[:, :, None] + one.whole[:, None, :]
            weighed.append((one.fit, spread_over(self.domain, names, each.reshape(len(group), -1))))
        return [*noises_of(weighed, [[place * ends + end for end in answer] for place in range(len(present))])]


def _weights(by_statistic: ByStatistic, of: str, end: str, size: int) -> Floats:
    weights = by_statistic.get(of)
    return np.zeros(size) if weights is None else np.asarray(getattr(weights, end), dtype=np.float64)
