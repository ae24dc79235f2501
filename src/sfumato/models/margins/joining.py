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
from string import ascii_letters

import numpy as np

from sfumato.arrays import Codes, Flags, Floats
from sfumato.frozen import dataclass
from sfumato.models.margins.table import Places, spread_out, subsets, sum_out
from sfumato.releases.rows.model import RandomNumbers

ROUNDS = 200
CLOSE = 1e-6  # of the rows, over all cells of a margin: nearer than this nobody could tell
TILTS = 8  # rounds in which a table is also brought to contrasts, which margins may rule out
STALLED = 0.95  # of what margins were off by `TILTS` rounds before, from which on they contradict each other
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
    largest = [places for places in known if not any(set(places) < set(other) for other in known)]
    if len(largest) == 1 and len(largest[0]) == len(one_way):
        return known[largest[0]]
    # The longest axis is laid out last, so that passes over all cells are fast.
    order = sorted(range(len(one_way)), key=lambda axis: len(one_way[axis]))
    at = [order.index(axis) for axis in range(len(one_way))]
    margins = [(_turned(places, at), _transposed(known[places], places, at)) for places in largest]
    tilts = [_Tilt.of(_turned(places, at), places, at, *contrast) for places, contrast in contrasts.items()]
    total = max(float(one_way[0].sum()), LITTLE) if one_way else 0.0
    joint = np.ones([len(one_way[axis]) for axis in order])
    for axis, margin in enumerate(one_way):
        joint = joint * spread_out(margin / (total if axis else 1.0), (at[axis],), range(joint.ndim))
    if possible is not None:
        joint = joint * possible.transpose(order)
    offs: list[float] = []
    for number in range(ROUNDS if len(largest) > 1 else 1):
        if number < TILTS:
            for tilt in tilts:
                tilt.apply(joint)
        offs.append(max((_fit(joint, places, wanted) for places, wanted in margins), default=0.0))
        if offs[-1] <= close * total and (not contrasts or number >= TILTS - 1):
            break
        if number >= 2 * TILTS and offs[-1] > STALLED * offs[-1 - TILTS]:
            break
    if possible is not None and joint.sum() > 0:  # margins with noise may ask for rows where none can be
        joint *= total / joint.sum()
    return np.ascontiguousarray(joint.transpose(at))


def _turned(places: Places, at: Sequence[int]) -> Places:
    """Axes by their new places, rising."""
    return tuple(sorted(at[axis] for axis in places))


def _transposed(table: Floats, places: Places, at: Sequence[int]) -> Floats:
    """Table along some axes with its axes in the order of their new places."""
    return np.ascontiguousarray(table.transpose(np.argsort([at[axis] for axis in places])))


def _fit(joint: Floats, places: Places, wanted: Floats) -> float:
    """Scale a table to a wanted margin along some axes, in place; the sum of absolute errors of its margin before."""
    now = _sum_out(joint, places)
    factor = wanted / np.maximum(now, LITTLE) * (now > LITTLE)
    joint *= spread_out(factor, places, range(joint.ndim))
    return float(np.abs(now - wanted).sum())


