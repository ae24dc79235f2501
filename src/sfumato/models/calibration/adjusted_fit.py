"""Generalised-least-squares (GLS) update of a fit with independent counts: of all rows, and one-way marginals.

Model. A fit has an estimate x of the cells and claims a covariance C (cells, cells) of its error. Besides, some sums
A'x (A: (cells, runs)) were measured with noise of covariance S. The claim may be wrong by an unknown factor f on
standard deviations, so the gaps g = y - A'x are N(0, f^2 A'CA + S), with a prior on f (model_error.believed).

Estimator. Given f, the gain is K = f^2 A'CA (f^2 A'CA + S)^-1 and the sums move by K g; `combined` averages over the
posterior of f. The estimate follows by regression on the sums, x + C A (A'CA)^-1 m, with m the posterior mean of the
moves and V their posterior covariance. The covariance of any sums with weights q (cells, sums) becomes

    q'Cq - P'G P + P'G V G P,     P = A'Cq,  G = (A'CA)^-1 (a pseudo-inverse)

`MovedFit` does this for the number of all rows (A = 1). It matters because regions that were chosen by looking at noisy
cells, and shrinkage of every cell, bias sums of many cells to one side. After it, noise and model error of a fit cannot
be separated, so the whole covariance counts as the model's.

`Steadied` does it for counts of runs of values of single attributes, with C conditional on the total, C - C11'C /
(1'C1), so that the total does not move. Attributes are treated one after the other by `combined`, and their posterior
covariance V is block-diagonal.

Own method; the update itself is textbook GLS (the Kalman measurement update).
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
from sfumato.measurement import Design, Measurement, shares_of_mean
from sfumato.models.calibration.model_error import POSSIBLE, believed
from sfumato.queries import Identity, Stack

if TYPE_CHECKING:
    from sfumato.answers.guaranteed_sums import Runs
    from sfumato.answers.noise_sum import Find


def combined(gaps: Floats, doubtful: Floats, sure: Floats) -> tuple[Floats, Floats]:
    """Posterior mean and covariance of sums, given measured gaps and a claimed covariance of unknown scale.

    gaps: (n,), measured less estimated. doubtful: (n, n), the covariance that the estimate claims for these sums. sure:
    (n, n), the covariance of the noise. The estimate's errors may be larger than claimed by any factor f in `POSSIBLE`;
    the result is the mixture over f, each weighed by its posterior probability given the gaps. Returns the mean move
    (n,) and the covariance of what remains unknown (n, n).
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
    """A fit that gives covariances between the errors of cells and of sums of cells."""

    def covariances(self, columns: Floats) -> Floats:
        """Covariances of every cell with weighted sums of cells, noise and model together, (cells, sums)."""


class Moving(Spreading, Protocol):
    """A fit whose estimate can be replaced while its error model stays."""

    def moved(self, estimate: Floats) -> Self:
        """Replace the estimate (cells,), keeping the error model."""


