"""The noises of answers where cells were fitted to measurements of other things: the fits say which noises enter.

Groups that are alike have the same noises: where fits can say so without laying out cells (answers/merging.py)
they are worked out once for all such groups, and group by group otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sfumato.answers.cell_weights import ByStatistic
from sfumato.answers.fit import Fit
from sfumato.answers.gathered import Gathered
from sfumato.answers.grouped import ByGroup, Grouped
from sfumato.answers.groups import Groups
from sfumato.answers.intervals.noise_terms import at_once, noises_of, spread_over, terms_of
from sfumato.answers.intervals.rows_inside import Sign, signs_of_rows
from sfumato.answers.merging import Asked, Noise, merged_terms
from sfumato.answers.view import Sum, Terms
from sfumato.arrays import Codes, Floats
from sfumato.domain import Domain
from sfumato.frozen import dataclass

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
        weighed = [one for one in asked if one.split.any() or one.whole.any()]
        each = [self._of_statistic(one, names, group, groups.present, answer) for one in weighed]
        known: dict[tuple[int, ...], Terms] = {}  # groups with the same noises get them as the same value
        found = []
        for parts in zip(*each, strict=True) if each else [() for _ in groups.present]:
            same = tuple(map(id, parts))
            if same not in known:
                known[same] = None if None in parts else tuple(term for part in parts for term in part or ())
            found.append(known[same])
        return found

    def _of_statistic(
        self, asked: Asked, names: tuple[str, ...], group: Codes, present: Codes, answer: Sequence[int]
    ) -> list[Noise]:
        """The noises of every present group in one statistic."""
        fit, found = asked.fit, list[Noise]([() for _ in present])
        if (merged := fit.merged(self.domain)) is not None:
            found = merged_terms(asked, merged, self.domain, names, group, present, answer)
        elif isinstance(fit, ByGroup) and len(present) > 1:
            found = self._at_once(fit, asked, names, group, present, answer) or found
        left = [place for place, terms in enumerate(found) if terms == ()]
        block = max(1, at_once(self.domain.size) // asked.split.shape[1])
        for start in range(0, len(left), block):
            places = left[start : start + block]
            noises = self._laid_out(asked, names, group, present[places], answer)
            for place, terms in zip(places, noises, strict=True):
                found[place] = terms
        return found

    def largest_model_part(self, side: Sum, groups: Groups) -> None:
        """Not told here."""

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

    def _at_once(
        self, fit: ByGroup, asked: Asked, names: tuple[str, ...], group: Codes, present: Codes, answer: Sequence[int]
    ) -> list[Noise] | None:
        """The noises of all groups, each looked for in its own cells."""
        number = np.full(int(group.max(initial=0)) + 1, -1)
        here = present[present < len(number)]
        number[here] = np.arange(len(here))
        cells = spread_over(self.domain, names, np.arange(float(len(group)))[:, None])[:, 0].astype(np.int64)
        whole = asked.whole[cells] if asked.whole.any() else None
        errors = fit.errors_by_group(Grouped.of_cells(number[group][cells], len(present), asked.split[cells], whole))
        if errors is None:
            return None
        return [None if one.unknown[list(answer)].any() else terms_of(one, answer) for one in errors]

    def _laid_out(
        self, asked: Asked, names: tuple[str, ...], group: Codes, present: Codes, answer: Sequence[int]
    ) -> list[Terms]:
        """The noises of some groups, by weights on all cells of the domain."""
        inside = (group[:, None] == present).astype(np.float64)
        ends = asked.split.shape[1]
        each = asked.split[:, None, :] * inside[:, :, None] + asked.whole[:, None, :]
        weighed = spread_over(self.domain, names, each.reshape(len(group), -1))
        order = [[place * ends + end for end in answer] for place in range(len(present))]
        return [*noises_of([(asked.fit, weighed)], order)]


def _weights(by_statistic: ByStatistic, of: str, end: str, size: int) -> Floats:
    weights = by_statistic.get(of)
    return np.zeros(size) if weights is None else np.asarray(getattr(weights, end), dtype=np.float64)
