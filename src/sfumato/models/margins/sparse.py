"""Estimate noisy pairs whose cells are mostly empty: functional dependencies and structural zeros.

Shrinkage along directions (shrinkage.py) leaves noise in every cell of a pair such as county and state, of which most
cells are empty for good. Two further models of a pair, with the same noise, are compared with it by marginal likelihood
of the noisy cells:

Functional dependency (`determined`). Every value a of one attribute goes with a single value b(a) of the other, but for
a small share e of its rows that follow the margin q: x_ab = n_a ((1 - e) [b = b(a)] + e q_b). Posterior of b(a) with
prior q, row by row; e by likelihood.

Ratios (`by_ratios`). A cell has x = r m rows, m those of the product of margins or of other pairs' prediction, bounded
by both margins; r is 0 or on a grid, with weights learned from all cells of the pair (EM; a nonparametric maximum
likelihood prior, Kiefer and Wolfowitz 1956). Each atom scatters as independent rows do. The weights that were learned
are paid for as by Schwarz 1978.

A model replaces the shrunk estimate as far as its posterior probability goes. Own method.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log, pi

import numpy as np

from sfumato.arrays import Floats
from sfumato.frozen import dataclass
from sfumato.models.margins.table import Noisy

RATIOS = np.logspace(-1.0, 2.0, 20)  # of a cell's rows to what margins imply, besides none
EMPTY = 0.1  # cells that hold no rows, before any is seen
TRUST = 5.0  # cells that the prior of ratios is worth
ROUNDS = 15  # of learning the weights of ratios
LEAKS = (0.0, 0.01, 0.03, 0.1)  # shares of rows besides a functional dependency
ODDS = 7.0  # in logarithms, against such a model before a pair is seen: a thousand to one
FAR = 0.5  # of the rows, that a pair which is mostly empty is from the product of its margins at least
NEARLY = 1e-3  # of what margins imply, that an empty cell keeps: tables that contradict each other can still be joined
SURE = 50.0  # log odds beyond which nothing changes
LITTLE = 1e-12


@dataclass(frozen=True, eq=False)
class Fit:
    """Posterior mean and variance of the cells of a pair, and the log likelihood of its noisy cells."""

    estimate: Floats
    variance: Floats
    evidence: float


def sparser(noisy: Noisy, shrunk: Fit, product: Floats, said: Sequence[Floats]) -> Fit:
    """Average the shrunk estimate of a pair with the likeliest sparse model, by posterior probability.

    product: table of the product of its margins. said: predictions from other pairs.
    """
    if float(np.abs(shrunk.estimate - product).sum()) < FAR * float(product.sum()):
        return shrunk
    fits = [determined(noisy, product), _turned(determined((noisy[0].T, noisy[1]), product.T))]
    most = np.minimum(product.sum(axis=1)[:, None], product.sum(axis=0))
    fits += [by_ratios(noisy, guess, most) for guess in (product, *said[-1:])]
    best = max(fits, key=lambda fit: fit.evidence)
    odds = best.evidence - ODDS - shrunk.evidence
    if odds < -SURE / 10.0:
        return shrunk
    weight = float(1.0 / (1.0 + np.exp(-min(odds, SURE))))
    apart = weight * (1.0 - weight) * (best.estimate - shrunk.estimate) ** 2
    estimate = weight * np.maximum(best.estimate, NEARLY * product) + (1.0 - weight) * shrunk.estimate
    variance = weight * best.variance + (1.0 - weight) * shrunk.variance + apart
    return Fit(estimate, variance, best.evidence)


def _turned(fit: Fit) -> Fit:
    """Fit of the transposed pair, transposed back."""
    return Fit(fit.estimate.T, fit.variance.T, fit.evidence)


def determined(noisy: Noisy, product: Floats) -> Fit:
    """Fit a functional dependency of the columns on the rows of a pair: one column for every row, with a small leak.

    product: table of the product of its margins.

    >>> fit = determined((np.array([[40.0, 3.0], [-2.0, 61.0]]), 4.0), np.array([[16.0, 24.0], [24.0, 36.0]]))
    >>> np.round(fit.estimate).tolist()
    [[40.0, 0.0], [0.0, 60.0]]
    """
    cells, noise = noisy
    rows, share = product.sum(axis=1, keepdims=True), product.sum(axis=0) / max(float(product.sum()), LITTLE)
    best = Fit(product, product, -np.inf)
    for leak in LEAKS:
        off, main = cells - leak * rows * share, (1.0 - leak) * rows
        logs = np.log(np.maximum(share, LITTLE)) + (main * off - 0.5 * main**2) / noise
        top = logs.max(axis=1, keepdims=True)
        chances = np.exp(logs - top)
        sums = chances.sum(axis=1, keepdims=True)
        evidence = float((top + np.log(sums)).sum()) - 0.5 * (float(np.square(off).sum()) / noise)
        if evidence > best.evidence:
            chances /= sums
            estimate = main * chances + leak * rows * share
            best = Fit(estimate, main**2 * chances * (1.0 - chances) + leak * rows * share, evidence)
    constant = 0.5 * cells.size * log(2.0 * pi * noise) + log(len(LEAKS))
    return Fit(best.estimate, best.variance, best.evidence - constant)


def by_ratios(noisy: Noisy, guess: Floats, most: Floats) -> Fit:
    """Fit each cell as a ratio of a guess, 0 or on a grid, whose weights are learned from all cells of the table.

    most: upper bound of every cell, by its margins.
    """
    cells, noise = noisy[0].reshape(-1, 1), noisy[1]
    prior = np.exp(-0.5 * np.log2(RATIOS) ** 2)  # a factor of 2, give or take
    prior = np.append(EMPTY, (1.0 - EMPTY) * prior / prior.sum())
    rows = np.minimum(np.maximum(guess, 0.0).reshape(-1, 1) * np.append(0.0, RATIOS), most.reshape(-1, 1))
    spread = noise + rows
    logs = -0.5 * ((cells - rows) ** 2 / spread + np.log(2.0 * pi * spread))
    top = logs.max(axis=1)
    likely, weights = np.exp(logs - top[:, None]), prior
    for _ in range(ROUNDS):
        belonging = (likely / (likely @ weights)[:, None]).sum(axis=0) * weights
        weights = (belonging + TRUST * prior) / (len(cells) + TRUST)
    sums = likely @ weights
    learned = int((weights * len(cells) > 1.0).sum())
    evidence = float((np.log(sums) + top).sum()) - 0.5 * learned * log(len(cells))
    belonging = likely * weights / sums[:, None]
    means, within = rows + rows / spread * (cells - rows), rows * noise / spread
    estimate = np.maximum((belonging * means).sum(axis=1), 0.0)
    variance = np.maximum((belonging * (within + means**2)).sum(axis=1) - estimate**2, 0.0)
    return Fit(estimate.reshape(noisy[0].shape), variance.reshape(noisy[0].shape), evidence)
