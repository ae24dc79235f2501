"""Counts that an estimate has and that were measured besides, weighed against each other.

A fit that was brought to counts measured besides: of all rows, and along attributes.

Regions that were found in noisy cells were chosen by their noise, so that estimates err to one side, and so does what a
model takes from every cell. In sums of many cells that adds up; a count of all rows, measured by itself, shows it. The
estimate is moved to it, each cell in proportion to its covariance with all. Noise and model can then not be told apart
any more, so that all of the error counts as the model's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np

from sfumato.answers.fit import Arrays, ByModel, Errors, Fit, FitReader, Inside, Sets, keep_in_parts
from sfumato.answers.grouped import ByGroup, Grouped, summed
from sfumato.arrays import Floats
from sfumato.domain import Domain
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.measurement import Design, Measurement
from sfumato.models.calibration.factor import POSSIBLE, believed
from sfumato.queries import Identity

if TYPE_CHECKING:
    from sfumato.answers.guaranteed.along import Runs
    from sfumato.answers.guaranteed.ends import Find


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
        from sfumato.answers.guaranteed.along import with_counts_along

        return with_counts_along(self.runs(), self.inner.guaranteed(domain, rows))

    def runs(self) -> list[Runs]:
        """All rows, if they were counted besides."""
        from sfumato.answers.guaranteed.along import Runs

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
