"""Pairs of attributes: noise taken out of their deviations from what one attribute at a time says.

Deviations of a pair from the product of its margins are turned into coefficients along directions in which values of
either attribute tend to vary together (`Directions`): first those of an order, where neighbours are alike, then those
in which all other pairs were seen to vary. Along such directions truth is large in few coefficients and noise is the
same in all. How large coefficients are, and what else is said of the pair that they scatter around, is learned by
likelihood, with a prior that all pairs teach each other; single coefficients scatter around the common spread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.frozen import dataclass
from sfumato.models.margins.one_way import LENGTHS
from sfumato.models.margins.table import Noisy, Places

ALONE = 0.1  # of the variance along an order that every value has by itself
LEARNED = 0.7  # how far the directions seen in other pairs are believed against those of the order
POWER = 0.75  # of expected rows by which deviations grow: between counts, 1/2, and shares, 1
SMALLEST = 1e-14  # of the whole variance, that of any direction
WEIGHTS = np.array([0.5, 1.0, 1.5, 2.0])  # of what other pairs say; beyond 1, since it was shrunk on its way
BIN = 0.35  # in the logarithm of sizes: coefficients of like size are looked at together
BINS = 80
SPREADS = np.arange(-18.0, 6.0, 0.4)  # logarithms of the common variance, per unit of size: from none to all
NEAR = np.exp(-0.5 * (np.arange(-5, 6) / 2) ** 2) / np.sqrt(8 * np.pi)  # spreads of like size support each other
SOME_MEAN, SOME_SPREAD = 0.5, 0.1  # pairs' worth of belief in each mean and each spread, before any pair is seen
TAILS = np.exp(1.5 * np.arange(-3.0, 4.0))  # by what single coefficients' spreads differ from the common one
TAIL_SHARES = np.array([0.02, 0.04, 0.10, 0.68, 0.10, 0.04, 0.02])  # how many do, before any is seen
TAIL_TRUST = 20.0  # coefficients that this is worth
ROUNDS = 12  # of learning how many do
PRIOR_ROUNDS = 20  # of learning the prior of all pairs
SCATTERS = np.logspace(-2.0, 1.5, 15)  # of cells around a guess, as a share of it


@dataclass(frozen=True, eq=False)
class Directions:
    """In which values of an attribute vary together, and the logarithm of how much; their changes add up to nothing."""

    sizes: Floats
    vectors: Floats

    @classmethod
    def of(cls, share: Floats, ordered: bool, seen: Floats | None = None) -> Directions:
        """share: of the rows, value by value. seen: the covariance of values in other pairs, of any size."""
        sizes = share**POWER
        covariance = sizes[:, None] * _alike(len(share), ordered) * sizes
        covariance = covariance / max(float(np.trace(covariance)), 1e-300)
        if seen is not None and np.trace(seen) > 0:
            covariance = (1.0 - LEARNED) * covariance + LEARNED * seen / np.trace(seen)
        along = covariance.sum(axis=1)
        covariance = covariance - np.outer(along, along) / max(float(along.sum()), 1e-300)
        lengths, vectors = np.linalg.eigh(covariance)
        return cls(np.log(np.maximum(lengths[:0:-1], SMALLEST)), vectors[:, :0:-1])


@dataclass(frozen=True, eq=False)
class Shrunk:
    """An estimate, and the variances of its errors: those the noise makes, and those of what was assumed."""

    estimate: Floats
    noise: Floats
    model: Floats


def shrink_pairs(
    seen: Mapping[Places, Noisy],
    products: Mapping[Places, Floats],
    said: Mapping[Places, Sequence[Floats]],
    along: Mapping[Places, tuple[Directions, Directions]],
) -> dict[Places, Shrunk]:
    """All pairs that were seen, drawn towards the likeliest of what is said of them.

    products: of their margins. said: by other pairs, of each the same number. along: the directions of both attributes.
    """
    found = {}
    work = {places: _Pair.of(seen[places], products[places], said[places], along[places]) for places in seen}
    prior = _learned_prior([pair.likelihood for pair in work.values() if pair is not None])
    for places, pair in work.items():
        if pair is None:
            nothing = np.zeros(products[places].shape)
            found[places] = Shrunk(products[places], nothing, nothing)
        else:
            found[places] = pair.shrunk(products[places], prior)
    return found


@dataclass(frozen=True, eq=False)
class _Pair:
    """The coefficients of a pair, and the logarithm of their likelihood: by what they scatter around, and how far."""

    measured: Floats
    towards: list[Floats]
    variance: float
    sizes: Floats
    likelihood: Floats
    along: tuple[Directions, Directions]

    @classmethod
    def of(
        cls, noisy: Noisy, product: Floats, said: Sequence[Floats], along: tuple[Directions, Directions]
    ) -> _Pair | None:
        rows, columns = along
        if not len(rows.sizes) or not len(columns.sizes):  # an attribute with one value
            return None

        def turned(table: Floats) -> Floats:
            return np.asarray(rows.vectors.T @ (table - product) @ columns.vectors, dtype=np.float64)

        numbers, variance = noisy
        sizes = _Sizes.of(rows.sizes[:, None] + columns.sizes + 2.0 * np.log(max(float(product.sum()), 1.0)))
        measured, towards = turned(numbers), [turned(each) for each in said]
        around = [measured, *(measured - weight * each for each in towards for weight in WEIGHTS)]
        likelihood = np.array([sizes.likelihood(each, variance) for each in around])
        return cls(measured, towards, variance, sizes.sizes, likelihood, along)

    def shrunk(self, product: Floats, prior: Floats) -> Shrunk:
        belief = np.exp(self.likelihood + prior - (self.likelihood + prior).max())
        belief /= belief.sum()
        guess = np.zeros(self.measured.shape)
        if self.towards:
            weights = belief.sum(axis=1)[1:].reshape(-1, len(WEIGHTS)) @ WEIGHTS
            guess = sum((weight * each for weight, each in zip(weights, self.towards, strict=True)), guess)
        spread = np.exp(belief.sum(axis=0) @ SPREADS + self.sizes)
        trust, left = _posterior(self.measured - guess, spread, self.variance)
        rows, columns = (each.vectors for each in self.along)
        estimate = product + rows @ (guess + trust * (self.measured - guess)) @ columns.T
        noise = np.minimum(trust**2 * self.variance, left)
        return Shrunk(estimate, *(rows**2 @ part @ (columns**2).T for part in (noise, left - noise)))


def _learned_prior(likelihoods: Sequence[Floats]) -> Floats:
    """The logarithm of how likely each mean and each spread is, learned from all pairs; nothing is ever ruled out."""
    if not likelihoods:
        return np.zeros(())
    likely = np.exp(np.array([each - each.max() for each in likelihoods]))
    means, spreads = np.ones(likely.shape[1]), np.ones(likely.shape[2])
    for _ in range(PRIOR_ROUNDS):
        belief = likely * means[:, None] * spreads
        belief /= belief.sum(axis=(1, 2), keepdims=True)
        means = belief.sum(axis=(0, 2)) + SOME_MEAN
        spreads = np.convolve(belief.sum(axis=(0, 1)), NEAR, mode="same") + SOME_SPREAD
        means, spreads = means / means.sum(), spreads / spreads.sum()
    return np.asarray(np.log(means)[:, None] + np.log(spreads), dtype=np.float64)


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
        places = np.minimum(((sizes.max() - sizes) / BIN).astype(np.int64), BINS - 1).reshape(-1)
        number = np.bincount(places, minlength=BINS).astype(np.float64)
        mean = np.bincount(places, sizes.reshape(-1), BINS) / np.maximum(number, 1.0)
        return cls(places, number, mean, sizes)

    def likelihood(self, coefficients: Floats, variance: float) -> Floats:
        """The logarithm of the likelihood at every common spread."""
        squares = np.bincount(self.bin, (coefficients**2).reshape(-1), BINS)
        expected = np.exp(SPREADS[:, None] + self.mean) + variance
        return np.asarray(-0.5 * (np.log(expected) @ self.number + (1.0 / expected) @ squares), dtype=np.float64)


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
