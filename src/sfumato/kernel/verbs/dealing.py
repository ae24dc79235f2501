"""Rows of a cell dealt out to pieces of it, so that a cell of many rows can be cut as finely as one of few.

The first row of a cell goes to its first piece, the second to the piece half way through, then those at the quarters,
and so on (the order of binary digits read backwards); when every piece has one, it begins anew. Which row is which does
not matter, for only counts come of it: with c rows and s pieces, a piece holds c // s of them, and one more if its turn
comes before c mod s. One more row in a cell therefore adds 1 to one piece and changes no other: neighbouring tables
stay neighbouring, and k rows of a person change at most k pieces' counts by 1 each, or fewer by more.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.arrays import Codes, Whole
from sfumato.domain import Domain
from sfumato.errors import QueryError
from sfumato.kernel.aggregate import Aggregate
from sfumato.limits import MOST_DENSE

FINEST = 2**20  # pieces of a cell; all pieces together stay far below 2**53


def check_lines(domain: Domain, names: Sequence[str], pieces: int) -> None:
    """Refuse lines that have no order, too many cells to lay out, or too many pieces to number."""
    if not domain[names[-1]].ordered:
        raise QueryError(f"{names[-1]} has no order; take an integer, a number or a date")
    if pieces < 1 or pieces & (pieces - 1):
        raise QueryError(f"cells are cut into 1, 2, 4, 8, ... pieces, not {pieces}")
    if pieces > FINEST:
        raise QueryError(f"a cell is cut into {FINEST:,} pieces at most, not {pieces:,}")
    if domain.size > MOST_DENSE:
        raise QueryError(f"lines of {domain.size:,} cells are too many to lay out; take fewer groups, or wider bins")


def in_lines(domain: Domain, names: Sequence[str], held: Aggregate) -> Whole:
    """Counts by line, the last of the names along it, without the rows in which that is missing."""
    counts = np.zeros(domain.size, dtype=np.int64)
    counts[held.cells] = held.counts
    turned = counts.reshape(domain.shape).transpose([domain.place(name) for name in names])
    places = domain[names[-1]].places
    return np.ascontiguousarray(turned[..., :places]).reshape(-1, places)


def dealt_before(counts: Whole, pieces: int, place: Codes) -> Whole:
    """How many rows of each cell lie in the pieces before a place in it, from 0 to `pieces` - 1.

    Every piece has counts // pieces of them. Of the rest, row number r lies in the piece whose number is r with its
    binary digits backwards. Pieces before a place fall into blocks, one for each digit 1 of the place, that share all
    higher digits; the numbers of a block's rows are equally spaced, so those below the rest are counted by division.

    >>> dealt_before(np.full(4, 6), 4, np.arange(4)).tolist()
    [0, 2, 3, 5]
    """
    each, over = np.divmod(counts, pieces)
    found = each * place
    first = np.zeros_like(place)  # the higher digits so far, backwards
    for digit in reversed(range(pieces.bit_length() - 1)):
        block, apart = 1 << digit, pieces >> digit
        one = (place >> digit & 1) == 1
        inside = np.clip(-((first - over) // apart), 0, block)
        found += np.where(one, inside, 0)
        first += np.where(one, apart >> 1, 0)
    return np.asarray(found, dtype=np.int64)
