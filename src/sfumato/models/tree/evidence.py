"""Noisy counts of the nodes of a tree, level by level, and what they say before anything is inferred."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.arrays import Codes, Flags, Floats
from sfumato.domain.binary_tree import BinaryTree
from sfumato.frozen import dataclass
from sfumato.models.tree.observation import Mixture, Normal, log_at_zero, observe

UNKNOWN = 1e13  # the variance of a number of rows of which nothing is known


@dataclass(frozen=True, eq=False)
class Evidence:
    """What was measured, for every level from the root.

    cells: how many lie before each place of the tree. answers: noisy counts; scales: of their noise, inf where a node
    was not measured; those of Laplace noise, or standard deviations of Gaussian noise. zero: the log-likelihood of all
    that was measured in a node if it is empty. measured: nodes that were, or of which a part was. inner: for each level
    but the last, those of which a part was.
    """

    tree: BinaryTree
    cells: Codes
    answers: Sequence[Floats]
    scales: Sequence[Floats]
    laplace: bool
    zero: Sequence[Floats]
    measured: Sequence[Flags]
    inner: Sequence[Codes]

    @classmethod
    def of(
        cls, tree: BinaryTree, sizes: Codes, answers: Sequence[Floats], scales: Sequence[Floats], *, laplace: bool
    ) -> Evidence:
        """sizes: the cells at each place of the tree."""
        zeros, seen, inner = list[Floats](), list[Flags](), list[Codes]()
        for level in range(tree.height, -1, -1):
            measured = np.isfinite(scales[level])
            zero = np.zeros(len(measured))
            zero[measured] = log_at_zero(answers[level][measured], scales[level][measured], laplace=laplace)
            if level < tree.height:
                starts = tree.halves[level][:-1]
                zero += np.add.reduceat(zeros[0], starts)
                inside = np.logical_or.reduceat(seen[0], starts)
                inner.insert(0, np.flatnonzero(inside))
                measured |= inside
            zeros.insert(0, zero)
            seen.insert(0, measured)
        cells = np.concatenate([[0], np.cumsum(sizes)])
        return cls(tree, cells, answers, scales, laplace, zeros, seen, inner)

    def own(self, level: int) -> Normal:
        """What the nodes of a level say of themselves."""
        noise = (2.0 if self.laplace else 1.0) * self.scales[level] ** 2
        return Normal(self.answers[level].copy(), np.minimum(noise, UNKNOWN, out=noise))

    def sizes(self, level: int) -> Floats:
        """How many cells the nodes of a level have."""
        return np.diff(self.cells[self.tree.begins[level]]).astype(np.float64)

    def even(self, level: int, nodes: Codes) -> Floats:
        """The share of its cells that the first half of each node has."""
        begins, first = self.tree.begins, self.tree.halves[level][nodes]
        low, high = self.cells[begins[level][nodes]], self.cells[begins[level][nodes + 1]]
        return np.asarray((self.cells[begins[level + 1][first + 1]] - low) / (high - low))

    def observed(self, level: int, nodes: Codes, mixture: Mixture) -> Mixture:
        """A mixture for each of some nodes, given their own noisy counts."""
        scale = self.scales[level][nodes]
        seen = np.isfinite(scale)
        if not seen.any():
            return mixture
        before = mixture.mean[:, seen], mixture.variance[:, seen]
        likely, *after = observe(*before, self.answers[level][nodes][seen], scale[seen], laplace=self.laplace)
        weight, mean, variance = mixture.log_weight.copy(), mixture.mean.copy(), mixture.variance.copy()
        weight[:, seen] += likely
        mean[:, seen], variance[:, seen] = after
        return Mixture(mean, variance, weight)
