"""The number of all rows from noisy counts of the nodes of a tree by least squares, and where one row more would lie.

What is measured next hangs on what was seen, but every noise is drawn afresh, so that a node's own count and the sum
of its parts are each off by noise alone. Weighed by their variances they make the best of both without any prior.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.arrays import Floats
from sfumato.domain.binary_tree import BinaryTree

FAR_BETTER = 4.0  # times less variance


def total_by_squares(
    tree: BinaryTree, answers: Sequence[Floats], scales: Sequence[Floats], *, laplace: bool
) -> tuple[float, float]:
    """The total and the variance of its noise. scales: as Evidence has them, inf where a node was not measured."""
    mean, variance = np.zeros(tree.nodes(tree.height)), np.full(tree.nodes(tree.height), np.inf)
    for level in range(tree.height, -1, -1):
        if level < tree.height:
            starts = tree.halves[level][:-1]
            mean, variance = np.add.reduceat(mean, starts), np.add.reduceat(variance, starts)
        own = (2.0 if laplace else 1.0) * scales[level] ** 2
        precision = 1.0 / own + 1.0 / variance  # 0 where neither was measured
        weighed = answers[level] / own + mean / variance
        mean = np.divide(weighed, precision, out=np.zeros_like(weighed), where=precision > 0.0)
        variance = np.divide(1.0, precision, out=np.full_like(precision, np.inf), where=precision > 0.0)
    return float(mean[0]), float(variance[0])


def total_of_both(by_prior: tuple[float, float], by_squares: tuple[float, float]) -> tuple[float, float]:
    """The total to go by and its variance: that of least squares, unless the posterior claims to know far better.

    So it does where next to nothing but leaves was measured, most of them empty: all of their noise is in their sum,
    and the posterior is moved only by as much as it differs beyond that noise (Stein).
    """
    (mean, variance), (squares, noise) = by_prior, by_squares
    if not np.isfinite(noise):  # something was measured nowhere
        return mean, variance
    if noise <= FAR_BETTER * variance:
        return squares, noise
    weight = max(0.0, 1.0 - noise / max((squares - mean) ** 2, 1e-300))
    return mean + weight * (squares - mean), weight * noise + (1.0 - weight) * variance


def of_one_row_more(tree: BinaryTree, slopes: Sequence[Floats]) -> Floats:
    """Which part of one row more in all would lie at each place of the tree."""
    parts = np.ones(1)
    for level, slope in enumerate(slopes):
        pair = tree.pair(level, np.arange(tree.nodes(level)))
        below, alone = np.empty(tree.nodes(level + 1)), pair[1] < 0
        below[pair[0]] = np.where(alone, parts, slope * parts)
        below[pair[1][~alone]] = ((1.0 - slope) * parts)[~alone]
        parts = below
    return parts
