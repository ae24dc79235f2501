"""Fit: an estimate of one statistic in every cell, with the error of any weighted sum of cells.

For columns C of weights, (cells, sums), a fit returns `Errors`: W, (measured rows, sums), the weights with which each
measured noise enters the sums; M, (sums, sums), the covariance of the model errors; and which sums are not determined:

    Var(C^T (estimate - truth)) = W^T diag(noise variances) W + M

A fit also bounds sums for every table (`guaranteed`), and writes itself to a file and reads itself back. `Grouped`
holds the weights of many groups at once, one row per cell, since every cell lies in one group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sfumato.answers.noise_sum import ANYTHING, NONE, Ends, Find, reach
from sfumato.arrays import Codes, Flags, Floats, Whole
from sfumato.domain import Domain
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.measurement import Design, Measurement

if TYPE_CHECKING:
    from sfumato.least_squares.classes import Merged

PARTS = 2**10  # an estimate is kept in whole multiples of 1 / PARTS, so that a file holds it exactly
Arrays = dict[str, NDArray[Any]]  # whole numbers, and multiples of 1 / PARTS
Sets = NDArray[np.bool_]  # of cells, a column each
Inside = list[tuple[Measurement, Sets]]  # measurements, and which rows of each count cells of a set alone


@dataclass(frozen=True, eq=False)
class Errors:
    """Errors of several weighted sums of cells, a column each.

    weights: of each measured row's noise in each sum, (rows, sums). model: covariance of the sums' model errors, (sums,
    sums). unknown: sums not determined by the measurements, (sums,). counts: multiplicity of each row, (rows,); None
    means 1. drawn: part of `model` that is known to come from noise, so that no other release shares it; None: nothing.
    """

    design: Design
    weights: Floats
    model: Floats
    unknown: NDArray[np.bool_]
    counts: Whole | None = None
    drawn: Floats | None = None

    @classmethod
    def all_model(cls, design: Design, covariance: Floats) -> Errors:
        """Errors whose covariance (sums, sums) counts as the model's altogether, with no noise term."""
        return cls.all_models(design, [covariance])[0]

    @classmethod
    def all_models(cls, design: Design, covariances: Sequence[Floats] | Floats) -> list[Errors]:
        """Errors of many groups, each with a covariance (sums, sums) that counts as the model's altogether."""
        nothing, sums = Design(design.queries[:1], design.noises[:1]), len(covariances[0]) if len(covariances) else 0
        weights, unknown = np.zeros((1, sums)), np.zeros(sums, dtype=np.bool_)
        return [cls(nothing, weights, covariance, unknown) for covariance in covariances]


class Fit(Protocol):
    """Estimate of one statistic in every cell, with its errors.

    family: name of its kind in files. room: most numbers in memory per number read. exact: whether its intervals hold
    for every table.
    """

    family: str
    room: int
    exact: bool

    @property
    def of(self) -> str:
        """Name of the statistic: "count" or a measure."""

    @property
    def estimate(self) -> Floats:
        """Estimate for every cell, (cells,), in steps of the statistic."""

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """All noisy measurements that the fit rests on."""

    def errors(self, columns: Floats) -> Errors:
        """Errors of weighted sums of cells; columns is (cells, sums)."""

    @property
    def words(self) -> tuple[str, ...]:
        """Remarks on the fit's errors, for readers of an answer."""

    def sums(self, domain: Domain, places: Sequence[int]) -> Floats:
        """Marginal estimate along some axes, flat: the sum over the other axes."""

    def merged(self, domain: Domain) -> Merged | None:
        """Faster computation of errors, in which values that a query weighs alike are one; None where there is none."""

    def guaranteed(self, domain: Domain, rows: Find | None = None) -> Find:
        """Function that bounds weighted sums for every table; a QueryError where there is none.

        rows: that function of the counts, by which fits of a measure may bound its sums.
        """

    def measured_inside(self, within: Sets) -> Inside | None:
        """Measurements, with the mask of those rows that count cells of each set alone; None where the fit keeps none.

        within: (cells, sets).
        """

    def record(self, domain: Domain) -> Arrays:
        """Arrays that a file keeps besides the measurements and the estimate."""

    @classmethod
    def read(cls, file: FitReader) -> Self:
        """Restore the fit from a file, or raise a QueryError where its pieces are inconsistent."""


