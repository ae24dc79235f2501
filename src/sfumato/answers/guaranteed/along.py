"""Ends of sums that ask about one attribute, whole blocks or all rows, where these were counted before anything else.

The counts were measured first, so that their noise hangs on nothing, and which of them enter is decided by the question
alone: those of the fewest runs inside which all cells weigh alike. They and the rest of what was measured each get half
of the tail. A sum that no such counts tell exactly is left to the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.answers.guaranteed.ends import Ends, Find, lowest
from sfumato.arrays import Codes, Floats
from sfumato.frozen import dataclass
from sfumato.measurement import Measurement


@dataclass(frozen=True, eq=False)
class Runs:
    """Runs of cells that were counted one by one: the run of each cell, and the counts."""

    labels: Codes
    measured: Measurement

    @property
    def number(self) -> int:
        return self.measured.queries.rows


def with_counts_along(counted: Sequence[Runs], others: Find) -> Find:
    """The ends that counts of runs give, where these are nearer. others: what else finds ends."""
    if not counted:
        return others
    fewest = sorted(counted, key=lambda runs: runs.number)

    def find(low: Floats, high: Floats, tail: float) -> Ends:
        for runs in fewest:
            below, above = (_alike(each, runs) for each in (low, high))
            if below is not None and above is not None:
                rows = np.arange(runs.number)
                least, most = (lowest(runs.measured, rows, each, tail / 2.0) for each in (below, -above))
                rest = others(low, high, tail / 2.0)
                return Ends(max(rest.low, least), min(rest.high, -most))
        return others(low, high, tail)

    return find


def _alike(weights: Floats, runs: Runs) -> Floats | None:
    """What the cells of every run weigh; None where some of one run differ."""
    found = np.empty(runs.number)
    found[runs.labels] = weights
    return found if np.array_equal(found[runs.labels], weights) else None
