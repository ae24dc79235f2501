"""How far margins lie from public guesses, as scores to choose by: whole numbers, exact, that one row moves by 1."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import QueryError

LARGEST = 2**61  # of a distance and of a penalty; cutting off at a fixed number brings distances only closer
EXACT = 2.0**52  # below this, 64 bits hold the sum beyond doubt


def distance(counts: NDArray[np.int64], guess: NDArray[np.int64]) -> int:
    """The sum over all cells of |count - guess|, at most `LARGEST`.

    Never modulo 2^64, as sums with noise are: a score that wraps round would betray that it did.

    >>> distance(np.array([5, 0]), np.array([3, 4])), distance(np.array([2**62]), np.array([-(2**62)])) == LARGEST
    (6, True)
    """
    about = float(np.abs(counts.astype(np.float64) - guess.astype(np.float64)).sum())
    if about < EXACT:
        return int(np.abs(counts - guess).sum())
    apart = np.abs(counts.astype(object) - guess.astype(object))
    return min(LARGEST, int(apart.sum()))


def checked_penalties(penalties: Sequence[int], margins: int) -> list[int]:
    """Public whole numbers, one for each margin."""
    if len(penalties) != margins or not margins:
        raise QueryError(f"a choice among {margins} margins needs as many penalties, and there must be one at least")
    found = [int(each) for each in penalties]
    if any(type(each) is bool or each != own for each, own in zip(penalties, found, strict=True)):
        raise QueryError("penalties are whole numbers; round them")
    if any(abs(each) > LARGEST for each in found):
        raise QueryError("a penalty lies beyond 2^61; bring it within")
    return found
