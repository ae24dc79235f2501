"""Public subsets of the rows: of every cell, those whose places a public seed picks.

Row number j of cell c is in subset s if bit s of a public hash of (seed, c, j) is set: about half of all rows. Which of
a cell's rows is called number j means nothing, as all that is kept of a table are the counts of its cells.

Privacy. A row more in cell c has the next number: every other row stays in or out as it was, so the count of c in a
subset grows by 1 or stays, and no other cell's changes. Whatever is measured in a subset therefore moves by at most
what it moves by in the whole table, for every seed: the seed may be public, and its quality is no part of the proof.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Whole
from sfumato.errors import QueryError
from sfumato.kernel.aggregate import Aggregate

SUBSETS_AT_ONCE = 64  # bits of one hash
BLOCK = 2**20  # rows that are looked at together
MOST_SUBSETS = 2**16


def checked_subset(seed: int, number: int) -> int:
    """The number of a subset, as it is used."""
    if not 0 <= seed < 2**32 or not 0 <= number < MOST_SUBSETS:
        raise QueryError(f"a subset has a seed below 2^32 and a number below {MOST_SUBSETS:,}; state such")
    return int(number)


def thinned(aggregate: Aggregate, seed: int, word: int) -> Whole:
    """For each of 64 subsets, the rows of every cell that are in it."""
    kept = np.zeros((SUBSETS_AT_ONCE, len(aggregate.cells)), dtype=np.int64)
    ends = np.concatenate([[0], np.cumsum(aggregate.counts)])
    for start in range(0, int(ends[-1]), BLOCK):
        rows = np.arange(start, min(start + BLOCK, int(ends[-1])))
        place = np.searchsorted(ends, rows, side="right") - 1
        hashed = _hash(aggregate.cells[place].astype(np.uint64), (rows - ends[place]).astype(np.uint64), seed, word)
        first = np.flatnonzero(np.diff(place, prepend=-1))  # rows of a cell stand together
        for bit in range(SUBSETS_AT_ONCE):
            inside = ((hashed >> np.uint64(bit)) & np.uint64(1)).astype(np.int64)
            kept[bit, place[first]] += np.add.reduceat(inside, first)
    return kept


def subset_of(aggregate: Aggregate, kept: Whole) -> Aggregate:
    """The counts of the rows in a subset; sums of measures are left out. kept: rows of every cell that are in it."""
    held = np.flatnonzero(kept)
    return Aggregate(aggregate.cells[held], kept[held])


def _hash(cells: NDArray[np.uint64], numbers: NDArray[np.uint64], seed: int, word: int) -> NDArray[np.uint64]:
    """64 bits for each row, by three rounds of a mixer of whole numbers modulo 2^64."""
    mixed = _mix(np.uint64(seed * 2**16 + word) * np.ones_like(cells))
    return _mix(_mix(mixed + cells) + numbers)


def _mix(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