@dataclass(frozen=True, eq=False)
class MovedFit(ByModel):
    """Fit after a GLS update with the number of all rows.

    inner: the fit before the update. estimate: (cells,), after it. whole: the noisy count of all rows, or None for no
    update. left: (1,), the posterior variance of the number of all rows; (0,) where it was not measured.
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
        """Update a fit with a noisy count of all rows; with None, wrap it unchanged."""
        if whole is None:
            return cls(inner, inner.estimate, None, np.zeros(0))
        result = cls(inner, inner.estimate, whole, np.zeros(1))
        gap = whole.answers - inner.estimate.sum()
        (move,), left = combined(gap, np.array([[result._spread]]), np.diag(whole.design.sizes))
        return replace(result, estimate=inner.estimate + move / result._spread * result._with_all, left=left[0])

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
        """Prior covariance of each cell with the total, C1, (cells,)."""
        covariance: Floats = self.inner.covariances(np.ones((len(self.estimate), 1)))[:, 0]
        return covariance

    @cached_property
    def _spread(self) -> float:
        """Prior variance of the total, 1'C1."""
        return max(float(self._with_all.sum()), 1e-300)

    def guaranteed(self, domain: Domain, rows: Find | None = None) -> Find:
        from sfumato.answers.guaranteed_sums import with_counts_along

        return with_counts_along(self.runs(), self.inner.guaranteed(domain, rows))

    def runs(self) -> list[Runs]:
        """The count of all rows as a measured sum for guaranteed intervals; empty if it was not measured."""
        from sfumato.answers.guaranteed_sums import Runs

        return [] if self.whole is None else [Runs(np.zeros(len(self.estimate), dtype=np.int64), self.whole)]

    def measured_inside(self, within: Sets) -> Inside | None:
        return self.inner.measured_inside(within)

    def errors(self, columns: Floats) -> Errors:
        return self._less(covariance_of(self.inner.errors(columns)), self._with_all @ columns)

    def covariances(self, columns: Floats) -> Floats:
        prior = self.inner.covariances(columns)
        if self.whole is None:
            return prior
        return prior - self._known() * np.outer(self._with_all, self._with_all @ columns)

    def errors_by_group(self, asked: Grouped) -> list[Errors] | None:
        """Error covariances of every group's sums; None where the inner fit cannot give them at once."""
        prior = self.inner.errors_by_group(asked) if isinstance(self.inner, ByGroup) else None
        if prior is None:
            return None
        with_all = self._by_group(asked)
        return [
            self._less(covariance_of(errors), covariance) for errors, covariance in zip(prior, with_all, strict=True)
        ]

    def with_all_rows(self, asked: Grouped) -> Sequence[Errors] | None:
        """Error covariances of every group's sums with the total appended as last sum.

        Only where the total was measured; None where the inner fit cannot give groups at once.
        """
        by_group = self.errors_by_group(asked)
        if by_group is None:
            return None
        (left,) = self.left
        result = []
        for errors, covariance in zip(by_group, self._by_group(asked) * (left / self._spread), strict=True):
            model = np.block([[errors.model, covariance[:, None]], [covariance, left]])
            result.append(all_by_model(self.measurements[0], model))
        return result

    def _by_group(self, asked: Grouped) -> Floats:
        """Prior covariance of every group's sums with the total, (groups, sums)."""
        covariance = summed(asked.group, self._with_all[asked.place, None] * asked.weights, asked.groups)
        return covariance if asked.whole is None else covariance + self._with_all @ asked.whole

    def _known(self) -> float:
        """The k in the posterior covariance C - k (C1)(C1)': (1 - left / s) / s, with s = 1'C1."""
        return (1.0 - float(self.left[0]) / self._spread) / self._spread

    def _less(self, model: Floats, with_all: Floats) -> Errors:
        """Posterior errors of sums from their prior covariance (sums, sums) and that with the total (sums,)."""
        if self.whole is not None:
            model = model - self._known() * np.outer(with_all, with_all)
            np.fill_diagonal(model, np.maximum(np.diagonal(model), 0.0))  # rounding may leave nothing below zero
        return all_by_model(self.measurements[0], model)

    def record(self, domain: Domain) -> Arrays:
        return {**self.inner.record(domain), "left": self.left}

    @classmethod
    def read(cls, file: FitReader) -> MovedFit:
        raise QueryError("a fit is brought to counts where its errors were measured, and nowhere else")

    @classmethod
    def read_around(cls, file: FitReader, inner: Spreading) -> MovedFit | None:
        """Read the update from a file around the inner fit; None where the file has none."""
        if "left" not in file.arrays:
            return None
        left = file.numbers("left")
        return cls(inner, file.estimate, file.measurement(1) if len(left) else None, left)


def covariance_of(errors: Errors) -> Floats:
    """Covariance of noise and model error together, (sums, sums)."""
    variances = errors.design.variances if errors.counts is None else errors.counts * errors.design.variances
    return np.asarray(errors.model + errors.weights.T @ (variances[:, None] * errors.weights))


def all_by_model(measured: Measurement, covariance: Floats) -> Errors:
    """Errors of sums with a covariance (sums, sums) of model error alone; the noises of `measured` get weight 0."""
    sums = len(covariance)
    nothing = Design(measured.queries[:1], measured.noises[:1])
    return Errors(nothing, np.zeros((1, sums)), covariance, np.zeros(sums, dtype=np.bool_))


Some = TypeVar("Some", bound=Moving)

MOST_NUMBERS = 2**24  # cells times values of attributes
MOST_RUNS = 32  # of values of an attribute that are told apart
AT_ONCE = 8  # runs whose covariances are laid out together
HARDLY = 1e-10  # of the greatest variance: directions in which nothing is known to vary
NO_NOISE = 1e-22  # of the greatest variance: a variance of all rows of less is none
MOST_SPREAD = 2.0**60


