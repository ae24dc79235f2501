"""The covariances of every leaf of a tree with some weighted sums of leaves: up the tree and down again."""

from __future__ import annotations

import numpy as np

from sfumato.arrays import Floats
from sfumato.domain.binary_tree import BinaryTree
from sfumato.inference.fits.grouped import summed


def covariances_with(tree: BinaryTree, slopes: Floats, deviations: Floats, leanings: Floats, columns: Floats) -> Floats:
    """For each leaf its covariance with every sum, (leaves, sums); columns: (leaves, sums), as TreeFit.errors has them.

    On the way up a node's halves weigh apart; what that adds to the variance is handed down to both, with its sign.
    """
    weights, variances = columns[tree.order], deviations[1:] ** 2
    added: list[Floats] = []
    end = len(slopes)
    for level in range(tree.height - 1, -1, -1):
        here = slice(end - tree.nodes(level), end)
        pair = tree.pair(level, np.arange(tree.nodes(level)))
        first = weights[pair[0]]
        second = np.where(pair[1][:, None] >= 0, weights[pair[1]], first)
        apart = first - second
        moves = variances[here, None] * apart
        slices = tree.slices[level]
        if slices is not None:
            lean = leanings[here, None]
            moves += lean * summed(slices, lean * apart, int(slices.max()) + 1)[slices]
        added.append(moves)
        weights, end = second + slopes[here, None] * apart, here.start
    found, start = deviations[0] ** 2 * weights, 0
    for level in range(tree.height):
        here = slice(start, start + tree.nodes(level))
        pair = tree.pair(level, np.arange(tree.nodes(level)))
        moves, slope = added.pop(), slopes[here, None]
        below = np.empty((tree.nodes(level + 1), columns.shape[1]))
        alone = pair[1] < 0
        below[pair[0]] = np.where(alone[:, None], found, slope * found + moves)
        below[pair[1][~alone]] = ((1.0 - slope) * found - moves)[~alone]
        found, start = below, here.stop
    leaves: Floats = np.empty_like(found)
    leaves[tree.order] = found
    return leaves
