"""What an estimate of all cells is off by: for any later query, the noise it carries and the model it leans on.

A fit holds an estimate of one statistic in every cell. Whoever asks for the error of a weighted sum of cells gets the
weights with which each noise of the measurements enters that sum, so that its exact distribution is known, and the
covariance of what the fit takes for granted without having measured it (the model's share). A fit also says what a file
keeps of it, and reads that back from a file that nobody has vouched for.

Sums of cells for many groups at once, where every cell lies in one group.

Laid out, a hundred groups of a million cells are a hundred million weights, nearly all of them zero. Kept are only
those of a group in the places, cells at first, that it touches: as many as there are cells, for all groups together.
Weights that all groups have in common, as the denominator of a share does, stand beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Codes, Floats, Whole
from sfumato.domain import Domain
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.measurement import Design, Measurement

if TYPE_CHECKING:
    from sfumato.answers.noise_sum import Find
    from sfumato.least_squares.merged import Merged

PARTS = 2**10  # an estimate is kept in whole multiples of 1 / PARTS, so that a file holds it exactly
Arrays = dict[str, NDArray[Any]]  # whole numbers, and multiples of 1 / PARTS
Sets = NDArray[np.bool_]  # of cells, a column each
Inside = list[tuple[Measurement, Sets]]  # measurements, and which rows of each count cells of a set alone


@dataclass(frozen=True, eq=False)
class Errors:
    """The errors of several weighted sums of cells, a column each.

    weights: for every measured row, with which weight its noise enters each sum. noises: what each row carries.
    model: the covariance of the sums' model errors. unknown: sums that the measurements do not determine at all.
    counts: how many measured rows each row stands for; None: one.
    """

    design: Design
    weights: Floats
    model: Floats
    unknown: NDArray[np.bool_]
    counts: Whole | None = None


class Fit(Protocol):
    """An estimate of one statistic, cell by cell, and its errors.

    family: the word that files know its kind by. room: how many numbers are in memory, at most, for each that is read.
    exact: whether its own intervals hold for every table.
    """

    family: str
    room: int
    exact: bool

    @property
    def of(self) -> str:
        """The statistic: "count" or the name of a measure."""

    @property
    def estimate(self) -> Floats:
        """The estimate for every cell, in steps of the statistic."""

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """Everything the curator handed out for it."""

    def errors(self, columns: Floats) -> Errors:
        """The errors of weighted sums of cells; `columns` is (cells, sums)."""

    @property
    def words(self) -> tuple[str, ...]:
        """What was found out about its errors, for people."""

    def sums(self, domain: Domain, places: Sequence[int]) -> Floats:
        """Its estimates along some axes, summed over the others."""

    def merged(self, domain: Domain) -> Merged | None:
        """The errors of sums that tell few cells apart, where there is a short way to them."""

    def guaranteed(self, domain: Domain, rows: Find | None = None) -> Find:
        """How ends of sums are found that hold for every table; a QueryError where there are none.

        rows: how those of the counts are, for statistics that lean on counts.
        """

    def measured_inside(self, within: Sets) -> Inside | None:
        """Measurements, with the rows of each that count cells of a set alone; None where the fit does not tell.

        within: (cells, sets).
        """

    def record(self, domain: Domain) -> Arrays:
        """What a file keeps besides the measurements and the estimate."""

    @classmethod
    def read(cls, file: FitReader) -> Self:
        """The fit again, or a QueryError where its pieces do not go together."""


@dataclass
class FitReader:
    """What a stranger's file keeps of one fit; every piece but the estimate is taken once, and none is left.

    kept: the estimate, None where it is left to be solved for. arrays: what `record` returned, of any length and
    with any numbers. measurements: each is made when it is known how many cells or buckets it must span; None for one,
    of any statistic, that no estimate leans on.
    """

    domain: Domain
    kept: Floats | None
    arrays: Arrays
    measurements: list[Callable[[int | None], Measurement]]

    @property
    def estimate(self) -> Floats:
        """The estimate that the file keeps."""
        if self.kept is None:
            raise QueryError("it lacks an estimate")
        return self.kept

    def whole(self, name: str) -> Whole:
        """An array of whole numbers."""
        return self._array(name, np.int64)

    def numbers(self, name: str) -> Floats:
        """An array of multiples of 1 / PARTS."""
        return self._array(name, np.float64)

    def measurement(self, columns: int | None) -> Measurement:
        """The next measurement."""
        if not self.measurements:
            raise QueryError("it lacks a measurement")
        return self.measurements.pop(0)(columns)

    def others(self) -> tuple[Measurement, ...]:
        """All measurements that are left, which no estimate leans on."""
        return tuple(self.measurement(None) for _ in self.measurements[:])

    def _array(self, name: str, kind: type) -> NDArray[Any]:
        if name not in self.arrays or self.arrays[name].dtype != kind:
            raise QueryError("it lacks an array that goes with its kind")
        return self.arrays.pop(name)


class Plain:
    """What a fit does unless it knows better."""

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
    """A fit that is unbiased whatever the table is: the ends that its noise has hold for every table."""

    exact = True

    def guaranteed(self: Fit, domain: Domain, rows: Find | None = None) -> Find:
        from sfumato.answers.guaranteed_sums import of_squares

        return of_squares(self)


class ByModel(Plain):
    """A fit that leans on a model, and keeps nothing that bounds its sums for every table."""

    exact = False

    def guaranteed(self, domain: Domain, rows: Find | None = None) -> Find:
        from sfumato.answers.noise_sum import NONE

        raise QueryError(NONE)


class TotalByNoise:
    """A fit whose model says nothing of the number of all rows: it has the noise of what was measured alone."""


class OfOneMeasurement:
    """A fit to a single measurement."""

    measurement: Measurement

    @property
    def of(self) -> str:
        return self.measurement.of

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        return (self.measurement,)


@dataclass(frozen=True, eq=False)
class NoisyCells(Unbiased, OfOneMeasurement):
    """A measurement of every cell by itself, all with the same noise."""

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
    """Round attributes of a frozen value to what a file holds."""
    for name in names:
        object.__setattr__(fit, name, in_parts(np.asarray(getattr(fit, name), dtype=np.float64)))


def in_parts(estimate: Floats) -> Floats:
    """An estimate rounded to what a file holds."""
    rounded: Floats = np.asarray(estimate * PARTS, dtype=np.float64)
    np.rint(rounded, out=rounded)
    rounded /= PARTS
    return rounded


ROUNDING = 1e-13  # of the mean square


@dataclass(frozen=True, eq=False)
class Grouped:
    """Weights of sums in some places, group by group.

    place, group: where each row of weights stands, ordered by place and then by group. weights: (rows, sums).
    whole: what is added in every group, (places, sums); None: nothing. groups: how many there are.
    """

    place: Codes
    group: Codes
    weights: Floats
    whole: Floats | None
    groups: int

    @classmethod
    def of_cells(cls, group: Codes, groups: int, weights: Floats, whole: Floats | None) -> Grouped:
        """group: of every cell, -1 where it lies in none that is asked about. weights: of each cell in its group."""
        there = np.flatnonzero((group >= 0) & weights.any(axis=1))
        return cls(there, group[there], weights[there], whole, groups)

    @property
    def sums(self) -> int:
        return int(self.weights.shape[1])

    def moved(self, to: Codes) -> Grouped:
        """With every place under another number, each its own."""
        place, whole = to[self.place], None
        order = np.lexsort((self.group, place)) if (np.diff(place) < 0).any() else np.arange(len(place))
        if self.whole is not None:
            whole = np.empty_like(self.whole)
            whole[to] = self.whole
        return replace(self, place=place[order], group=self.group[order], weights=self.weights[order], whole=whole)

    def together(self, place: Codes) -> tuple[Codes, Codes]:
        """The rows that share a new place and a group: their numbers, counted in order, and an example of each."""
        key = place * self.groups + self.group
        if (np.diff(key) >= 0).all():
            new = np.append(True, key[1:] != key[:-1])[: len(key)]
            return np.cumsum(new) - 1, np.flatnonzero(new)
        _, example, number = np.unique(key, return_index=True, return_inverse=True)
        return number.reshape(-1), example


@runtime_checkable
class ByGroup(Protocol):
    """A fit that knows the errors of all groups at once."""

    def errors_by_group(self, asked: Grouped) -> Sequence[Errors] | None:
        """The errors of every group's sums; None where they have to be found group by group."""