@dataclass(frozen=True, eq=False)
class Along:
    """One-way bins (runs of consecutive values) to be counted. axes: the attributes; runs: number of bins of each."""

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
        """Bin of every cell along one of the attributes, (cells,)."""
        axis = self.domain.axes[self.axes[number]]
        codes = self.domain.codes_along(axis.name, np.arange(self.domain.size))
        return np.asarray(codes * self.runs[number] // axis.size)

    @property
    def columns(self) -> Floats:
        """Indicator matrix of all one-way bins, (cells, runs): the A of the GLS update."""
        parts = [self.labels(number)[:, None] == np.arange(runs) for number, runs in enumerate(self.runs)]
        return np.concatenate(parts, axis=1).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Steadied:
    """One-way marginals with which a fit was updated, and their posterior covariance.

    measured: for each attribute, the noisy counts of its bins, once or in several releases. spread: (runs, runs), the
    posterior covariance V of all one-way counts. fit: the updated fit.
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
        asked = [
            {
                (type(block), block.rows, one.of)
                for block in (one.queries.blocks if type(one.queries) is Stack else [one.queries])
            }
            for one in self.measured
        ]
        if asked != [{(Identity, runs, self.fit.of)} for runs in self.along.runs]:
            raise QueryError("along attributes, the runs of each are counted one by one")

    @cached_property
    def model(self) -> Model:
        """Prior covariances of one-way counts and cells, conditional on the total."""
        return Model.of(self.fit, self.along)

    def around(self, fit: Spreading) -> Steadied:
        """Move the marginals to a fit with another estimate and the same covariances."""
        result = replace(self, fit=fit)
        vars(result)["model"] = self.model  # covariances stay as they were when an estimate moves
        return result

    def parts(self, products: Floats) -> tuple[Floats, Floats]:
        """Terms that the GLS update adds to and takes from the covariance of sums: (P'G V G P, P'G P).

        products: P, (runs, sums), covariances of the one-way counts with the sums, as `Model.with_cells` gives them.
        """
        weights = self.model.inverse @ products
        return weights.T @ self.spread @ weights, products.T @ weights

    def products_by_group(self, asked: Grouped) -> Floats:
        """Covariances P of the one-way counts with every group's sums, (groups, runs, sums)."""
        products = np.empty((asked.groups, len(self.spread), asked.sums))
        for index in range(asked.sums):
            weighed = asked.weights[:, index, None] * self.model.with_cells[asked.place]
            products[:, :, index] = summed(asked.group, weighed, asked.groups)
        return products if asked.whole is None else products + self.model.with_cells.T @ asked.whole

    def record(self) -> Arrays:
        along = np.array([*zip(self.along.axes, self.along.runs, strict=True)], dtype=np.int64)
        return {"along": along.reshape(-1), "along_spread": self.spread.reshape(-1)}

    @classmethod
    def read(cls, file: FitReader, fit: Spreading) -> Steadied | None:
        """Read the marginals from a file around the fit; None where the file has none."""
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
    """Prior covariances of one-way counts (runs of values) and cells, conditional on the number of all rows.

    with_cells: (cells, runs). between: (runs, runs), conditional on the total. of_all: (runs, runs), the part of the
    counts' covariance that the total explains. inverse: (runs, runs), the pseudo-inverse of `between`.
    """

    with_cells: Floats
    between: Floats
    of_all: Floats
    inverse: Floats

    @classmethod
    def of(cls, fit: Spreading, along: Along) -> Model:
        """Compute the covariances of one-way counts and cells from a fit, a few counts at a time."""
        columns = along.columns
        sums = np.column_stack([columns, np.ones(len(columns))])
        some = range(0, sums.shape[1], AT_ONCE)
        covariances = np.concatenate([fit.covariances(sums[:, start : start + AT_ONCE]) for start in some], axis=1)
        of_runs = columns.T @ covariances
        all_rows = float(covariances[:, -1].sum())
        if all_rows <= NO_NOISE * float(np.diagonal(of_runs).max()):
            all_rows = np.inf  # they are known, and what is said to go with them is rounding
        with_cells = covariances[:, :-1] - np.outer(covariances[:, -1], of_runs[:, -1]) / all_rows
        of_all = np.outer(of_runs[:, -1], of_runs[:, -1]) / all_rows
        between = of_runs[:, :-1] - of_all
        between = (between + between.T) / 2.0
        inverse: Floats = np.linalg.pinv(between, rcond=HARDLY, hermitian=True).astype(np.float64)
        return cls(with_cells, between, of_all, inverse)


def steadied(fit: Some, along: Along, measured: Sequence[Measurement]) -> tuple[Some, Steadied]:
    """Update a fit with noisy one-way marginals (GLS), the number of all rows kept.

    measured: the noisy counts of each attribute's bins. Returns the fit with the new estimate, and the marginals with
    their posterior covariance.
    """
    model, columns = Model.of(fit, along), along.columns
    shares = [shares_of_mean(measurement) for measurement in measured]
    counts = [
        (each * measurement.answers.reshape(each.shape)).sum(axis=0)
        for each, measurement in zip(shares, measured, strict=True)
    ]
    gaps = np.concatenate(counts) - columns.T @ fit.estimate
    moves, spread = np.zeros(len(gaps)), np.zeros((len(gaps), len(gaps)))
    ends = np.cumsum([0, *along.runs])
    for measurement, each, start, end in zip(measured, shares, ends[:-1], ends[1:], strict=True):
        own = slice(start, end)
        noise = np.diag((each**2 * measurement.design.sizes.reshape(each.shape)).sum(axis=0))
        moves[own], spread[own, own] = combined(gaps[own], model.between[own, own], model.of_all[own, own] + noise)
    fitted = fit.moved(fit.estimate + model.with_cells @ (model.inverse @ moves))
    marginals = Steadied(along, fitted, tuple(measured), spread)
    vars(marginals)["model"] = model  # covariances stay as they were when an estimate moves
    return fitted, marginals
