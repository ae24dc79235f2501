"""Guaranteed bounds of counts from noisy marginal tables: least squares over boxes, and Frechet-type bounds.

Boxes (`Boxes`). A box restricts each of some attributes S to a set of values. For A within S let n_A be the rows with
such values along A. Every table, aggregated to inside and outside along each attribute of S, is a linear function of
the n_A whose A it contains, plus independent noise; the tables of one round are pooled by least squares. What no table
contains is bounded because no cell of insides and outsides is negative:

    n_S <= n_A,   n_abc <= n - n_a - n_b - n_c + n_ab + n_ac + n_bc,   n_S >= n_A + (n_rj - n_r for every other j)

with r in A, or n_j - n where no pair is known (Bonferroni; Hunter 1976). A measured misfit L = sum |x - g| of a pair
bounds the four corners of the box: |4 n_ab - 2 n_a - 2 n_b + n - (g_11 - g_10 - g_01 + g_00)| <= L.

*Why this holds.* The first round's tables are fixed by the schema, misfits depend on the first round, and tables of the
second on both. So given all that came earlier the noises of each of the three are independent with known distributions,
and each has a share of the tail fixed in advance. Which bounds of the second round are used, and with which parts of
its share, is decided by noise sizes, the first round and misfits, never by its own answers. The parts add up (union
bound).

Tables one by one (`Tables`), where rounds are not known. Frechet bounds: a weighted sum is at most the sum over any
table's cells of the largest weight in each; rows in two sets are at least those in the one and in the other less all
rows (Frechet 1935). A table is used, and gets its share of the tail, by what was measured before it.

`FromTables` takes boxes where it can, for each statistic of a sum; `PossibleSource` knows structural zeros besides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from itertools import combinations, dropwhile, islice, product, takewhile
from math import inf, prod, sqrt
from statistics import NormalDist

import numpy as np

from sfumato.answers.guaranteed_columns import Source
from sfumato.answers.noise_sum import Ends, half_width_of, lowest, moments_of, reach_of_count
from sfumato.answers.question import Gathered, WeightRange
from sfumato.arrays import Codes, Flags, Floats
from sfumato.domain.structural import Structure
from sfumato.frozen import dataclass
from sfumato.measurement import Measurement, Noise
from sfumato.models.margins.table import (
    CONTRAST,
    MISFIT,
    Narrowed,
    Places,
    guess_of,
    guess_with_zeros,
    subsets,
    sum_kinds,
    sum_out,
)
from sfumato.queries import Identity
from sfumato.sql import Amount

OF_FIRST, OF_MISFITS = 1 / 8, 1 / 8  # of a tail, for the first round and for misfits; the second round has the rest
MOST_BOUNDS = 4  # of the second round, for each end; their parts are 1/2, 1/4 and so on
LIKELY = 2.5  # standard errors by which a bound is expected to be off, where bounds are ranked
WIDE = 100.0  # sigma squared of discrete Gaussian noises from which a sum of them is as a normal one, but for steps
MOST_KNOWN = 256  # numbers n_A that are pooled, and triples that are looked at

# Of the tail, for all rows, tables of one attribute, of some and of all attributes of a question; and of one attribute.
SHARES = {"total": 1 / 8, "single": 1 / 8, "some": 1 / 4, "all": 1 / 2}
SHARES_OF_ONE = {"single": 1 / 2, "all": 1 / 2}
BETTER = 0.5  # times the variance of an earlier table of the same attributes, from which a table is used too

Misfits = Mapping[Places, tuple[float, Noise, Floats]]  # of pairs: noisy sums of |x - g| over all cells; and g
Pairs = dict[Places, "_Bound"]
_Ranked = list[tuple[float, "_Bound"]]  # bounds, each with its part of a tail
_HALVES = np.array([[1.0, -1.0], [0.0, 1.0]])  # outside and inside, from all rows and those inside


@dataclass(frozen=True, eq=False)
class _Pool:
    """Tables that share the same attributes of a query, pooled by inverse variance.

    along: these attributes. values: pooled counts by classes. precision: of a single cell. shares: (tables,), weights.
    noises: (2, tables), variance and sigma squared. many: (tables,), table cells that add up to one pooled cell.
    """

    along: Places
    values: Floats
    precision: float
    shares: Floats
    noises: Floats  # (2, tables)
    many: Floats


@dataclass(frozen=True, eq=False)
class _Bound:
    """Linear bound of n_S: a constant and weights of the known n_A."""

    constant: float
    weights: Floats


@dataclass(frozen=True, eq=False)
class _Round:
    """Measurement round: pooled tables, and their least-squares fits of the counts n_A of boxes, by box size.

    asked: attributes of the query."""

    asked: Places
    pools: Sequence[_Pool]
    fits: dict[tuple[tuple[int, int], ...], _Fitted] = field(default_factory=dict)  # by sizes of boxes
    units: dict[tuple[tuple[Places, float], ...], Floats] = field(default_factory=dict)

    @cached_property
    def known(self) -> dict[Places, int]:
        """Index of every set A whose n_A the tables determine."""
        found = {part for pool in self.pools for part in subsets(pool.along)}
        return {part: number for number, part in enumerate(sorted(found, key=lambda part: (len(part), part)))}

    def unit(self, *signed: tuple[Places, float]) -> Floats:
        """Weights on the known counts n_A of a box's rows, by measured set A, from (set, weight) pairs."""
        if signed not in self.units:
            vector = np.zeros(len(self.known))
            for part, weight in signed:
                vector[self.known[part]] += weight
            self.units[signed] = vector
        return self.units[signed]

    def fitted(self, sizes: Mapping[int, tuple[int, int]]) -> _Fitted:
        """Least-squares fit for boxes of one size. sizes: of each attribute, number of values outside and inside."""
        key = tuple(sizes.values())
        if key not in self.fits:
            precision, parts = np.zeros((len(self.known), len(self.known))), []
            for pool in self.pools:
                cells, corners = np.ones(1), np.ones((1, 1))
                for place in pool.along:
                    cells, corners = np.kron(cells, np.array(sizes[place], dtype=float)), np.kron(corners, _HALVES)
                each = product(*(((), (place,)) for place in pool.along))
                at = np.array([self.known[sum(part, ())] for part in each])
                weighed = (pool.precision / cells)[:, None] * corners
                precision[np.ix_(at, at)] += corners.T @ weighed
                parts.append((at, weighed, cells))
            self.fits[key] = _Fitted(self, np.asarray(np.linalg.inv(precision), dtype=np.float64), parts)
        return self.fits[key]


