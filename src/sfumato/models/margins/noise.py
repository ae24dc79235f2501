"""Error terms of answers from joined marginals: normal covariances, and guaranteed bounds from the noisy tables.

`JoinedNoise` turns the error model of a joined table (table.py) into covariances of the sums that a query asks for, by
group. `FromTables` bounds each sum with a given tail probability, by least squares over boxes (guaranteed.Boxes) where
measurement rounds are known, and by Frechet bounds table by table (guaranteed.Tables) otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from itertools import combinations, dropwhile, takewhile
from math import prod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.answers.evaluate import Sum, Terms
from sfumato.answers.fitted_noise import normal_terms
from sfumato.answers.noise_sum import Ends
from sfumato.answers.question import Asked, ByStatistic, Gathered, Groups
from sfumato.arrays import Codes, Floats
from sfumato.frozen import dataclass
from sfumato.measurement import Measurement
from sfumato.models.margins.guaranteed import Boxes, Misfits, Tables
from sfumato.models.margins.table import Coarse, JoinedErrors, Places, guess_of
from sfumato.queries import Identity
from sfumato.sql import Amount

ENDS = ("value", "low", "high")
MOST_TOLD_APART = 2**20  # cells, times sets of attributes, up to which it is said which set's model matters most
NOTHING = 1e-9  # of the largest weight: what is left of weights that cancel


@dataclass(frozen=True, eq=False)
class ErrorsOf:
    """Error models of one statistic: from noise, from the model, and of components that nothing was measured of."""

    noise: JoinedErrors
    model: JoinedErrors
    unknown: JoinedErrors


@dataclass(frozen=True, eq=False)
class JoinedNoise:
    """Errors of all statistics of a joined table. names: of its axes; kinds: class of every value of an attribute."""

    names: tuple[str, ...]
    kinds: Mapping[str, Codes]
    shape: tuple[int, ...]
    errors: Mapping[str, ErrorsOf]

    def signs_of_rows(self, within: NDArray[np.bool_], cells: Gathered) -> None:
        """Not available for joined tables."""

    def terms(self, sides: Sequence[Sum], cells: Gathered, groups: Groups) -> Sequence[Terms]:
        """Noise and model error terms of the sums of every group; None for a group with an unmeasured component."""
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
        """Weights of one statistic at one end of its interval, in the shape of the table; None for none."""
        weights = by_statistic.get(of)
        return None if weights is None else np.asarray(getattr(weights, end), dtype=np.float64).reshape(self.shape)

    def largest_model_part(self, side: Sum, groups: Groups) -> tuple[str, ...] | None:
        """Attributes whose joint table contributes most to the model's variance of a sum, over all groups.

        None where there is no model error, or where it would take long to compute.
        """
        axes = tuple(sorted(self.names.index(name) for name in groups.names if name in self.names))
        shares: dict[tuple[int, ...], float] = {}
        for of, errors in self.errors.items():
            split, whole = (self._weights(kind, of, "value") for kind in (side.split, side.whole))
            parts = {places: variances for places, variances in errors.model.variances.items() if variances.any()}
            if (split is None and whole is None) or len(parts) * prod(self.shape) > MOST_TOLD_APART:
                continue
            for places, variances in parts.items():
                blocks = [
                    Coarse(scale.shares, {places: scale.variances[places]})
                    for scale in errors.model.coarse
                    if places in scale.variances
                ]
                alone = replace(errors.model, variances={places: variances}, apart={}, coarse=blocks)
                variance = float(alone.covariances([split], [whole], axes)[..., 0, 0].sum())
                shares[places] = shares.get(places, 0.0) + variance
        if not shares or max(shares.values()) <= 0.0:
            return None
        return tuple(self.names[place] for place in max(shares, key=lambda places: shares[places]))


Listed = Sequence[tuple[Places, Measurement]]
MISFIT = "misfit"  # how far guesses lie from the counts


@dataclass(frozen=True, eq=False)
class FromTables:
    """Guaranteed bounds of sums from noisy marginal tables.

    sizes: of all attributes. kinds: for the attributes of a query, the class of every value. measured: all measurements
    in order. guessed: the number of all rows and the one-way margins with whose products the first misfits compare
    pairs.
    """

    signed: ClassVar[bool] = True

    sizes: tuple[int, ...]
    kinds: Mapping[int, Codes]
    measured: tuple[tuple[Places, Measurement], ...]
    guessed: tuple[Floats, ...] = ()
    boxes: dict[str, Boxes | None] = field(default_factory=dict)  # by statistic, as they are asked for

    @property
    def work(self) -> int:
        """Number of noisy answers in tables that share an attribute with the query."""
        asked = {*self.kinds}
        return sum(len(one.answers) for places, one in self.measured if asked & {*places})

    def refuse(self, amounts: Sequence[Amount]) -> None:
        """Refuse nothing: every sum has bounds, if wide ones."""

    def ends(self, asked: Asked, cells: Gathered, tail: float) -> Ends:
        """Bounds of a sum; the tail is divided evenly among its statistics."""
        shape = [int(kind.max()) + 1 for kind in self.kinds.values()]
        parts, total = asked.statistics, Ends(0.0, 0.0)
        for of in parts:
            weights = (asked.low[of].reshape(shape), asked.high[of].reshape(shape))
            if of not in self.boxes:
                self.boxes[of] = self.boxes_of(of)
            boxes = self.boxes[of]
            ends = None if boxes is None else boxes.ends(*weights, tail / len(parts))
            if ends is None:
                mine = [(places, measurement) for places, measurement in self.measured if measurement.of == of]
                ends = Tables(self.sizes, mine, of == "count").ends(*weights, self.kinds, tail / len(parts))
            total += ends
        return total

    def boxes_of(self, of: str) -> Boxes | None:
        """Measurements of a statistic in rounds; None where each table may depend on the noise of the one before.

        Of counts, one-way tables come first, then misfits, then tables that were all chosen by these. Sums of measures
        are along sets of attributes that the schema alone fixes.
        """
        if of != "count":
            sums = [(places, measurement) for places, measurement in self.measured if measurement.of == of]
            return Boxes(self.sizes, self.kinds, [], sums, counts=False) if all(map(self._whole, sums)) else None
        first = list(takewhile(lambda item: item[1].of == of and len(item[0]) == 1, self.measured))
        later = self.measured[len(first) :]
        if [places for places, _ in first] != [(place,) for place in range(len(self.sizes))] or not later:
            return None
        tables = list(
            takewhile(
                lambda item: item[1].of == of and self._whole(item), dropwhile(lambda item: item[1].of != of, later)
            )
        )
        if later[0][1].of != MISFIT or not tables:
            return None
        return Boxes(self.sizes, self.kinds, first, tables, self._misfits(later[0][1]))

    def _misfits(self, measured: Measurement) -> Misfits:
        """Noisy misfit, its noise and the guess of each pair of the query; pairs up to some size were compared."""
        cells = {pair: self.sizes[pair[0]] * self.sizes[pair[1]] for pair in combinations(range(len(self.sizes)), 2)}
        if not self.guessed or not 0 < len(measured.answers) <= len(cells):
            return {}
        most = sorted(cells.values())[len(measured.answers) - 1]
        pairs = [pair for pair, each in cells.items() if each <= most]
        if len(pairs) != len(measured.answers):
            return {}
        listed = zip(pairs, measured.answers.tolist(), strict=True)
        asked = ((pair, misfit) for pair, misfit in listed if {*pair} <= {*self.kinds})
        return {pair: (float(misfit), measured.noise, guess_of(self.guessed, pair)) for pair, misfit in asked}

    def _whole(self, item: tuple[Places, Measurement]) -> bool:
        """Whether a measurement is of every single cell of its table."""
        places, measurement = item
        cells = prod(self.sizes[place] for place in places)
        return bool(places) and isinstance(measurement.queries, Identity) and len(measurement.answers) == cells
