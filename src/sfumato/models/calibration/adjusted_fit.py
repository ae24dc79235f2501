"""Counts that an estimate has and that were measured besides, weighed against each other.

A fit that was brought to counts measured besides: of all rows, and along attributes.

Regions that were found in noisy cells were chosen by their noise, so that estimates err to one side, and so does what a
model takes from every cell. In sums of many cells that adds up; a count of all rows, measured by itself, shows it. The
estimate is moved to it, each cell in proportion to its covariance with all. Noise and model can then not be told apart
any more, so that all of the error counts as the model's.

Counts along single attributes, measured besides, to which an estimate is brought.

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
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

import numpy as np

from sfumato.answers.fit import (
    Arrays,
    ByGroup,
    ByModel,
    Errors,
    Fit,
    FitReader,
    Grouped,
    Inside,
    Sets,
    keep_in_parts,
    summed,
)
from sfumato.arrays import Codes, Floats
from sfumato.domain import Domain
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.measurement import Design, Measurement
from sfumato.models.calibration.model_error import POSSIBLE, believed
from sfumato.queries import Identity

if TYPE_CHECKING:
    from sfumato.answers.guaranteed_sums import Runs
    from sfumato.answers.noise_sum import Find


def combined(gaps: Floats, doubtful: Floats, sure: Floats) -> tuple[Floats, Floats]:
    """By how much counts move towards what was measured of them, and the covariance of what is then left open.

    gaps: measured less estimated. doubtful: the covariance that the estimate claims; sure: that of noise. Averaged over
    by how much larger than claimed the estimate's errors may be, each as likely as it makes the gaps.
    """
    chances, moves, left = [], [], []
    for factor in POSSIBLE:
        claimed = factor**2 * doubtful
        whole = claimed + sure
        weights = np.linalg.solve(whole, claimed).T
        moves.append(weights @ gaps)
        left.append(claimed - weights @ claimed)
        chances.append(-0.5 * (np.linalg.slogdet(whole)[1] + gaps @ np.linalg.solve(whole, gaps)))
    chance = believed(np.array(chances))
    mean = chance @ np.array(moves)
    off = np.array(moves) - mean
    spread = np.einsum("f,fij->ij", chance, np.array(left)) + (chance[:, None] * off).T @ off
    return mean, (spread + spread.T) / 2.0


MOST_LEFT = 2.0**60


class Spreading(Fit, Protocol):
    """A fit that knows how errors of cells go with those of sums."""

    def covariances(self, columns: Floats) -> Floats:
        """Of every cell with some weighted sums of cells, noise and model together, (cells, sums)."""


class Moving(Spreading, Protocol):
    """One whose estimate can be moved."""

    def moved(self, estimate: Floats) -> Self:
        """The same errors around another estimate."""


@dataclass(frozen=True, eq=False)
class MovedFit(ByModel):
    """inner: the fit before. estimate: after.

    whole: the number of all rows, measured besides; None where the fit knows it well. left: the variance of what is
    then known of it, a list of one; empty where nothing was measured.
    """

    family = "moved"
    room = 4

    inner: Spreading
    estimate: Floats
    whole: Measurement | None
    left: Floats

    def __post_init__(self) -> None:
        keep_in_parts(self, "estimate", "left")
        if (
            self.left.shape != (0 if self.whole is None else 1,)
            or not ((self.left >= 0) & (self.left < MOST_LEFT)).all()
        ):
            raise QueryError("what is known of all rows is a variance, and nothing where they were not counted")
        if self.whole is not None and (type(self.whole.queries), self.whole.queries.rows) != (Identity, 1):
            raise QueryError("all rows are counted once")

    @classmethod
    def brought(cls, inner: Spreading, whole: Measurement | None) -> MovedFit:
        """A fit brought to the number of all rows that was measured; None: as it is."""
        if whole is None:
            return cls(inner, inner.estimate, None, np.zeros(0))
        found = cls(inner, inner.estimate, whole, np.zeros(1))
        gap = whole.answers - inner.estimate.sum()
        (move,), left = combined(gap, np.array([[found._spread]]), np.diag(whole.design.sizes))
        return replace(found, estimate=inner.estimate + move / found._spread * found._with_all, left=left[0])

    def moved(self, estimate: Floats) -> MovedFit:
        return replace(self, estimate=estimate)

    @property
    def of(self) -> str:
        return self.inner.of

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        return self.inner.measurements if self.whole is None else (*self.inner.measurements, self.whole)

    @cached_property
    def _with_all(self) -> Floats:
        """The covariance of each cell with all rows, before these were counted."""
        found: Floats = self.inner.covariances(np.ones((len(self.estimate), 1)))[:, 0]
        return found

    @cached_property
    def _spread(self) -> float:
        return max(float(self._with_all.sum()), 1e-300)

    def guaranteed(self, domain: Domain, rows: Find | None = None) -> Find:
        from sfumato.answers.guaranteed_sums import with_counts_along

        return with_counts_along(self.runs(), self.inner.guaranteed(domain, rows))

    def runs(self) -> list[Runs]:
        """All rows, if they were counted besides."""
        from sfumato.answers.guaranteed_sums import Runs

        return [] if self.whole is None else [Runs(np.zeros(len(self.estimate), dtype=np.int64), self.whole)]

    def measured_inside(self, within: Sets) -> Inside | None:
        return self.inner.measured_inside(within)

    def errors(self, columns: Floats) -> Errors:
        return self._less(_covariance(self.inner.errors(columns)), self._with_all @ columns)

    def covariances(self, columns: Floats) -> Floats:
        found = self.inner.covariances(columns)
        if self.whole is None:
            return found
        return found - self._known() * np.outer(self._with_all, self._with_all @ columns)

    def errors_by_group(self, asked: Grouped) -> list[Errors] | None:
        """The same for many groups; None where they have to be found group by group."""
        found = self.inner.errors_by_group(asked) if isinstance(self.inner, ByGroup) else None
        if found is None:
            return None
        with_all = self._by_group(asked)
        return [self._less(_covariance(each), one) for each, one in zip(found, with_all, strict=True)]

    def with_all_rows(self, asked: Grouped) -> Sequence[Errors] | None:
        """The same, and last in every group the errors of all rows; only where these were counted."""
        found = self.errors_by_group(asked)
        if found is None:
            return None
        (left,) = self.left
        each = []
        for errors, one in zip(found, self._by_group(asked) * (left / self._spread), strict=True):
            model = np.block([[errors.model, one[:, None]], [one, left]])
            each.append(self._all_model(model))
        return each

    def _by_group(self, asked: Grouped) -> Floats:
        """The covariance of every group's sums with all rows, before these were counted, (groups, sums)."""
        found = summed(asked.group, self._with_all[asked.place, None] * asked.weights, asked.groups)
        return found if asked.whole is None else found + self._with_all @ asked.whole

    def _known(self) -> float:
        """By how much less than before is left open of what goes with all rows."""
        return (1.0 - float(self.left[0]) / self._spread) / self._spread

    def _less(self, model: Floats, with_all: Floats) -> Errors:
        if self.whole is not None:
            model = model - self._known() * np.outer(with_all, with_all)
            np.fill_diagonal(model, np.maximum(np.diagonal(model), 0.0))  # rounding may leave nothing below zero
        return self._all_model(model)

    def _all_model(self, model: Floats) -> Errors:
        measured, sums = self.measurements[0], len(model)
        nothing = Design(measured.queries[:1], measured.noises[:1])
        return Errors(nothing, np.zeros((1, sums)), model, np.zeros(sums, dtype=np.bool_))

    def record(self, domain: Domain) -> Arrays:
        return {**self.inner.record(domain), "left": self.left}

    @classmethod
    def read(cls, file: FitReader) -> MovedFit:
        raise QueryError("a fit is brought to counts where its errors were measured, and nowhere else")

    @classmethod
    def read_around(cls, file: FitReader, inner: Spreading) -> MovedFit | None:
        """None where a file has none."""
        if "left" not in file.arrays:
            return None
        left = file.numbers("left")
        return cls(inner, file.estimate, file.measurement(1) if len(left) else None, left)


def _covariance(errors: Errors) -> Floats:
    """Of noise and model together."""
    variances = errors.design.variances if errors.counts is None else errors.counts * errors.design.variances
    return np.asarray(errors.model + errors.weights.T @ (variances[:, None] * errors.weights))


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