@dataclass
class FitReader:
    """Parts of one fit in an untrusted file; each part but the estimate is taken once, and none may be left over.

    kept: the estimate, (cells,), or None where it is solved for. arrays: as `record` returned them, of unchecked length
    and content. measurements: constructors that take the number of columns (cells or buckets) to check against, or None
    for a measurement that no estimate depends on. possible: flags of the cells that are no structural zeros, (cells,);
    None where there are none.
    """

    domain: Domain
    kept: Floats | None
    arrays: Arrays
    measurements: list[Callable[[int | None], Measurement]]
    possible: Flags | None = None

    @property
    def estimate(self) -> Floats:
        """Estimate kept in the file, (cells,)."""
        if self.kept is None:
            raise QueryError("it lacks an estimate")
        return self.kept

    def whole(self, name: str) -> Whole:
        """Take an array of integers by name."""
        return self._array(name, np.int64)

    def numbers(self, name: str) -> Floats:
        """Take an array of multiples of 1 / PARTS by name."""
        return self._array(name, np.float64)

    def measurement(self, columns: int | None) -> Measurement:
        """Take the next measurement, over so many columns."""
        if not self.measurements:
            raise QueryError("it lacks a measurement")
        return self.measurements.pop(0)(columns)

    def others(self) -> tuple[Measurement, ...]:
        """Take all remaining measurements, on which no estimate depends."""
        return tuple(self.measurement(None) for _ in self.measurements[:])

    def _array(self, name: str, kind: type) -> NDArray[Any]:
        """Take an array by name and dtype, or raise a QueryError."""
        if name not in self.arrays or self.arrays[name].dtype != kind:
            raise QueryError("it lacks an array that goes with its kind")
        return self.arrays.pop(name)


class Plain:
    """Default methods of a fit: no remarks, no merged errors, no measurements of regions."""

    @property
    def words(self) -> tuple[str, ...]:
        return ()

    def sums(self: Fit, domain: Domain, places: Sequence[int]) -> Floats:
        others = tuple(place for place in range(len(domain.axes)) if place not in places)
        return np.asarray(self.estimate.reshape(domain.shape).sum(axis=others)).reshape(-1)

    def merged(self, domain: Domain) -> Merged | None:
        return None

    def measured_inside(self, within: Sets) -> Inside | None:
        return None


class Unbiased(Plain):
    """Unbiased fit: the bounds that follow from its noise hold for every table."""

    exact = True

    def guaranteed(self: Fit, domain: Domain, rows: Find | None = None) -> Find:
        """Bounds: the estimate plus or minus the quantile of its noise."""

        def find(low: Floats, high: Floats, tail: float) -> Ends:
            errors = self.errors(np.stack([low, high], axis=1))
            if errors.unknown.any():
                return ANYTHING
            rows = np.arange(len(errors.weights))
            below, above = (reach(errors.design, rows, weights, tail) for weights in errors.weights.T)
            return Ends(float(low @ self.estimate) - below, float(high @ self.estimate) + above)

        return find


class ByModel(Plain):
    """Model-based fit without bounds that hold for every table."""

    exact = False

    def guaranteed(self, domain: Domain, rows: Find | None = None) -> Find:
        raise QueryError(NONE)


class LeastSquaresOnly(Unbiased):
    """Mark of a fit that is least squares on its one measurement: structural zeros can be conditions of it."""


class KnowsZeros:
    """Mark of a fit made with structural zeros: in these its estimate is 0, and errors of sums leave them out."""


class TotalByNoise:
    """Mark of a fit whose model leaves the total count alone: the total has measurement noise only."""


class OfOneMeasurement:
    """Fit to a single measurement."""

    measurement: Measurement

    @property
    def of(self) -> str:
        return self.measurement.of

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        return (self.measurement,)


@dataclass(frozen=True, eq=False)
class NoisyCells(Unbiased, OfOneMeasurement):
    """Independent measurement of every cell with the same noise; the estimate is the measurement."""

    family = "noisy-cells"  # in no table: a file keeps such cells as they are
    room = 1

    measurement: Measurement

    @cached_property
    def estimate(self) -> Floats:
        return self.measurement.answers.astype(np.float64)

    def errors(self, columns: Floats) -> Errors:
        sums = columns.shape[1]
        return Errors(self.measurement.design, columns, np.zeros((sums, sums)), np.zeros(sums, dtype=bool))

    def record(self, domain: Domain) -> Arrays:
        return {}

    @classmethod
    def read(cls, file: FitReader) -> NoisyCells:
        return cls(file.measurement(len(file.estimate)))


def keep_in_parts(fit: object, *names: str) -> None:
    """Round attributes of a frozen object to multiples of 1 / PARTS, as a file holds them."""
    for name in names:
        object.__setattr__(fit, name, in_parts(np.asarray(getattr(fit, name), dtype=np.float64)))


def in_parts(estimate: Floats) -> Floats:
    """Round an estimate to multiples of 1 / PARTS, as a file holds it."""
    rounded: Floats = np.asarray(estimate * PARTS, dtype=np.float64)
    np.rint(rounded, out=rounded)
    rounded /= PARTS
    return rounded


ROUNDING = 1e-13  # of the mean square


