"""Ends of sums that ask about one attribute, where its values were counted by themselves before anything was seen.

The counts were measured first, so that their noise hangs on nothing, and which of them enter is decided by the question
alone: those of the attribute with the fewest runs inside which all cells weigh alike. They and the tree each get half
of the tail. A sum that no such attribute tells exactly is left to the tree.
"""

from __future__ import annotations

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.inference.fits.measured.steadied import Steadied
from sfumato.intervals.guaranteed.ends import Ends, Find, lowest


def with_counts_along(steadied: Steadied, others: Find) -> Find:
    """The ends that counts along an attribute give, where these are nearer. others: what else finds ends."""
    along = steadied.along
    by_length = sorted(range(len(along.runs)), key=lambda number: along.runs[number])
    labels = {number: along.labels(number) for number in by_length}

    def find(low: Floats, high: Floats, tail: float) -> Ends:
        for number in by_length:
            below, above = (_alike(each, labels[number], along.runs[number]) for each in (low, high))
            if below is not None and above is not None:
                measured, rows = steadied.measured[number], np.arange(along.runs[number])
                least, most = (lowest(measured, rows, each, tail / 2.0) for each in (below, -above))
                rest = others(low, high, tail / 2.0)
                return Ends(max(rest.low, least), min(rest.high, -most))
        return others(low, high, tail)

    return find


def _alike(weights: Floats, labels: Codes, runs: int) -> Floats | None:
    """What the cells of every run weigh; None where some of one run differ."""
    found = np.empty(runs)
    found[labels] = weights
    return found if np.array_equal(found[labels], weights) else None
