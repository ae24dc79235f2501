"""A total times a shape: the total was measured, the shape was learned, and how wrong it may be was measured too."""

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
    """A fit whose cells are a measured total in fixed proportions.

    total: a fit over the one bucket that holds all cells. mass: whole numbers in proportion to the cells.
    spread: how wrong the proportions may be, in rows. A weighted sum of cells has the model error spread^2 times the
    variance of its weights, each cell counted by the root of its mass: where little is expected, little is also known,
    and errors shrink more slowly than counts do. misfit: what was measured in order to know the spread.
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
        """The total in the proportions of some positive numbers."""
        return cls(total, np.rint(cells / cells.sum() * WHOLE).astype(np.int64))

    def with_spread(self, spread: float, misfit: Measurement) -> ScaledShape:
        """The same, once it is known how wrong it is."""
        return replace(self, spread=spread, misfit=misfit)

    @property
    def of(self) -> str:
        return self.total.of

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        return self.total.measurements if self.misfit is None else (*self.total.measurements, self.misfit)

    @cached_property
    def shape(self) -> Floats:
        """The proportions of the cells."""
        return np.asarray(self.mass / self.mass.sum())

    @cached_property
    def doubt(self) -> Floats:
        """Where a row that the shape has in the wrong cell may be."""
        roots = np.sqrt(self.mass)
        return np.asarray(roots / roots.sum())

    @cached_property
    def estimate(self) -> Floats:
        return in_parts(self.total.estimate[0] * self.shape)

    def errors(self, columns: Floats) -> Errors:
        of_total = self.total.errors(self.shape[None, :] @ columns)
        means = self.doubt @ columns
        model = columns.T @ (self.doubt[:, None] * columns) - np.outer(means, means)
        np.fill_diagonal(model, np.maximum(np.diagonal(model), 0.0))  # rounding may leave nothing below zero
        return Errors(of_total.design, of_total.weights, self.spread**2 * model, of_total.unknown)

    def covariances(self, columns: Floats) -> Floats:
        """Of every cell with some weighted sums of cells, noise and model together."""
        noise = self.total.measurement.noise.variance * np.outer(self.shape, self.shape @ columns)
        doubt = self.doubt[:, None] * (columns - self.doubt @ columns)
        return np.asarray(noise + self.spread**2 * doubt)

    def errors_by_group(self, asked: Grouped) -> list[Errors]:
        """The same for many groups."""
        shares, means = (self._weighed(each, asked, asked.weights) for each in (self.shape, self.doubt))
        model = squares_by_group(asked.group, asked.groups, self.doubt[asked.place], asked.weights)
        if asked.whole is not None:
            beside = asked.whole[asked.place]
            model = squares_by_group(
                asked.group, asked.groups, self.doubt[asked.place], asked.weights + beside, beside
            ) + asked.whole.T @ (self.doubt[:, None] * asked.whole)
        model -= means[:, :, None] * means[:, None, :]
        of_total = self.total.errors(shares.reshape(1, -1))
        found = []
        for group, each in enumerate(model):
            np.fill_diagonal(each, np.maximum(np.diagonal(each), 0.0))
            own = slice(group * asked.sums, (group + 1) * asked.sums)
            weights, unknown = of_total.weights[:, own], of_total.unknown[own]
            found.append(Errors(of_total.design, weights, self.spread**2 * each, unknown))
        return found

    def _weighed(self, by: Floats, asked: Grouped, weights: Floats) -> Floats:
        """Every group's sums with each cell counted by some number."""
        found = summed(asked.group, by[asked.place, None] * weights, asked.groups)
        return found if asked.whole is None else found + by @ asked.whole

    def record(self, domain: Domain) -> Arrays:
        return {"total": self.total.estimate, "spread": np.array([self.spread]), "mass": self.mass}

    @classmethod
    def read(cls, file: FitReader) -> ScaledShape:
        total = LinearFit(file.measurement(1), file.numbers("total"))
        (spread,) = file.numbers("spread")
        misfit = file.measurement(None) if file.measurements else None
        return cls(total, file.whole("mass"), float(spread), misfit)

    def variances(self, queries: Queries) -> tuple[Floats, Floats]:
        """For each of many queries, the variance of the model's error at a spread of 1, and of the noise."""
        means, squares = queries @ self.doubt, queries._magnitudes(2) @ self.doubt
        noise = self.total.measurement.noise.variance * np.square(queries @ self.shape)
        return np.maximum(squares - means**2, 0.0), np.asarray(noise)
