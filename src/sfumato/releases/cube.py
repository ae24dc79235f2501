"""A cube: noisy numbers for the cells of a domain, dense or above a threshold only."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.domain import Domain
from sfumato.inference.fits.base import Fit
from sfumato.measurement import Measurement, Noise
from sfumato.schema import Schema


@dataclass(frozen=True, eq=False)
class Gathered:
    """Cells of a cube summed over the attributes a query does not mention.

    codes: for each attribute mentioned, where each gathered cell lies on it. values: for each statistic, the noisy
    number in each gathered cell, in steps. merged: how many cells of the cube one gathered cell is the sum of.
    """

    codes: dict[str, Codes]
    values: dict[str, Floats]
    merged: int

    @property
    def size(self) -> int:
        return len(self.values["count"])


@dataclass(frozen=True, eq=False)
class Cube:
    """Noisy counts, and noisy centred sums of measures, per cell.

    measurements: "count" first. A measure's sum in a cell is step * answer + centre * count.
    totals: present in the sparse form, where cells under the threshold are known only through them.
    fits: in place of measurements where cells were not measured one by one: an estimate for each statistic.
    """

    schema: Schema
    measurements: tuple[Measurement, ...] = ()
    totals: tuple[Measurement, ...] = ()
    fits: tuple[Fit, ...] = ()

    @property
    def domain(self) -> Domain:
        return self.schema.domain

    @property
    def sparse(self) -> bool:
        return bool(self.totals)

    @property
    def threshold(self) -> int | None:
        return None if self.fits else self.measurements[0].above

    @property
    def published(self) -> int:
        """How many cells are published."""
        return self.domain.size if self.fits else len(self.measurements[0].answers)

    @property
    def statistics(self) -> tuple[str, ...]:
        return ("count", *self.schema.measures)

    def noise(self, of: str) -> Noise:
        """The noise on each cell of one statistic."""
        for measurement in self.measurements:
            if measurement.of == of:
                return measurement.noise
        return self.total_noise(of)  # nothing was published, so no cell carries noise; any noise will do

    def cell_error(self, of: str) -> float:
        """The standard error of one cell of a statistic, a typical one where they differ."""
        for fit in self.fits:
            if fit.of == of:
                column = np.zeros((self.domain.size, 1))
                column[self.domain.size // 2] = 1.0
                errors = fit.errors(column)
                noise = float((errors.design.variances * errors.weights[:, 0] ** 2).sum())
                return float(np.sqrt(noise + errors.model[0, 0]))
        return float(np.sqrt(self.noise(of).variance))

    def total_noise(self, of: str) -> Noise:
        return next(total.noise for total in self.totals if total.of == of)

    @cached_property
    def values(self) -> dict[str, Floats]:
        if self.fits:
            return {fit.of: fit.estimate for fit in self.fits}
        empty = np.zeros(self.published)
        found = {m.of: m.answers.astype(np.float64) for m in self.measurements}
        return {of: found.get(of, empty) for of in self.statistics}

    @cached_property
    def remainder(self) -> dict[str, float]:
        """For each statistic, what lies in the unpublished cells together: the noisy total less what is published."""
        totals = {total.of: float(total.answers[0]) for total in self.totals}
        return {of: total - float(self.values[of].sum()) for of, total in totals.items()}

    def gather(self, names: tuple[str, ...]) -> Gathered:
        """The cells along the named attributes."""
        if self.sparse:
            cells = self.measurements[0].cells
            assert cells is not None  # noqa: S101 (a sparse cube lists its cells)
            return Gathered({name: self.domain.codes_along(name, cells) for name in names}, self.values, 1)
        places = sorted(self.domain.place(name) for name in names)
        others = tuple(place for place in range(len(self.domain.axes)) if place not in places)
        shape = tuple(self.domain.shape[place] for place in places)
        codes = {
            self.domain.names[place]: np.broadcast_to(
                np.arange(self.domain.shape[place]).reshape([-1 if p == place else 1 for p in places]), shape
            ).reshape(-1)
            for place in places
        }
        values = {of: v.reshape(self.domain.shape).sum(axis=others).reshape(-1) for of, v in self.values.items()}
        return Gathered(codes, values, prod(self.domain.shape[place] for place in others))
