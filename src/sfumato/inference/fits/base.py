"""What an estimate of all cells is off by: for any later query, the noise it carries and the model it leans on.

A fit holds an estimate of one statistic in every cell. Whoever asks for the error of a weighted sum of cells gets the
weights with which each noise of the measurements enters that sum, so that its exact law is known, and the covariance of
what the fit takes for granted without having measured it (the model's share).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats
from sfumato.measurement import Design, Measurement

PARTS = 2**10  # an estimate is kept in whole multiples of 1 / PARTS, so that a file holds it exactly


@dataclass(frozen=True, eq=False)
class Errors:
    """The errors of several weighted sums of cells, a column each.

    weights: for every measured row, with which weight its noise enters each sum. noises: what each row carries.
    model: the covariance of the sums' model errors. unknown: sums that the measurements do not determine at all.
    """

    design: Design
    weights: Floats
    model: Floats
    unknown: NDArray[np.bool_]


class Fit(Protocol):
    """An estimate of one statistic, cell by cell, and its errors."""

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


class OfOneMeasurement:
    """A fit to a single measurement."""

    measurement: Measurement

    @property
    def of(self) -> str:
        return self.measurement.of

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        return (self.measurement,)


def in_parts(estimate: Floats) -> Floats:
    """An estimate rounded to what a file holds."""
    rounded: Floats = np.asarray(estimate * PARTS, dtype=np.float64)
    if rounded.ndim == 0:
        return np.asarray(np.rint(rounded) / PARTS)
    np.rint(rounded, out=rounded)
    rounded /= PARTS
    return rounded