@dataclass(frozen=True, eq=False)
class _Fitted:
    """Least squares of the n_A for boxes of one size.

    covariance: (known, known), of the n_A. parts: for each pool the indices of its n_A, its design weighed by
    precision, and the cells of each corner. reaches: cache.
    """

    round: _Round
    covariance: Floats
    parts: Sequence[tuple[Codes, Floats, Floats]]
    reaches: dict[tuple[bytes, float], float] = field(default_factory=dict)

    def estimate(self, box: Mapping[int, Flags]) -> Floats:
        """Least-squares estimates, for each measured set A, of the rows inside a box along A, (sets,).

        box: by attribute, flags of the classes inside.
        """
        moments = np.zeros(len(self.covariance))
        sides = {place: np.array([~inside, inside], dtype=np.float64).T for place, inside in box.items()}
        for pool, (at, weighed, _) in zip(self.round.pools, self.parts, strict=True):
            values = pool.values
            for place in pool.along:  # each axis is taken off in front and put back at the end
                values = values.reshape(len(sides[place]), -1).T @ sides[place]
            moments[at] += weighed.T @ values.reshape(-1)
        return np.asarray(self.covariance @ moments)

    def by_class(self) -> Floats:
        """Least-squares estimates of the n_A for the box of each class of the one attribute, (known, classes)."""
        moments = np.zeros((len(self.covariance), max(pool.values.size for pool in self.round.pools)))
        for pool, (at, weighed, _) in zip(self.round.pools, self.parts, strict=True):
            values = np.broadcast_to(pool.values, moments.shape[1])
            moments[at] += weighed.T @ (np.stack([values.sum() - values, values]) if pool.along else values[None])
        return np.asarray(self.covariance @ moments)

    def errors(self, weights: Floats) -> Floats:
        """Standard errors of linear functions, rows of weights (functions, known)."""
        return np.asarray(np.sqrt(np.maximum(((weights @ self.covariance) * weights).sum(axis=1), 0.0)))

    def reach(self, weights: Floats, tail: float) -> float:
        """Upper bound that the noise of a linear function exceeds with probability `tail` at most."""
        key = weights.tobytes(), tail
        if key not in self.reaches:
            solved, terms = self.covariance @ weights, []
            for pool, (at, weighed, cells) in zip(self.round.pools, self.parts, strict=True):
                on_cells = weighed @ solved[at]
                noises = np.broadcast_to(pool.noises[:, None, :], (2, len(cells), len(pool.shares)))
                weighs, many = np.outer(on_cells, pool.shares), np.outer(cells, pool.many)
                terms.append(np.stack([weighs, *noises, many]).reshape(4, -1))
            sizes, variances, sigmas, numbers = np.concatenate(terms, axis=1)
            self.reaches[key] = _reach(sizes, variances, sigmas, numbers, tail)
        return self.reaches[key]


