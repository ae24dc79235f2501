"""Confidence bounds on the mean of numbers in [0, 1] by betting, and a test of all groups of a GROUP BY together.

Waudby-Smith and Ramdas, Estimating means of bounded random variables by betting (JRSS B 2024). A bettor who stakes a
share of the capital, again and again, on the next number being below m wins nothing on average if the mean is at least
m. So the capital grows by a factor f with a probability of at most 1 / f (Markov), for every sample size. The numbers
must be independent; they need not have the same distribution: a product of means is largest where all are equal, so m
may be their average.

All groups together: the share of the intervals of a GROUP BY that hold is tested, which shows what no single question
does. If each holds with the confidence it promises, so does the mean share, however groups depend on each other.
Attributes and confidence of the groups are chosen on other releases, as those that would have won most.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import log

import numpy as np
from scipy.special import betaincinv

from sfumato.arrays import Floats
from sfumato.frozen import dataclass
from sfumato.planner.simulate import hashed

STAKES = np.array([0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9])  # money is split evenly over these shares
HALVINGS = 40


def evidence_below(shares: Floats, mean: float) -> Floats:
    """Log capital won by betting that the mean is below this, by sample.

    shares: numbers between 0 and 1 along the last axis; several samples may be stacked.

    >>> bool(evidence_below(np.full(10, 0.5), 0.95) > log(1e6)), bool(evidence_below(np.full(10, 0.9), 0.95) > log(1e6))
    (True, False)
    """
    odds = (mean - np.asarray(shares, dtype=np.float64)) / (1.0 - mean)
    won = np.stack([np.log1p(stake * odds).sum(axis=-1) for stake in STAKES])
    return np.asarray(np.logaddexp.reduce(won, axis=0) - log(len(STAKES)))


def mean_at_most(shares: Floats, alpha: float) -> float:
    """Upper confidence bound on the mean, wrong with probability at most alpha.

    >>> 0.5 < mean_at_most(np.full(100, 0.5), 1e-6) < 0.7
    True
    """
    low, high = float(np.mean(shares)), 1.0
    if low == 1.0:
        return 1.0
    for _ in range(HALVINGS):  # evidence grows with the mean that is bet against
        middle = (low + high) / 2
        low, high = (low, middle) if evidence_below(shares, middle) >= log(1 / alpha) else (middle, high)
    return high


def mean_at_least(shares: Floats, alpha: float) -> float:
    """Lower confidence bound on the mean, wrong with probability at most alpha."""
    return 1.0 - mean_at_most(1.0 - np.asarray(shares), alpha)


def shares_at(mean: float, releases: int, questions: int, alike: float, samples: int = 2000) -> Floats:
    """Beta-binomial samples of shares with a given mean, to compute the power of a test; deterministic.

    alike: the correlation of two hits on one release; at 1 a release holds all its questions or none.
    """
    places = np.arange(samples * releases, dtype=np.uint64)
    if alike >= 1:
        chances = (hashed(places, 301) < mean).astype(np.float64)
    elif alike <= 0:
        chances = np.full(len(places), mean)
    else:
        strength = 1.0 / alike - 1.0
        chances = betaincinv(mean * strength, (1.0 - mean) * strength, hashed(places, 301))
    hits = sum((hashed(places, 302 + question) < chances).astype(np.int64) for question in range(questions))
    return np.asarray(hits / questions, dtype=np.float64).reshape(samples, releases)


CONFIDENCES = 0.6, 0.8, 0.9, 0.95

By = tuple[int, ...]  # places of attributes
Shares = Callable[[Sequence[tuple[By, float]]], list[float]]  # of one release: how many intervals of each answer hold


@dataclass(frozen=True)
class AtOnce:
    """Result of a bet. held: the mean share of intervals that hold. evidence: log capital won."""

    by: By
    confidence: float
    releases: int
    held: float
    evidence: float


def bet_at_once(shares: Shares, axes: int, pilot: int, releases: int) -> AtOnce:
    """Choose groups and confidence on pilot releases, then bet on fresh ones."""
    every = tuple(range(axes))
    groups = list(dict.fromkeys([every, *((axis,) for axis in every), every[:2]]))
    choices = list(product(groups, CONFIDENCES))
    seen = np.array([shares(choices) for _ in range(pilot)])
    won = [float(evidence_below(seen[:, place], confidence)) for place, (_, confidence) in enumerate(choices)]
    by, confidence = choices[int(np.argmax(won))]
    found = np.array([shares([(by, confidence)])[0] for _ in range(releases)])
    return AtOnce(by, confidence, releases, float(found.mean()), float(evidence_below(found, confidence)))
