"""How far rows that lie unevenly may have pulled the choice of a cut away from its rank.

A choice by the exponential mechanism has P(position) in proportion to exp(-|rank error| / scale), along positions.
Where rows lie evenly, so do ranks, and the rank error has a Laplace distribution. Elsewhere wide gaps draw choices out
of narrow heaps: a quantile where rows lie r to a piece, cut at a place beyond which a length G is as likely as the
place itself,

    G = integral of exp(-(rows from the cut to x) / scale) over the positions x beyond the cut,

is off by more than y with a chance of about (r G / scale) exp(-y / scale) / 2 in place of exp(-y / scale) / 2. That is
a Laplace error and scale * log(r G / scale) rows more: the pull. Lengths are public, and rows were counted with noise,
of which one standard deviation is taken off, so that it does not look like a pull.
"""

from __future__ import annotations

from math import exp, expm1, log

import numpy as np

from sfumato.arrays import Floats

LIKELY = 3.7  # scales of a Laplace error that 97.5 % stay within
CLEAR = 3.0  # standard deviations by which a heap stands out of the noise of a count


def pull(
    lengths: Floats, rows: Floats, beyond: Floats, rows_beyond: Floats, scale: float, cell: float, sd: float
) -> float:
    """In rows. lengths, rows: of the runs on the side where the quantile may lie, from the cut outwards; beyond: of
    those on the other side. cell: the length of a single value, into which a heap fits. sd: of the noise of a count.

    >>> even = np.array([10.0, 40.0]), np.array([50.0, 200.0])
    >>> round(pull(*even, *even, scale=2.0, cell=160.0, sd=0.0), 1)
    0.0
    >>> round(pull(*even, np.array([1000.0]), np.array([0.0]), scale=2.0, cell=160.0, sd=0.0), 1)
    15.6
    """
    likely = _as_likely(beyond, rows_beyond, scale)
    farthest, gone = 0.0, 0.0
    for length, counted in zip(lengths.tolist(), np.maximum(rows - sd, 0.0).tolist(), strict=True):
        most = _pulled(counted / length, likely, scale)
        heap = counted - scale / likely * length  # what an even spread leaves over may lie on one value
        if heap > CLEAR * sd:
            most = max(most, min(_pulled(heap / min(cell, length), likely, scale), heap))
        if gone <= LIKELY * scale + most:
            farthest = max(farthest, most)
        gone += counted
    return farthest


def _pulled(density: float, likely: float, scale: float) -> float:
    times = density * likely / scale
    return scale * log(times) if times > 1.0 else 0.0


def _as_likely(lengths: Floats, rows: Floats, scale: float) -> float:
    """The length G, with the rows of every run spread evenly over it."""
    found, gone = 1e-9, 0.0  # no cut is so near the end of a line that nothing lies beyond: it may be off by a hair
    for length, counted in zip(lengths.tolist(), (np.maximum(rows, 0.0) / scale).tolist(), strict=True):
        found += length * exp(-gone) * (-expm1(-counted) / counted if counted > 1e-9 else 1.0)
        gone = min(gone + counted, 700.0)
    return found
