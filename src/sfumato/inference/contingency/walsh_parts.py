"""Margins from noisy Walsh-Hadamard coefficients, by least squares: what every margin tells beyond its own margins.

Rows of one set of attributes T are those that vary along all of T and along nothing else. Where an attribute's values
fill its bits the rows are orthogonal, and a part is its own coefficients back in cells. Where they do not, rows of T
tell something of smaller parts too, since no row of the table lies in a cell that no value has. With B bits and m
values the rows of one attribute have the Gram matrix 2^B I - J: on what adds up to zero along the attribute it is 2^B,
on what is even along it 2^B - m. So the normal equations fall apart, part by part: the part of U is the sum over all
T that hold U of the coefficients of T back in cells, averaged over the rest of T, over

    g(U) = (product over U of 2^B) * sum over T of (product over the rest of T of (2^B - m) / m),

and its noise has the variance of one coefficient over g(U).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from sfumato.arrays import Floats
from sfumato.inference.margins.table import Places, Table, subsets, sum_out


def parts_of(backs: Mapping[Places, Floats], sizes: Sequence[int], variance: float) -> dict[Places, Table]:
    """The parts of all tables.

    backs: for each set of attributes, the transposed rows times their answers, an array along its axes. variance: of
    the noise on one coefficient.
    """
    tops: dict[Places, Floats] = {}
    weights: dict[Places, float] = {}
    padding = [(2 ** (size - 1).bit_length() - size) / size for size in sizes]
    for places, back in backs.items():
        for part in subsets(places):
            rest = [place for place in places if place not in part]
            spare = prod(padding[place] for place in rest)
            if not spare:
                continue
            found = sum_out(back, part, places) / prod(sizes[place] for place in rest)
            tops[part] = tops.get(part, 0.0) + _centred(found)
            weights[part] = weights.get(part, 0.0) + spare
    ordered = sorted(tops, key=lambda part: (len(part), part))
    lengths = {part: prod(2 ** (sizes[place] - 1).bit_length() for place in part) * weights[part] for part in ordered}
    return {
        part: Table(
            part, tops[part] / lengths[part], np.full(tops[part].shape, variance / lengths[part]), 0 * tops[part]
        )
        for part in ordered
    }


def _centred(values: Floats) -> Floats:
    for axis in range(values.ndim):
        values = values - values.mean(axis=axis, keepdims=True)
    return np.asarray(values, dtype=np.float64)


def margin_of(parts: Mapping[Places, Table], places: Places, sizes: Sequence[int]) -> Floats:
    """A margin: the parts of all sets within it, each spread evenly over the other axes."""
    whole: Floats = np.zeros([sizes[place] for place in places])
    for part in subsets(places):
        if part in parts:
            spread = parts[part].estimate.reshape([sizes[place] if place in part else 1 for place in places])
            whole = whole + spread / prod(sizes[place] for place in places if place not in part)
    return whole


def least_raise(parts: Mapping[Places, Table], sizes: Sequence[int]) -> float:
    """The least to add to the total, evenly over all cells, that leaves no cell of any margin below zero."""
    least = 0.0
    for places in parts:
        margin = margin_of(parts, places, sizes)
        least = max(least, -float(margin.min()) * margin.size)
    return least
