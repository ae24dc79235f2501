"""A tree over buckets of cells, with a share for every node: the second stage of DAWA.

Li, Hay, Miklau (VLDB 2014), section 6, weigh the nodes of a tree greedily for the workload. Here the tree follows the
cells that the buckets hold, since that is where queries end, and all nodes' shares are optimised together: with u the
shares, A the nodes and G the workload's Gram matrix over buckets, f(u) = trace(G (A^T diag(u^2) A)^-1) is the squared
error if every path from the root to a bucket has shares that sum to 1. A node takes a part of what its path has left,
so the condition always holds and the gradient is that of the parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, exp, log

import numpy as np
from numpy.typing import NDArray

from sfumato.domain import Codes
from sfumato.queries import Identity, Tree, Workload
from sfumato.strategies.strategy import Strategy

Floats = NDArray[np.float64]

MOST_OPTIMISED = 384  # buckets; beyond, runs of them are optimised as one and their own nodes share evenly
ROUNDS = 10
BUCKETS = 0.25  # what all buckets together weigh beside all cells, so that no path gets long
BRANCHING = 12  # that levels are counted by
SAMPLED = 512  # rows of a block of the workload
MOST_NUMBERS = 2**24  # written out at a time
UNITS = 64  # a path's shares are whole and sum to this: few different noises, and the budget used up to the last bit


@dataclass(frozen=True, eq=False)
class Nodes:
    """A tree over leaves 0 to n - 1, parents before children: leaves starts[v] to ends[v] - 1 lie under v."""

    starts: Codes
    ends: Codes
    parents: Codes
    depths: Codes

    @property
    def inner(self) -> NDArray[np.bool_]:
        return self.ends - self.starts > 1

    def upwards(self) -> list[Codes]:
        """The nodes of each depth, the deepest first, without the root."""
        order = np.argsort(self.depths, kind="stable")
        cuts = np.searchsorted(self.depths[order], np.arange(1, int(self.depths.max()) + 1))
        return np.split(order, cuts)[:0:-1]

    def path_to_first_leaf(self) -> NDArray[np.bool_]:
        """The nodes that the first leaf lies under, itself included."""
        return np.asarray(self.starts == 0)

    def heights(self) -> Codes:
        """How many levels lie under each node."""
        heights = np.zeros(len(self.starts), dtype=np.int64)
        for nodes in self.upwards():
            np.maximum.at(heights, self.parents[nodes], heights[nodes] + 1)
        return heights


def bucket_tree(sizes: Codes, gram: Floats | None = None) -> Strategy:
    """What to ask of buckets of these sizes, in their order; gram: of the workload, for all ranges of cells if None."""
    if len(sizes) == 1:
        return Strategy(Identity(1))
    nodes = _grown(sizes, _branching(len(sizes)))
    parts = np.where(nodes.inner, 1.0 / (nodes.heights() + 1.0), 1.0)
    if len(sizes) > MOST_OPTIMISED:
        return _strategy(nodes, _whole(nodes, parts))
    gram = range_gram(sizes) if gram is None else gram
    parts[nodes.inner] = _optimised(nodes, gram, parts[nodes.inner])
    shares = _whole(nodes, parts)
    weights = (shares / shares[nodes.path_to_first_leaf()].sum()) ** 2
    if float((np.linalg.inv(_box_sums(nodes, weights, len(sizes))) * gram).sum()) > float(np.trace(gram)):
        return Strategy(Identity(len(sizes)))  # few buckets are best measured each by itself
    return _strategy(nodes, shares)


def range_gram(sizes: Codes) -> Floats:
    """The mean over all ranges of cells of f f^T, with f the parts of every bucket that a range covers.

    Cells i <= j lie both in (i + 1) (n - j) of the n (n + 1) / 2 ranges; sums of this over cells are closed forms.
    """
    counts = sizes.astype(np.float64)
    ends = np.cumsum(counts)
    starts, cells = ends - counts, float(ends[-1])
    before = (starts + ends + 1.0) / 2.0  # the mean of i + 1 over a bucket
    after = cells - (starts + ends - 1.0) / 2.0
    gram = np.triu(np.outer(before, after), 1)
    gram += gram.T
    # Inside one bucket of s cells, i and j being two of its cells: E[min] and E[max] are (s - 1/s) / 3 apart, and
    # min max = i j, so the mean of (min + 1) (n - max) needs the means of i j, of min and of max only.
    middle, apart = (starts + ends - 1.0) / 2.0, (counts - 1.0 / counts) / 6.0
    low, high = middle - apart, middle + apart
    np.fill_diagonal(gram, cells * low + cells - middle**2 - high)
    return np.asarray(gram * 2.0 / (cells * (cells + 1.0)), dtype=np.float64)


def sampled_gram(workload: Workload, labels: Codes) -> Floats:
    """The same for a workload: the sum over its blocks of the mean of f f^T over some of their rows, evenly spaced."""
    sizes = np.bincount(labels)
    order = np.argsort(labels, kind="stable")
    starts = np.cumsum(sizes) - sizes
    gram = np.zeros((len(sizes), len(sizes)))
    if len(sizes) > MOST_OPTIMISED:
        return gram
    for block in workload.blocks:
        rows = min(block.rows, SAMPLED, max(8, MOST_NUMBERS // block.columns))
        # The middle of each of so many equal parts: no first or last row, which are often the odd ones.
        chosen = ((np.arange(rows) * 2 + 1) * block.rows) // (2 * rows)
        asked = np.add.reduceat(block[chosen].dense()[:, order], starts, axis=1) / sizes
        gram += asked.T @ asked / rows
    # Buckets that no row of the sample touches are asked by others.
    return np.asarray(gram + np.eye(len(sizes)) * (0.01 * gram.trace() / len(sizes)))


def _branching(count: int) -> int:
    """Two levels under the root up to some hundreds of buckets, then three: what was best for random sizes."""
    levels: int = max(2, round(log(count) / log(BRANCHING)))
    return max(2, ceil(exp(log(count) / levels) - 1e-9))


def _grown(sizes: Codes, branching: int) -> Nodes:
    """Nodes cut into parts of about the same weight: mostly cells, for queries end there."""
    count = len(sizes)
    weight = np.concatenate([[0.0], np.cumsum(sizes / sizes.sum() + BUCKETS / count)])
    starts, ends, parents, depths = [0], [count], [0], [0]
    place = 0
    while place < len(starts):
        start, end = starts[place], ends[place]
        if end - start > 1:
            wanted = np.linspace(weight[start], weight[end], min(branching, end - start) + 1)[1:-1]
            near = np.clip(np.searchsorted(weight, wanted), start + 1, end - 1)
            near -= (near > start + 1) & (wanted - weight[near - 1] < weight[near] - wanted)
            cuts = [start, *np.unique(near).tolist(), end]
            starts += cuts[:-1]
            ends += cuts[1:]
            parents += [place] * (len(cuts) - 1)
            depths += [depths[place] + 1] * (len(cuts) - 1)
        place += 1
    return Nodes(*(np.array(part, dtype=np.int64) for part in (starts, ends, parents, depths)))


def _optimised(nodes: Nodes, gram: Floats, parts: Floats) -> Floats:
    """The part of what is left that each inner node takes."""
    from scipy.optimize import minimize

    upwards, inner = nodes.upwards(), nodes.inner

    def error(angles: Floats) -> tuple[float, Floats]:
        taken = np.ones(len(inner))
        taken[inner] = 1.0 / (1.0 + np.exp(-angles))
        left = np.ones(len(inner))
        for here in reversed(upwards):
            left[here] = left[nodes.parents[here]] * (1.0 - taken[nodes.parents[here]])
        shares = taken * left
        covariance = np.linalg.inv(_box_sums(nodes, shares**2, len(gram)))
        value = float((covariance * gram).sum())
        slopes = -2.0 * shares * _sums_in_boxes(nodes, covariance @ gram @ covariance)
        # What a node has left is passed on by its parent; what it takes, its children miss.
        of_left = slopes * taken
        below = np.zeros(len(inner))
        for here in upwards:
            np.add.at(of_left, nodes.parents[here], of_left[here] * (1.0 - taken[nodes.parents[here]]))
            np.add.at(below, nodes.parents[here], of_left[here])
        gradient = (slopes - below) * left * taken * (1.0 - taken)
        return float(np.log(value)), gradient[inner] / value

    angles = np.log(parts / (1.0 - parts))
    bounds = [(-6.0, 6.0)] * len(angles)
    found = minimize(error, angles, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": ROUNDS})
    return np.asarray(1.0 / (1.0 + np.exp(-found.x)), dtype=np.float64)


def _box_sums(nodes: Nodes, weights: Floats, count: int) -> Floats:
    """The sum over nodes of weight times the square of ones over their leaves: A^T diag(weights) A."""
    corners = np.zeros((count + 1, count + 1))
    np.add.at(corners, (nodes.starts, nodes.starts), weights)
    np.add.at(corners, (nodes.ends, nodes.ends), weights)
    np.add.at(corners, (nodes.starts, nodes.ends), -weights)
    np.add.at(corners, (nodes.ends, nodes.starts), -weights)
    return np.asarray(corners.cumsum(axis=0).cumsum(axis=1)[:count, :count], dtype=np.float64)


def _sums_in_boxes(nodes: Nodes, matrix: Floats) -> Floats:
    """For every node the sum of the matrix over its leaves: the diagonal of A matrix A^T."""
    sums = np.zeros((len(matrix) + 1, len(matrix) + 1))
    sums[1:, 1:] = matrix.cumsum(axis=0).cumsum(axis=1)
    a, b = nodes.starts, nodes.ends
    return np.asarray(sums[b, b] - sums[a, b] - sums[b, a] + sums[a, a], dtype=np.float64)


def _whole(nodes: Nodes, parts: Floats) -> Codes:
    """Shares in whole units: every path takes all of them, and every node at least one."""
    heights = nodes.heights()
    units = max(UNITS, 2 * (int(heights[0]) + 1))
    left = np.full(len(parts), units, dtype=np.int64)
    shares = np.empty(len(parts), dtype=np.int64)
    for here in [np.zeros(1, dtype=np.int64), *reversed(nodes.upwards())]:
        if here[0] > 0:
            left[here] = left[nodes.parents[here]] - shares[nodes.parents[here]]
        shares[here] = np.clip(np.rint(parts[here] * left[here]), 1, left[here] - heights[here])
    return shares


def _strategy(nodes: Nodes, shares: Codes) -> Strategy:
    """The tree as queries: inner nodes by depth, then the leaves from left to right."""
    inner = nodes.inner
    leaves = nodes.starts[~inner]
    levels = []
    for depth in range(int(nodes.depths.max()) + 1):
        # A leaf that ended further up stays as it is on the levels below.
        here = (nodes.depths == depth) | (~inner & (nodes.depths < depth))
        levels.append(np.append(np.sort(nodes.starts[here]), nodes.ends[0]))
    order = np.concatenate([np.flatnonzero(inner), np.flatnonzero(~inner)[np.argsort(leaves)]])
    distinct, which = np.unique(shares[order], return_inverse=True)
    if len(distinct) == 1:
        return Strategy(Tree.of_levels(levels), (int(distinct[0]),))
    return Strategy(Tree.of_levels(levels), tuple(distinct.tolist()), which.astype(np.int64))
