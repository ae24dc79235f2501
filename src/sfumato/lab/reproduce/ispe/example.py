"""ISPE's worked example (section 4.2, figure 6) and the distributions of summed noise it leans on (figures 28 and 29).

Xiao, Xiong, Yuan, TR-2011-005. The paper simulates these distributions; they have closed forms, here with the factor
1 / (2b) that its equation (22) has lost.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from sfumato.arrays import Floats
from sfumato.kernel.sampling.entropy import Entropy
from sfumato.kernel.sampling.noise import draw as draw_noise
from sfumato.lab.reproduce.exhibits import Exhibit, Picture
from sfumato.lab.reproduce.ispe.posterior import Posterior, posterior
from sfumato.lab.reproduce.plot import Line, Plot, draw
from sfumato.measurement import Laplace

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
    """The densities of the answer after its first observation, and after both, on an even grid."""
    first = sum_density(2, CELLS[0] + CELLS[1] - theta, SCALE)
    second = sum_density(3, PARTITION - CELLS[2] - CELLS[3] - theta, SCALE)
    step = theta[1] - theta[0]
    both = first * second
    return first / (first.sum() * step), both / (both.sum() * step)


def estimate() -> Posterior:
    """What the product's own estimator makes of the example; the noises are whole numbers there.

    >>> round(estimate().mean, 2)
    -5.82
    """
    # The noises of y_5, y_6, y_8, y_9 and y_13 in the two observations of the answer.
    weights = [[1, 1, 0, 0, 0], [0, 0, -1, -1, 1]]
    observed = [CELLS[0] + CELLS[1], PARTITION - CELLS[2] - CELLS[3]]
    return posterior(observed, weights, [Laplace(Fraction(SCALE))] * 5)


def simulated_distance(terms: int, draws: int, entropy: Entropy) -> float:
    """The paper's D_PDF: how far the histogram of simulated sums is from the truth, all whole numbers together."""
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
    """The estimate of x_5 + x_6, theirs and ours."""
    found = estimate()
    low, high = found.interval(0.95)
    theta = np.linspace(-150.0, 150.0, 301)
    first, both = posteriors(theta)
    plot = Plot(
        "Figure 6: what is known about the answer",
        "answer",
        "probability density",
        [
            Line("after the cells", theta.tolist(), first.tolist(), marks=False),
            Line("after the partition as well", theta.tolist(), both.tolist(), marks=False),
        ],
        bound=(found.mean, "estimate"),
    )
    z = np.linspace(-150.0, 150.0, 301)
    distributions = Plot(
        "Figure 28: sums of Laplace noises of scale 20",
        "noise",
        "probability density",
        [
            Line("1 noise" if n == 1 else f"{n} noises", z.tolist(), sum_density(n, z, SCALE).tolist(), marks=False)
            for n in (1, 2, 3)
        ],
    )
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
