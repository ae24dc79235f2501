"""Error terms of answers from joined marginals: normal covariances, and guaranteed bounds from the noisy tables.

`JoinedNoise` turns the error model of a joined table (table.py) into covariances of the sums that a query asks for, by
group. `FromTables` bounds each sum, by least squares over boxes (guaranteed.py) where measurement rounds are known, and
by Frechet bounds table by table otherwise.

Frechet bounds (`Tables`): a weighted sum is at most the sum over any table's cells of the largest weight in each; rows
in two sets are at least those in the one and in the other less all rows (Frechet 1935). A table is used, and gets its
share of the tail, by what was measured before it.

Reach (`longest_reach`, `longest_tail`): quantiles of sums of a few noises in standard errors, where sums of many are
taken as normal; Laplace noise has longer tails, and narrow discrete noise has steps.

Structural zeros (`Narrowed`, `PossibleNoise`). Where a question names an attribute and one that follows from it, the
coarser is no axis of its own (`Narrowed`): its values are classes of the finer one's. An impossible cell holds 0
whatever weight it has in a sum, so the error variance of a sum is at most the least over all such weights (conditioning
of normal errors on those that are known to be 0); `PossibleNoise` takes the smaller of two: weights as asked, and none
on impossible cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import lru_cache
from itertools import combinations, dropwhile, takewhile
from math import ceil, inf, prod, sqrt
from statistics import NormalDist

import numpy as np

from sfumato.answers.evaluate import NoiseSource, Sum, Terms, distinct_ends
from sfumato.answers.fieller import NormalErrors
from sfumato.answers.guaranteed_columns import Source
from sfumato.answers.noise_sum import Ends, half_width, lowest
from sfumato.answers.question import ByStatistic, Gathered, Groups, WeightRange, Weights
from sfumato.arrays import Codes, Flags, Floats
from sfumato.domain.structural import Structure
from sfumato.frozen import dataclass
from sfumato.measurement import Gaussian, Laplace, Measurement, Noise
from sfumato.models.margins.file import CONTRAST, MISFIT
from sfumato.models.margins.guaranteed import WIDE, Boxes, Misfits
from sfumato.models.margins.table import Coarse, JoinedErrors, Places, SumWeights, guess_of, guess_with_zeros
from sfumato.queries import Identity
from sfumato.sql import Amount

MOST_TOLD_APART = 2**20  # cells, times sets of attributes, up to which it is said which set's model matters most
NOTHING = 1e-9  # of the largest weight: what is left of weights that cancel


@dataclass(frozen=True, eq=False)
class ErrorsOf:
    """Covariance models of one statistic: noise, model error, and components without any measurement."""

    noise: JoinedErrors
    model: JoinedErrors
    unknown: JoinedErrors


@dataclass(frozen=True, eq=False)
class JoinedNoise(NoiseSource):
    """Errors of all statistics of a joined table. names: of its axes; kinds: class of every value of an attribute.

    errors_of: error model of each statistic, made on first use. recurs: component of a statistic's model errors that
    the other periods of a series share; None where that is unknown.
    """

    names: tuple[str, ...]
    kinds: Mapping[str, Codes]
    shape: tuple[int, ...]
    errors_of: Mapping[str, Callable[[], ErrorsOf]]
    recurs: Callable[[str, JoinedErrors], JoinedErrors] | None = None
    lags: Floats | None = None
    known: dict[str, ErrorsOf] = field(default_factory=dict)  # as they are asked for

    def errors(self, of: str) -> ErrorsOf:
        """Error model of a statistic."""
        if of not in self.known:
            self.known[of] = self.errors_of[of]()
        return self.known[of]

    def terms(self, sides: Sequence[Sum], cells: Gathered, groups: Groups) -> Sequence[Terms]:
        """Noise and model error terms of the sums of every group; None for a group with an unmeasured component."""
        columns, answer = distinct_ends(sides)
        axes, where = self._grouping(groups)
        noise, model = (np.zeros((len(groups.present), len(columns), len(columns))) for _ in range(2))
        unknown = np.zeros(len(groups.present), dtype=bool)
        for of, split, whole in self._asked(columns):
            errors = self.errors(of)
            noise += errors.noise.covariances(split, whole, axes)[where]
            model += errors.model.covariances(split, whole, axes)[where]
            if errors.unknown.variances:
                largest = max(float(np.abs(w).max()) for w in (*split, *whole) if w is not None)
                left = np.broadcast_to(errors.unknown.covariances(split, whole, axes)[where], noise.shape)
                unknown |= (np.diagonal(left, axis1=1, axis2=2) > (NOTHING * largest) ** 2).any(axis=1)
        return NormalErrors(noise, model, unknown, np.array(answer))

    def recurring(self, sides: Sequence[Sum], cells: Gathered, groups: Groups) -> Floats | None:
        if self.recurs is None:
            return None
        columns, answer = distinct_ends(sides)
        axes, where = self._grouping(groups)
        result = np.zeros((len(groups.present), len(columns), len(columns)))
        for of, split, whole in self._asked(columns):
            result += self.recurs(of, self.errors(of).model).covariances(split, whole, axes)[where]
        return result[:, answer][:, :, answer]

    def _grouping(self, groups: Groups) -> tuple[Places, tuple[Codes, ...]]:
        """Axes by which groups are made, and where every present group stands along them."""
        axes = tuple(sorted(self.names.index(name) for name in groups.names if name in self.names))
        return axes, tuple(self.kinds[self.names[axis]][groups.code(self.names[axis])] for axis in axes)

    def _asked(self, columns: Sequence[tuple[Sum, str]]) -> Iterator[tuple[str, SumWeights, SumWeights]]:
        """Statistics with nonzero weight in some sums, with the weights on a group's cells and on all cells."""
        for of in self.errors_of:
            split = [self._weights(side.split, of, end) for side, end in columns]
            whole = [self._weights(side.whole, of, end) for side, end in columns]
            if any(weights is not None for weights in (*split, *whole)):
                yield of, split, whole

    def _weights(self, by_statistic: ByStatistic, of: str, end: str) -> Floats | None:
        """Weights of one statistic at one end of its interval, in the shape of the table; None for none."""
        weights = by_statistic.get(of)
        return None if weights is None else np.asarray(getattr(weights, end), dtype=np.float64).reshape(self.shape)

    def largest_model_part(self, side: Sum, groups: Groups) -> tuple[str, ...] | None:
        """Attributes whose joint table contributes most to the model's variance of a sum, over all groups.

        None where there is no model error, or where it would take long to compute.
        """
        axes = tuple(sorted(self.names.index(name) for name in groups.names if name in self.names))
        shares: dict[tuple[int, ...], float] = {}
        for of in self.errors_of:
            split, whole = (self._weights(kind, of, "value") for kind in (side.split, side.whole))
            if split is None and whole is None:
                continue
            errors = self.errors(of)
            parts = {places: variances for places, variances in errors.model.variances.items() if variances.any()}
            if len(parts) * prod(self.shape) > MOST_TOLD_APART:
                continue
            for places, variances in parts.items():
                blocks = [
                    Coarse(scale.shares, {places: scale.variances[places]})
                    for scale in errors.model.coarse
                    if places in scale.variances
                ]
                alone = replace(errors.model, variances={places: variances}, apart={}, coarse=blocks)
                variance = float(alone.covariances([split], [whole], axes)[..., 0, 0].sum())
                shares[places] = shares.get(places, 0.0) + variance
        if not shares or max(shares.values()) <= 0.0:
            return None
        return tuple(self.names[place] for place in max(shares, key=lambda places: shares[places]))


