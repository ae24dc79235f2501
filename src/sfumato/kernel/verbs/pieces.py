"""Deal the rows of a cell to its pieces, and choose a piece of a line by rank with the exponential mechanism.

Dealing lets a cell of many rows be cut as finely as one of few. The first row of a cell goes to its first piece, the
second to the piece half way through, then those at the quarters, and so on (the order of binary digits read backwards);
when every piece has one, it begins anew. Which row is which does not matter, for only counts come of it: with c rows
and s pieces, a piece holds c // s of them, and one more if its turn comes before c mod s. One more row in a cell
therefore adds 1 to one piece and changes no other: neighbouring tables stay neighbouring, and k rows of a person change
at most k pieces' counts by 1 each, or fewer by more.

A piece is chosen exactly as if every piece were laid out, however many there are. The candidates are the pieces from
`first` up to `end`. Their scores are those of `Rank` on the pieces' counts, cut off at a public distance beyond which
nothing is chosen in practice: cutting off at a fixed number brings scores only closer.

Pieces are taken in blocks. A block's rows span the ranks of all its pieces, so it scores as well as the best of them or
better. A block is drawn in proportion to its number of pieces and its own score, then one of its pieces, which is kept
with probability exp(-rate * (score of the block - score of the piece)); otherwise all is drawn afresh. The product is
exp(rate * score of the piece), the same for every layout in blocks. The layout of blocks decides only how long it
takes: a block that would often be rejected is cut further.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil

import numpy as np

from sfumato.arrays import MOST_DENSE, Codes, Whole
from sfumato.domain import Domain
from sfumato.errors import QueryError
from sfumato.kernel.counts import Aggregate
from sfumato.kernel.sampling.entropy import Entropy
from sfumato.kernel.sampling.exact import bernoulli, exp_minus
from sfumato.kernel.verbs.exponential import choose, uniform_below
from sfumato.kernel.verbs.scores import Rank
from sfumato.queries.arrays import LARGEST

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
    """Counts by line (lines, cells), along the last attribute named; rows in which it is missing are left out."""
    counts = np.zeros(domain.size, dtype=np.int64)
    counts[held.cells] = held.counts
    turned = counts.reshape(domain.shape).transpose([domain.place(name) for name in names])
    places = domain[names[-1]].places
    return np.ascontiguousarray(turned[..., :places]).reshape(-1, places)


def dealt_before(counts: Whole, pieces: int, place: Codes) -> Whole:
    """Number of each cell's rows in its pieces before a place, in bit-reversed dealing order.

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


FAR = 64  # distances beyond FAR / rate count as that: exp(-64) of the best


def choose_piece(counts: Whole, pieces: int, first: int, end: int, rank: Rank, rate: Fraction, entropy: Entropy) -> int:
    """Choose a piece of a line by the exponential mechanism on rank scores; its number from the start."""
    edges = blocks(counts, pieces, first, end, rank, rate)
    rows = rows_before(counts, pieces, edges)
    scores = clipped(rank, np.diff(rows), rate)
    total = int(rows[-1] - rows[0])
    while True:
        block = choose(scores, rate, entropy, np.diff(edges))
        start, stop = int(edges[block]), int(edges[block + 1])
        piece = start + uniform_below(stop - start, entropy)
        before, upto = (rows_before(counts, pieces, np.array([piece, piece + 1])) - rows[0]).tolist()
        own = clipped(rank, np.array([before, upto - before, total - upto]), rate)[1]
        if bernoulli(exp_minus(rate * int(scores[block] - own)), entropy):
            return piece


def clipped(rank: Rank, counts: Whole, rate: Fraction) -> Whole:
    """Rank scores, clipped at a public distance below the best possible one."""
    return np.asarray(np.maximum(rank.scores(counts), -min(ceil(FAR / rate), LARGEST)), dtype=np.int64)


def blocks(counts: Whole, pieces: int, first: int, end: int, rank: Rank, rate: Fraction) -> Codes:
    """Boundaries of blocks of pieces: cells, and parts of cells with many rows that may be chosen."""
    cells = np.arange(first // pieces + 1, -(-end // pieces)) * pieces
    edges = np.concatenate([[first], cells, [end]])
    rows = np.diff(rows_before(counts, pieces, edges))
    scores = clipped(rank, rows, rate)
    wide = float(rate * rank.quantile.denominator)  # how fast chances fall with the rows of a block
    near = np.flatnonzero((scores > -min(ceil(FAR / rate), LARGEST)) & (rows * wide > 1))
    cut = [edges]
    for cell in near.tolist():
        parts = min(pieces, 1 << (ceil(float(rows[cell]) * wide) - 1).bit_length())
        apart = pieces // parts
        cut.append(np.arange(edges[cell] // apart * apart + apart, edges[cell + 1], apart))
    return np.unique(np.concatenate(cut)).astype(np.int64)


def rows_before(counts: Whole, pieces: int, places: Codes) -> Whole:
    """Number of a line's rows before each position."""
    cell, inside = np.divmod(places, pieces)
    found = np.concatenate([[0], np.cumsum(counts)])[cell]
    some = np.flatnonzero(inside)  # most places are where a cell begins
    found[some] += dealt_before(counts[cell[some]], pieces, inside[some])
    return np.asarray(found, dtype=np.int64)
