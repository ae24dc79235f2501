"""Estimate of the cells as a measured total times a learned distribution, with a measured model error.

Estimator: x_c = N p_c, with N the noisy total and p_c = mass_c / sum mass. Error of a sum with weights w: the noise of
N times p . w, and a model error of variance spread^2 Var_q(w), with q_c in proportion to sqrt(mass_c). Under q, cells
of small expected count have errors that shrink more slowly than their counts. The spread, in rows, is calibrated to a
measured misfit of the workload (models/calibration/model_error.py).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np

from sfumato.answers.fit import (
    Arrays,
    ByModel,
    Errors,
    FitReader,
    Grouped,
    TotalByNoise,
    in_parts,
    squares_by_group,
    summed,
)
from sfumato.arrays import Codes, Floats
from sfumato.domain import Domain
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.measurement import Measurement
from sfumato.models.linear.fit import LinearFit
from sfumato.queries import Queries

WHOLE = 2.0**50  # a shape is kept in whole multiples of about one part in so many, so that a file holds it exactly
MOST_MASS = 2.0**62  # of all cells; with more, their sum in whole numbers might come to less than nothing


@dataclass(frozen=True, eq=False)
class ScaledShape(ByModel, TotalByNoise):
    """Fit whose cells are a measured total in fixed proportions.

    total: least-squares fit of the total, (1,).
    mass: whole numbers in proportion to the cells, (cells,).
    spread: standard deviation of the model error, in rows; a sum with weights w has the model variance spread^2
    Var_q(w), q in proportion to sqrt(mass).
    misfit: the measurement that the spread is calibrated to.
    """

    family = "shaped"
    room = 4

    total: LinearFit
    mass: Codes
    spread: float = 0.0
    misfit: Measurement | None = None

    def __post_init__(self) -> None:
        mass = np.array(self.mass, dtype=np.int64)
        weighed = mass.ndim == 1 and mass.size and mass.min() >= 0 and 0 < mass.sum(dtype=np.float64) < MOST_MASS
        if self.total.estimate.shape != (1,) or not weighed:
            raise QueryError("a shape needs one total, and for each cell a whole number of 0 or more, not all 0")
        mass.setflags(write=False)
        object.__setattr__(self, "mass", mass)
        object.__setattr__(self, "spread", float(in_parts(np.array(self.spread))))

    @classmethod
    def like(cls, total: LinearFit, cells: Floats) -> ScaledShape:
        """Fit of a total times the distribution proportional to some positive numbers (cells,)."""
        return cls(total, np.rint(cells / cells.sum() * WHOLE).astype(np.int64))

    def with_spread(self, spread: float, misfit: Measurement) -> ScaledShape:
        """Replace the model error of the fit by a measured one."""
        return replace(self, spread=spread, misfit=misfit)

    @property
    def of(self) -> str:
        """Statistic that is fitted: "count"."""
        return self.total.of

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        return self.total.measurements if self.misfit is None else (*self.total.measurements, self.misfit)

    @cached_property
    def shape(self) -> Floats:
        """Estimated distribution over the cells, p, (cells,)."""
        return np.asarray(self.mass / self.mass.sum())

    @cached_property
    def doubt(self) -> Floats:
        """Distribution q of the model error over the cells, in proportion to the root of their mass, (cells,)."""
        roots = np.sqrt(self.mass)
        return np.asarray(roots / roots.sum())

    @cached_property
    def estimate(self) -> Floats:
        return in_parts(self.total.estimate[0] * self.shape)

    def errors(self, columns: Floats) -> Errors:
        """Noise of the total and model covariance of weighted sums of cells; columns: (cells, sums)."""
        of_total = self.total.errors(self.shape[None, :] @ columns)
        means = self.doubt @ columns
        model = columns.T @ (self.doubt[:, None] * columns) - np.outer(means, means)
        np.fill_diagonal(model, np.maximum(np.diagonal(model), 0.0))  # rounding may leave nothing below zero
        return Errors(of_total.design, of_total.weights, self.spread**2 * model, of_total.unknown)

    def covariances(self, columns: Floats) -> Floats:
        """Covariances of every cell with weighted sums of cells, noise and model error together, (cells, sums)."""
        noise = self.total.measurement.noise.variance * np.outer(self.shape, self.shape @ columns)
        doubt = self.doubt[:, None] * (columns - self.doubt @ columns)
        return np.asarray(noise + self.spread**2 * doubt)

    def errors_by_group(self, asked: Grouped) -> list[Errors]:
        """Errors of the sums of each of many groups."""
        shares, means = (self._weighed(covariance, asked, asked.weights) for covariance in (self.shape, self.doubt))
        model = squares_by_group(asked.group, asked.groups, self.doubt[asked.place], asked.weights)
        if asked.whole is not None:
            beside = asked.whole[asked.place]
            model = squares_by_group(
                asked.group, asked.groups, self.doubt[asked.place], asked.weights + beside, beside
            ) + asked.whole.T @ (self.doubt[:, None] * asked.whole)
        model -= means[:, :, None] * means[:, None, :]
        of_total = self.total.errors(shares.reshape(1, -1))
        errors = []
        for group, covariance in enumerate(model):
            np.fill_diagonal(covariance, np.maximum(np.diagonal(covariance), 0.0))
            own = slice(group * asked.sums, (group + 1) * asked.sums)
            weights, unknown = of_total.weights[:, own], of_total.unknown[own]
            errors.append(Errors(of_total.design, weights, self.spread**2 * covariance, unknown))
        return errors

    def _weighed(self, by: Floats, asked: Grouped, weights: Floats) -> Floats:
        """Sums of every group with cells weighted by `by` (cells,), as (groups, sums)."""
        totals = summed(asked.group, by[asked.place, None] * weights, asked.groups)
        return totals if asked.whole is None else totals + by @ asked.whole

    def record(self, domain: Domain) -> Arrays:
        return {"total": self.total.estimate, "spread": np.array([self.spread]), "mass": self.mass}

    @classmethod
    def read(cls, file: FitReader) -> ScaledShape:
        total = LinearFit(file.measurement(1), file.numbers("total"))
        (spread,) = file.numbers("spread")
        misfit = file.measurement(None) if file.measurements else None
        return cls(total, file.whole("mass"), float(spread), misfit)

    def variances(self, queries: Queries) -> tuple[Floats, Floats]:
        """Variance of each query's model error at unit spread, and of its noise, (queries,) each."""
        means, squares = queries @ self.doubt, queries._magnitudes(2) @ self.doubt
        noise = self.total.measurement.noise.variance * np.square(queries @ self.shape)
        return np.maximum(squares - means**2, 0.0), np.asarray(noise)
