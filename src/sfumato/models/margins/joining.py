"""Join marginal tables for a query: maximum entropy for counts, additive fitting for sums, ANOVA if unbiased.

Counts (`join_counts`): the table of largest entropy with the known tables as margins, by iterative proportional fitting
(Deming, Stephan 1940), optionally tilted to three-way contrasts. Sums (`join_sums`): the same with differences in place
of ratios; `join_products` where none is negative. Unbiased tables (`join_unbiased`): ANOVA components, added.

One-way margins (`one_way_errors`): Gaussian-process regression of noisy counts along an order, with kernels exp(-|i -
j| / length) + ROUGH [i = j] by marginal likelihood. Values whose sum is more than `SPIKE` of its standard deviations
from what the others predict (40 hours a week, a bump in an empty tail) keep their own counts.

Rows (`Step`, `plan_steps`): ancestral sampling along a tree of largest mutual information (Chow, Liu 1968), each
attribute given up to three earlier ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from sfumato.arrays import Codes, Flags, Floats
from sfumato.frozen import dataclass
from sfumato.models.margins.table import Places, spread_out, subsets, sum_out
from sfumato.releases.rows.model import RandomNumbers

ROUNDS = 200
CLOSE = 1e-6  # of the rows, over all cells of a margin: nearer than this nobody could tell
TILTS = 8  # rounds in which a table is also brought to contrasts, which margins may rule out
MOST_TILT = 0.5  # by which a half is changed in one round
NONE: Mapping[Places, tuple[Sequence[Floats], float]] = {}
LITTLE = 1e-12  # rows in a cell of a margin, below which nothing can be scaled up


def join_counts(
    one_way: Sequence[Floats],
    known: Mapping[Places, Floats],
    close: float = CLOSE,
    contrasts: Mapping[Places, tuple[Sequence[Floats], float]] = NONE,
    possible: Flags | None = None,
) -> Floats:
    """Maximum-entropy table with given margins (iterative proportional fitting).

    one_way: margins of its axes, with one sum. known: tables along several of them. close: stop when all margins are
    met to within this share of the rows. contrasts: for sets of axes, a +-1 sign for every value of each axis, and the
    wanted sum of rows with the product of these signs. possible: flags of cells; the others are 0.
    """
    among = range(len(one_way))
    total = max(float(one_way[0].sum()), LITTLE) if one_way else 0.0
    joint = np.ones([len(margin) for margin in one_way])
    for place, margin in enumerate(one_way):
        joint = joint * spread_out(margin / (total if place else 1.0), (place,), among)
    if possible is not None:
        joint = joint * possible
    largest = [places for places in known if not any(set(places) < set(other) for other in known)]
    if len(largest) == 1 and len(largest[0]) == len(one_way):
        return known[largest[0]]
    for number in range(ROUNDS if len(largest) > 1 else 1):
        off = 0.0
        if number < TILTS:
            for places, (signs, wanted) in contrasts.items():
                joint = joint * _tilt(sum_out(joint, places, among), places, signs, wanted, among)
        for places in largest:
            joint, missed = _proportional(joint, places, known[places])
            off = max(off, missed)
        if off <= close * total and (not contrasts or number >= TILTS - 1):
            break
    if possible is not None and joint.sum() > 0:  # margins with noise may ask for rows where none can be
        joint = joint * (total / joint.sum())
    return joint


def _proportional(joint: Floats, places: Places, wanted: Floats) -> tuple[Floats, float]:
    """Table scaled to a wanted margin along some axes, and the sum of absolute errors of its margin before."""
    among = range(joint.ndim)
    now = sum_out(joint, places, among)
    factor = np.where(now > LITTLE, wanted / np.maximum(now, LITTLE), 0.0)
    return joint * spread_out(factor, places, among), float(np.abs(now - wanted).sum())


def _tilt(table: Floats, places: Places, signs: Sequence[Floats], wanted: float, among: Sequence[int]) -> Floats:
    """Factors on cells of positive and of negative sign that bring a table nearer to a wanted contrast of some axes."""
    now, sign = table, np.ones([1] * len(among))
    for place, each in zip(reversed(places), reversed(signs), strict=True):
        now, sign = now @ each, sign * spread_out(each, (place,), among)
    total = float(table.sum())
    one, other = (max(total + way * wanted, 0.0) / max(total + way * float(now), LITTLE) for way in (1.0, -1.0))
    return np.clip(np.where(sign > 0, one, other), 1.0 - MOST_TILT, 1.0 + MOST_TILT)


def join_sums(counts: Floats, known: Mapping[Places, Floats]) -> Floats:
    """Additive fit of a measure's cell sums to known margins: each cell moves in proportion to its count."""
    among = range(counts.ndim)
    largest = [places for places in known if not any(set(places) < set(other) for other in known)]
    rows = {places: np.maximum(sum_out(counts, places, among), LITTLE) for places in largest}
    joint: Floats = np.zeros(counts.shape)
    scale = CLOSE * max((float(np.abs(known[places]).sum()) for places in largest), default=0.0)
    for _ in range(ROUNDS if len(largest) > 1 else 1):
        off = 0.0
        for places in largest:
            lacking = known[places] - sum_out(joint, places, among)
            off = max(off, float(np.abs(lacking).sum()))
            joint = joint + counts * spread_out(lacking / rows[places], places, among)
        if off <= scale:
            break
    return joint


