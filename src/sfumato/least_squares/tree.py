"""Least squares on a tree of noisy ranges, in two passes.

Hay, Rastogi, Miklau, Suciu, VLDB 2010, section 4: one pass up, one pass down. The paper's trees are full and their
noise is the same everywhere; here every node has its own precision and its own number of children.

What a subtree has to say about its own sum s is a parabola, a/2 (s - m)^2: `m` is where the subtree alone would put the
sum, `a` how firmly. A cell has its own precision for a. The children of a node speak for their sum with 1 / a = sum of
their 1 / a, around the sum t of their m; the node's own measurement adds its precision. Going down, what the sum of the
children is lifted by is shared out in proportion to their 1 / a.
"""

from __future__ import annotations

import numpy as np

from sfumato.arrays import Codes, Flags, Floats
from sfumato.frozen import dataclass
from sfumato.least_squares.base import LeastSquares, all_known
from sfumato.least_squares.gram import Gram
from sfumato.queries import Tree


@dataclass(frozen=True, eq=False)
class _Level:
    """A level that is cut further, and how its nodes and their children trade."""

    cuts: Codes  # the cells at which its nodes begin and end
    first: Codes  # of each node's children, on the next level
    parts: Codes  # how many children
    own: Floats  # the precision of each node's own measurement, 0 where it has none
    keep: Floats  # the share of the children's sum that is left beside a node's own measurement
    lift: Floats  # for every child, its share of what the node is lifted by


class TreeSquares(LeastSquares):
    """(A^T P A)^-1 for the nodes of a tree, every cell with a precision above 0."""

    def __init__(self, tree: Tree, precisions: Floats) -> None:
        end = tree.rows - tree.columns
        firmness = self._cells = precisions[end:]
        self._levels: list[_Level] = []  # from the cells upwards
        for cuts, first in zip(tree.levels[-2::-1], reversed(tree.children), strict=True):
            parts = np.diff(first)
            cut = parts > 1
            together = 1.0 / np.add.reduceat(1.0 / firmness, first[:-1])
            lift = np.repeat(together, parts) / firmness
            start = end - int(cut.sum())
            own = np.zeros(len(parts))
            own[cut] = precisions[start:end]
            firmness, end = together + own, start
            self._levels.append(_Level(cuts, first[:-1], parts, own, together / firmness, lift))

    def solve(self, columns: Floats) -> tuple[Floats, Flags]:
        """Two passes, linear in the number of nodes."""
        alone = columns / self._cells[:, None]
        passed = []
        for level in self._levels:
            together = np.add.reduceat(alone, level.first, axis=0)
            passed.append((alone, together))
            alone = together * level.keep[:, None]
        sums = alone
        for level, (alone, together) in zip(reversed(self._levels), reversed(passed), strict=True):
            sums = alone + np.repeat(sums - together, level.parts, axis=0) * level.lift[:, None]
        return sums, all_known(columns)

    def price(self, gram: Gram) -> float:
        """One pass up: adding a node's row to its subtree is a change of rank one (Sherman, Morrison)."""
        ones = 1.0 / self._cells  # the inverse of every subtree so far, times a column of ones
        error = float((gram.diagonal * ones).sum())
        for level in self._levels:
            error -= float((level.own * level.keep * gram.squares(ones, level.cuts)).sum())
            ones = ones * np.repeat(level.keep, np.diff(level.cuts))
        return error
