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


def check_lines(domain: Domain, names: Sequence[str], pieces: int) -> None:
    """Refuse lines that have no order, or too many pieces to lay out."""
    if not domain[names[-1]].ordered:
        raise QueryError(f"{names[-1]} has no order; take an integer, a number or a date")
    if pieces < 1 or pieces & (pieces - 1):
        raise QueryError(f"cells are cut into 1, 2, 4, 8, ... pieces, not {pieces}")
    if domain.size * pieces > MOST_DENSE:
        raise QueryError(f"{domain.size:,} cells in {pieces:,} pieces each are too many to lay out; take fewer pieces")


def in_lines(domain: Domain, names: Sequence[str], held: Aggregate) -> Whole:
    """Counts of a margin with the last of the names innermost, without the rows in which that is missing."""
    counts = np.zeros(domain.size, dtype=np.int64)
    counts[held.cells] = held.counts
    turned = counts.reshape(domain.shape).transpose([domain.place(name) for name in names])
    return np.ascontiguousarray(turned[..., : domain[names[-1]].places]).reshape(-1)


def turns(pieces: int) -> Codes:
    """When each piece of a cell gets its row: the number of the piece with its binary digits backwards.

    >>> turns(8).tolist()
    [0, 4, 2, 6, 1, 5, 3, 7]
    """
    order = np.zeros(1, dtype=np.int64)
    while len(order) < pieces:
        order = np.concatenate([2 * order, 2 * order + 1])
    return order


def deal(counts: Whole, pieces: int) -> Whole:
    """The rows of every cell, dealt out to its pieces.

    >>> deal(np.array([5, 0]), 4).tolist()
    [2, 1, 1, 1, 0, 0, 0, 0]
    """
    each, over = np.divmod(counts, pieces)
    return np.asarray(each[:, None] + (turns(pieces) < over[:, None]), dtype=np.int64).reshape(-1)
