"""A pair of attributes: noise taken out of its deviations from what one attribute at a time says.

Deviations of a pair from the product of its margins are turned into coefficients along directions in which values of
either attribute tend to vary together (`Directions`): first those of an order, where neighbours are alike, then those
in which all other pairs were seen to vary. Along such directions truth is large in few coefficients and noise is the
same in all. How large coefficients are is learned by likelihood, as a common spread around which single ones scatter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.inference.margins.one_way import LENGTHS

ALONE = 0.1  # of the variance along an order that every value has by itself
LEARNED = 0.7  # how far the directions seen in other pairs are believed against those of the order
SMALLEST = 1e-14  # of the whole variance, that of any direction
WEIGHTS = (0.5, 1.0, 1.5, 2.0)  # of what other pairs say; beyond 1, since it was shrunk on its way
BIN = 0.35  # in the logarithm of sizes: coefficients of like size are looked at together
BINS = 80
SPREADS = np.linspace(-7.0, 9.0, 49)  # logarithms of the common spread, in variances of the noise
TAILS = np.exp(1.5 * np.arange(-3.0, 4.0))  # by what single coefficients' spreads differ from the common one
TAIL_SHARES = np.array([0.02, 0.04, 0.10, 0.68, 0.10, 0.04, 0.02])  # how many do, before any is seen
TAIL_TRUST = 20.0  # coefficients that this is worth
ROUNDS = 12  # of learning how many do
SCATTERS = np.logspace(-2.0, 1.5, 15)  # of cells around a guess, as a share of it


@dataclass(frozen=True, eq=False)
class Directions:
    """In which values of an attribute vary together, and the logarithm of how much; their changes add up to nothing."""

    sizes: Floats
    vectors: Floats

    @classmethod
    def of(cls, share: Floats, ordered: bool, seen: Floats | None = None) -> Directions:
        """share: of the rows, value by value. seen: the covariance of values in other pairs, of any size."""
        covariance = share[:, None] * _alike(len(share), ordered) * share
        covariance = covariance / max(float(np.trace(covariance)), 1e-300)
        if seen is not None and np.trace(seen) > 0:
            covariance = (1.0 - LEARNED) * covariance + LEARNED * seen / np.trace(seen)
        along = covariance.sum(axis=1)
        covariance = covariance - np.outer(along, along) / max(float(along.sum()), 1e-300)
        sizes, vectors = np.linalg.eigh(covariance)
        return cls(np.log(np.maximum(sizes[:0:-1], SMALLEST)), vectors[:, :0:-1])


@dataclass(frozen=True, eq=False)
class Shrunk:
    """An estimate, and the variances of its errors: those the noise makes, and those of what was assumed."""

    estimate: Floats
    noise: Floats
    model: Floats


def shrink(
    noisy: Floats, variance: float, product: Floats, said: Sequence[Floats], along: tuple[Directions, Directions]
) -> Shrunk:
    """A pair drawn towards the likeliest of what is said of it. product: of its margins; said: by other pairs."""
    rows, columns = along
    if not len(rows.sizes) or not len(columns.sizes):
        return Shrunk(product, np.zeros(product.shape), np.zeros(product.shape))
    sorted_sizes = _Sizes.of(rows.sizes[:, None] + columns.sizes)
    measured = rows.vectors.T @ (noisy - product) @ columns.vectors
    guess = np.zeros(measured.shape)
    best, spread = sorted_sizes.likeliest(measured, variance)
    for one in said:
        towards = rows.vectors.T @ (one - product) @ columns.vectors
        for weight in WEIGHTS:
            likelihood, found = sorted_sizes.likeliest(measured - weight * towards, variance)
            if likelihood > best:
                best, spread, guess = likelihood, found, weight * towards
    trust, left = _posterior(measured - guess, spread, variance)
    estimate = product + rows.vectors @ (guess + trust * (measured - guess)) @ columns.vectors.T
    noise = np.minimum(trust**2 * variance, left)
    cells = (rows.vectors**2 @ part @ (columns.vectors**2).T for part in (noise, left - noise))
    return Shrunk(estimate, *cells)


def shrink_cells(noisy: Floats, variance: float, guess: Floats) -> Shrunk:
    """A table drawn cell by cell towards a guess, by as much as its cells are seen to scatter around it."""
    rows, off = np.maximum(guess, 0.0), noisy - guess
    best, prior = -np.inf, rows
    for scatter in SCATTERS:
        spread = scatter**2 * rows**2 + rows
        likelihood = -0.5 * float((np.log(spread + variance) + off**2 / (spread + variance)).sum())
        if likelihood > best:
            best, prior = likelihood, spread
    trust = prior / (prior + variance)
    return Shrunk(guess + trust * off, trust**2 * variance, (1.0 - trust) ** 2 * prior)


def _alike(values: int, ordered: bool) -> Floats:
    """How values resemble each other before anything is seen: neighbours do, where there is an order."""
    if not ordered or values < 3:
        return np.eye(values)
    gaps = np.abs(np.subtract.outer(np.arange(values), np.arange(values)))
    smooth = np.mean([np.exp(-gaps / length) for length in LENGTHS if length < values], axis=0)
    return np.asarray(ALONE * np.eye(values) + (1.0 - ALONE) * smooth, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class _Sizes:
    """Coefficients sorted by the size that is expected of them: a likelihood then costs a few bins, not all cells."""

    bin: Codes
    number: Floats
    mean: Floats
    sizes: Floats

    @classmethod
    def of(cls, sizes: Floats) -> _Sizes:
        sizes = sizes - sizes.max()
        places = np.minimum((-sizes / BIN).astype(np.int64), BINS - 1).reshape(-1)
        number = np.bincount(places, minlength=BINS).astype(np.float64)
        mean = np.bincount(places, sizes.reshape(-1), BINS) / np.maximum(number, 1.0)
        return cls(places, number, mean, sizes)

    def likeliest(self, coefficients: Floats, variance: float) -> tuple[float, Floats]:
        """The log-likelihood at the best common spread, and the variance of every coefficient there."""
        squares = np.bincount(self.bin, (coefficients**2).reshape(-1), BINS)
        expected = variance * (np.exp(SPREADS[:, None] + self.mean) + 1.0)
        likelihood = -0.5 * (np.log(expected) @ self.number + (1.0 / expected) @ squares)
        best = int(likelihood.argmax())
        return float(likelihood[best]), variance * np.exp(SPREADS[best] + self.sizes)


def _posterior(coefficients: Floats, spread: Floats, variance: float) -> tuple[Floats, Floats]:
    """How far each coefficient is trusted, and the variance that is left of it."""
    expected = spread * TAILS[:, None, None] + variance
    logs = -0.5 * (np.log(expected) + coefficients**2 / expected)
    likelihood = np.exp(logs - logs.max(axis=0))
    shares = TAIL_SHARES
    for _ in range(ROUNDS):
        of_tails = likelihood * shares[:, None, None]
        of_tails /= of_tails.sum(axis=0)
        shares = of_tails.sum(axis=(1, 2)) + TAIL_TRUST * TAIL_SHARES
        shares = shares / shares.sum()
    of_tails = likelihood * shares[:, None, None]
    of_tails /= of_tails.sum(axis=0)
    trusts = 1.0 - variance / expected
    trust = (of_tails * trusts).sum(axis=0)
    within = variance * trust
    between = ((of_tails * trusts**2).sum(axis=0) - trust**2) * coefficients**2
    return trust, within + np.maximum(between, 0.0)
