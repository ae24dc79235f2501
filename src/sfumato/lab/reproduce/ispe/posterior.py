"""Exact posterior of one number from all observations of it (the estimator of ISPE), and its worked example.

Xiao, Xiong, Yuan, TR-2011-005, section 4. Corrected: the distribution of a sum of noises is not simulated, as
characteristic functions multiply; observations that share noise are first combined into the one of least variance. An
observation is the number plus a weighted sum of independent noises; that of a neighbouring cell has one noise more.

The worked example is that of section 4.2, figure 6; figures 28 and 29 have closed forms, here with the factor 1 / (2b)
that equation (22) has lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from math import ceil

import numpy as np
from numpy.typing import NDArray

from sfumato.answers.noise_sum import log_characteristic
from sfumato.arrays import Floats
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.kernel.sampling.entropy import Entropy
from sfumato.kernel.sampling.noise import draw as draw_noise
from sfumato.lab.reproduce.exhibits import Exhibit, Line, Picture, Plot, draw
from sfumato.measurement import Gaussian, Laplace, Noise

STEPS = 64  # of the grid in one standard deviation of the best observation, where values are not whole
FINEST = 2**18  # points of the grid, at most
REACH = 30.0  # standard deviations of the best observation on either side: Laplace tails have fallen below 1e-18
USELESS = 200.0  # an observation that is so many times less precise than the best tells nothing beside it


@dataclass(frozen=True, eq=False)
class Posterior:
    """Distribution of one number: values on a grid and their probabilities."""

    values: Floats
    mass: Floats

    @cached_property
    def mean(self) -> float:
        """Posterior mean."""
        return float(self.values @ self.mass)

    @cached_property
    def variance(self) -> float:
        return float((self.values - self.mean) ** 2 @ self.mass)

    def interval(self, confidence: float) -> tuple[float, float]:
        """Equal-tailed credible interval: at most (1 - confidence) / 2 outside each end."""
        if not 0.0 < confidence < 1.0:
            raise QueryError(f"a confidence lies between 0 and 1, such as 0.95; got {confidence}")
        tail = (1.0 - confidence) / 2.0
        up_to = np.cumsum(self.mass)
        low = int(np.searchsorted(up_to, tail, side="right"))
        high = int(np.searchsorted(up_to, 1.0 - tail))
        last = len(self.values) - 1
        return float(self.values[min(low, last)]), float(self.values[min(high, last)])


def posterior(values: object, weights: object, noises: Sequence[Noise]) -> Posterior:
    """Posterior of a number under a flat prior, from observations that may share noises.

    values: what was observed. weights: for each observation, with which weight each noise enters it. Observations that
    share a noise, directly or through others, are combined by least variance, the rest by their exact likelihoods.

    >>> from fractions import Fraction; from sfumato.measurement import Laplace
    >>> posterior([4, 10], [[1, 0], [0, 1]], [Laplace(Fraction(2))] * 2).mean.__round__(6)
    7.0
    """
    observed = np.asarray(values, dtype=np.float64)
    entered = np.asarray(weights, dtype=np.float64)
    if observed.ndim != 1 or entered.shape != (len(observed), len(noises)) or not len(observed):
        raise QueryError("a posterior needs observations, and for each the weight of every noise")
    variances = np.array([noise.variance for noise in noises])
    if not ((entered**2 @ variances) > 0.0).all():
        raise QueryError("an observation without noise leaves nothing to estimate; take it as it is")
    parts = [_combined(observed[rows], entered[rows], variances) for rows in _sharing(entered)]
    deviations = np.array([float(np.sqrt(each**2 @ variances)) for _, each in parts])
    useful = [part for part, deviation in zip(parts, deviations, strict=True) if deviation < USELESS * deviations.min()]
    whole = all(float(number).is_integer() for value, each in useful for number in (value, *each))
    grid = _grid(np.array([value for value, _ in useful]), float(deviations.min()), whole)
    log_mass = np.zeros(len(grid))
    for value, each in useful:
        log_mass += _log_likelihood(value, each, noises, grid, whole)
    mass = np.exp(log_mass - log_mass.max())
    return Posterior(grid, mass / mass.sum())


def _sharing(weights: Floats) -> list[NDArray[np.int64]]:
    """Connected components of the observations, linked by shared noises."""
    rows = weights != 0.0
    linked = rows @ rows.T
    for _ in range(max(1, len(rows).bit_length())):  # paths of twice the length each time
        linked = linked @ linked
    _, group = np.unique(linked.argmax(axis=1), return_inverse=True)
    return [np.flatnonzero(group == number) for number in range(int(group.max()) + 1)]


def _combined(values: Floats, weights: Floats, variances: Floats) -> tuple[float, Floats]:
    """Unbiased linear combination of least variance, and the weights of the noises in it."""
    if len(values) == 1:
        return float(values[0]), weights[0]
    covariance = (weights * variances) @ weights.T
    solved = np.linalg.pinv(covariance, rcond=1e-12, hermitian=True).sum(axis=1)
    share = solved / solved.sum()
    return float(share @ values), share @ weights


def _grid(values: Floats, deviation: float, whole: bool) -> Floats:
    """Grid of the posterior: whole numbers, or as fine as the noise is smooth."""
    low, high = values.min() - REACH * deviation, values.max() + REACH * deviation
    if whole and high - low < FINEST:
        return np.arange(np.floor(low), np.ceil(high) + 1.0)
    points = int(min(FINEST, ceil((high - low) / deviation * STEPS)))
    return np.linspace(low, high, max(points, 2))


def _log_likelihood(value: float, weights: Floats, noises: Sequence[Noise], grid: Floats, whole: bool) -> Floats:
    """Log-likelihood of an observation at every number of the grid, up to a constant."""
    step = float(grid[1] - grid[0])
    exact = whole and step == 1.0
    pieces = []
    for weight, noise in zip(np.abs(weights), noises, strict=True):
        if weight == 0.0 or noise.variance == 0.0:
            continue
        size = float(noise.sigma_squared) if isinstance(noise, Gaussian) else noise.variance
        # On a fine grid the noise is taken as continuous: it moves in steps of the grid, with its own variance.
        steps, size = (weight, size) if exact else (1.0, size * (weight / step) ** 2)
        pieces.append((steps, size, 1.0 if isinstance(noise, Gaussian) else 0.0, 1.0))
    table = np.array(pieces).T
    deviation = float(np.sqrt((table[0] ** 2 * table[1]).sum()))
    offsets = (value - grid) / step
    longest = float(np.abs(offsets).max()) + REACH * deviation
    length = 1 << max(4, ceil(2.0 * longest + 4.0)).bit_length()
    distribution = np.fft.irfft(np.exp(log_characteristic(table, length)), length)[: length // 2]
    floor = max(float(distribution.max()) * 1e-16, 1e-300)
    # Below what an FFT can tell from zero, tails are continued as they fall where they last could be told.
    log_law = _continued(np.log(np.maximum(distribution, floor)), floor)
    return np.interp(np.abs(offsets), np.arange(len(log_law)), log_law)


def _continued(log_law: Floats, floor: float) -> Floats:
    """Log of a distribution with even tails, extended linearly from where it reaches a thousand times the floor."""
    hidden = np.flatnonzero(log_law < np.log(floor) + np.log(1e3))
    if not len(hidden) or hidden[0] < 2:
        return log_law
    first = int(hidden[0])
    back = max(1, first // 8)
    slope = (log_law[first - 1] - log_law[first - 1 - back]) / back
    log_law[first:] = log_law[first - 1] + slope * np.arange(1, len(log_law) - first + 1)
    return log_law


PARTITION = -5.2668  # y_13
CELLS = (-15.4486, 41.0775, -2.9380, 50.6616)  # y_5, y_6, y_8, y_9; the query is x_5 + x_6
SCALE = 20.0  # alpha_1 = alpha_2 = 0.05
PRINTED = -5.9707
PRINTED_DISTANCE = 0.015  # between simulated and theoretical distribution, with 10^6 draws


def sum_density(terms: int, z: Floats, scale: float) -> Floats:
    """The density of a sum of one, two or three Laplace noises (corollary E.1, the third one corrected)."""
    t = np.abs(z) / scale
    shape = {1: np.full_like(t, 0.5), 2: (1 + t) / 4, 3: (3 + 3 * t + t**2) / 16}[terms]
    return np.asarray(shape * np.exp(-t) / scale, dtype=np.float64)


def posteriors(theta: Floats) -> tuple[Floats, Floats]:
    """Posterior densities of the answer after its first observation, and after both, on an even grid."""
    first = sum_density(2, CELLS[0] + CELLS[1] - theta, SCALE)
    second = sum_density(3, PARTITION - CELLS[2] - CELLS[3] - theta, SCALE)
    step = theta[1] - theta[0]
    both = first * second
    return first / (first.sum() * step), both / (both.sum() * step)


def estimate() -> Posterior:
    """Posterior of the worked example with discrete noise, by `posterior`.

    >>> round(estimate().mean, 2)
    -5.82
    """
    # The noises of y_5, y_6, y_8, y_9 and y_13 in the two observations of the answer.
    weights = [[1, 1, 0, 0, 0], [0, 0, -1, -1, 1]]
    observed = [CELLS[0] + CELLS[1], PARTITION - CELLS[2] - CELLS[3]]
    return posterior(observed, weights, [Laplace(Fraction(SCALE))] * 5)


def simulated_distance(terms: int, draws: int, entropy: Entropy) -> float:
    """The paper's D_PDF: L1 distance of the histogram of simulated noise sums from their exact law."""
    sums = draw_noise(Laplace(Fraction(SCALE)), draws, entropy).reshape(-1, terms).sum(axis=1)
    reach = int(60 * SCALE)
    seen = np.bincount(np.clip(sums + reach, 0, 2 * reach), minlength=2 * reach + 1) / len(sums)
    z = np.arange(-reach, reach + 1)
    one = np.exp(-np.abs(z) / SCALE)
    distribution = one = one / one.sum()
    for _ in range(terms - 1):
        distribution = np.convolve(distribution, one)[reach:-reach]
    return float(np.abs(seen - distribution).sum())


