"""A tree whose every node has its own precision, weighed greedily for a workload.

Li, Hay, Miklau, Wang, "A data- and workload-aware algorithm for range queries under differential privacy", VLDB 2014,
section 5.2 (GreedyH): from the cells up, each node divides the budget between its own count and the trees below it, so
that the workload inside the node is answered best. The paper takes two children and levels of one weight; here any
branching is tried, every node decides for itself, and the error of each division is exact.

With Y the inverse normal matrix of the trees below, u = Y 1, S = 1^T u, a share a of precision for them and b for the
node, the inverse becomes (Y - b / (a + b S) u u^T) / a (Sherman, Morrison): only E = trace(V Y), S and u^T V u matter.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from sfumato.arrays import Floats
from sfumato.least_squares.gram import Gram
from sfumato.models.linear.strategies.per_axis import AxisPart
from sfumato.queries import Tree

BRANCHINGS = (2, 3, 4, 6, 8, 12, 16, 24, 32)
DIVISIONS = np.linspace(0.0, 0.95, 96)[:, None]  # shares of a node's own count that are tried


@lru_cache(maxsize=256)
def greedy_for(gram: Gram, pure: bool, bits: int = 10) -> AxisPart:
    """The best of several greedily weighed trees over one axis; weights of few bits, so that many nodes have the same.

    >>> from sfumato.queries import AllRanges
    >>> from sfumato.least_squares.gram import gram_of
    >>> greedy_for(gram_of(AllRanges(256)), True).queries
    Tree(256, levels of 1, 16, 256)
    """
    if gram.n == 1:
        return AxisPart.cells(1)
    trees = [Tree(gram.n, branching) for branching in BRANCHINGS if branching < gram.n] + [Tree(gram.n, gram.n)]
    parts = [AxisPart(tree, _weighed(tree, gram, pure, bits)) for tree in trees]
    return min(parts, key=lambda part: part.error(gram, pure))


def _weighed(tree: Tree, gram: Gram, pure: bool, bits: int) -> Floats:
    """Whole weights for every row."""
    error, sums, spread = gram.diagonal, np.ones(gram.n), np.ones(gram.n)
    below, above = (1.0 - DIVISIONS) ** (2 if pure else 1), DIVISIONS ** (2 if pure else 1)
    divisions: list[Floats] = []
    for cuts, first, asked in zip(tree.levels[-2::-1], tree.children[::-1], tree.asked[-2::-1], strict=True):
        error, sums = np.add.reduceat(error, first[:-1]), np.add.reduceat(sums, first[:-1])
        gain = below + above * sums
        tried = (error - above * gram.squares(spread, cuts) / gain) / below
        best = np.where(asked, tried.argmin(axis=0), 0)
        node = np.arange(len(best))
        error, gained = tried[best, node], gain[best, node]
        sums, spread = sums / gained, spread / np.repeat(gained, np.diff(cuts))
        divisions.insert(0, DIVISIONS[best, 0])
    return _whole(tree, divisions, pure, bits)


def _whole(tree: Tree, divisions: list[Floats], pure: bool, bits: int) -> Floats:
    """From the root down, what each division leaves; under pure epsilon the cells fill up every path exactly."""
    left, borne, rows = np.ones(1), np.zeros(1), []
    for division, first, asked in zip(divisions, tree.children, tree.asked, strict=False):
        own = left * division
        weight = np.maximum(1.0, np.rint((own if pure else np.sqrt(own)) * 2**bits))
        rows.append(weight[asked])
        borne = np.repeat(borne + np.where(asked, weight, 0.0), np.diff(first))
        left = np.repeat(left - own, np.diff(first))
    cells = 2.0**bits - borne if pure else np.rint(np.sqrt(left) * 2**bits)
    return np.concatenate([*rows, np.maximum(1.0, cells)])