@dataclass(frozen=True, eq=False)
class Grouped:
    """Sparse weights of sums by cell (or bucket) and group.

    place, group: cell and group of each row of weights, (rows,), ordered by place and then group. weights: (rows,
    sums). whole: weights added in every group, (places, sums); None means 0. groups: number of groups.
    """

    place: Codes
    group: Codes
    weights: Floats
    whole: Floats | None
    groups: int

    @classmethod
    def of_cells(cls, group: Codes, groups: int, weights: Floats, whole: Floats | None) -> Grouped:
        """Sparse form of weights on all cells.

        group: of every cell, (cells,), -1 outside all groups in question. weights: of each cell in its group, (cells,
        sums). whole: (cells, sums).
        """
        there = np.flatnonzero((group >= 0) & weights.any(axis=1))
        return cls(there, group[there], weights[there], whole, groups)

    @property
    def sums(self) -> int:
        return int(self.weights.shape[1])

    def moved(self, to: Codes) -> Grouped:
        """Permute the places: place p becomes to[p]."""
        index, whole = to[self.place], None
        order = np.lexsort((self.group, index)) if (np.diff(index) < 0).any() else np.arange(len(index))
        if self.whole is not None:
            whole = np.empty_like(self.whole)
            whole[to] = self.whole
        return replace(self, place=index[order], group=self.group[order], weights=self.weights[order], whole=whole)

    def together(self, label: Codes) -> tuple[Codes, Codes]:
        """Merge rows by (new place, group): the merged index of each row, and one row of each."""
        key = label * self.groups + self.group
        if (np.diff(key) >= 0).all():
            new = np.append(True, key[1:] != key[:-1])[: len(key)]
            return np.cumsum(new) - 1, np.flatnonzero(new)
        _, example, number = np.unique(key, return_index=True, return_inverse=True)
        return number.reshape(-1), example


@runtime_checkable
class ByGroup(Protocol):
    """Fit that computes the errors of all groups at once."""

    def errors_by_group(self, asked: Grouped) -> Sequence[Errors] | None:
        """Errors of every group's sums; None where they must be computed group by group."""


@runtime_checkable
class DrawnByGroup(Protocol):
    """Fit that can split model errors of every group into a part from noise and the rest."""

    def drawn_by_group(self, asked: Grouped) -> Sequence[Floats] | None:
        """Covariances of every group's sums, (sums, sums) each; None where that is unknown."""


def in_buckets(grouped: Grouped, labels: Codes, sizes: Codes) -> tuple[Grouped, Floats, Floats | None]:
    """Mean of the weights over the cells of each bucket, and the covariance of the weights around it.

    labels: bucket of each cell, (cells,); sizes: cells of each bucket, (buckets,). Returns the means by (bucket,
    group); their covariances with the weights common to all groups included, (rows, sums, sums); and those of the
    common weights alone, (buckets, sums, sums), or None.
    """
    label = labels[grouped.place]
    number, example = grouped.together(label)
    bucket, group = label[example], grouped.group[example]
    size, means = sizes[bucket, None], summed(number, grouped.weights, len(example)) / sizes[bucket, None]
    ones = np.ones(len(number))
    if grouped.whole is None:
        squares = squares_by_group(number, len(example), ones, grouped.weights) / size[:, :, None]
        covariance = _cleaned(squares - products(means, means), squares)
        return Grouped(bucket, group, means, None, grouped.groups), covariance, None
    whole, beside = summed(labels, grouped.whole, len(sizes)) / sizes[:, None], grouped.whole[grouped.place]
    in_all = squares_by_group(labels, len(sizes), np.ones(len(labels)), grouped.whole) / sizes[:, None, None]
    squares = squares_by_group(number, len(example), ones, grouped.weights + beside, beside) / size[:, :, None]
    squares += in_all[bucket]
    full = means + whole[bucket]
    covariance = _cleaned(squares - products(full, full), squares)
    alone = _cleaned(in_all - products(whole, whole), in_all)
    return Grouped(bucket, group, means, whole, grouped.groups), covariance, alone


def _cleaned(covariance: Floats, squares: Floats) -> Floats:
    """Set covariances to zero that are within rounding error of zero."""
    scale = np.sqrt(np.diagonal(squares, axis1=1, axis2=2))
    return np.where(np.abs(covariance) > ROUNDING * products(scale, scale), covariance, 0.0)


def summed(numbers: Codes, values: Floats, count: int) -> Floats:
    """Sum rows of values by label: (count, sums)."""
    # Of no rows at all NumPy counts in whole numbers, to which no fraction can be added in place.
    each = [np.bincount(numbers, weights=one, minlength=count) for one in values.T]
    return np.stack(each, axis=1).astype(np.float64, copy=False)


def products(left: Floats, right: Floats) -> Floats:
    """Outer product of two vectors, row by row: (rows, sums, sums)."""
    return left[:, :, None] * right[:, None, :]


def squares_by_group(group: Codes, groups: int, scale: Floats, values: Floats, less: Floats | None = None) -> Floats:
    """Sum of scale * (v v^T - l l^T) over the rows of each group: (groups, sums, sums)."""
    sums = values.shape[1]
    result = np.empty((groups, sums, sums))
    for i in range(sums):
        for j in range(i + 1):
            product = values[:, i] * values[:, j]
            if less is not None:
                product -= less[:, i] * less[:, j]
            result[:, i, j] = result[:, j, i] = np.bincount(group, weights=scale * product, minlength=groups)
    return result