_Estimate = tuple[_Round, _Fitted, Floats]  # of the n_A: (known,), or (known, boxes)


@dataclass(frozen=True, eq=False)
class _Box:
    """A box of attribute values (flags of classes inside, by attribute), with cached fits of each round."""

    kinds: Mapping[int, Codes]
    inside: Mapping[int, Flags]
    fits: dict[int, tuple[_Fitted, Floats]] = field(default_factory=dict)  # by the identity of a round

    def fitted(self, of: _Round) -> tuple[_Fitted, Floats]:
        """Least-squares fit of a round for boxes of this size, and its estimate of the n_A, (known,)."""
        if id(of) not in self.fits:
            each = ((place, inside[self.kinds[place]]) for place, inside in self.inside.items())
            sizes = ((place, len(flags), int(np.count_nonzero(flags))) for place, flags in each)
            fitted = of.fitted({place: (values - many, many) for place, values, many in sizes})
            self.fits[id(of)] = fitted, fitted.estimate(self.inside)
        return self.fits[id(of)]


@dataclass(frozen=True, eq=False)
class Boxes:
    """Guaranteed bounds of one statistic over boxes, from noisy tables in two rounds.

    kinds: class of every value of the query's attributes. first: the round fixed by the schema, if there is one.
    counts: no cell is negative; otherwise only a table of all attributes of a query bounds its sum.
    """

    sizes: tuple[int, ...]
    kinds: Mapping[int, Codes]
    first: Sequence[tuple[Places, Measurement]]
    tables: Sequence[tuple[Places, Measurement]]
    misfits: Misfits = field(default_factory=dict)
    counts: bool = True
    rounds: dict[tuple[Places, bool], _Round] = field(default_factory=dict)
    guesses: dict[Places, Floats] = field(default_factory=dict)  # over kinds
    alone: dict[tuple[Places, float, bool], tuple[_Ranked, _Ranked]] = field(
        default_factory=dict
    )  # of boxes along one attribute

    def ends(self, low: Floats, high: Floats, tail: float, beyond: float = inf) -> Ends | None:
        """Bounds of a sum. low, high: weights, an axis for each of `kinds`. None where they are not those of boxes.

        beyond: where the upper bound is greater, the lower one is not worked out and is -inf.
        """
        below = self._box(low)
        above = below if low is high else self._box(high)
        if below is None or above is None:
            return None
        upper = self._scaled(*above, tail, upper=True)
        if upper is None or upper > beyond:
            return None if upper is None else Ends(-inf, upper)
        lower = self._scaled(*below, tail, upper=False)
        return None if lower is None else Ends(lower, upper)

    def ends_by_class(self, tail: float, beyond: Floats) -> tuple[Floats, Floats] | None:
        """Bounds of the count of each class, (classes,); None but for classes of one size along one attribute.

        beyond: (classes,).
        """
        sizes = np.bincount(next(iter(self.kinds.values()), np.zeros(1, dtype=np.int64)))
        if len(self.kinds) != 1 or len(sizes) < 2 or (sizes != sizes[0]).any() or not self.counts:
            return None
        box = _Box(self.kinds, {place: np.arange(len(sizes)) == 0 for place in self.kinds})
        rounds = [self._round(tuple(self.kinds), first=first) for first in (True, False)]
        fits = [(of, (fitted := box.fitted(of)[0]), fitted.by_class()) for of in rounds]
        high, low = (self._within(box, fits, tail, upper=upper) for upper in (True, False))
        return np.where(high > beyond, -inf, low), high

    def _scaled(self, factor: float, box: _Box, tail: float, *, upper: bool) -> float | None:
        """One bound of a multiple of the count of a box."""
        end = self._end(box, tail, upper=upper == (factor > 0.0)) if factor else 0.0
        return None if end is None else factor * end

    def _box(self, weights: Floats) -> tuple[float, _Box] | None:
        """Common weight, and flags of classes inside for every attribute that has any outside; None if not a box."""
        factor = float(weights.flat[np.abs(weights).argmax()])
        if not factor:
            return 0.0, _Box(self.kinds, {})
        inside, axes = weights != 0.0, range(weights.ndim)
        along = [inside.any(axis=tuple(other for other in axes if other != axis)) for axis in axes]
        if int(inside.sum()) != prod(int(each.sum()) for each in along) or (weights[inside] != factor).any():
            return None
        some = {place: each for place, each in zip(self.kinds, along, strict=True) if not each.all()}
        return factor, _Box(self.kinds, some)

    def _end(self, box: _Box, tail: float, *, upper: bool) -> float | None:
        """One bound of the count of a box; None where its attributes are too many or not measured together."""
        attributes, late = tuple(box.inside), self._round(tuple(box.inside), first=False)
        if len(late.known) > MOST_KNOWN or not (self.counts or attributes in late.known):
            return None
        if not self.counts:
            whole = [(tail, _Bound(0.0, late.unit((attributes, 1.0))))]
            return float(self._nearest(*box.fitted(late), whole, upper=upper))
        rounds = [self._round(attributes, first=True), late]
        return float(self._within(box, [(of, *box.fitted(of)) for of in rounds], tail, upper=upper))

    def _within(self, box: _Box, fits: Sequence[_Estimate], tail: float, *, upper: bool) -> Floats:
        """One bound of counts from both rounds, for each column of their estimates. box: one of the boxes."""
        (early, _, _), (late, _, _) = fits
        bounds = self.alone.get((early.asked, tail, upper))
        if bounds is None:
            bounds = self._of_first(early, OF_FIRST * tail, upper=upper), self._of_second(early, late, box, tail, upper)
            if len(early.asked) < 2:  # nothing that is known of a box decides between bounds
                self.alone[early.asked, tail, upper] = bounds
        both = zip(fits, bounds, strict=True)
        ends = [self._nearest(fitted, estimate, some, upper=upper) for (_, fitted, estimate), some in both]
        return np.maximum(0.0, (np.minimum if upper else np.maximum)(*ends))

    def _of_second(self, early: _Round, late: _Round, box: _Box, tail: float, upper: bool) -> _Ranked:
        """Bounds from the second round expected to be tightest, each with its part of the tail."""
        pairs = [pair for pair in combinations(box.inside, 2) if pair in self.misfits]
        left = tail * (1.0 - OF_FIRST - (OF_MISFITS if pairs else 0.0))
        far: dict[Places, float] = {
            pair: self._by_misfit(pair, box, OF_MISFITS * tail / len(pairs), upper=upper) for pair in pairs
        }
        guess, fitted = self._expected(early, late, box), box.fitted(late)[0]
        candidates = (_uppers if upper else _lowers)(late, far, guess, fitted)
        # None pays its part of the tail twice.
        distinct = {(bound.constant, bound.weights.tobytes()): bound for bound in candidates}
        bounds = _ranked(list(distinct.values()), guess, fitted, upper=upper)[:MOST_BOUNDS]
        parts = [left / 2 ** min(number + 1, len(bounds) - 1) for number in range(len(bounds))]
        return list(zip(parts, bounds, strict=True))

    def _of_first(self, early: _Round, tail: float, *, upper: bool) -> _Ranked:
        """Bounds from the first round: above by each n_j, below by the sum of all n_j less (k - 1) n (Bonferroni)."""
        single: list[Places] = [(place,) for place in early.asked] or [()]
        if upper:
            return [(tail / len(single), _Bound(0.0, early.unit((part, 1.0)))) for part in single]
        rest = early.unit(((), 1.0 - len(single))) if early.asked else 0.0
        return [(tail, _Bound(0.0, early.unit(*((part, 1.0) for part in single)) + rest))]

    def _nearest(self, fitted: _Fitted, estimate: Floats, bounds: _Ranked, *, upper: bool) -> Floats:
        """Tightest of some confidence bounds, each with its share of the tail, for each column of estimates.

        A noisy count is not taken to be further below 0 than one standard error, so that no bound of a count is 0
        because noise was low (power-constrained limits: Cowan, Cranmer, Gross, Vitells 2011).
        """
        sign, nearest = 1.0 if upper else -1.0, np.asarray(inf)
        for part, bound in bounds:
            value = bound.constant + bound.weights @ estimate
            if upper and self.counts and np.any(value < 0.0):
                value = np.maximum(value, -fitted.errors(bound.weights[None])[0])
            if np.any(sign * value < nearest):  # else its noise, whose distribution takes long, only takes it farther
                nearest = np.minimum(nearest, sign * value + fitted.reach(bound.weights, part))
        return sign * nearest

    def _expected(self, early: _Round, late: _Round, box: _Box) -> Floats:
        """Expected n_A by the first round under independence of attributes, (known,)."""
        estimate = box.fitted(early)[1]
        rows = max(float(estimate[early.known[()]]), 1.0)
        inside = {place: min(max(float(estimate[early.known[place,]]) / rows, 0.0), 1.0) for place in box.inside}
        return np.array([rows * prod(inside[place] for place in part) for part in late.known])

    def _by_misfit(self, pair: Places, box: _Box, tail: float, *, upper: bool) -> float:
        """Constant that a misfit adds to (2 n_a + 2 n_b - n) / 4 as a bound of n_ab."""
        misfit, noise, guess = self.misfits[pair]
        if pair not in self.guesses:
            self.guesses[pair] = sum_kinds(guess, [self.kinds[place] for place in pair])
        first, second = (np.where(box.inside[place], 1.0, -1.0) for place in pair)
        most = max(0.0, misfit + reach_of_count((noise,), (1,), tail))
        return (float(first @ self.guesses[pair] @ second) + (most if upper else -most)) / 4.0

    def _round(self, attributes: Places, *, first: bool) -> _Round:
        """Pooled tables of one round for some attributes."""
        key = attributes, first
        if key not in self.rounds:
            self.rounds[key] = _Round(attributes, list(self._pools(attributes, self.first if first else self.tables)))
        return self.rounds[key]

    def _pools(self, asked: Places, tables: Sequence[tuple[Places, Measurement]]) -> Iterator[_Pool]:
        """Pool the tables that share the same attributes of a query."""
        shared: dict[Places, list[tuple[Places, Measurement]]] = {}
        for places, table in tables:
            shared.setdefault(tuple(axis for axis in places if axis in asked), []).append((places, table))
        for along, listed in shared.items():
            many = np.array(
                [prod(self.sizes[p] for p in places if p not in along) for places, _ in listed], dtype=float
            )
            precisions = 1.0 / (many * np.array([table.noise.continuous_variance for _, table in listed]))
            shares = precisions / precisions.sum()
            values: Floats = np.zeros([int(self.kinds[axis].max()) + 1 for axis in along])
            for share, (places, table) in zip(shares.tolist(), listed, strict=True):
                whole = table.answers.astype(np.float64).reshape([self.sizes[axis] for axis in places])
                summed = sum_kinds(sum_out(whole, along, places), [self.kinds[axis] for axis in along])
                values = values + share * summed
            noises = np.array([moments_of(table.noise) for _, table in listed]).T
            yield _Pool(along, values, float(precisions.sum()), shares, noises, many)


