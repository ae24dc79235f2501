"""The errors of answers from margins that were joined for the question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Codes, Floats
from sfumato.frozen import dataclass
from sfumato.inference.margins.errors import Coarse, JoinedErrors
from sfumato.intervals.noise_terms import normal_terms
from sfumato.releases.answers.cell_weights import ByStatistic
from sfumato.releases.answers.gathered import Gathered
from sfumato.releases.answers.groups import Groups
from sfumato.releases.answers.view import Sum, Terms

ENDS = ("value", "low", "high")
MOST_TOLD_APART = 2**20  # cells, times sets of attributes, up to which it is said which set's model matters most
NOTHING = 1e-9  # of the largest weight: what is left of weights that cancel


@dataclass(frozen=True, eq=False)
class ErrorsOf:
    """The errors of one statistic: from its noise, from what was assumed, and where nothing is known at all."""

    noise: JoinedErrors
    model: JoinedErrors
    unknown: JoinedErrors


@dataclass(frozen=True, eq=False)
class JoinedNoise:
    """The errors of all statistics in a joined table. names: of its axes; kinds: of the values along each."""

    names: tuple[str, ...]
    kinds: Mapping[str, Codes]
    shape: tuple[int, ...]
    errors: Mapping[str, ErrorsOf]

    def signs_of_rows(self, within: NDArray[np.bool_], cells: Gathered) -> None:
        """Not told here."""

    def terms(self, sides: Sequence[Sum], cells: Gathered, groups: Groups) -> Sequence[Terms]:
        columns = [(side, end) for side in sides for end in (ENDS[:1] if side.exact else ENDS)]
        back = np.array([columns.index((s, end)) for s in sides for end in (ENDS[:1] * 3 if s.exact else ENDS)])
        grouping = [name for name in groups.names if name in self.names]
        axes = tuple(sorted(self.names.index(name) for name in grouping))
        where = tuple(self.kinds[self.names[axis]][groups.code(self.names[axis])] for axis in axes)
        noise, model = (np.zeros((len(groups.present), len(columns), len(columns))) for _ in range(2))
        unknown = np.zeros(len(groups.present), dtype=bool)
        for of, errors in self.errors.items():
            split = [self._weights(side.split, of, end) for side, end in columns]
            whole = [self._weights(side.whole, of, end) for side, end in columns]
            if all(weights is None for weights in (*split, *whole)):
                continue
            noise += errors.noise.covariances(split, whole, axes)[where]
            model += errors.model.covariances(split, whole, axes)[where]
            if errors.unknown.variances:
                largest = max(float(np.abs(w).max()) for w in (*split, *whole) if w is not None)
                left = np.broadcast_to(errors.unknown.covariances(split, whole, axes)[where], noise.shape)
                unknown |= (np.diagonal(left, axis1=1, axis2=2) > (NOTHING * largest) ** 2).any(axis=1)
        return [
            None
            if unknown[group]
            else (*normal_terms(noise[group], back, model=False), *normal_terms(model[group], back, model=True))
            for group in range(len(groups.present))
        ]

    def _weights(self, by_statistic: ByStatistic, of: str, end: str) -> Floats | None:
        weights = by_statistic.get(of)
        return None if weights is None else np.asarray(getattr(weights, end), dtype=np.float64).reshape(self.shape)

    def largest_model_part(self, side: Sum, groups: Groups) -> tuple[str, ...] | None:
        """The attributes whose joint table has the largest share in the model's variance of a sum, over all groups.

        None where nothing was assumed, or where it would take long to tell.
        """
        axes = tuple(sorted(self.names.index(name) for name in groups.names if name in self.names))
        shares: dict[tuple[int, ...], float] = {}
        for of, errors in self.errors.items():
            split, whole = (self._weights(kind, of, "value") for kind in (side.split, side.whole))
            parts = {places: each for places, each in errors.model.variances.items() if each.any()}
            if (split is None and whole is None) or len(parts) * prod(self.shape) > MOST_TOLD_APART:
                continue
            for places, each in parts.items():
                blocks = [
                    Coarse(scale.shares, {places: scale.variances[places]})
                    for scale in errors.model.coarse
                    if places in scale.variances
                ]
                alone = replace(errors.model, variances={places: each}, apart={}, coarse=blocks)
                found = float(alone.covariances([split], [whole], axes)[..., 0, 0].sum())
                shares[places] = shares.get(places, 0.0) + found
        if not shares or max(shares.values()) <= 0.0:
            return None
        return tuple(self.names[place] for place in max(shares, key=lambda places: shares[places]))