Listed = Sequence[tuple[Places, Measurement]]


@dataclass(frozen=True, eq=False)
class FromTables(Source):
    """Guaranteed bounds of sums from noisy marginal tables.

    sizes: of all attributes. kinds: for the attributes of a query, the class of every value. measured: all measurements
    in order. guessed: the number of all rows, then the one-way margins: misfits of pairs are distances from products of
    these.
    """

    sizes: tuple[int, ...]
    kinds: Mapping[int, Codes]
    measured: tuple[tuple[Places, Measurement], ...]
    guessed: tuple[Floats, ...] = ()
    structure: Structure | None = None
    boxes: dict[str, Boxes | None] = field(default_factory=dict)  # by statistic, as they are asked for

    @property
    def work(self) -> int:
        """Number of noisy answers in tables that share an attribute with the query."""
        asked = {*self.kinds}
        return sum(len(one.answers) for places, one in self.measured if one.of != CONTRAST and asked & {*places})

    def ends(self, query: WeightRange, cells: Gathered, tail: float) -> Ends:
        """Guaranteed bounds of a weighted sum; the tail probability is divided evenly among its statistics."""
        return self.ends_within(query, cells, tail, inf)

    def ends_within(self, query: WeightRange, cells: Gathered, tail: float, beyond: float) -> Ends:
        """Bounds of a sum; of one count alone the lower is -inf where the upper is greater than `beyond`."""
        shape = [int(kind.max()) + 1 for kind in self.kinds.values()]
        parts, low, high = query.statistics, 0.0, 0.0
        for of in parts:
            low_weights = query.low[of].reshape(shape)
            same = query.high[of] is query.low[of]
            weights = (low_weights, low_weights if same else query.high[of].reshape(shape))
            if of not in self.boxes:
                self.boxes[of] = self.boxes_of(of)
            boxes = self.boxes[of]
            ends = (
                None
                if boxes is None
                else boxes.ends(*weights, tail / len(parts), beyond if parts == ("count",) else inf)
            )
            if ends is None:
                mine = [(places, measurement) for places, measurement in self.measured if measurement.of == of]
                ends = Tables(self.sizes, mine, of == "count").ends(*weights, self.kinds, tail / len(parts))
            low, high = low + ends.low, high + ends.high
        return Ends(low, high)

    def ends_by_cell(self, tail: float, beyond: Floats) -> tuple[Floats, Floats] | None:
        if "count" not in self.boxes:
            self.boxes["count"] = self.boxes_of("count")
        boxes = self.boxes["count"]
        return None if boxes is None else boxes.ends_by_class(tail, beyond)

    def boxes_of(self, of: str) -> Boxes | None:
        """Measurements of a statistic in rounds; None where each table may depend on the noise of the one before.

        Of counts, one-way tables come first, then misfits, then tables that were all chosen by these; of several
        releases, whose noise is independent, in the same order. Sums of measures are along sets of attributes that
        the schema alone fixes.
        """
        if of != "count":
            sums = [(places, measurement) for places, measurement in self.measured if measurement.of == of]
            return Boxes(self.sizes, self.kinds, [], sums, counts=False) if all(map(self._whole, sums)) else None
        first = list(takewhile(lambda item: item[1].of == of and len(item[0]) == 1, self.measured))
        later = self.measured[len(first) :]
        every = [(place,) for place in range(len(self.sizes))]
        if not later or [places for places, _ in first] != every * max(1, len(first) // len(every)):
            return None
        tables = list(
            takewhile(
                lambda item: item[1].of == of and self._whole(item), dropwhile(lambda item: item[1].of != of, later)
            )
        )
        if later[0][1].of != MISFIT or not tables:
            return None
        return Boxes(self.sizes, self.kinds, first, tables, self._misfits(later[0][1]))

    def _misfits(self, measured: Measurement) -> Misfits:
        """Noisy misfit, its noise and the product table of margins, for each pair of the query that has a misfit."""
        cells = {pair: self.sizes[pair[0]] * self.sizes[pair[1]] for pair in combinations(range(len(self.sizes)), 2)}
        known = self.structure
        if known is not None:
            cells = {pair: each for pair, each in cells.items() if known.essential(pair) == pair}
        if not self.guessed or not 0 < len(measured.answers) <= len(cells):
            return {}
        most = sorted(cells.values())[len(measured.answers) - 1]
        pairs = [pair for pair, each in cells.items() if each <= most]
        if len(pairs) != len(measured.answers):
            return {}
        listed = zip(pairs, measured.answers.tolist(), strict=True)
        asked = ((pair, misfit) for pair, misfit in listed if {*pair} <= {*self.kinds})

        def guess(pair: Places) -> Floats:
            return guess_of(self.guessed, pair) if known is None else guess_with_zeros(self.guessed, pair, known)

        return {pair: (float(misfit), measured.noise, guess(pair)) for pair, misfit in asked}

    def _whole(self, item: tuple[Places, Measurement]) -> bool:
        """Whether a measurement is of every single cell of its table."""
        places, measurement = item
        cells = prod(self.sizes[place] for place in places)
        return bool(places) and isinstance(measurement.queries, Identity) and len(measurement.answers) == cells


# Of the tail, for all rows, tables of one attribute, of some and of all attributes of a question; and of one attribute.
SHARES = {"total": 1 / 8, "single": 1 / 8, "some": 1 / 4, "all": 1 / 2}
SHARES_OF_ONE = {"single": 1 / 2, "all": 1 / 2}
BETTER = 0.5  # times the variance of an earlier table of the same attributes, from which a table is used too


@dataclass(frozen=True, eq=False)
class _Used:
    """Frechet bounds from one table. along: the attributes of the query that the table has.

    inside: lower bound of the rows with the query's values of these attributes.
    """

    along: Places
    ends: Ends
    inside: float


@dataclass(frozen=True, eq=False)
class Tables:
    """Guaranteed bounds from noisy tables of one statistic, in the order of measurement. sizes: of all attributes."""

    sizes: tuple[int, ...]
    measured: Sequence[tuple[Places, Measurement]]
    counts: bool

    def ends(self, low: Floats, high: Floats, kinds: Mapping[int, Codes], tail: float) -> Ends:
        """Frechet bounds of a weighted sum over cells, from all measured marginals.

        low, high: bounds of the weights, an axis for each attribute of `kinds`. kinds: by attribute, the class of every
        value; values of one class weigh the same. tail: probability that the bounds may miss.
        """
        used, attributes = list[_Used](), tuple(kinds)
        product = self.counts and bool(self.measured) and len(attributes) > 1 and _is_product(low, attributes)
        seen: dict[tuple[str, Places], float] = {}
        number = dict.fromkeys(SHARES, 0)
        for places, table in self.measured:
            along = tuple(attribute for attribute in places if attribute in kinds)
            least, most = _over_others(low, attributes, along, np.min), _over_others(high, attributes, along, np.max)
            full = np.array_equal(least, low) and np.array_equal(most, high)
            if not full and not (self.counts and along):
                continue
            kind = "all" if full and len(places) > 1 else "single" if len(places) == 1 else "some"
            variance = table.noise.variance * prod(
                self.sizes[attribute] for attribute in places if attribute not in kinds
            )
            if variance > BETTER * seen.get((kind, along), inf):
                continue
            seen[kind, along] = variance
            number[kind] += 1
            share = _share(kind, number[kind], len(attributes)) * tail
            if product:  # a set of values weighs all or nothing: what is in it serves better than what weighs anyhow
                least = _over_others(low, attributes, along, np.max)
            below, above = (_spread(weights, attributes, places, kinds, self.sizes) for weights in (least, most))
            rows = np.arange(len(table.answers))
            inside, high_end = lowest(table, rows, below, share), -lowest(table, rows, -above, share)
            if self.counts and above.min(initial=0.0) >= 0.0:  # as in guaranteed.py: not further below 0 than this
                deviation = sqrt(table.noise.variance * float(above @ above))
                high_end += max(0.0, -deviation - float(above @ table.answers))
            used.append(_Used(along, Ends(inside if full or not product else 0.0, high_end), inside))
        lows, highs = [one.ends.low for one in used], [one.ends.high for one in used]
        if product:
            lows.append(self._overlap(used, attributes, SHARES["total"] * tail))
        return Ends(max(lows, default=-inf), min(highs, default=inf))

    def _overlap(self, used: Sequence[_Used], attributes: Places, tail: float) -> float:
        """Lower bound of the rows in several sets at once: rows in each, less all rows for all but one."""
        _, table = self.measured[0]
        rows = np.arange(len(table.answers))
        every = -lowest(table, rows, -np.ones(len(rows)), tail)
        left, total, sets = set(attributes), 0.0, 0
        while left:
            best = max(used, key=lambda one: (len(left & set(one.along)), one.inside), default=None)
            if best is None or not left & set(best.along):
                return -inf
            left -= set(best.along)
            total, sets = total + best.inside, sets + 1
        return total - (sets - 1) * every


def _share(kind: str, number: int, attributes: int) -> float:
    """Share of the tail for the n-th table of a kind.

    Every attribute of the query has a reserved one-way table; the k-th table after these has 1 / (k (k + 1)) of the
    kind's share, which sum to at most all of it.
    """
    share, first = (SHARES_OF_ONE if attributes < 2 else SHARES)[kind], max(1, attributes) if kind == "single" else 0
    if first:
        share /= 2.0
    return share / first if number <= first else share / ((number - first) * (number - first + 1))


def _over_others(weights: Floats, attributes: Places, along: Places, least_or_most: object) -> Floats:
    """Least or greatest weight over the attributes that a table lacks, broadcast to the shape of the weights."""
    others = tuple(axis for axis, attribute in enumerate(attributes) if attribute not in along)
    extreme: Floats = np.asarray(least_or_most(weights, axis=others, keepdims=True))  # type: ignore[operator]
    return np.broadcast_to(extreme, weights.shape)


def _spread(
    weights: Floats, attributes: Places, places: Places, kinds: Mapping[int, Codes], sizes: Sequence[int]
) -> Floats:
    """Weights on the cells of a table, flat, from weights along the attributes of a query."""
    first = weights[tuple(slice(None) if attribute in places else 0 for attribute in attributes)]
    here = [attribute for attribute in attributes if attribute in places]
    for axis, attribute in enumerate(here):
        first = np.take(first, kinds[attribute], axis=axis)
    shape = [sizes[attribute] if attribute in here else 1 for attribute in places]
    return np.ascontiguousarray(
        np.broadcast_to(first.reshape(shape), [sizes[attribute] for attribute in places])
    ).reshape(-1)


def _is_product(weights: Floats, attributes: Places) -> bool:
    """Whether weights are the indicator of a product of sets of values."""
    if not np.isin(weights, (0.0, 1.0)).all():
        return False
    product = np.ones_like(weights)
    for attribute in attributes:
        product = product * _over_others(weights, attributes, (attribute,), np.max)
    return bool(np.array_equal(product, weights))


FEW = (1, 2, 3, 4, 6, 9)  # noises in a sum


@lru_cache(maxsize=256)
def longest_reach(noises: frozenset[Noise], confidence: float) -> float:
    """Largest quantile, in standard errors, of |sum| of a few noises of one kind at a confidence.

    >>> from fractions import Fraction; from sfumato.measurement import Laplace
    >>> round(longest_reach(frozenset({Laplace(Fraction(50))}), 0.95), 2)
    2.12
    >>> round(longest_reach(frozenset({Laplace(Fraction(2, 5))}), 0.95), 2)
    2.62
    """
    longest = longest_tail(noises, confidence)
    return 0.0 if longest is None else _reach_of_few(*longest, confidence)


@lru_cache(maxsize=256)
def longest_tail(noises: frozenset[Noise], confidence: float) -> tuple[Noise, int] | None:
    """Noise and number of summands whose sum has the largest quantile in standard errors; None if no noise is given.

    Quantiles are computed in order of their upper bounds, largest first, until no other can be larger.
    """
    widest = max((noise for noise in noises if isinstance(noise, Laplace)), key=lambda one: one.scale, default=None)
    sums = [(_most_reach(noise, many, confidence, widest), noise, many) for noise in noises for many in FEW]
    longest: tuple[float, float, int] = -inf, 0.0, 0
    found: tuple[Noise, int] | None = None
    for bound, noise, many in sorted(sums, key=lambda one: -one[0]):
        if bound < longest[0] - NOTHING:
            break
        reach = _reach_of_few(noise, many, confidence), noise.variance, -many
        if found is None or reach > longest:
            longest, found = reach, (noise, many)
    return found


def _most_reach(noise: Noise, many: int, confidence: float, widest: Laplace | None) -> float:
    """Upper bound of the quantile of |sum| of several noises in standard errors.

    Laplace noise is the difference of two exponential variables rounded down, so a sum of n is within n of one of
    continuous noises, whose quantile grows with the scale: that of the widest bounds the others. Of Gaussian noise see
    `guaranteed._reach`.
    """
    deviation = sqrt(noise.variance * many)
    if isinstance(noise, Laplace) and widest is not None and noise.scale >= 1 and many > 1:
        continuous = _reach_of_few(widest, many, confidence) * sqrt(widest.variance * many) + many
        return (float(noise.scale / widest.scale) * continuous + many) / deviation
    if isinstance(noise, Gaussian) and noise.sigma_squared >= WIDE:
        return ceil(-NormalDist().inv_cdf((1.0 - confidence) / 2.0) * deviation - 0.5 + NOTHING) / deviation
    return _reach_of_few(noise, many, confidence)


@lru_cache(maxsize=4096)
def _reach_of_few(noise: Noise, many: int, confidence: float) -> float:
    """Quantile of |sum| of several noises in standard errors, at a confidence."""
    deviation = sqrt(noise.variance * many)
    return half_width([(1.0, noise, many)], confidence) / deviation if deviation > 0.0 else 0.0


@dataclass(frozen=True, eq=False)
class Narrowed:
    """Query rewritten without attributes that are functions of others: only the finer ones stay as axes.

    shape: number of classes of every original axis. kinds: for each axis that stays, the class of every value, refined
    by the classes of its functions. cells: for every cell of the axes that stay, its index among the original cells.
    roots: for each axis left out, the axis that it is a function of, and its class for every class of that axis.
    """

    shape: tuple[int, ...]
    kinds: Mapping[int, Codes]
    cells: Codes
    roots: Mapping[int, tuple[int, Codes]]
    before: Mapping[int, Codes]

    @classmethod
    def of(cls, structure: Structure, kinds: Mapping[int, Codes]) -> Narrowed | None:
        """Rewrite a query; None where no attribute is a function of another. kinds: class of every value, by axis."""
        left = structure.essential(tuple(kinds))
        if len(left) == len(kinds):
            return None
        behind = {place: structure.behind(place, left) for place in kinds if place not in left}
        narrow: dict[int, Codes] = {}
        before: dict[int, Codes] = {}
        roots: dict[int, tuple[int, Codes]] = {}
        for place in left:
            mine = [(coarse, image) for coarse, (root, image) in behind.items() if root == place]
            columns = np.stack([kinds[place], *(kinds[coarse][image] for coarse, image in mine)])
            classes, narrow[place] = np.unique(columns, axis=1, return_inverse=True)
            narrow[place] = narrow[place].reshape(-1)
            before[place] = classes[0]
            roots |= {coarse: (place, classes[1 + n]) for n, (coarse, _) in enumerate(mine)}
        sizes = {place: int(kind.max(initial=0)) + 1 for place, kind in kinds.items()}
        cells: Codes = np.zeros([len(before[place]) for place in left], dtype=np.int64)
        for place in kinds:
            root, codes = roots.get(place, (place, before.get(place)))
            along = [len(before[root]) if each == root else 1 for each in left]
            cells = cells * sizes[place] + np.asarray(codes).reshape(along)
        return cls(tuple(sizes.values()), narrow, cells, roots, before)

    def expand(self, table: Floats) -> Floats:
        """Expand a table of the rewritten query to the original axes, with 0 in all other cells."""
        result = np.zeros(self.shape)
        result.reshape(-1)[self.cells.reshape(-1)] = table.reshape(-1)
        return result


@dataclass(frozen=True, eq=False)
class PossibleNoise(NoiseSource):
    """Errors of a joined table with structural zeros.

    inner: errors of the table, or of the narrowed one. names, kinds: axes of the question and classes of their values.
    possible: flags of the possible cells of inner's table, flat; None where all are.
    """

    inner: JoinedNoise
    names: Mapping[int, str]
    kinds: Mapping[int, Codes]
    possible: Flags | None
    narrowed: Narrowed | None

    def terms(self, sides: Sequence[Sum], cells: Gathered, groups: Groups) -> Sequence[Terms]:
        """Error terms of each group, of weights as asked or without impossible cells: those with the less variance."""
        result: list[Terms] = [()] * len(groups.present)
        for chosen, inside, some in self._by_key(groups):
            listed = [self._sides(sides, inside)]
            if self.possible is not None:
                listed.append(self._sides(sides, self.possible if inside is None else self.possible & inside))
            found = [self.inner.terms(each, cells, some) for each in listed]
            for number, each in zip(chosen.tolist(), zip(*found, strict=True), strict=True):
                result[number] = min(each, key=_variance)
        return result

    def largest_model_part(self, side: Sum, groups: Groups) -> tuple[str, ...] | None:
        (inner,), known = self._sides([side], None), [name for name in groups.names if name in self.inner.names]
        if len(known) < len(groups.names):
            return None
        return self.inner.largest_model_part(inner, groups)

    def _sides(self, sides: Sequence[Sum], inside: Flags | None) -> list[Sum]:
        """Sums with weights on inner's cells, 0 on those that are not inside."""
        made: dict[int, Floats] = {}

        def moved(weights: Floats) -> Floats:
            if id(weights) not in made:
                every = np.asarray(weights, dtype=np.float64)
                every = every if self.narrowed is None else every[self.narrowed.cells.reshape(-1)]
                made[id(weights)] = every if inside is None else every * inside
            return made[id(weights)]

        def each(parts: ByStatistic) -> ByStatistic:
            return {of: Weights(moved(w.value), moved(w.low), moved(w.high)) for of, w in parts.items()}

        return [replace(side, split=each(side.split), whole=each(side.whole)) for side in sides]

    def _by_key(self, groups: Groups) -> list[tuple[Codes, Flags | None, Groups]]:
        """Group the present groups by their values of attributes that are functions of one not grouped by.

        Each: numbers of the groups, flags of inner's cells with these values, and the groups as inner knows them.
        """
        narrowed = self.narrowed
        every = np.arange(len(groups.present))
        if narrowed is None or not any(self.names[place] in groups.names for place in narrowed.roots):
            return [(every, None, groups)]
        size = {place: len(kind) for place, kind in self.kinds.items()}
        left = [place for place in narrowed.kinds if self.names[place] in groups.names]
        codes = {place: groups.code(self.names[place]) for place in left}
        keys = np.zeros(len(every), dtype=np.int64)
        fits = np.ones(len(every), dtype=bool)
        inside_of: list[tuple[int, Codes, Codes]] = []
        for place, (root, classes) in narrowed.roots.items():
            if self.names[place] not in groups.names:
                continue
            wanted = self.kinds[place][groups.code(self.names[place])]
            if root in left:  # the group is one of the finer attribute, or of none
                mine = classes[narrowed.kinds[root][codes[root]]]
                fits &= mine == wanted
            else:
                keys = keys * (int(classes.max(initial=0)) + 2) + wanted
                inside_of.append((root, classes, wanted))
        result: list[tuple[Codes, Flags | None, Groups]] = []
        axes = tuple(narrowed.kinds)
        for key in np.unique(keys[fits]).tolist():
            chosen = every[fits & (keys == key)]
            inside = np.ones(narrowed.cells.shape, dtype=bool)
            for root, classes, wanted in inside_of:
                along = [len(classes) if axis == root else 1 for axis in axes]
                inside &= (classes == wanted[chosen[0]]).reshape(along)
            shape = tuple(size[place] for place in left)
            present = np.zeros(len(chosen), dtype=np.int64)
            for place in left:
                present = present * size[place] + codes[place][chosen]
            result.append((chosen, inside.reshape(-1), Groups(tuple(self.names[p] for p in left), shape, present)))
        return result


def _variance(terms: Terms) -> float:
    """Variance of the first sum; infinite where it is not determined."""
    if terms is None:
        return inf
    return sum(term.noise.variance * term.multiplicity * term.weights[0] ** 2 for term in terms)


@dataclass(frozen=True, eq=False)
class PossibleSource(Source):
    """Guaranteed bounds with structural zeros: exactly 0 for sums of impossible cells.

    possible: flags of the cells of the view. narrowed: the question as `inner` knows it.
    """

    inner: Source
    possible: Flags
    narrowed: Narrowed | None = None

    @property
    def work(self) -> int:
        return self.inner.work

    def refuse(self, amounts: Sequence[Amount]) -> None:
        self.inner.refuse(amounts)

    def ends(self, query: WeightRange, cells: Gathered, tail: float) -> Ends:
        weights = (*query.low.values(), *query.high.values())
        if not any((each * self.possible).any() for each in weights):
            return Ends(0.0, 0.0)
        if self.narrowed is not None:
            places = self.narrowed.cells.reshape(-1)
            low, high = ({of: each[places] for of, each in part.items()} for part in (query.low, query.high))
            query = replace(query, low=low, high=high)
        return self.inner.ends(query, cells, tail)