def join_products(counts: Floats, alone: Mapping[Places, Floats], level: float) -> Floats:
    """Multiplicative fit of a measure's cell sums to one-way sums, for a measure that is never negative.

    alone: one-way sums, counted from a centre that lies `level` above zero; the products are of values above zero.
    """
    among = range(counts.ndim)
    above = {p: np.maximum(known + level * sum_out(counts, p, among), 0.0) for p, known in alone.items()}
    joint = np.maximum(counts, 0.0)
    close = CLOSE * max((float(each.sum()) for each in above.values()), default=0.0)
    for _ in range(ROUNDS):
        off = 0.0
        for places, wanted in above.items():
            joint, missed = _proportional(joint, places, wanted)
            off = max(off, missed)
        if off <= close:
            break
    return joint - level * counts


def join_unbiased(bases: Sequence[Floats], known: Mapping[Places, Floats]) -> Floats:
    """Sum of the ANOVA components of all known tables, each spread evenly over the axes that it lacks.

    bases: for each axis, the share of its values in each class.
    """
    among = range(len(bases))
    joint: Floats = np.zeros([len(base) for base in bases])
    for places in subsets(tuple(among)):
        if places not in known:
            continue
        part = known[places]
        for axis, place in enumerate(places):
            part = part - spread_out(bases[place], (place,), places) * part.sum(axis=axis, keepdims=True)
        spread = spread_out(part, places, among)
        for place in among:
            if place not in places:
                spread = spread * spread_out(bases[place], (place,), among)
        joint = joint + spread
    return joint


LENGTHS = (1, 3, 9, 27, 81)  # steps along an order over which neighbours resemble each other: all scales alike
ROUGH = 0.01  # of a smooth curve's variance that every value has by itself
SIZES = np.exp(np.arange(-2.0, 7.0, 0.5))  # of deviations, in standard deviations of the noise
SPIKE = 3.5  # standard deviations from what the others say; one in 2,000 is that far off by chance
TOGETHER = 0.7  # of the farthest one, at which values are taken for a spike in the same round
SPIKE_OF_MANY = 8.0  # the same from the middle one of many values, of which every half is told apart otherwise
BLOCK = 64  # values of a margin of many that are brought to their sum at once
MOST_SMOOTHED = 600  # values; the time that it takes grows with their cube


def kernels(values: int, ordered: bool) -> list[Floats]:
    """Prior correlation matrices of an axis, (values, values) each: exponential kernels by length, and the identity."""
    alone = np.eye(values)
    if not ordered or values < 3:
        return [alone]
    gaps = np.abs(np.subtract.outer(np.arange(values), np.arange(values)))
    return [np.exp(-gaps / length) + ROUGH * alone for length in LENGTHS if length < values] + [alone]


