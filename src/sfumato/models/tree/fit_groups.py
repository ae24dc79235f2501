"""The errors that a posterior over a tree has in sums of many groups, in one pass from the leaves to the root.

The same as TreeFit.errors group by group; a node is looked at for those groups only that have cells in it.

The covariances of every leaf of a tree with some weighted sums of leaves: up the tree and down again.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sfumato.answers.grouped import Grouped, products, squares_by_group, summed
from sfumato.arrays import Codes, Floats
from sfumato.domain.binary_tree import BinaryTree


def tree_covariances(tree: BinaryTree, slopes: Floats, deviations: Floats, leanings: Floats, asked: Grouped) -> Floats:
    """The covariance of every group's sums, (groups, sums, sums). asked: weights of the leaves, in the tree's order."""
    groups, sums = asked.groups, asked.sums
    found = np.zeros((groups, sums, sums))
    variances, end = deviations[1:] ** 2, len(slopes)
    for level in range(tree.height - 1, -1, -1):
        here = slice(end - tree.nodes(level), end)
        asked, first, second, of_whole = _halved(tree, level, asked)
        apart, node = first - second, asked.place
        everywhere = None if of_whole is None else of_whole[0] - of_whole[1]
        if everywhere is not None:
            found += everywhere.T @ (variances[here, None] * everywhere)
            beside = everywhere[node]
            found += squares_by_group(asked.group, groups, variances[here][node], apart + beside, beside)
        else:
            found += squares_by_group(asked.group, groups, variances[here][node], apart)
        slices = tree.slices[level]
        if slices is not None:
            found += _leaning(asked, leanings[here], slices, apart, everywhere)
        slope = slopes[here, None]
        whole = None if of_whole is None or everywhere is None else of_whole[1] + slope * everywhere
        asked, end = replace(asked, weights=second + slope[node] * apart, whole=whole), here.start
    root = summed(asked.group, asked.weights, groups)
    if asked.whole is not None:
        root += asked.whole[0]
    return np.asarray(found + deviations[0] ** 2 * products(root, root))


def _halved(
    tree: BinaryTree, level: int, below: Grouped
) -> tuple[Grouped, Floats, Floats, tuple[Floats, Floats] | None]:
    """The nodes that groups touch on a level, and the weights of both halves of each; then those of the whole."""
    halves = tree.halves[level]
    parent = tree.above(level + 1, below.place)
    number, example = below.together(parent)
    second_half = below.place > halves[parent]
    first, second = (np.zeros((len(example), below.sums)) for _ in range(2))
    first[number[~second_half]] = below.weights[~second_half]
    second[number[second_half]] = below.weights[second_half]
    node = parent[example]
    alone = halves[node + 1] - halves[node] == 1
    second[alone] = first[alone]
    of_whole = None
    if below.whole is not None:
        pair = tree.pair(level, np.arange(tree.nodes(level)))
        left = below.whole[pair[0]]
        of_whole = left, np.where(pair[1][:, None] >= 0, below.whole[pair[1]], left)
    return replace(below, place=node, group=below.group[example]), first, second, of_whole


def _leaning(asked: Grouped, leanings: Floats, slices: Codes, apart: Floats, everywhere: Floats | None) -> Floats:
    """What nodes that lean together add: the square of their sum, slice by slice."""
    groups, count = asked.groups, int(slices.max(initial=-1)) + 1
    key = slices[asked.place] * groups + asked.group
    if count * groups <= 4 * len(key) + 2**16:
        touched, number = np.arange(count * groups), key
    else:
        touched, number = np.unique(key, return_inverse=True)
    together = summed(number.reshape(-1), leanings[asked.place, None] * apart, len(touched))
    ones = np.ones(len(touched))
    if everywhere is None:
        return squares_by_group(touched % groups, groups, ones, together)
    in_all = summed(slices, leanings[:, None] * everywhere, count)
    beside = in_all[touched // groups]
    return squares_by_group(touched % groups, groups, ones, together + beside, beside) + in_all.T @ in_all


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
