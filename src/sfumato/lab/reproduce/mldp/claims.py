"""MLDP, claims that do not hold: lemma 4.3, theorem 4.4, and their uses."""

from __future__ import annotations

from fractions import Fraction
from math import exp, log, sqrt

import numpy as np

from sfumato.kernel.sampling.entropy import Entropy
from sfumato.kernel.sampling.noise import draw
from sfumato.lab.reproduce.exhibits import Exhibit, digits
from sfumato.measurement import Laplace

QUERIES = 100
CASES = ((1, 0.5), (10, 5.0), (100, 20.0), (500, 100.0))  # scales of noise, and how far the mean may be off


def lemma_4_3(entropy: Entropy, *, quick: bool) -> Exhibit:
    """Tail of the mean of many Laplace variables: printed, with sigma squared, and exact."""
    runs, rows = 2_000 if quick else 50_000, []
    for scale, off in CASES:
        means = draw(Laplace(Fraction(scale)), runs * QUERIES, entropy).reshape(runs, QUERIES).mean(axis=1)
        printed, squared = (exp(-QUERIES * off**2 / (4.0 * power)) for power in (scale, scale**2))
        found = float((np.abs(means) > off).mean())
        rows.append((str(scale), f"{off:g}", f"{printed:.2g}", f"{squared:.2g}", f"{found:.2g}"))
    return Exhibit(
        "Lemma 4.3",
        f"The chance that the mean of {QUERIES} Laplace variables is off by more",
        "The lemma has sigma where sigma squared belongs, so that it is not even in the right unit: measured in "
        "thousands of rows it says something else than in rows. At a scale of 100, what it calls impossible happens "
        "one time in six. With the square, as in its source, and a factor 2 for both sides, it holds where "
        "the distance is no more than twice the scale.",
        ("scale", "off by more than", "printed", "with the square", "in our runs"),
        tuple(rows),
        left=(),
    )


def theorem_4_4(entropy: Entropy, *, quick: bool) -> Exhibit:
    """The bound on the noise error against the noise error."""
    runs, rows = 50 if quick else 1_000, []
    for queries in (10, 100, 1000):
        sensitivity = max(1, queries // 2)  # of so many ranges by chance, about
        bound = sqrt(4 * sensitivity * log(1 / 0.05) / queries)
        noise = np.abs(draw(Laplace(Fraction(sensitivity)), runs * queries, entropy)).reshape(runs, queries)
        rows.append((f"{queries:,}", f"{sensitivity}", digits(bound), digits(float(noise.mean()))))
    return Exhibit(
        "Theorem 4.4",
        "The noise error of a training set at epsilon 1: the bound with probability 0.95, and as it is",
        "The theorem bounds the mean of the *absolute* noises by a bound on the mean of the signed ones, with the unit "
        "of lemma 4.3: it stays the same however many ranges are asked. The noise error is the scale of the noise and "
        "grows with the training set. We quote no such bound; every release measures what its model is off by.",
        ("training queries", "sensitivity", "theorem 4.4", "in our runs"),
        tuple(rows),
        left=(),
    )