def one_way_margin(noisy: Floats, variance: float, total: float, ordered: bool) -> Floats:
    """Denoised one-way margin: non-negative, with this total, (values,)."""
    return one_way_errors(noisy, variance, total, ordered)[0]


def one_way_errors(noisy: Floats, variance: float, total: float, ordered: bool) -> tuple[Floats, Floats]:
    """Denoised one-way margin and the posterior variance of every value, (values,) each.

    noisy: (values,), counts with noise of this variance. The margin is non-negative and has this total.
    """
    values, left = len(noisy), np.full(len(noisy), variance)
    if values > MOST_SMOOTHED:
        return by_halves(noisy.astype(np.float64), total, SPIKE_OF_MANY * float(np.sqrt(variance))), left
    if values < 3:
        return onto_total(noisy, total), left
    shapes, estimate = kernels(values, ordered), noisy.astype(np.float64)
    regular = np.ones(values, dtype=bool)  # what is no spike
    for _ in range(values if ordered else 1):
        off = noisy[regular] - noisy[regular].mean()
        precision = _likeliest(off, variance, [shape[np.ix_(regular, regular)] for shape in shapes])
        pull = precision @ off
        estimate[regular] = noisy[regular] - variance * pull
        left[regular] = np.maximum(variance - variance**2 * np.diag(precision), 0.0)
        outliers = _outliers(pull, precision, values // 4 if ordered else 1)
        if not outliers.any() or int(regular.sum() - outliers.sum()) < 3:
            break
        spikes = np.flatnonzero(regular)[outliers]
        estimate[spikes], left[spikes] = noisy[spikes], variance
        regular[spikes] = False
    return onto_total(estimate, total), left


def _likeliest(off: Floats, variance: float, shapes: list[Floats]) -> Floats:
    """Precision matrix of noisy counts, (n, n), under the kernel and scale of largest marginal likelihood.

    off: (n,), deviations from the mean.
    """
    best, result = -np.inf, np.zeros((len(off), len(off)))
    for shape in shapes:
        lengths, directions = np.linalg.eigh(shape)
        along = directions.T @ off
        spreads = variance * (SIZES[:, None] ** 2 * np.maximum(lengths, 0.0) + 1.0)
        likelihoods = -0.5 * (np.log(spreads) + along**2 / spreads).sum(axis=1)
        size = int(likelihoods.argmax())
        if likelihoods[size] > best:
            best, result = float(likelihoods[size]), (directions / spreads[size]) @ directions.T
    return result


def _outliers(pull: Floats, precision: Floats, longest: int) -> Flags:
    """Flag runs of 1, 2, 4, ... `longest` values whose sum is far from its prediction by the others, farthest first.

    pull: precision @ deviations. Statistic of a run r: |r' pull| / sqrt(r' precision r), the t value of a shift (GLS).
    """
    values = len(pull)
    sums, squares = np.append(0.0, np.cumsum(pull)), np.zeros((values + 1, values + 1))
    squares[1:, 1:] = precision.cumsum(axis=0).cumsum(axis=1)
    runs: list[tuple[float, int, int]] = []
    for width in (2**power for power in range(max(longest, 1).bit_length())):
        low = np.arange(values - width + 1)
        high = low + width
        within = squares[high, high] - squares[low, high] - squares[high, low] + squares[low, low]
        odd = np.abs(sums[high] - sums[low]) / np.sqrt(within)
        runs += [(float(odd[at]), int(low[at]), int(high[at])) for at in np.flatnonzero(odd > SPIKE)]
    outliers = np.zeros(values, dtype=bool)
    for odd_by, start, end in sorted(runs, reverse=True):
        if odd_by >= TOGETHER * max(runs)[0] and not outliers[max(start - 1, 0) : end + 1].any():
            outliers[start:end] = True
    return outliers


def onto_total(numbers: Floats, total: float) -> Floats:
    """Euclidean projection on non-negative numbers with this sum (a scaled simplex).

    >>> onto_total(np.array([5.0, -2.0, 1.0]), 4.0).tolist()
    [4.0, 0.0, 0.0]
    """
    falling = np.sort(numbers)[::-1]
    shifts = (np.cumsum(falling) - total) / np.arange(1, len(falling) + 1)
    shift = shifts[np.flatnonzero(falling > shifts)[-1]] if total > 0 else np.inf
    return np.asarray(np.maximum(numbers - shift, 0.0), dtype=np.float64)


def level_of(margin: Floats) -> Floats:
    """Derivative of a projected margin by the total: equal over the values that hold rows, 0 elsewhere.

    >>> level_of(np.array([5.0, 0.0, 1.0])).tolist()
    [0.5, 0.0, 0.5]
    """
    held = margin > 0.0 if (margin > 0.0).any() else np.ones(len(margin), dtype=bool)
    return np.asarray(held / held.sum(), dtype=np.float64)


def by_halves(numbers: Floats, total: float, spike: float) -> Floats:
    """Non-negative numbers with this sum, by recursive halving and projection within blocks.

    Projecting many small counts at once takes the same from all and cuts off at zero: dense stretches lose rows to
    sparse ones, which biases every range. Halves are divided by sums of many counts, hardly any of which is negative.
    spike: distance from the median beyond which a value keeps its own count.

    >>> by_halves(np.array([3.0, 90.0, -1.0, 1.0]), 95.0, 40.0).tolist()
    [3.5, 90.0, 0.0, 1.5]
    """
    result = np.maximum(numbers, 0.0)
    regular = numbers - np.median(numbers) <= spike
    if result[~regular].sum() >= total:
        return onto_total(numbers, total)
    places = np.flatnonzero(regular)
    sums = np.append(0.0, np.cumsum(numbers[places]))
    waiting = [(0, len(places), total - float(result[~regular].sum()))]
    while waiting:
        low, high, rows = waiting.pop()
        if high - low <= BLOCK:
            result[places[low:high]] = onto_total(numbers[places[low:high]], rows)
            continue
        middle = (low + high) // 2
        gap = rows - float(sums[high] - sums[low])
        first = float(sums[middle] - sums[low]) + gap * (middle - low) / (high - low)
        first = min(max(first, 0.0), rows)
        waiting += [(low, middle, first), (middle, high, rows - first)]
    return result


MOST_GIVEN = 3  # earlier attributes that one is drawn by
MOST_CELLS = 2**15  # of an attribute and those it is drawn by
CLOSE_TO_PAIRS = 1e-3  # of the rows: how near such a table comes to its pairs; what is left is mended
LAST = 1.0 - 2.0**-30  # of a span, so that adding the number of a span cannot round up to the next


@dataclass(frozen=True, eq=False)
class Step:
    """Conditional distribution of one attribute given earlier ones, for ancestral sampling.

    given: the earlier attributes; sizes: their numbers of values. ends: (combinations * values,), cumulative
    probabilities of the values for each combination of the given ones, shifted by the number of the combination, so
    that one search serves all rows.
    """

    place: int
    given: Places
    sizes: tuple[int, ...]
    ends: Floats

    @classmethod
    def by(cls, place: int, given: Places, table: Floats) -> Step:
        """Conditional distribution from a table (*given attributes, this one); the margin where that is empty."""
        values = table.shape[-1]
        flat = table.reshape(-1, values)
        ends = np.cumsum(np.where(flat.sum(axis=1, keepdims=True) > 0, flat, flat.sum(axis=0)), axis=1)
        ends /= ends[:, -1:]
        # The last value that can be has all that is left: rounding must not lead to one that cannot.
        ends[ends >= ends[:, -1:]] = 1.0
        line: Floats = (ends + np.arange(len(flat), dtype=np.float64)[:, None]).reshape(-1)
        return cls(place, given, table.shape[:-1], line)

    def draw(self, rows: Codes, random: RandomNumbers) -> Codes:
        """Draw a value for every row independently. rows: codes (attributes, rows)."""
        return self._values(self._cells(rows), random.uniform(rows.shape[1]))

    def draw_evenly(self, rows: Codes, random: RandomNumbers) -> Codes:
        """Draw values by stratified sampling among the rows that share the given values; rows: (attributes, rows)."""
        cells, order = self._cells(rows), random.order(rows.shape[1])
        order = order[np.argsort(cells[order], kind="stable")]
        sorted_cells, held = cells[order], np.bincount(cells)
        rank = np.arange(len(order)) - (np.cumsum(held) - held)[sorted_cells]
        values = np.empty_like(cells)
        values[order] = self._values(sorted_cells, (rank + random.uniform(len(order))) / held[sorted_cells])
        return values

    def _cells(self, rows: Codes) -> Codes:
        """Flat index of each row's combination of given values, (rows,)."""
        cells = np.zeros(rows.shape[1], dtype=np.int64)
        for place, size in zip(self.given, self.sizes, strict=True):
            cells = cells * size + rows[place]
        return cells

    def _values(self, cells: Codes, within: Floats) -> Codes:
        """Value at a quantile within each row's combination, (rows,)."""
        values = len(self.ends) // prod(self.sizes)
        places = cells + np.minimum(within, LAST)
        return np.asarray(np.searchsorted(self.ends, places, side="right") - cells * values, dtype=np.int64)


def plan_steps(one_way: Sequence[Floats], known: Mapping[Places, Floats], ties: Floats) -> list[Step]:
    """Order of the attributes and their conditional distributions, greedily along the largest dependence.

    one_way: margins. known: non-negative tables along two axes and more. ties: (attributes, attributes), mutual
    information.
    """
    left, placed, steps = set(range(len(one_way))), list[int](), []
    while left:
        near = {
            attribute: ties[attribute, placed].max() if placed else ties[attribute].sum() for attribute in sorted(left)
        }
        attribute = max(near, key=lambda each: near[each])
        given = _given(attribute, placed, ties, one_way)
        steps.append(Step.by(attribute, given, _joined((*given, attribute), one_way, known)))
        left.remove(attribute)
        placed.append(attribute)
    return steps


def all_ties(one_way: Sequence[Floats], known: Mapping[Places, Floats]) -> Floats:
    """Mutual information of all pairs of attributes in nats, (attributes, attributes)."""
    ties = np.zeros((len(one_way), len(one_way)))
    for places, table in known.items():
        if len(places) == 2:
            product = np.outer(one_way[places[0]], one_way[places[1]]) / table.sum()
            held = (table > 0) & (product > 0)
            ties[places] = (table[held] * np.log(table[held] / product[held])).sum() / table.sum()
    return ties + ties.T


def _given(attribute: int, placed: Sequence[int], ties: Floats, one_way: Sequence[Floats]) -> Places:
    """Earlier attributes with the largest mutual information with one, as many as the limits on size allow."""
    chosen: Places = ()
    for other in sorted(placed, key=lambda one: -ties[attribute, one]):
        cells = prod(len(one_way[one]) for one in (*chosen, other, attribute))
        if ties[attribute, other] > 0 and len(chosen) < MOST_GIVEN and (cells <= MOST_CELLS or not chosen):
            chosen = (*chosen, other)
    return chosen


def _joined(places: Places, one_way: Sequence[Floats], known: Mapping[Places, Floats]) -> Floats:
    """Maximum-entropy table of some attributes, with its axes in their order."""
    among = tuple(sorted(places))
    inside = {
        tuple(among.index(one) for one in each): table for each, table in known.items() if set(each) <= set(among)
    }
    joint = join_counts([one_way[one] for one in among], inside, CLOSE_TO_PAIRS)
    return np.transpose(joint, [among.index(place) for place in places])
