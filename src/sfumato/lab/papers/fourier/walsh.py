"""Walsh-Hadamard transform of margins over bits, and least-squares margins from noisy coefficients.

A value of an attribute is its number in bits. A Walsh row is +1 where an even number of chosen bits is set and -1
elsewhere, so every row of a table moves every coefficient by exactly 1. An attribute whose values are no power of two
has numbers that no value has: nothing is asked of those cells, and rows are as long as there are values. The wanted
margins are closed downwards: every margin within them is included.

Least squares: rows of one set of attributes T are those that vary along all of T and along nothing else. Where an
attribute's values fill its bits the rows are orthogonal, and the component of T is the inverse transform of its own
coefficients. Where they do not, rows of T tell something of smaller components too, since no row of the table lies in a
cell that no value has. With B bits and m values the rows of one attribute have the Gram matrix 2^B I - J: on vectors
that sum to zero along the attribute it is 2^B, on constant ones 2^B - m. So the normal equations separate, component by
component: the component of U is the sum over all T that hold U of the coefficients of T back in cells, averaged over
the rest of T, over

    g(U) = (product over U of 2^B) * sum over T of (product over the rest of T of (2^B - m) / m),

and its noise has the variance of one coefficient over g(U).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import prod

import numpy as np

from sfumato.arrays import Floats
from sfumato.models.margins.table import Places, Table, subsets, sum_out
from sfumato.queries import Kron, Queries, Total, Weighted


def bits(values: int) -> int:
    """Number of bits that so many values take.

    >>> [bits(values) for values in (1, 2, 3, 4, 5)]
    [0, 1, 2, 2, 3]
    """
    return (values - 1).bit_length()


@lru_cache(maxsize=64)
def walsh(values: int) -> Queries:
    """All Walsh rows of an attribute but the first, which is its total.

    >>> walsh(3).dense().tolist()
    [[1, -1, 1], [1, 1, -1], [1, -1, -1]]
    """
    width = bits(values)
    row, column = np.arange(1, 2**width)[:, None], np.arange(values)[None, :]
    odd = np.zeros((len(row), values), dtype=np.int64)
    for bit in range(width):
        odd ^= (row >> bit) & (column >> bit) & 1
    return Weighted(1 - 2 * odd)


@lru_cache(maxsize=256)
def walsh_table(sizes: tuple[int, ...]) -> Queries:
    """The Walsh rows over a margin that its own margins do not have: some bits of each of its attributes.

    >>> walsh_table((2, 2)).dense().tolist(), walsh_table(()).dense().tolist()
    ([[1, -1, -1, 1]], [[1]])
    """
    factors = [walsh(size) for size in sizes]
    return Kron(*factors) if len(factors) > 1 else factors[0] if factors else Total(1)


def coefficients(sizes: Iterable[int]) -> int:
    """Number of rows of `walsh_table`."""
    return prod(2 ** bits(size) - 1 for size in sizes)


def downward_closure(wanted: Iterable[Places], sizes: Sequence[int]) -> tuple[Places, ...]:
    """All sets of attributes within one that is wanted, the smaller ones first; attributes of one value tell nothing.

    >>> downward_closure([(0, 2)], (2, 2, 3))
    ((), (0,), (2,), (0, 2))
    """
    found: set[Places] = {()}
    for places in wanted:
        parts: list[Places] = [()]
        for place in places:
            if sizes[place] > 1:
                parts += [(*part, place) for part in parts]
        found.update(parts)
    return tuple(sorted(found, key=lambda places: (len(places), places)))


@lru_cache(maxsize=4)
def written_out(sets: tuple[Places, ...], sizes: tuple[int, ...]) -> Floats:
    """The Walsh rows of sets of attributes over the cells of all of them, set by set.

    >>> written_out(((), (1,)), (2, 2)).tolist()
    [[1.0, 1.0, 1.0, 1.0], [1.0, -1.0, 1.0, -1.0]]
    """
    rows = []
    for places in sets:
        factors = [walsh(size) if place in places else Total(size) for place, size in enumerate(sizes)]
        rows.append(Kron(*factors).dense())
    return np.concatenate(rows).astype(np.float64)


def parts_of(backs: Mapping[Places, Floats], sizes: Sequence[int], variance: float) -> dict[Places, Table]:
    """Components of all tables.

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