def _reach(weights: Floats, variances: Floats, sigmas: Floats, numbers: Floats, tail: float) -> float:
    """Upper bound that a weighted sum of noises exceeds with probability `tail` at most.

    weights, variances, sigmas, numbers: (terms,), sigma squared and number of noises of each. A discrete Gaussian Z of
    some width has P(Z >= k) <= P(N >= k - 1/2) for the normal N of its sigma, in the tail in question; once the noise
    with the largest weight is replaced by N, the sum is so smooth that the others may be too (by Poisson summation, up
    to exp(-2 pi^2 sigma^2)). So half a step of the largest weight makes up for all.
    """
    if sigmas.min() < WIDE:
        return half_width_of(weights, variances, sigmas, numbers, 1.0 - 2.0 * tail)
    deviation = float(np.sqrt((weights**2 * sigmas * numbers).sum()))
    return -NormalDist().inv_cdf(tail) * deviation + 0.5 * float(np.abs(weights).max())


def _ranked(bounds: list[_Bound], expected: Floats, fitted: _Fitted, *, upper: bool) -> list[_Bound]:
    """Sort bounds by expected tightness, the tightest first; expected: (known,), expected n_A."""
    if len(bounds) < 2:
        return bounds
    weights, sign = np.array([bound.weights for bound in bounds]), 1.0 if upper else -1.0
    constants = np.array([bound.constant for bound in bounds])
    nearness = sign * (constants + weights @ expected) + LIKELY * fitted.errors(weights)
    return [bounds[index] for index in np.argsort(nearness, kind="stable")]


