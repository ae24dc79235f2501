"""Join marginal tables for a query: maximum entropy for counts, additive fitting for sums, ANOVA if unbiased.

Counts (`join_counts`): the table of largest entropy with the known tables as margins, by iterative proportional fitting
(Deming, Stephan 1940), optionally tilted to three-way contrasts. Sums (`join_sums`): the same with differences in place
of ratios; `join_products` where none is negative. Unbiased tables (`join_unbiased`): ANOVA components, added.

Unbiased combination (`parts`). A noisy table with equal variances determines the ANOVA component of each
subset of its axes, and components of one table are uncorrelated; so least squares over all tables is an
inverse-variance mean component by component, with noise of mean zero and nothing else.

One-way margins (`one_way_errors`): Gaussian-process regression of noisy counts along an order, with kernels exp(-|i -
j| / length) + ROUGH [i = j] by marginal likelihood. Values whose sum is more than `SPIKE` of its standard deviations
from what the others predict (40 hours a week, a bump in an empty tail) keep their own counts.

Many joins at once (`join_few`): maximum-entropy tables of three or four attributes with known pairs.

Proportional fitting keeps a table of the form F(a, b, c) U(a, b, d) M(c, d), where F and U are products of factors of
pairs (Deming, Stephan 1940). So its margin along a, b and c is F times the matrix product U M', and no round goes over
all cells. A table of three attributes has one value of a. Tables of similar shapes are stacked, filled up with zeros,
and leave the stack when they meet their margins.

Contrasts of halves are met by a factor 1 + t s for each set of three attributes, s the sign of a cell's contrast. Those
of a, b and one more attribute are part of F and of U; the others make a factor

    (1 + p s(acd)) (1 + q s(bcd)) = 1 + p q s(ab) + s(cd) (p s(a) + q s(b)),

so margins are two matrix products instead of one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from math import prod
from string import ascii_letters
from typing import NamedTuple

import numpy as np

from sfumato.arrays import Codes, Flags, Floats
from sfumato.frozen import dataclass
from sfumato.models.margins.table import Places, Table, spread_out, subsets, sum_out

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
    """Renumber axes by their new positions, ascending."""
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
        """Contrast of axes `places`, with these renumbered by `at`. turned: the new axes, ascending."""
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


NO_NOISE = 1e-100  # in the place of no variance at all, so that means by precision stay numbers


@dataclass(frozen=True, eq=False)
class Observed:
    """Noisy table. always: axes along which it has only contrasts, so no information on tables without them.

    variance: of every cell, before margins are taken away along those axes.
    """

    places: Places
    values: Floats
    variance: float
    always: Places = ()


def parts(observed: Iterable[Observed]) -> dict[Places, Table]:
    """ANOVA components of all observed tables, each an inverse-variance mean."""
    tops: dict[Places, Floats] = {}
    weights: dict[Places, float] = {}
    for table in observed:
        others = tuple(attribute for attribute in table.places if attribute not in table.always)
        for some in subsets(others):
            part = tuple(sorted((*table.always, *some)))
            component = sum_out(table.values, part, table.places)
            for axis, attribute in enumerate(part):
                if attribute in some:
                    component = component - component.mean(axis=axis, keepdims=True)
            precision = component.size / (prod(table.values.shape) * table.variance)
            tops[part] = tops.get(part, 0.0) + precision * component
            weights[part] = weights.get(part, 0.0) + precision
    return {
        part: Table(part, top / weights[part], np.full(top.shape, 1.0 / weights[part]), np.zeros(top.shape))
        for part, top in sorted(tops.items(), key=lambda item: (len(item[0]), item[0]))
    }


LENGTHS = (1, 3, 9, 27, 81)  # steps along an order over which neighbours resemble each other: all scales alike
ROUGH = 0.01  # of a smooth curve's variance that every value has by itself
SIZES = np.exp(np.arange(-2.0, 7.0, 0.5))  # of deviations, in standard deviations of the noise
SPIKE = 3.5  # standard deviations from what the others say; one in 2,000 is that far off by chance
TOGETHER = 0.7  # of the farthest one, at which values are taken for a spike in the same round
SPIKE_OF_MANY = 8.0  # the same from the middle one of many values, of which every half is told apart otherwise
BLOCK = 64  # values of a margin of many that are brought to their sum at once
MOST_SMOOTHED = 600  # values; the time that it takes grows with their cube


def kernel_lengths(values: int, ordered: bool) -> list[int]:
    """Kernel lengths of an axis; the last, 0, is independence of values."""
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
    if not lengths:
        return np.zeros((0, len(SIZES)))
    steps, gains, precisions, logs = _kalman_gains(places.tobytes(), tuple(lengths))
    mean, residuals = np.zeros(logs.shape), np.empty(gains.shape)
    for residual, value, step, gain in zip(residuals, off.tolist(), steps, gains, strict=True):
        mean *= step
        np.subtract(value, mean, out=residual)
        mean += gain * residual
    squares = np.einsum("vls,vls,vls->ls", residuals, residuals, precisions)
    return np.asarray(-0.5 * (logs + len(off) * np.log(variance) + squares / variance), dtype=np.float64)


@lru_cache(maxsize=32)
def _kalman_gains(places: bytes, lengths: tuple[int, ...]) -> tuple[Floats, Floats, Floats, Floats]:
    """Parts of the Kalman filter that depend on no deviation, in units of the noise: many axes have the same places.

    Returns what is left of the curve's mean at each step, (values, lengths, 1); gains and precisions of the residuals,
    (values, lengths, sizes) each; and the sum of the logarithms of their variances, (lengths, sizes).
    """
    at = np.frombuffer(places, dtype=np.int64)
    smooth = np.broadcast_to(SIZES**2, (len(lengths), len(SIZES)))  # variance of the curve
    rough = ROUGH * smooth + 1.0  # of a value around it
    steps = np.exp(-np.diff(at, prepend=at[0])[:, None, None] / np.array(lengths, dtype=np.float64)[:, None])
    kept, added = steps**2, (1.0 - steps**2) * smooth
    left, gains, spreads = smooth.copy(), *(np.empty((len(at), *smooth.shape)) for _ in range(2))
    for place in range(len(at)):
        left *= kept[place]
        left += added[place]
        spread = np.add(left, rough, out=spreads[place])
        gain = np.divide(left, spread, out=gains[place])
        left -= gain * left
    return steps, gains, 1.0 / spreads, np.log(spreads).sum(axis=0)


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
    >>> onto_total(np.array([5.0, -2.0]), 1e-17).tolist()  # less than rounding leaves
    [0.0, 0.0]
    """
    falling = np.sort(numbers)[::-1]
    shifts = (np.cumsum(falling) - total) / np.arange(1, len(falling) + 1)
    shift = shifts[np.flatnonzero(falling >= shifts)[-1]] if total > 0 else np.inf
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


