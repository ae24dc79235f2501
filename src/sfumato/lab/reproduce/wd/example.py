"""WD's worked example: the workload of its figures 1 and 2, divided as printed and as well as can be.

Li et al., A workload division differential privacy algorithm. The printed error of the division does not follow from
the printed parts, and the printed answers in figure 1 are not W x.
"""

from __future__ import annotations

from itertools import combinations
from math import sqrt

import numpy as np

from sfumato.arrays import Whole
from sfumato.models.linear.strategies.division import divide_recursively
from sfumato.queries import Weighted, Workload

W = np.array(
    [
        [1, 1, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0],
        [0, 1, 1, 0, 0, 0],
        [0, 0, 1, 0, 0, 0],
        [0, 0, 1, 0, 0, 0],
        [0, 0, 0, 1, 0, 0],
        [1, 1, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 1],
    ]
)
X = np.array([2, 3, 4, 1, 0, 9])
PRINTED_ANSWERS = np.array([5, 10, 7, 3, 4, 1, 0, 9])
PRINTED_PARTS, PRINTED_SHARES, PRINTED_ERROR = ((0, 1, 2), (3, 4, 5, 6, 7)), (0.58, 0.42), 3.4275


def sensitivity(rows: Whole) -> int:
    """The most that one row of data changes all answers together."""
    return int(np.abs(rows).sum(axis=0).max())


def error(parts: tuple[tuple[int, ...], ...], shares: tuple[float, ...]) -> float:
    """The mean absolute noise per query when each part spends its share of epsilon 1.

    >>> error((tuple(range(8)),), (1.0,)), round(error(PRINTED_PARTS, PRINTED_SHARES), 2)
    (4.0, 4.92)
    """
    noise = [len(part) * sensitivity(W[list(part)]) / share for part, share in zip(parts, shares, strict=True)]
    return sum(noise) / len(W)


def best_two_parts() -> tuple[float, tuple[tuple[int, ...], ...]]:
    """The best division in two with budgets that add up: shares in proportion to sqrt(|W_i| Delta_i).

    >>> round(best_two_parts()[0], 2)
    3.73
    """
    found = []
    for size in range(1, len(W)):
        for first in combinations(range(len(W)), size):
            parts = (first, tuple(sorted(set(range(len(W))) - set(first))))
            roots = [sqrt(len(part) * sensitivity(W[list(part)])) for part in parts]
            found.append((error(parts, (roots[0] / sum(roots), roots[1] / sum(roots))), parts))
    return min(found)


def our_division() -> float:
    """The mean absolute noise of our division, whose parts share a budget only in the cells that both touch."""
    return divide_recursively(Workload(("example",), (Weighted(W),)), power=1).error


def cell_noise() -> float:
    """The mean absolute noise of answers from noisy cells at epsilon 1, exactly, for continuous Laplace noise.

    A sum of k Laplace variables of scale 1 has mean absolute value 2k binomial(2k, k) / 4^k.
    """
    from math import comb

    return float(np.mean([2 * k * comb(2 * k, k) / 4**k for k in W.sum(axis=1).tolist()]))
