"""Walsh-Hadamard rows of margins, bit by bit, and the downward closure of the margins that are wanted.

A value of an attribute is its number in bits. A Walsh row is +1 where an even number of chosen bits is set and -1
elsewhere, so every row of a table moves every coefficient by exactly 1. An attribute whose values are no power of two
has numbers that no value has: nothing is asked of those cells, and rows are as long as there are values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import prod

import numpy as np

from sfumato.arrays import Floats
from sfumato.queries import Kron, Queries, Total, Weighted
from sfumato.strategies.wanted_margins import Places


def bits(values: int) -> int:
    """How many bits so many values take.

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
    """How many rows `walsh_table` has."""
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
