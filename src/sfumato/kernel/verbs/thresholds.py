"""Threshold mechanisms: cells whose noisy count reaches a threshold, and the first value above one (sparse vector).

`sift` finds the cells in time that does not grow with the domain. `first_exceeding` is the sparse vector technique with
one answer: Dwork, Roth, "The Algorithmic Foundations of Differential Privacy" (2014), algorithm 1, with discrete noise.
Corrected: all values are compared at once, so the time taken does not tell the answer.
"""

from __future__ import annotations

from fractions import Fraction
from operator import index

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Codes
from sfumato.errors import PrivacyError, QueryError
from sfumato.kernel.counts import Aggregate
from sfumato.kernel.sampling.entropy import Entropy
from sfumato.kernel.sampling.noise import draw, sparse_hits
from sfumato.kernel.verbs.measuring import LARGEST
from sfumato.measurement import Laplace, Noise


def sift(
    aggregate: Aggregate, size: int, above: int, noise: Noise, entropy: Entropy
) -> tuple[Codes, NDArray[np.int64]]:
    """Sample the cells whose noisy count reaches a threshold, as if every cell of the domain had drawn its noise.

    Empty cells draw theirs through the gaps between hits. A hit on a cell that holds rows is thrown away, for such a
    cell draws its own noise; hits on different cells are independent, so this changes no other cell.
    """
    if not isinstance(noise, Laplace):
        raise QueryError("publishing above a threshold is for pure epsilon")
    hits, values = sparse_hits(size, above, noise, entropy)
    held = aggregate.cells
    noisy = aggregate.counts + draw(noise, len(held), entropy)
    kept = noisy >= above
    empty = ~np.isin(hits, held, assume_unique=True)
    cells = np.concatenate([held[kept], hits[empty]])
    order = np.argsort(cells)
    cells, answers = cells[order], np.concatenate([noisy[kept], values[empty]])[order]
    cells.setflags(write=False)
    answers.setflags(write=False)
    return cells, answers


def above_noises(epsilon: Fraction, sensitivity: int) -> tuple[Laplace, Laplace]:
    """Noises of the threshold and of every value; sensitivity: the most that one person changes any value by.

    The proof shifts the threshold by one sensitivity and one value by two: epsilon / 2 each (docs/privacy.md,
    theorem 4).
    """
    if sensitivity <= 0:
        raise QueryError("these queries touch no cell")
    return Laplace(2 * sensitivity / epsilon), Laplace(4 * sensitivity / epsilon)


def checked_threshold(threshold: int, start: int, rows: int) -> tuple[int, int]:
    """Validate a public threshold and a start row, as Python integers."""
    try:
        level, first = index(threshold), index(start)
    except TypeError:
        raise QueryError("a threshold and a row to start from are whole numbers; round them") from None
    if abs(level) > LARGEST:
        raise QueryError("a threshold beyond 2^61 is more than any table can reach; give a smaller one")
    if not 0 <= first <= rows:
        raise QueryError(f"there are {rows} rows; start from one of them, not from {first}")
    return level, first


def first_exceeding(
    values: NDArray[np.int64], threshold: int, of_values: NDArray[np.int64], of_threshold: NDArray[np.int64]
) -> int | None:
    """Index of the first value that, with its noise, exceeds the noisy threshold; None if none does."""
    if of_values.shape != values.shape or of_threshold.shape != (1,):
        raise PrivacyError("every value needs noise of its own, and so does the threshold")
    # Cutting off at a fixed number brings values only closer together, so the sensitivity still holds.
    above = np.minimum(values, LARGEST) + of_values > threshold + of_threshold
    place = int(np.argmax(np.append(above, True)))  # the end stands for "none"; all were compared, whichever it is
    return place if place < len(values) else None
