"""Choose a piece of a line by rank, exactly as if every piece were laid out, however many there are.

The candidates are the pieces from `first` up to `end`. Their scores are those of `Rank` on the pieces' counts, cut off
at a public distance beyond which nothing is chosen in practice: cutting off at a fixed number brings scores only
closer.

Pieces are taken in blocks. A block's rows span the ranks of all its pieces, so it scores as well as the best of them or
better. A block is drawn in proportion to its number of pieces and its own score, then one of its pieces, which is kept
with probability exp(-rate * (score of the block - score of the piece)); otherwise all is drawn afresh. The product is
exp(rate * score of the piece), the same for every layout in blocks. How blocks are laid out decides only how long it
takes: a block that would often be rejected is cut further.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import numpy as np

from sfumato.arrays import Codes, Whole
from sfumato.kernel.sampling.entropy import Entropy
from sfumato.kernel.sampling.exact import bernoulli, exp_minus
from sfumato.kernel.verbs.dealing import dealt_before
from sfumato.kernel.verbs.exponential import choose, uniform_below
from sfumato.kernel.verbs.scores import Rank
from sfumato.queries.arrays import LARGEST

FAR = 64  # distances beyond FAR / rate count as that: exp(-64) of the best


def choose_piece(counts: Whole, pieces: int, first: int, end: int, rank: Rank, rate: Fraction, entropy: Entropy) -> int:
    """The number of a piece, from the start of the line, by the exponential mechanism on its score."""
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
    """Scores by rank, none of them further than a public distance below the best there could be."""
    return np.asarray(np.maximum(rank.scores(counts), -min(ceil(FAR / rate), LARGEST)), dtype=np.int64)


def blocks(counts: Whole, pieces: int, first: int, end: int, rank: Rank, rate: Fraction) -> Codes:
    """Where blocks begin and end: cells, and parts of those of many rows that may be chosen."""
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
    """How many rows of a line lie before each of some places on it."""
    cell, inside = np.divmod(places, pieces)
    found = np.concatenate([[0], np.cumsum(counts)])[cell]
    some = np.flatnonzero(inside)  # most places are where a cell begins
    found[some] += dealt_before(counts[cell[some]], pieces, inside[some])
    return np.asarray(found, dtype=np.int64)
