"""Generalised-least-squares fit of the cells: the unbiased linear estimate of least variance (formulas: README.md).

`LinearFit` keeps the estimate. `SolvedFit` keeps the measurement alone and solves on demand, where A has a closed form
along each axis: for ten million cells in trees the estimates would be two thirds of the file, and they are solved for
in less time than they are read; sums along few attributes in much less.

Least squares axis by axis, for Kronecker-product strategies whose precisions are Kronecker products too.

x_hat = (M_1 x ... x M_d) y with M_a = (A_a^T P_a A_a)^-1 A_a^T P_a; a sum over axis a needs only the row vector 1^T
M_a, (rows,). So a query about few attributes never visits the cells: with ten thousand by a thousand of them, the
marginal of one axis is one pass over the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cache, cached_property
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from sfumato.answers.fit import Arrays, Errors, FitReader, LeastSquaresOnly, OfOneMeasurement, Unbiased, in_parts
from sfumato.arrays import Codes, Floats, Whole
from sfumato.domain import Domain
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.least_squares.base import LeastSquares
from sfumato.least_squares.closed_forms import WeightedAxis, least_squares
from sfumato.least_squares.kron import KronSquares, closest_products
from sfumato.measurement import Design, Measurement, Noise, as_one
from sfumato.queries import Kron, Stack

if TYPE_CHECKING:
    from sfumato.answers.evaluate import Terms
    from sfumato.answers.fitted_noise import SumWeights
    from sfumato.least_squares.classes import Merged

AT_ONCE = 2**18  # numbers that are worked on at a time, so that they stay near the processor


def axes_of(design: Design) -> list[WeightedAxis] | None:
    """Axes of a design that determines every cell and is quickly solved; None for any other."""
    queries = design.queries
    if type(queries) is not Kron:
        precisions = design.sizes
        axis = WeightedAxis(queries, np.reciprocal(precisions, out=precisions))
        return [axis] if axis.quick else None
    from sfumato.least_squares.classes import noises_along

    noises = noises_along(design.which, [factor.rows for factor in queries.factors])
    if noises is None:
        return None
    classes, kinds = noises
    sizes = np.array([noise.continuous_variance for noise in design.noises])
    lists, products = closest_products(1.0 / sizes[kinds.reshape(-1)], kinds.shape)
    if not products:
        return None
    axes = [WeightedAxis(*each) for each in zip(queries.factors, map(np.take, lists, classes), strict=True)]
    return axes if all(axis.quick for axis in axes) else None


def inverse_of(axes: Sequence[WeightedAxis]) -> LeastSquares:
    """(A^T P A)^-1 of the Kronecker product of all axes."""
    if len(axes) == 1:
        return axes[0].inverse
    return KronSquares(tuple(axis.queries.columns for axis in axes), [axis.inverse for axis in axes])


def estimates(axes: Sequence[WeightedAxis], answers: Whole, kept: Collection[int]) -> Floats:
    """GLS estimates of the marginal over the axes `kept`, flattened; answers: (rows of all axes,)."""
    values: Floats | Whole = answers
    sizes = [axis.queries.rows for axis in axes]
    order = sorted(range(len(axes)), key=lambda index: (index in kept, -index))  # what shrinks most first
    for index in order:
        axis, before, after = axes[index], prod(sizes[:index]), prod(sizes[index + 1 :])
        sizes[index] = axis.queries.columns if index in kept else 1
        values = _applied(axis, values.reshape(before, axis.queries.rows, after), whole=index in kept)
    return np.asarray(values, dtype=np.float64).reshape(-1)


def _applied(axis: WeightedAxis, array: Floats | Whole, *, whole: bool) -> Floats:
    """Apply an axis's estimator along the middle of an array (before, rows, after), in chunks.

    whole: estimate every cell of the axis; otherwise its total alone.
    """
    before, rows, after = array.shape
    result = np.empty((before, axis.queries.columns if whole else 1, after))
    front = max(1, AT_ONCE // (rows * after))
    back = max(1, AT_ONCE // rows)
    for start in range(0, before, front):
        for column in range(0, after, back):
            here = slice(start, start + front), slice(None), slice(column, column + back)
            part = array[here].astype(np.float64)
            if whole:
                many, _, width = part.shape
                flat = axis.cells(part.swapaxes(0, 1).reshape(rows, -1))
                result[here] = flat.reshape(-1, many, width).swapaxes(0, 1)
            else:
                result[here] = (axis.weights @ part)[:, None, :]
    return result


# -- fit

FINENESS = 2**20  # estimates are rounded to multiples of 1 / FINENESS: what is whole but for the last digit is whole


class BySquares(LeastSquaresOnly, OfOneMeasurement):
    """Base of least-squares fits: their errors follow from queries and noise alone."""

    @cached_property
    def _inverse(self) -> LeastSquares:
        """Solver of (A^T P A)^-1 for the measurement's queries and precisions."""
        return least_squares(self.measurement.queries, self.measurement.design.sizes, often=True)

    def merged(self, domain: Domain) -> Merged | None:
        """Solver for sums that distinguish few classes of cells; None unless queries are products over the axes."""
        return self._merged(domain.shape)

    @cached_property
    def _merged(self) -> Callable[[tuple[int, ...]], Merged | None]:
        """Cached constructor of the reduced solver (`merged`), by the shape of the domain."""
        from sfumato.least_squares.classes import Merged

        return cache(lambda shape: Merged.of(self.measurement.design, shape))

    def errors(self, columns: Floats) -> Errors:
        """Weights of the row noises in weighted sums of cells; columns: (cells, sums). No model error."""
        design = self.measurement.design
        solved, determined = self._inverse.solve(columns)
        weights = (design.queries @ solved) / design.sizes[:, None]
        sums = columns.shape[1]
        return Errors(design, weights, np.zeros((sums, sums)), ~determined)