def _of_misfits(of: _Round, far: Mapping[Places, float]) -> dict[Places, _Bound]:
    """Bounds of n_ab by misfits, where both one-way counts are known."""
    able = ((pair, rest) for pair, rest in far.items() if all((place,) in of.known for place in pair))
    return {pair: _Bound(rest, of.unit(*(((p,), 0.5) for p in pair), ((), -0.25))) for pair, rest in able}


def _of_pairs(of: _Round, far: Mapping[Places, float], guess: Floats, fitted: _Fitted, *, upper: bool) -> Pairs:
    """For every pair the bound of n_ab expected to be tightest: by its own tables, or by its misfit."""
    bounds = _of_misfits(of, far)
    for pair in combinations(of.asked, 2):
        if pair in of.known:
            own = [_Bound(0.0, of.unit((pair, 1.0))), *([bounds[pair]] if pair in bounds else [])]
            bounds[pair] = _ranked(own, guess, fitted, upper=upper)[0]
    return bounds


def _uppers(of: _Round, far: Mapping[Places, float], guess: Floats, fitted: _Fitted) -> Iterator[_Bound]:
    """Candidate upper bounds of n_S, the rows in a box over the attributes S."""
    yield from (_Bound(0.0, of.unit((part, 1.0))) for part in of.known if part or len(of.known) == 1)
    yield from _of_misfits(of, far).values()
    if len(of.asked) < 3:
        return
    pairs = _of_pairs(of, far, guess, fitted, upper=True)
    for triple in islice(combinations(of.asked, 3), MOST_KNOWN):
        within = [pairs[pair] for pair in combinations(triple, 2) if pair in pairs]
        if triple not in of.known and all((place,) in of.known for place in triple) and len(within) == 3:
            rest = of.unit(((), 1.0), *(((place,), -1.0) for place in triple))
            yield _Bound(sum(one.constant for one in within), np.sum([rest, *(one.weights for one in within)], axis=0))


