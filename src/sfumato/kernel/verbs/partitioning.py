"""Noisy least-cost partition of a line of cells into buckets of nearly equal counts: the first stage of DAWA.

Li, Hay, Miklau, "A Data- and Workload-Aware Algorithm for Range Queries Under Differential Privacy" (VLDB 2014),
section 5. A bucket costs its deviation, the sum of |count - median| over its cells, plus a public price; a partition
costs the sum over its buckets. Only the cheapest partition by noisy deviations is published.

Corrected: buckets of a single cell deviate by 0 whatever they hold, and yet carry noise; and a negative noisy deviation
is kept as it is. Without either the proof fails, and so does the promise (docs/privacy.md, theorem 5).
Gained: the proof shifts noise one way only, so one-sided noise is enough. And buckets of 8 cells or more start only at
every quarter of their length: the fewer there are, the fewer are cheap by their noise alone.

Deviations of all windows of a length come from a wavelet matrix (Claude, Navarro, Ordonez 2015) over the ranks of the
counts: one level for each binary digit of a rank, highest first, and after each the elements with digit 0 come before
those with digit 1, in order. The smaller half of a window is found by one descent, and all windows descend together.
Ranks are distinct, even of equal counts, so every descent has the same number of steps and nothing in it branches:
once the counts are sorted, the work depends on the number of cells, not on their counts.

Deal the rows of a cell to its pieces, and choose a piece of a line by rank with the exponential mechanism.

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
from math import ceil, floor

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import MOST_DENSE, Codes, Whole
from sfumato.domain import Domain
from sfumato.errors import PrivacyError, QueryError
from sfumato.frozen import dataclass
from sfumato.kernel.counts import Aggregate
from sfumato.kernel.sampling.entropy import Entropy
from sfumato.kernel.sampling.exact import bernoulli, exp_minus
from sfumato.kernel.verbs.exponential import choose, uniform_below
from sfumato.kernel.verbs.scores import Rank
from sfumato.measurement import Laplace
from sfumato.queries.arrays import LARGEST


@dataclass(frozen=True, eq=False, repr=False)  # no repr: it holds private counts
class _Level:
    """Level of a wavelet matrix: prefix numbers and prefix sums of the elements with digit 0."""

    zeros: Whole
    sums: Whole


class WindowMedians:
    """Wavelet matrix of private counts, for deviations from the median in all windows of a length.

    >>> WindowMedians(np.array([3, 3, 5, 0])).deviations(2).tolist()
    [0, 2, 5]
    """

    def __init__(self, counts: Whole) -> None:
        size = len(counts)
        ranks = np.empty(size, dtype=np.int64)
        ranks[np.argsort(counts, kind="stable")] = np.arange(size)
        self._totals = _before(counts)
        self._levels = []
        for digit in reversed(range((size - 1).bit_length())):
            is_zero = (ranks >> digit) & 1 == 0
            self._levels.append(_Level(_before(is_zero), _before(np.where(is_zero, counts, 0))))
            order = np.concatenate([np.flatnonzero(is_zero), np.flatnonzero(~is_zero)])
            ranks, counts = ranks[order], counts[order]
        self._sorted = counts  # in the end every element stands at its rank

    def deviations(self, length: int) -> Whole:
        """Sum of |count - median| for every window of an even length, by its start; 0 for windows of length 1.

        The half above the median less the half below it: the sum less twice the sum of the smallest half.
        """
        windows = len(self._sorted) - length + 1
        if length == 1:
            return np.zeros(windows, dtype=np.int64)
        left = np.arange(windows)
        right = left + length
        sums = self._totals[right] - self._totals[left]
        wanted = np.full(
            windows, length // 2
        )  # how many smallest elements between left and right are still to be added
        smallest = np.zeros(windows, dtype=np.int64)
        for level in self._levels:
            zeros_left, zeros_right = level.zeros[left], level.zeros[right]
            zeros = zeros_right - zeros_left
            beyond = wanted > zeros  # all with digit 0 are wanted, and some with digit 1
            smallest += np.where(beyond, level.sums[right] - level.sums[left], 0)
            wanted -= np.where(beyond, zeros, 0)
            all_zeros = level.zeros[-1]
            left = np.where(beyond, left - zeros_left + all_zeros, zeros_left)
            right = np.where(beyond, right - zeros_right + all_zeros, zeros_right)
        # One element is left between them, and it is wanted.
        return np.asarray(sums - 2 * (smallest + self._sorted[left]), dtype=np.int64)


def _before(values: NDArray[np.generic]) -> Whole:
    """Prefix sums of values, starting with 0."""
    sums = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(values, out=sums[1:])
    return sums


UNITS = 2**8  # a price is rounded down to a 256th; it is public, so that costs accuracy at most
QUARTERS = 4  # starts of buckets in the length of one
MOST_CELLS = 2**20
ROOM = 2**59  # what the counts, the noise or the prices of a partition may come to, in units
NO_BUCKET = 2**62  # a cost above that of any partition, and with any added to it within 64 bits
TAIL = 2**12  # noise of so many scales has a chance of exp(-4096)


@dataclass(frozen=True)
class Cutting:
    """Public rules of a partition: bucket lengths, the price of each, and the noise.

    single: the noise of buckets of one cell. longer: that of all others. A bucket's cost falls by the noise's size.
    """

    cells: int
    prices: tuple[int, ...]  # in units, for lengths 1, 2, 4, ...
    single: Laplace
    longer: Laplace

    @property
    def lengths(self) -> tuple[int, ...]:
        """The allowed lengths of buckets, in cells."""
        return tuple(2**power for power in range(len(self.prices)))

    @property
    def most(self) -> int:
        """Clipping bound of counts and noise with which every sum fits 64 bits."""
        return ROOM // (self.cells * UNITS)

    @property
    def candidates(self) -> tuple[int, int]:
        """The numbers of candidate buckets of a single cell, and of longer ones."""
        return self.cells, sum(len(self.starts(length)) for length in self.lengths[1:])

    def starts(self, length: int) -> range:
        """Allowed start positions of buckets of a length."""
        return range(0, self.cells - length + 1, max(1, length // QUARTERS))


def cutting(
    cells: int, price: Fraction | Sequence[Fraction], longest: int | None, epsilon: Fraction, contributions: int
) -> Cutting:
    """Rules for partitioning a line, with the noise that epsilon pays for.

    Moving one row of data takes a shift of the noise of one bucket: by 2 for a longer bucket, for its own deviation and
    that of the others move by 1 each, and by 1 for a single cell, whose own does not.
    """
    if cells > MOST_CELLS:
        raise QueryError(f"{cells} cells are too many to cut into buckets; {MOST_CELLS} are allowed: use fewer cells")
    if longest is not None and (type(longest) is not int or longest < 1):
        raise QueryError("the longest bucket holds a whole number of cells, at least 1")
    powers = min(cells, longest or cells).bit_length()
    listed = list(price) if isinstance(price, Sequence) else [price] * powers
    if len(listed) != powers or not all(isinstance(each, Fraction | int) for each in listed):
        raise QueryError(f"a price is one fraction, or one for each of {powers} lengths of a bucket")
    prices = tuple(floor(each * UNITS) for each in listed)
    if max(map(abs, prices)) > ROOM // cells:
        raise QueryError("this price is beyond any cost a table can have; give a smaller one")
    scale = Fraction(contributions) / epsilon
    found = Cutting(cells, prices, Laplace(scale), Laplace(2 * scale))
    if found.longer.scale * TAIL > found.most:
        raise QueryError(f"epsilon is too small to cut {cells} cells: the noise would not fit 64 bits; give more of it")
    return found


def checked_order(order: Codes, cells: int) -> Codes:
    """Frozen copy of an order of cells, validated as a permutation."""
    places = np.array(order)
    if (
        places.shape != (cells,)
        or places.dtype.kind not in "iu"
        or not np.array_equal(np.sort(places), np.arange(cells))
    ):
        raise QueryError(f"an order names each of the {cells} cells once")
    return places.astype(np.int64)


def line_up(counts: Whole, order: Codes, plan: Cutting) -> Whole:
    """Private counts in their public order, clipped at a fixed number, which brings tables only closer."""
    return np.clip(counts[order], 0, plan.most)


def cheapest(counts: Whole, plan: Cutting, singles: Whole, longer: Whole) -> Codes:
    """Bucket of every position in the least-cost partition, numbered along the line (dynamic programme).

    singles, longer: noise drawn for all buckets, by length, then by start. Its absolute value is taken off the cost.
    """
    if (len(singles), len(longer)) != plan.candidates:
        raise PrivacyError("every bucket needs noise of its own")
    if max(np.abs(singles).max(), np.abs(longer).max(initial=0)) > plan.most:  # says nothing of the counts
        raise PrivacyError("The noise drawn does not fit 64 bits, so nothing was published; ask again")
    medians, noise, used = WindowMedians(counts), -np.abs(np.concatenate([singles, longer])), 0
    costs = np.full((plan.cells, len(plan.lengths)), NO_BUCKET, dtype=np.int64)  # of the bucket that ends at a place
    for column, (length, price) in enumerate(zip(plan.lengths, plan.prices, strict=True)):
        starts = np.array(plan.starts(length))
        mine = noise[used : used + len(starts)]
        costs[starts + length - 1, column] = (medians.deviations(length)[starts] + mine) * UNITS + price
        used += len(starts)
    return _labels(_last_buckets(costs, np.array(plan.lengths)))


def _last_buckets(costs: Whole, lengths: Whole) -> Whole:
    """Length of the last bucket in the least-cost partition up to each position (dynamic programme).

    Of equally cheap partitions the one whose last bucket is the shortest wins, then the last but one, and so on: an
    order of partitions that is fixed beforehand, as the proof asks. Every place takes the same steps.
    """
    best = np.zeros(len(costs) + 1, dtype=np.int64)  # of the line up to before each place
    chosen = np.empty(len(costs), dtype=np.int64)
    for place in range(len(costs)):
        usable = int(place + 1).bit_length() if place + 1 < lengths[-1] else len(lengths)
        totals = best[place + 1 - lengths[:usable]] + costs[place, :usable]
        chosen[place] = pick = totals.argmin()
        best[place + 1] = totals[pick]
    return np.asarray(lengths[chosen], dtype=np.int64)


def _labels(last: Whole) -> Codes:
    """Number the buckets by walking back from the end."""
    begins = np.zeros(len(last), dtype=np.int64)
    place = len(last)
    while place > 0:
        place -= int(last[place - 1])
        begins[place] = 1
    return np.asarray(np.cumsum(begins) - 1, dtype=np.int64)


# -- pieces

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
    """Number of each cell's rows in its first `place` pieces, in bit-reversed dealing order.

    Every piece has counts // pieces of them. Of the remainder, row number r lies in the piece whose number is r with
    its binary digits backwards. The first pieces fall into blocks, one for each digit 1 of `place`, that share all
    higher digits; a block's row numbers are equally spaced, so those below the remainder are counted by division.

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