@dataclass(frozen=True, eq=False)
class LinearFit(BySquares):
    """Least-squares fit whose estimate (cells,) is kept: few cells, no closed form, or a file of an earlier version."""

    family = "linear"
    room = 3

    measurement: Measurement
    estimate: Floats

    @classmethod
    def of_answers(cls, measurement: Measurement) -> LinearFit:
        """Least-squares fit to a measurement."""
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
    """Least-squares fit that is solved on demand, to a measurement that determines every cell in closed form.

    axes: queries and precisions along each axis, derived from the measurement.
    """

    family = "solved"
    room = 2

    measurement: Measurement
    axes: tuple[WeightedAxis, ...]

    @classmethod
    def of_answers(cls, measurement: Measurement) -> SolvedFit | LinearFit:
        """Least-squares fit to a measurement: solved on demand if it has a quick closed form, else solved and kept."""
        axes = axes_of(measurement.design)
        return LinearFit.of_answers(measurement) if axes is None else cls(measurement, tuple(axes))

    @cached_property
    def _inverse(self) -> LeastSquares:
        return inverse_of(self.axes)

    @cached_property
    def estimate(self) -> Floats:
        """Estimate of every cell, rounded to multiples of 1 / FINENESS, (cells,)."""
        return self._rounded(range(len(self.axes)))

    def sums(self, domain: Domain, places: Collection[int]) -> Floats:
        """Marginal estimates: cells along some axes of the domain, summed over the others."""
        if tuple(axis.queries.columns for axis in self.axes) == domain.shape:
            return self._rounded(places)
        others = tuple(index for index in range(len(domain.shape)) if index not in places)
        return np.asarray(self.estimate.reshape(domain.shape).sum(axis=others)).reshape(-1)

    def _rounded(self, places: Collection[int]) -> Floats:
        """Marginal estimates over the axes `places`, rounded to multiples of 1 / FINENESS."""
        values = estimates(self.axes, self.measurement.answers, places)
        values *= FINENESS
        np.rint(values, out=values)
        values /= FINENESS
        values.setflags(write=False)
        return values

    @cached_property
    def _noises(self) -> tuple[list[Codes], list[Noise]] | None:
        """Noise class of each row along each axis, and the noise of every combination; None where they are too many."""
        from sfumato.least_squares.classes import noises_along

        found = noises_along(self.measurement.which, [axis.queries.rows for axis in self.axes])
        return None if found is None else (found[0], [self.measurement.noises[kind] for kind in found[1].reshape(-1)])

    def terms_by_group(self, query: SumWeights, domain: Domain, present: Codes) -> dict[int, Terms]:
        """Noise terms of counts by areas of a tree, all at once (area_noise.py), by the index of a present group."""
        from sfumato.models.linear.area_noise import terms_of_areas

        if self._noises is None or tuple(axis.queries.columns for axis in self.axes) != domain.shape:
            return {}
        return terms_of_areas(self.axes, *self._noises, query, domain, present)

    def record(self, domain: Domain) -> Arrays:
        return {}

    @classmethod
    def read(cls, file: FitReader) -> SolvedFit:
        measured = file.measurement(file.domain.size)
        axes = axes_of(measured.design)
        if axes is None:
            raise QueryError("its measurement does not say every cell, or not in a form that is quickly solved")
        return cls(measured, tuple(axes))


@dataclass(frozen=True, eq=False)
class SummedFit(Unbiased):
    """Sum of least-squares fits to several tables: estimates add up, and so do the variances of independent noise.

    measurements: one of each table. estimate: the sum of the fits, (cells,).
    """

    family = "summed"
    room = 3

    measurements: tuple[Measurement, ...]
    estimate: Floats

    @classmethod
    def of_answers(cls, measurements: Sequence[Measurement]) -> SummedFit:
        """Sum of the least-squares fits to each measurement."""
        fits = [LinearFit.of_answers(measured) for measured in measurements]
        return cls(tuple(measurements), in_parts(np.sum([fit.estimate for fit in fits], axis=0)))

    @property
    def of(self) -> str:
        return self.measurements[0].of

    @cached_property
    def _fits(self) -> list[LinearFit]:
        return [LinearFit(measured, self.estimate) for measured in self.measurements]

    @cached_property
    def _design(self) -> Design:
        """Queries of all tables, row after row, with their noise."""
        return as_one(self.measurements, Stack(*(measured.queries for measured in self.measurements))).design

    def errors(self, columns: Floats) -> Errors:
        """Weights of the row noises of all tables in weighted sums of cells; columns: (cells, sums)."""
        each = [fit.errors(columns) for fit in self._fits]
        weights = np.concatenate([errors.weights for errors in each])
        unknown = np.any([errors.unknown for errors in each], axis=0)
        return Errors(self._design, weights, each[0].model, unknown)

    def record(self, domain: Domain) -> Arrays:
        return {}

    @classmethod
    def read(cls, file: FitReader) -> SummedFit:
        measured = [file.measurement(file.domain.size) for _ in file.measurements[:]]
        if len(measured) < 2:
            raise QueryError("it is a sum of tables and has the measurement of one")
        return cls(tuple(measured), file.estimate)