def _sum_out(joint: Floats, places: Places) -> Floats:
    """Margin of a table along some axes."""
    kept = "".join(ascii_letters[axis] for axis in places)
    return np.asarray(np.einsum(f"{ascii_letters[: joint.ndim]}->{kept}", joint), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class _Tilt:
    """Contrast to which a table is brought. signs: product of +-1 along its axes; wanted: sum of rows with these."""

    places: Places
    signs: Floats
    wanted: float

    @classmethod
    def of(cls, turned: Places, places: Places, at: Sequence[int], signs: Sequence[Floats], wanted: float) -> _Tilt:
        """Contrast by the new places of its axes."""
        product = np.ones([1] * len(places))
        for axis, each in zip(places, signs, strict=True):
            product = product * spread_out(each, (at[axis],), turned)
        return cls(turned, product, wanted)

    def apply(self, joint: Floats) -> None:
        """Bring a table nearer to the contrast, by a factor on cells of positive and one on cells of negative sign."""
        table = _sum_out(joint, self.places)
        total, now = float(table.sum()), float((table * self.signs).sum())
        one, other = (max(total + way * self.wanted, 0.0) / max(total + way * now, LITTLE) for way in (1.0, -1.0))
        factors = np.clip(np.where(self.signs > 0, one, other), 1.0 - MOST_TILT, 1.0 + MOST_TILT)
        joint *= spread_out(factors, self.places, range(joint.ndim))


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
            off = max(off, _fit(joint, places, wanted))
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


def kernel_lengths(values: int, ordered: bool) -> list[int]:
    """Lengths of the kernels of an axis, 0 for that of values each by itself, which comes last."""
    return [length for length in LENGTHS if ordered and length < values and values > 2] + [0]


def kernel(places: Codes, length: int) -> Floats:
    """Prior correlation matrix of values at some places of an order, (values, values); the identity for length 0."""
    alone = np.eye(len(places))
    return np.exp(-np.abs(np.subtract.outer(places, places)) / length) + ROUGH * alone if length else alone


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
    lengths, estimate = kernel_lengths(values, ordered), noisy.astype(np.float64)
    regular = np.ones(values, dtype=bool)  # what is no spike
    for _ in range(values if ordered else 1):
        off = noisy[regular] - noisy[regular].mean()
        precision = _likeliest(off, variance, np.flatnonzero(regular), lengths)
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


def _likeliest(off: Floats, variance: float, places: Codes, lengths: Sequence[int]) -> Floats:
    """Precision matrix of noisy counts, (n, n), under the kernel and scale of largest marginal likelihood.

    off: (n,), deviations from the mean, of values at these places of their order. lengths: of the kernels.
    """
    smooth = _smooth_likelihoods(off, variance, places, lengths[:-1])
    likelihoods = np.array([*smooth, _rough_likelihoods(off, variance)])
    best, size = divmod(int(likelihoods.argmax()), len(SIZES))
    covariance = SIZES[size] ** 2 * kernel(places, lengths[best])
    return np.asarray(np.linalg.inv(variance * (covariance + np.eye(len(off)))), dtype=np.float64)


def _rough_likelihoods(off: Floats, variance: float) -> Floats:
    """Log likelihoods of deviations that are independent, by size, (sizes,)."""
    spreads = variance * (SIZES**2 + 1.0)
    return np.asarray(-0.5 * (len(off) * np.log(spreads) + (off**2).sum() / spreads))


def _smooth_likelihoods(off: Floats, variance: float, places: Codes, lengths: Sequence[int]) -> Floats:
    """Log likelihoods of deviations along an order, by kernel length and size, (lengths, sizes) (Kalman filter).

    An exponential kernel is that of a first-order autoregression, so a value depends on all before it through the one
    before: one pass along the order replaces the eigendecompositions of all kernels.
    """
    smooth = np.broadcast_to(variance * SIZES**2, (len(lengths), len(SIZES)))  # variance of the curve
    rough = ROUGH * smooth + variance  # of a value around it
    gaps = np.diff(places, prepend=places[0])[:, None, None]
    steps = np.exp(-gaps / np.array(lengths, dtype=np.float64)[:, None])  # (values, lengths, 1)
    kept, added = steps**2, (1.0 - steps**2) * smooth
    mean, left = np.zeros(smooth.shape), smooth.copy()
    spreads, residuals = (np.empty((len(off), *smooth.shape)) for _ in range(2))
    for place, value in enumerate(off.tolist()):
        mean *= steps[place]
        left *= kept[place]
        left += added[place]
        spread, residual = np.add(left, rough, out=spreads[place]), np.subtract(value, mean, out=residuals[place])
        gain = left / spread
        mean += gain * residual
        left -= gain * left
    return np.asarray(-0.5 * (np.log(spreads) + residuals**2 / spreads).sum(axis=0), dtype=np.float64)


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
        return self.at(rows, random.uniform(rows.shape[1]))

    def at(self, rows: Codes, within: Floats) -> Codes:
        """Value at a quantile of every row's distribution. rows: codes (attributes, rows); within: (rows,)."""
        return self._values(self._cells(rows), within)

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


def plan_steps(
    one_way: Sequence[Floats], known: Mapping[Places, Floats], ties: Floats, first: Places = ()
) -> list[Step]:
    """Order of the attributes and their conditional distributions, greedily along the largest dependence.

    one_way: margins. known: non-negative tables along two axes and more. ties: (attributes, attributes), mutual
    information. first: attributes whose values rows have before.
    """
    left, placed, steps = set(range(len(one_way))).difference(first), list(first), []
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