def _lowers(of: _Round, far: Mapping[Places, float], guess: Floats, fitted: _Fitted) -> Iterator[_Bound]:
    """Lower bounds of n_S (Bonferroni; Hunter): a known set, joined by pairs to every other attribute."""
    pairs = _of_pairs(of, far, guess, fitted, upper=False)
    starts = [(part, _Bound(0.0, of.unit((part, 1.0)))) for part in of.known if len(part) != 1 or len(of.asked) == 1]
    for part, start in (*starts, *_of_misfits(of, far).items()):
        inside, bound = list(part), start
        for attribute in of.asked:
            if attribute in part:
                continue
            ways = [_Bound(0.0, of.unit(((attribute,), 1.0), ((), -1.0)))] if (attribute,) in of.known else []
            for other in inside:
                pair = pairs.get((min(attribute, other), max(attribute, other)))
                if pair is not None and (other,) in of.known:
                    ways.append(_Bound(pair.constant, pair.weights - of.unit(((other,), 1.0))))
            if not ways:
                break
            best = _ranked(ways, guess, fitted, upper=False)[0]
            bound = _Bound(bound.constant + best.constant, bound.weights + best.weights)
            inside.append(attribute)
        else:
            yield bound


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
            if self.counts and above.min(initial=0.0) >= 0.0:  # as in `Boxes`: not further below 0 than this
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
