"""Least squares on tables by some of the attributes, each with its own precision.

McKenna, Miklau, Hay, Machanavajjhala, VLDB 2018, section 6.3. A^T P A is a sum, over the tables S, of precision times
(I on the attributes of S, all ones elsewhere). All of these share their eigenspaces: cells split, for every set T of
attributes, into what varies with exactly these (the effects of an analysis of variance), and the eigenvalue of T is
the sum over the tables S that contain T of precision times the number of cells that fall together in S.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from sfumato.arrays import Flags, Floats
from sfumato.least_squares.base import KNOWN

MOST_AXES = 10  # 2^axes effects are worked out one by one


class MarginalSolver:
    """2^axes passes over the cells."""

    def __init__(self, sizes: Sequence[int], tables: Sequence[tuple[frozenset[int], float]]) -> None:
        self._sizes = tuple(sizes)
        axes = range(len(sizes))
        self._values = [
            sum(
                precision * prod(sizes[a] for a in axes if a not in table)
                for table, precision in tables
                if effect <= table
            )
            for effect in (frozenset(a for a in axes if code >> a & 1) for code in range(2 ** len(sizes)))
        ]

    @property
    def certain(self) -> bool:
        return all(value > 0 for value in self._values)

    def solve(self, columns: Floats) -> tuple[Floats, Flags]:
        """Every effect divided by its eigenvalue; effects without one are not determined."""
        solved, unseen = np.zeros_like(columns), np.zeros(columns.shape[1])
        for code, value in enumerate(self._values):
            effect = columns.reshape(*self._sizes, -1)
            for axis in range(len(self._sizes)):
                mean = effect.mean(axis=axis, keepdims=True)
                effect = effect - mean if code >> axis & 1 else np.broadcast_to(mean, effect.shape)
            flat = effect.reshape(columns.shape)
            if value > 0:
                solved += flat / value
            else:
                unseen += np.square(flat).sum(axis=0)
        return solved, unseen <= KNOWN**2 * np.square(columns).sum(axis=0)
