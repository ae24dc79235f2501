"""Least squares as a fit: the unbiased estimate of least variance."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property
from typing import TYPE_CHECKING

import numpy as np

from sfumato.arrays import Floats
from sfumato.domain import Domain
from sfumato.frozen import dataclass
from sfumato.inference.fits.base import Arrays, Errors, FitReader, OfOneMeasurement, Unbiased, in_parts
from sfumato.least_squares.base import LeastSquares
from sfumato.least_squares.families import least_squares
from sfumato.measurement import Measurement

if TYPE_CHECKING:
    from sfumato.least_squares.merged import Merged


class BySquares(Unbiased, OfOneMeasurement):
    """Least squares, wherever the estimate is kept: its errors follow from what was asked, with which noise."""

    @cached_property
    def _inverse(self) -> LeastSquares:
        return least_squares(self.measurement.queries, self.measurement.design.sizes, often=True)

    def merged(self, domain: Domain) -> Merged | None:
        """For sums that tell few cells apart; None where the queries are no products along the axes of the domain."""
        return self._merged(domain.shape)

    @cached_property
    def _merged(self) -> Callable[[tuple[int, ...]], Merged | None]:
        from sfumato.least_squares.merged import Merged

        return cache(lambda shape: Merged.of(self.measurement.design, shape))

    def errors(self, columns: Floats) -> Errors:
        design = self.measurement.design
        solved, known = self._inverse.solve(columns)
        weights = (design.queries @ solved) / design.sizes[:, None]
        sums = columns.shape[1]
        return Errors(design, weights, np.zeros((sums, sums)), ~known)


@dataclass(frozen=True, eq=False)
class LinearFit(BySquares):
    """Least squares whose estimate is kept: of few numbers, of no closed form, or in a file of an earlier version."""

    family = "linear"
    room = 3

    measurement: Measurement
    estimate: Floats

    @classmethod
    def of_answers(cls, measurement: Measurement) -> LinearFit:
        """The least-squares fit to a measurement."""
        design = measurement.design
        weighed = measurement.answers / design.sizes
        estimate = least_squares(design.queries, design.sizes).solve((design.queries.T @ weighed)[:, None])[0][:, 0]
        return cls(measurement, in_parts(estimate))

    def record(self, domain: Domain) -> Arrays:
        return {}

    @classmethod
    def read(cls, file: FitReader) -> LinearFit:
        return cls(file.measurement(file.domain.size), file.estimate)
