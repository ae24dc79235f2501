"""Counts along single attributes, measured besides, to which an estimate is brought.

A posterior may be off in the same direction in all cells of a value, so that what is little in each adds up. Noisy
counts of the values of an attribute show by how much: their gaps to what the estimate says are larger than noise and
posterior together explain. By as much larger the posterior is taken to be wrong along this attribute, and the counts
are then combined with it, weighed by that. The estimate is moved until it has exactly these counts, cell by cell in
proportion to its own covariances, while the number of all rows stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TypeVar

import numpy as np

from sfumato.answers.fit import Arrays, FitReader, keep_in_parts
from sfumato.answers.grouped import Grouped, summed
from sfumato.arrays import Codes, Floats
from sfumato.domain import Domain
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.measurement import Measurement
from sfumato.models.calibration.moved import Moving, Spreading, combined
from sfumato.queries import Identity

Some = TypeVar("Some", bound=Moving)

MOST_NUMBERS = 2**24  # cells times values of attributes
MOST_RUNS = 32  # of values of an attribute that are told apart
AT_ONCE = 8  # runs whose covariances are laid out together
HARDLY = 1e-10  # of the greatest variance: directions in which nothing is known to vary
NO_NOISE = 1e-22  # of the greatest variance: a variance of all rows of less is none
MOST_SPREAD = 2.0**60


@dataclass(frozen=True, eq=False)
class Along:
    """Runs of values of some attributes. axes: which; runs: how many of each."""

    domain: Domain
    axes: tuple[int, ...]
    runs: tuple[int, ...]

    def __post_init__(self) -> None:
        shape, fits = self.domain.shape, len(self.axes) == len(self.runs) == len(set(self.axes)) > 0
        if not fits or not all(0 <= axis < len(shape) for axis in self.axes):
            raise QueryError("counts along attributes name each of them once")
        if not all(2 <= runs <= min(shape[axis], MOST_RUNS) for axis, runs in zip(self.axes, self.runs, strict=True)):
            raise QueryError(f"an attribute is counted in 2 to {MOST_RUNS} runs of its values")
        if sum(self.runs) * self.domain.size > MOST_NUMBERS:
            raise QueryError("counts along attributes have more runs than fit so many cells")

    def labels(self, number: int) -> Codes:
        """The run of every cell along one of the attributes."""
        axis = self.domain.axes[self.axes[number]]
        codes = self.domain.codes_along(axis.name, np.arange(self.domain.size))
        return np.asarray(codes * self.runs[number] // axis.size)

    @property
    def columns(self) -> Floats:
        """Each run as weights of cells, (cells, runs)."""
        parts = [self.labels(number)[:, None] == np.arange(runs) for number, runs in enumerate(self.runs)]
        return np.concatenate(parts, axis=1).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Steadied:
    """What is known along attributes, beside a fit that was brought to it.

    measured: for each attribute, the noisy counts of its runs. spread: the covariance of what is then known of them,
    row after row.
    """

    along: Along
    fit: Spreading
    measured: tuple[Measurement, ...]
    spread: Floats

    def __post_init__(self) -> None:
        runs = sum(self.along.runs)
        keep_in_parts(self, "spread")
        if self.spread.shape != (runs, runs) or not np.abs(self.spread).max() <= MOST_SPREAD:
            raise QueryError("what is known along attributes has a number for every two of their runs")
        if not np.array_equal(self.spread, self.spread.T) or np.diagonal(self.spread).min() < 0.0:
            raise QueryError("what is known along attributes is no covariance")
        asked = [(type(one.queries), one.queries.rows, one.of) for one in self.measured]
        if asked != [(Identity, runs, self.fit.of) for runs in self.along.runs]:
            raise QueryError("along attributes, the runs of each are counted one by one")

    @cached_property
    def model(self) -> Model:
        return Model.of(self.fit, self.along)

    def around(self, fit: Spreading) -> Steadied:
        """The same counts beside a fit with another estimate."""
        found = replace(self, fit=fit)
        vars(found)["model"] = self.model  # covariances stay as they were when an estimate moves
        return found

    def parts(self, products: Floats) -> tuple[Floats, Floats]:
        """What the counts say of sums, and by how much they lessen the covariance: products, as Model has them."""
        weights = self.model.inverse @ products
        return weights.T @ self.spread @ weights, products.T @ weights

    def products_by_group(self, asked: Grouped) -> Floats:
        """For every group and its sums, (groups, runs, sums)."""
        found = np.empty((asked.groups, len(self.spread), asked.sums))
        for one in range(asked.sums):
            weighed = asked.weights[:, one, None] * self.model.with_cells[asked.place]
            found[:, :, one] = summed(asked.group, weighed, asked.groups)
        return found if asked.whole is None else found + self.model.with_cells.T @ asked.whole

    def record(self) -> Arrays:
        along = np.array([*zip(self.along.axes, self.along.runs, strict=True)], dtype=np.int64)
        return {"along": along.reshape(-1), "along_spread": self.spread.reshape(-1)}

    @classmethod
    def read(cls, file: FitReader, fit: Spreading) -> Steadied | None:
        """None where a file has none."""
        if "along" not in file.arrays:
            return None
        axes = file.whole("along")
        if len(axes) % 2:
            raise QueryError("counts along attributes name each of them once")
        along = Along(file.domain, tuple(axes[::2].tolist()), tuple(axes[1::2].tolist()))
        spread, runs = file.numbers("along_spread"), sum(along.runs)
        if spread.shape != (runs**2,):
            raise QueryError("what is known along attributes has a number for every two of their runs")
        measured = tuple(file.measurement(each) for each in along.runs)
        return cls(along, fit, measured, spread.reshape(runs, runs))


@dataclass(frozen=True, eq=False)
class Model:
    """What a posterior says of runs and cells once the number of all rows is known.

    with_cells: covariances of cells and runs. between: of runs. of_all: the part of runs' covariance that goes with
    all rows. inverse: of `between`, as far as there is one.
    """

    with_cells: Floats
    between: Floats
    of_all: Floats
    inverse: Floats

    @classmethod
    def of(cls, fit: Spreading, along: Along) -> Model:
        columns = along.columns
        asked = np.column_stack([columns, np.ones(len(columns))])
        some = range(0, asked.shape[1], AT_ONCE)
        found = np.concatenate([fit.covariances(asked[:, start : start + AT_ONCE]) for start in some], axis=1)
        of_runs = columns.T @ found
        all_rows = float(found[:, -1].sum())
        if all_rows <= NO_NOISE * float(np.diagonal(of_runs).max()):
            all_rows = np.inf  # they are known, and what is said to go with them is rounding
        with_cells = found[:, :-1] - np.outer(found[:, -1], of_runs[:, -1]) / all_rows
        of_all = np.outer(of_runs[:, -1], of_runs[:, -1]) / all_rows
        between = of_runs[:, :-1] - of_all
        between = (between + between.T) / 2.0
        inverse: Floats = np.linalg.pinv(between, rcond=HARDLY, hermitian=True).astype(np.float64)
        return cls(with_cells, between, of_all, inverse)


def steadied(fit: Some, along: Along, measured: Sequence[Measurement]) -> tuple[Some, Steadied]:
    """The fit brought to counts along attributes, and what is then known of them."""
    model, columns = Model.of(fit, along), along.columns
    gaps = np.concatenate([one.answers for one in measured]) - columns.T @ fit.estimate
    moves, spread = np.zeros(len(gaps)), np.zeros((len(gaps), len(gaps)))
    ends = np.cumsum([0, *along.runs])
    for one, start, end in zip(measured, ends[:-1], ends[1:], strict=True):
        own = slice(start, end)
        noise = np.diag(one.design.sizes)
        moves[own], spread[own, own] = combined(gaps[own], model.between[own, own], model.of_all[own, own] + noise)
    fitted = fit.moved(fit.estimate + model.with_cells @ (model.inverse @ moves))
    known = Steadied(along, fitted, tuple(measured), spread)
    vars(known)["model"] = model  # covariances stay as they were when an estimate moves
    return fitted, known