def in_buckets(asked: Grouped, labels: Codes, sizes: Codes) -> tuple[Grouped, Floats, Floats | None]:
    """Means of weights over the cells of each bucket, and the covariance of the weights around them.

    The covariance is that of each row of means, with the weights that all groups have, and then of those alone.
    """
    label = labels[asked.place]
    number, example = asked.together(label)
    place, group = label[example], asked.group[example]
    size, means = sizes[place, None], summed(number, asked.weights, len(example)) / sizes[place, None]
    ones = np.ones(len(number))
    if asked.whole is None:
        squares = squares_by_group(number, len(example), ones, asked.weights) / size[:, :, None]
        covariance = _cleaned(squares - products(means, means), squares)
        return Grouped(place, group, means, None, asked.groups), covariance, None
    whole, beside = summed(labels, asked.whole, len(sizes)) / sizes[:, None], asked.whole[asked.place]
    in_all = squares_by_group(labels, len(sizes), np.ones(len(labels)), asked.whole) / sizes[:, None, None]
    squares = squares_by_group(number, len(example), ones, asked.weights + beside, beside) / size[:, :, None]
    squares += in_all[place]
    full = means + whole[place]
    covariance = _cleaned(squares - products(full, full), squares)
    alone = _cleaned(in_all - products(whole, whole), in_all)
    return Grouped(place, group, means, whole, asked.groups), covariance, alone


def _cleaned(covariance: Floats, squares: Floats) -> Floats:
    """Without what rounding leaves where nothing varies."""
    scale = np.sqrt(np.diagonal(squares, axis1=1, axis2=2))
    return np.where(np.abs(covariance) > ROUNDING * products(scale, scale), covariance, 0.0)


def summed(numbers: Codes, values: Floats, count: int) -> Floats:
    """Rows of values summed by number, (count, sums)."""
    # Of no rows at all NumPy counts in whole numbers, to which no fraction can be added in place.
    each = [np.bincount(numbers, weights=one, minlength=count) for one in values.T]
    return np.stack(each, axis=1).astype(np.float64, copy=False)


def products(left: Floats, right: Floats) -> Floats:
    """Every product of two sums, row by row: (rows, sums, sums)."""
    return left[:, :, None] * right[:, None, :]


def squares_by_group(group: Codes, groups: int, scale: Floats, values: Floats, less: Floats | None = None) -> Floats:
    """The sum over each group's rows of scale * (v v^T - l l^T): (groups, sums, sums)."""
    sums = values.shape[1]
    found = np.empty((groups, sums, sums))
    for i in range(sums):
        for j in range(i + 1):
            product = values[:, i] * values[:, j]
            if less is not None:
                product -= less[:, i] * less[:, j]
            found[:, i, j] = found[:, j, i] = np.bincount(group, weights=scale * product, minlength=groups)
    return found