def worked_example(entropy: Entropy, *, quick: bool) -> Exhibit:
    """Exhibit: the estimate of x_5 + x_6, theirs and ours."""
    found = estimate()
    low, high = found.interval(0.95)
    theta = np.linspace(-150.0, 150.0, 301)
    names = ("after the cells", "after the partition as well")
    lines = [
        Line(name, theta.tolist(), density.tolist(), marks=False)
        for name, density in zip(names, posteriors(theta), strict=True)
    ]
    what, bound = "Figure 6: what is known about the answer", (found.mean, "estimate")
    plot = Plot(what, "answer", "probability density", lines, bound=bound)
    lines = [
        Line("1 noise" if n == 1 else f"{n} noises", theta.tolist(), sum_density(n, theta, SCALE).tolist(), marks=False)
        for n in (1, 2, 3)
    ]
    what = "Figure 28: sums of Laplace noises of scale 20"
    distributions = Plot(what, "noise", "probability density", lines)
    draws = 10**5 if quick else 10**6
    distance = simulated_distance(2, draws, entropy)
    rows = (
        ("estimate of x5 + x6", f"{PRINTED}", f"{found.mean:.4f}"),
        ("95 % interval", "", f"{low:.0f} to {high:.0f}"),
        (f"distance of a simulated distribution, {draws:,} draws", f"{PRINTED_DISTANCE}", f"{distance:.3f}"),
    )
    return Exhibit(
        "Section 4.2 and appendices E and F, figures 6, 28 and 29",
        "The worked example",
        "The paper's estimate carries the error of its simulation; ours is exact. A simulation with the paper's "
        "10^6 draws comes as near to that of two noises as the paper says (it needs ten times the draws for a "
        "third of the distance, which is why the quick form is further off).",
        ("", "paper", "ours"),
        rows,
        pictures=(Picture("figure-6", draw(plot)), Picture("figure-28", draw(distributions))),
    )
