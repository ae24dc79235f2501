"""Least squares that is solved when it is asked: its measurement says everything, so that a file keeps nothing else.

Of ten million cells in trees the estimates would be two thirds of the file. All cells are solved for in less time than
reading their estimates would take, and sums along few attributes in much less (least_squares/axes.py).

Least squares as a fit: the unbiased estimate of least variance.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache, cached_property
from typing import TYPE_CHECKING

import numpy as np

from sfumato.answers.fit import Arrays, Errors, FitReader, OfOneMeasurement, Unbiased, in_parts
from sfumato.arrays import Floats
from sfumato.domain import Domain
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.least_squares.axes import Axis, axes_of, estimates, inverse_of
from sfumato.least_squares.base import LeastSquares
from sfumato.least_squares.families import least_squares
from sfumato.measurement import Measurement

if TYPE_CHECKING:
    from sfumato.least_squares.merged import Merged

FINENESS = 2**20  # estimates are rounded to multiples of 1 / FINENESS: what is whole but for the last digit is whole


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


@dataclass(frozen=True, eq=False)
class SolvedFit(BySquares):
    """Least squares to a measurement that determines every cell and has a quick closed form.

    axes: what is asked along each axis, from which everything follows; found from the measurement.
    """

    family = "solved"
    room = 2

    measurement: Measurement
    axes: tuple[Axis, ...]

    @classmethod
    def of_answers(cls, measurement: Measurement) -> SolvedFit | LinearFit:
        """The least-squares fit to a measurement: solved now, and kept, where that would take long."""
        axes = axes_of(measurement.design)
        return LinearFit.of_answers(measurement) if axes is None else cls(measurement, tuple(axes))

    @cached_property
    def _inverse(self) -> LeastSquares:
        return inverse_of(self.axes)

    @cached_property
    def estimate(self) -> Floats:
        return self._rounded(range(len(self.axes)))

    def sums(self, domain: Domain, places: Collection[int]) -> Floats:
        """The estimate of every cell along some axes of the domain, summed over the others."""
        if tuple(axis.queries.columns for axis in self.axes) == domain.shape:
            return self._rounded(places)
        others = tuple(place for place in range(len(domain.shape)) if place not in places)
        return np.asarray(self.estimate.reshape(domain.shape).sum(axis=others)).reshape(-1)

    def _rounded(self, places: Collection[int]) -> Floats:
        found = estimates(self.axes, self.measurement.answers, places)
        found *= FINENESS
        np.rint(found, out=found)
        found /= FINENESS
        found.setflags(write=False)
        return found

    def record(self, domain: Domain) -> Arrays:
        return {}

    @classmethod
    def read(cls, file: FitReader) -> SolvedFit:
        measured = file.measurement(file.domain.size)
        axes = axes_of(measured.design)
        if axes is None:
            raise QueryError("its measurement does not say every cell, or not in a form that is quickly solved")
        return cls(measured, tuple(axes))