# Where pairs contradict each other, factors drift apart without end while their product does not: such a table is
# fitted cell by cell. No factor grows by more than 1 / LITTLE in a round.
FAR, LOOKS = 0.5, 8  # of the exponents of numbers, that is far, and rounds after which it is looked at
SINGLE = 1e-5  # of the rows: where nothing nearer is asked for, single precision does
AT_ONCE = 2**17  # numbers of a stack, so that it stays in a processor's cache
A_ROUND = 2**14  # numbers that take as long as a stack by itself does


class Few(NamedTuple):
    """Known margins of a table of three or four attributes.

    one_way: of each, with one sum. pairs: of all pairs of axes. signs: for contrasts, +-1 for every value of each
    attribute; contrasts: by three axes, the wanted sum of rows with the product of their signs.
    """

    one_way: Sequence[Floats]
    pairs: Mapping[Places, Floats]
    signs: Sequence[Floats] = ()
    contrasts: Mapping[Places, float] = {}

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of values of the attributes."""
        return tuple(len(margin) for margin in self.one_way)

    def alone(self, close: float) -> Floats:
        """Join the table cell by cell."""
        contrasts = {axes: ([self.signs[axis] for axis in axes], each) for axes, each in self.contrasts.items()}
        return join_counts(self.one_way, self.pairs, close, contrasts)


def join_few(tables: Sequence[Few], close: float = CLOSE) -> list[Floats]:
    """Maximum-entropy tables with given margins and contrasts. close: as `joining.join_counts` has it."""
    shapes, stacks = [table.shape for table in tables], defaultdict[tuple[object, ...], list[int]](list)
    orders = [*map(_order, shapes)]
    sizes = [
        [1] * (4 - len(shape)) + [shape[axis] for axis in order] for shape, order in zip(shapes, orders, strict=True)
    ]
    for index, table in enumerate(tables):
        stacks[len(shapes[index]), bool(table.contrasts), *map(rounded_up, sizes[index])].append(index)
    result, kind = dict[int, Floats](), np.float32 if close >= SINGLE else np.float64
    for members in _united(stacks, sizes):
        shape = _common(members, sizes)
        together = max(1, AT_ONCE // _numbers(shape))
        for start in range(0, len(members), together):
            some = members[start : start + together]
            stack = _Stack([tables[index] for index in some], [orders[index] for index in some], shape, kind)
            result |= zip(some, stack.joined(close), strict=True)
    return [result[index] for index in range(len(tables))]


def _common(members: Sequence[int], sizes: Sequence[Sequence[int]]) -> tuple[int, int, int, int]:
    """Smallest common padded shape of some tables."""
    a, b, c, d = (max(along) for along in zip(*(sizes[index] for index in members), strict=True))
    return a, b, c, d


def _numbers(shape: tuple[int, int, int, int]) -> int:
    """Number of entries in the factors of a padded table."""
    a, b, c, d = shape
    return a * b * c + a * b * d + c * d


def _united(stacks: Mapping[tuple[object, ...], list[int]], sizes: Sequence[Sequence[int]]) -> list[list[int]]:
    """Unite stacks of tables of one kind, from the smallest on, where fewer stacks save more than filling up costs."""
    result: list[tuple[tuple[object, ...], int, list[int]]] = []
    costs = {key: len(members) * _numbers(_common(members, sizes)) for key, members in stacks.items()}
    for key in sorted(stacks, key=costs.__getitem__):
        best, at = A_ROUND, len(result)
        for place, (kind, cost, members) in enumerate(result):
            if kind == key[:2]:
                both = [*members, *stacks[key]]
                more = len(both) * _numbers(_common(both, sizes)) - cost - costs[key]
                best, at = min((best, at), (more, place))
        united = [*result.pop(at)[2], *stacks[key]] if at < len(result) else stacks[key]
        result.append((key[:2], len(united) * _numbers(_common(united, sizes)), united))
    return [members for _, _, members in result]


def _order(shape: tuple[int, ...]) -> Places:
    """Order of the axes in memory: of four, the two shortest first."""
    return (2, 0, 1) if len(shape) == 3 else tuple(np.argsort(shape, kind="stable").tolist())


def rounded_up(size: int) -> int:
    """Padded size of an axis: 4, 16 and powers of two beyond, so that tables have few different shapes."""
    return 4 if size <= 4 else max(16, 1 << (size - 1).bit_length())


A, B, C, D = range(4)
AXES: dict[str, Places] = {"F": (A, B, C), "U": (A, B, D)}
# Pairs that a factor is fitted to, and the place of its third axis behind that of the tables.
FITS: dict[str, dict[Places, int]] = {"F": {(A, B): 3, (A, C): 2, (B, C): 1}, "U": {(A, D): 2, (B, D): 1}}


class _Stack:
    """Tables of one padded shape, being fitted. orders: of each table, its axes as they are laid out."""

    def __init__(
        self, tables: Sequence[Few], orders: Sequence[Places], shape: tuple[int, int, int, int], kind: type[np.floating]
    ) -> None:
        number, ahead = len(tables), 4 - len(orders[0])
        self.tables, self.orders, self.four = tables, orders, not ahead
        self.totals = np.array([max(float(table.one_way[0].sum()), LITTLE) for table in tables], dtype=kind)
        self.tilted = bool(tables[0].contrasts)
        self.p, self.q = np.zeros(number, kind), np.zeros(number, kind)
        self.signs = [np.ones((number, size), kind) for size in shape]
        margins = [np.zeros((number, size), kind) for size in shape]
        margins[A][:, 0] = 1.0
        pairs: list[Places] = [pair for pair in combinations(range(4), 2) if pair[0] >= ahead]
        self.wanted = {pair: np.zeros((number, shape[pair[0]], shape[pair[1]]), kind) for pair in pairs}
        threes: list[Places] = list(combinations(range(4), 3)) if self.four else [(B, C, D)]
        self.contrast = {three: np.full(number, np.nan, kind) for three in threes} if self.tilted else {}
        for index, (table, order) in enumerate(zip(tables, orders, strict=True)):
            at = dict(zip(range(ahead, 4), order, strict=True))
            for place, axis in at.items():
                margins[place][index, : len(table.one_way[axis])] = table.one_way[axis]
                if self.tilted:
                    self.signs[place][index, : len(table.one_way[axis])] = table.signs[axis]
            for pair in pairs:
                axes = tuple(at[place] for place in pair)
                known = table.pairs[axes] if axes in table.pairs else table.pairs[axes[::-1]].T
                self.wanted[pair][index, : known.shape[0], : known.shape[1]] = known
            for three, wanted in self.contrast.items():
                wanted[index] = table.contrasts.get(tuple(sorted(at[place] for place in three)), np.nan)
        first, second, third, fourth = margins
        over = self.totals[:, None]
        ones = [np.asarray(margin > 0.0, dtype=kind) for margin in margins]
        self.factors = {
            "F": np.einsum("ta,tb,tc->tabc", first / over if self.four else first, second, third / over),
            "U": np.einsum("ta,tb,td->tabd", ones[A], ones[B], fourth / over),
            "M": np.einsum("tc,td->tcd", ones[C], ones[D]),
        }
        self.products = {}
        if self.tilted:
            a, b, c, d = self.signs
            self.products = {"M": c[:, :, None] * d[:, None, :], "F": a, "U": a}
            if self.four:
                both = a[:, :, None, None] * b[:, None, :, None]
                self.products |= {"F": both * c[:, None, None, :], "U": both * d[:, None, None, :]}

    def joined(self, close: float) -> list[Floats]:
        """Fit until every margin is met to within this share of the rows, and lay the tables out."""
        with np.errstate(over="ignore", invalid="ignore"):  # see FAR
            return self._fitted(close)

    def _fitted(self, close: float) -> list[Floats]:
        result: dict[int, Floats] = {}
        left: Codes = np.arange(len(self.tables))
        before: list[Floats] = []  # what margins were off by, round by round
        for number in range(ROUNDS):
            tilt, looked_at = self.tilted and number < TILTS, not self.tilted or number >= TILTS - 1
            off = self._fit_last(tilt, looked_at)
            for name in AXES:
                off = np.maximum(off, self._fit(name, tilt, looked_at))
            done = (off <= close * self.totals) & looked_at
            before.append(off)
            if number >= 2 * TILTS:
                done |= off > STALLED * before[-1 - TILTS]
            if number % LOOKS == LOOKS - 1:
                done |= ~self._near
            if number == ROUNDS - 1:
                done[:] = True
            if done.any():
                near, factors = self._near, self._all_factors()
                for index, at in zip(left[done].tolist(), np.flatnonzero(done).tolist(), strict=True):
                    result[index] = self._laid_out(index, at, factors) if near[at] else self.tables[index].alone(close)
                left = left[~done]
                if not len(left):
                    break
                self._keep(~done)
                before = [each[~done] for each in before[-TILTS:]]
        return [result[index] for index in range(len(self.tables))]

    @property
    def _near(self) -> Flags:
        """Whether all factors of each table are far from overflow and underflow, (tables,)."""
        most = [each.reshape(len(each), -1).max(axis=1) for each in self.factors.values()]
        return np.asarray(np.all([each < np.finfo(each.dtype).max ** FAR for each in most], axis=0), dtype=np.bool_)

    def _keep(self, these: Flags) -> None:
        """Restrict the stack to some of its tables."""
        self.wanted, self.contrast = (
            {pair: each[these] for pair, each in listed.items()} for listed in (self.wanted, self.contrast)
        )
        self.factors, self.products = (
            {name: each[these] for name, each in listed.items()} for listed in (self.factors, self.products)
        )
        self.totals, self.p, self.q = self.totals[these], self.p[these], self.q[these]
        self.signs = [each[these] for each in self.signs]

    def _fit(self, name: str, tilt: bool, looked_at: bool) -> Floats:
        """Bring F or U to its contrast and its pairs; largest sums of absolute errors before, (tables,)."""
        factors, other = self.factors[name], self.factors["U" if name == "F" else "F"]
        last = self.factors["M"].transpose(0, 2, 1) if name == "F" else self.factors["M"]
        flat = other.reshape(len(other), -1, other.shape[-1])
        now = (flat @ last).reshape(factors.shape)
        if self.tilted:
            product = self.products["M"]
            odd = flat @ (last * (product.transpose(0, 2, 1) if name == "F" else product))
            even, slope = self._coefficients()
            if self.four:
                now *= even[..., None]
            odd = odd.reshape(factors.shape)
            odd *= slope[..., None]
            now += odd
        now *= factors
        if tilt and self.four:
            signs, wanted = self.products[name], self.contrast[AXES[name]]
            rows = np.einsum("tabc->t", now)
            more, less = _tilting(rows, np.einsum("tabc,tabc->t", now, signs), wanted)
            move = signs * ((more - less) / 2.0)[:, None, None, None]
            move += ((more + less) / 2.0)[:, None, None, None]
            now *= move
            factors *= move
        off, pairs = self.totals, [pair for pair in FITS[name] if pair in self.wanted]
        for pair in pairs:
            axis, wanted = FITS[name][pair], self.wanted[pair]
            final, before = pair == pairs[-1], (slice(None),) * axis
            margin = now[*before, 0] if final and now.shape[axis] == 1 else np.add.reduce(now, axis=axis)
            ratio = _ratio(margin, wanted)[*before, None]
            factors *= ratio
            if not final:
                now *= ratio
            if looked_at:
                margin -= wanted
                error = np.abs(margin, out=margin).reshape(len(margin), -1).sum(axis=1)
                off = error if pair == pairs[0] else np.maximum(off, error)
        return off

    def _coefficients(self) -> tuple[Floats, Floats]:
        """Factors 1 + p q s(a) s(b) and p s(a) + q s(b), (tables, a, b) each."""
        a, b = self.signs[A][:, :, None], self.signs[B][:, None, :]
        p, q = self.p[:, None, None], self.q[:, None, None]
        return (1.0 + p * q * a * b, p * a + q * b) if self.four else (p, q * b)

    def _fit_last(self, tilt: bool, looked_at: bool) -> Floats:
        """Bring M to the contrasts of its axes and to its pair; sums of absolute errors before, (tables,)."""
        first, second, last, wanted = self.factors["F"], self.factors["U"], self.factors["M"], self.wanted[C, D]
        number, c, d = len(first), first.shape[-1], second.shape[-1]
        flat = second.reshape(number, -1, d)
        if not self.tilted:
            now = first.reshape(number, -1, c).transpose(0, 2, 1) @ flat
        else:
            a, b = self.signs[A][:, :, None, None], self.signs[B][:, None, :, None]
            signed = [first, b * first, a * first, a * (b * first)] if self.four else [first, b * first]
            sums = [each.reshape(number, -1, c).transpose(0, 2, 1) @ flat for each in signed]
            if tilt:
                self._tilt_last(sums)
            p, q, product = self.p[:, None, None], self.q[:, None, None], self.products["M"]
            if self.four:
                now, odd = sums[0] + p * q * sums[3], p * sums[2] + q * sums[1]
            else:
                now, odd = sums
                odd *= q
            odd *= product
            now += odd
        now *= last
        last *= _ratio(now, wanted)
        if not looked_at:
            return self.totals
        now -= wanted
        return np.asarray(np.abs(now, out=now).sum(axis=(1, 2)))

    def _tilt_last(self, sums: Sequence[Floats]) -> None:
        """Bring tables nearer to the contrasts of M's axes with b and with a. sums: of F U by 1, s(b), s(a), s(ab)."""
        last = self.factors["M"]
        signed = last * self.products["M"]
        x, y = ([np.einsum("tcd,tcd->t", each, by) for each in sums] for by in (last, signed))
        none = np.zeros(len(last))
        (x1, xb, xa, xab), (y1, yb, ya, yab) = ((*each, none, none)[:4] for each in (x, y))
        for of_b, three in ((True, (B, C, D)), (False, (A, C, D))):
            if three not in self.contrast:
                continue
            p, q = self.p, self.q
            rows = x1 + p * q * xab + p * ya + q * yb
            now = yb + p * q * ya + p * xab + q * x1 if of_b else ya + p * q * yb + p * x1 + q * xab
            more, less = _tilting(rows, now, self.contrast[three])
            tilt = q if of_b else p
            up, down = (1.0 + tilt) * more, (1.0 - tilt) * less
            mean, tilt = (up + down) / 2.0, (up - down) / (up + down)
            self.p, self.q = (p, tilt) if of_b else (tilt, q)
            x1, xb, xa, xab, y1, yb, ya, yab = (mean * each for each in (x1, xb, xa, xab, y1, yb, ya, yab))
            last *= mean[:, None, None]

    def _all_factors(self) -> list[tuple[Places, Floats]]:
        """Factors of all cells along some axes; the last two, times the two before them, are added."""
        even, slope = self._coefficients()
        last, whole = self.factors["M"], [(AXES[name], self.factors[name]) for name in AXES]
        if not self.tilted:
            return [*whole, ((C, D), last)]
        whole += [((A, B), slope), ((C, D), last * self.products["M"]), ((C, D), last)]
        return [*whole, ((A, B), even)] if self.four else whole

    def _laid_out(self, number: int, at: int, factors: Sequence[tuple[Places, Floats]]) -> Floats:
        """Cells of one table: its number among all, and its place in the stack."""
        table, order = self.tables[number], self.orders[number]
        axes = dict(zip(range(4 - len(order), 4), order, strict=True))
        cuts, spread = {place: slice(len(table.one_way[axis])) for place, axis in axes.items()}, []
        for places, values in factors:
            held = [axes[place] for place in places if place in axes]
            cut = values[(at, *(cuts.get(place, 0) for place in places))]
            turned = np.ascontiguousarray(cut.transpose(sorted(range(len(held)), key=held.__getitem__)))
            spread.append(spread_out(turned, tuple(held), range(len(order))))
        first, second, *tilts = spread
        cells = first * second
        last = tilts[0]
        if self.tilted:
            last = tilts[0] * tilts[1]
            last += tilts[2] * tilts[3] if self.four else tilts[2]
        cells *= last
        return cells  # in the precision that they were fitted in


def _ratio(now: Floats, wanted: Floats) -> Floats:
    """Factors from margins to wanted ones; 0 where nothing can be scaled up."""
    ratio = np.maximum(now, LITTLE)
    np.divide(wanted, ratio, out=ratio)
    ratio *= now > LITTLE
    return np.asarray(ratio)


def _tilting(rows: Floats, now: Floats, wanted: Floats) -> list[Floats]:
    """Factors on cells of positive and of negative sign towards wanted contrasts, (tables,) each; 1 where none is."""
    factors = [np.maximum(rows + sign * wanted, 0.0) / np.maximum(rows + sign * now, LITTLE) for sign in (1.0, -1.0)]
    return [np.where(np.isnan(each), 1.0, np.clip(each, 1.0 - MOST_TILT, 1.0 + MOST_TILT)) for each in factors]
