"""Measurements: noisy answers to queries, with the exact distribution of their noise.

They are what the kernel hands out, and the one value that kernel, strategies and estimators share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from math import exp
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Which
from sfumato.frozen import dataclass

if TYPE_CHECKING:
    from sfumato.queries import Queries


@dataclass(frozen=True)
class Laplace:
    """Discrete Laplace noise: P(z) proportional to exp(-|z| / scale) on the integers.

    >>> round(Laplace(Fraction(1)).variance, 4)
    1.8413
    """

    scale: Fraction

    @property
    def parameter(self) -> Fraction:
        """The parameter that a measurement is requested by: the scale."""
        return self.scale

    @property
    def continuous_variance(self) -> float:
        """The variance of the continuous noise of this scale: `variance` and about 1/6 if the scale is large."""
        return 2.0 * float(self.scale) ** 2

    @cached_property
    def variance(self) -> float:
        if self.scale > 10**6:  # the closed form below loses digits where 1 - exp(-1 / scale) does
            return self.continuous_variance
        ratio = exp(-1 / self.scale)
        return 2.0 * ratio / (1.0 - ratio) ** 2


@dataclass(frozen=True)
class Gaussian:
    """Discrete Gaussian noise: P(z) proportional to exp(-z^2 / (2 sigma_squared)) on the integers."""

    sigma_squared: Fraction

    @property
    def parameter(self) -> Fraction:
        """The parameter that a measurement is requested by: sigma squared."""
        return self.sigma_squared

    @property
    def continuous_variance(self) -> float:
        """The variance of the continuous noise of this sigma squared: more than `variance` where that is small."""
        return float(self.sigma_squared)

    @cached_property
    def variance(self) -> float:
        if self.sigma_squared > 9:  # closer to sigma_squared than 1e-70 there (Canonne, Kamath, Steinke 2020)
            return self.continuous_variance
        z = np.arange(-60, 61, dtype=np.float64)
        mass = np.exp(-(z**2) / (2 * self.continuous_variance))
        return float((z**2 * mass).sum() / mass.sum())


Noise = Laplace | Gaussian
LARGEST_SCALE = 2**50  # of Laplace noise, so that noise and answers fit 64 bits


@dataclass(frozen=True, eq=False)
class Design:
    """Queries and the noise of each, before anything is measured: public.

    noises: the distinct noises used; `which` says which row carries which, None where all carry the first.
    """

    queries: Queries
    noises: tuple[Noise, ...]
    which: Which = None

    @property
    def variances(self) -> NDArray[np.float64]:
        """The variance of the noise of every row."""
        return self._by_row([noise.variance for noise in self.noises])

    @property
    def sizes(self) -> NDArray[np.float64]:
        """The variances by whose inverse answers are weighted: 2 scale^2, or sigma^2, of the continuous noise.

        The variance itself, but where noise is so small that it is mostly zero; there the variances of two rows can lie
        a hundred orders of magnitude apart, and these do not.
        """
        return self._by_row([noise.continuous_variance for noise in self.noises])

    def _by_row(self, by_noise: list[float]) -> NDArray[np.float64]:
        each = np.array(by_noise)
        return np.full(self.queries.rows, each[0]) if self.which is None else each[np.asarray(self.which)]


@dataclass(frozen=True, eq=False)
class Measurement:
    """Noisy answers to queries on one statistic of the table.

    of: "count", or the name of a measure, whose centred sums are counted in whole `step`s around `centre` per row.
    answers: whole numbers, in steps. noises: the distinct noises used; `which` says which row carries which.
    above: rows whose noisy answer lies under it were not published; `cells` are the published ones.
    missing: beside sums of a measure, the same queries on the rows in which it is missing; None where none are counted.
    """

    of: str
    queries: Queries
    answers: NDArray[np.int64]
    noises: tuple[Noise, ...]
    which: Which = None
    above: int | None = None
    cells: NDArray[np.int64] | None = None
    missing: Measurement | None = None

    @property
    def design(self) -> Design:
        """The queries and their noise, without the answers."""
        return Design(self.queries, self.noises, self.which)

    @property
    def noise(self) -> Noise:
        """The noise of every row, where all rows carry the same."""
        (noise,) = self.noises
        return noise


@dataclass(frozen=True, eq=False)
class Trail:
    """Error of a cell in one release of a series with running totals, as a weighted sum of independent noises.

    run: name of the releases that share these noises. weights: one for the noise drawn for each release of the run so
    far, this one last; the same in every cell.
    """

    run: str
    weights: NDArray[np.float64]


def with_missing(measured: Measurement) -> list[Measurement]:
    """Split a measurement of a measure into its sums and its counts of missing values; any other one stays alone."""
    missing = [] if measured.missing is None else [measured.missing]
    return [replace(measured, missing=None), *missing]


def shares_of_mean(measured: Measurement) -> NDArray[np.float64]:
    """Weights of repeated answers in their inverse-variance mean, (repeats, queries).

    measured: the same queries once, or several times one after the other, as a stack of them has it.
    """
    precision = 1.0 / measured.design.sizes.reshape(-1, measured.queries.columns)
    return np.asarray(precision / precision.sum(axis=0))


def as_one(parts: Sequence[Measurement], queries: Queries) -> Measurement:
    """Stack measurements of one statistic into one. queries: of all of them, stacked."""
    noises = tuple(dict.fromkeys(noise for part in parts for noise in part.noises))
    which = []
    for part in parts:
        places = np.array([noises.index(noise) for noise in part.noises], dtype=np.int64)
        which.append(
            places[np.zeros(len(part.answers), dtype=np.int64) if part.which is None else np.asarray(part.which)]
        )
    answers: NDArray[np.int64] = np.concatenate([part.answers for part in parts])
    answers.setflags(write=False)
    return Measurement(parts[0].of, queries, answers, noises, np.concatenate(which) if len(noises) > 1 else None)
