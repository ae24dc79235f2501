"""What there is to learn from: features of queries, which are public, and their noisy answers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats
from sfumato.frozen import dataclass

LITTLE = 1e-9  # no division by nothing; of a largest eigenvalue, nothing


@dataclass(frozen=True, eq=False)
class Lesson:
    """Queries and noisy answers.

    rows: features of queries, the share of cells covered last. blocks: how many of the features are shares of blocks.
    variance: of the noise on each answer.
    """

    rows: Floats
    answers: Floats
    blocks: int
    variance: float

    def part(self, keep: NDArray[np.bool_]) -> Lesson:
        """Some of the queries."""
        return Lesson(self.rows[keep], self.answers[keep], self.blocks, self.variance)


def farthest_apart(rows: Floats) -> float:
    """The largest squared distance between two rows."""
    own = (rows**2).sum(axis=1)
    return max(float((own[:, None] + own - 2.0 * rows @ rows.T).max()), LITTLE)
