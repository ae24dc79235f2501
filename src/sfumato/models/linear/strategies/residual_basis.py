"""Which margins are wanted, and how much each matters: those that a workload asks for, or all of few attributes.

What a table tells beyond its margins, in whole numbers: contrasts of its values along every axis.

The values of an axis are halved again and again. A half of p values against one of q is the row with q / g on the
first and -p / g on the others, g = gcd(p, q). The rows add up to zero and are orthogonal, so that with noise in
proportion to its length on each of them they say of the axis what its values with even noise do, but for their sum:
their Gram matrix, each row divided by its length, is I - J / n. Rows of several axes are multiplied.

The noise of least error for a set of margins: how much of a budget each table deserves.

Xiao, He, Zhang, Kifer, "An optimal and scalable matrix mechanism for noisy marginals under convex loss functions",
NeurIPS 2023. The part of a table T is what it tells beyond its own margins. A cell of margin A is the sum of the parts
of all T within A, each spread evenly: if every cell of part T has variance v_T before what changes a margin is taken
away, the mean variance of A's cells is

    sum over T within A of  v_T * product over T of (1 - 1/n) / product over A beyond T of n^2,

so what is wanted is a sum of demands d_T v_T. Gaussian noise of variance v_T on contrasts costs a rho of p_T / (2 v_T),
p_T = product over T of (1 - 1/n), and by Cauchy and Schwarz the least error at a rho is (sum of sqrt(d_T p_T))^2 /
(2 rho), with shares in proportion to sqrt(d_T p_T): `least_error`. Nothing that is unbiased is better (the paper).

Contrasts are measured along axes of few values alone. Along others all values are: that costs 1 in the place of
1 - 1/n, but tells the parts of smaller tables too, which then need less of their own. So precisions add up, and shares
are improved from the closed form until none is worth more than another. That is convex for Gaussian noise. For Laplace
noise it is not: the shares are those at which no small change helps. There contrasts pay for axes of two values alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from math import comb, gcd, prod, sqrt

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.domain import Domain
from sfumato.frozen import dataclass
from sfumato.queries import Identity, Kron, Queries, Scaled, Stack, Total, Weighted, Workload, default_workload

Places = tuple[int, ...]  # of axes in their domain, rising

ORDERS = 3  # attributes of a margin that is wanted if nothing is stated
MOST_SETS = 5_000  # margins of one order; where there are more of them, none of that order or above
MOST_CELLS = 2**14  # of a margin of several attributes
MOST_IN_ALL = 2**23  # cells of all margins of one order; where there are more, none of that order or above


def wanted_margins(domain: Domain, workload: Workload | None = None) -> dict[Places, float]:
    """Margins, by the places of their axes, and their weights; axes of one value tell nothing and are left out.

    >>> import numpy as np
    >>> from sfumato.domain import Axis
    >>> domain = Domain(tuple(Axis(name, "integer", np.arange(3.0)) for name in ("a", "b")))
    >>> wanted_margins(domain)
    {(): 1.0, (0,): 1.0, (1,): 1.0, (0, 1): 1.0}
    """
    sizes = domain.shape
    if workload is None or workload is default_workload(domain):
        return dict.fromkeys(small_margins(sizes), 1.0)
    found: dict[Places, float] = {}
    for block in workload.blocks:
        for places in dict.fromkeys(_asked(block, sizes)):
            found[places] = found.get(places, 0.0) + 1.0
    return found


def small_margins(sizes: Sequence[int]) -> list[Places]:
    """The total, all attributes, and all pairs and threes of few cells, as far as these are not too many."""
    places = [place for place, size in enumerate(sizes) if size > 1]
    found: list[Places] = [(), *((place,) for place in places)]
    for order in range(2, ORDERS + 1):
        if comb(len(places), order) > MOST_SETS:
            break
        cells = {part: prod(sizes[place] for place in part) for part in combinations(places, order)}
        small = [part for part, number in cells.items() if number <= MOST_CELLS]
        if sum(cells[part] for part in small) > MOST_IN_ALL:
            break
        found += small
    return found


def _asked(queries: Queries, sizes: Sequence[int]) -> Iterator[Places]:
    """The axes along which queries tell cells apart."""
    if isinstance(queries, Stack):
        for block in queries.blocks:
            yield from _asked(block, sizes)
        return
    found: list[int] = []
    place = 0
    for factor in queries.factors if isinstance(queries, Kron) else (queries,):
        first, cells = place, 1
        while cells < factor.columns:
            cells *= sizes[place]
            place += 1
        if not isinstance(factor, Total):
            found += [axis for axis in range(first, place) if sizes[axis] > 1]
    yield tuple(found)


@lru_cache(maxsize=64)
def contrasts(values: int) -> Weighted:
    """The contrasts of two values or more.

    >>> contrasts(3).dense().tolist()
    [[2, -1, -1], [0, 1, -1]]
    """
    rows, waiting = [], [(0, values)]
    while waiting:
        first, end = waiting.pop(0)
        middle = (first + end) // 2
        left, right = middle - first, end - middle
        if left:
            row = np.zeros(values, dtype=np.int64)
            row[first:middle], row[middle:end] = right // gcd(left, right), -left // gcd(left, right)
            rows.append(row)
            waiting += [(first, middle), (middle, end)]
    return Weighted(np.array(rows))


@lru_cache(maxsize=256)
def tables(sizes: tuple[int, ...], most: int) -> Queries:
    """Rows over the cells of a table: contrasts along axes of at most so many values, all values along the others.

    >>> tables((2, 3), 2).dense().tolist()
    [[1, 0, 0, -1, 0, 0], [0, 1, 0, 0, -1, 0], [0, 0, 1, 0, 0, -1]]
    """
    factors: list[Queries] = [contrasts(size) if size <= most else Identity(size) for size in sizes]
    return Kron(*factors) if len(factors) > 1 else factors[0] if factors else Identity(1)


@lru_cache(maxsize=32)
def squares(queries: Queries) -> Floats:
    """The squared length of every row of such tables."""
    if isinstance(queries, Kron):
        found: Floats = np.ones(1)
        for factor in queries.factors:
            found = np.asarray(np.kron(found, squares(factor)), dtype=np.float64)
        return found
    if isinstance(queries, Weighted):
        return np.asarray((queries.matrix**2).sum(axis=1), dtype=np.float64)
    return np.ones(queries.rows)


@lru_cache(maxsize=32)
def levelled(queries: Queries, magnitude: int) -> Queries:
    """The rows of such tables, each times a whole number that brings it about to one length: the magnitude.

    Noise of one size on all rows is then noise in proportion to its length on each row as it was, up to rounding.
    """
    lengths = np.sqrt(squares(queries))
    weights = np.maximum(1, np.rint(magnitude / lengths)).astype(np.int64)
    return Scaled(queries, int(weights[0]) if (weights == weights[0]).all() else weights)


FEW_VALUES = 16  # along an axis that is measured by contrasts, where noise is Gaussian
ROUNDS = 400
LITTLE = 1e-3  # of an even share: tables that deserve less, and can do without, are not measured


@dataclass(frozen=True, eq=False)
class ResidualBasis:
    """What to measure. shares: of the budget, by table. few: values up to which an axis is measured by contrasts.

    parts: of which tables the parts will be known; `precisions` has one for each of them.
    """

    sizes: tuple[int, ...]
    pure: bool
    few: int
    shares: dict[Places, float]
    parts: tuple[Places, ...]

    def precisions(self, amount: float) -> dict[Places, float]:
        """1 / v_T by part, for an amount of rho or epsilon, a person having one row."""
        ways = _Ways(self.sizes, list(self.shares), self.parts, self.few)
        found = ways.precisions(np.array(list(self.shares.values())), amount, self.pure)
        return dict(zip(self.parts, found.tolist(), strict=True))

    def variance(self, places: Places, amount: float) -> float:
        """The mean variance of the cells of a margin whose parts are all known."""
        precisions = self.precisions(amount)
        return sum(weight / precisions[part] for part, weight in _by_part(self.sizes, places))


def residual_basis(
    sizes: Sequence[int], wanted: Mapping[Places, float], *, pure: bool, few: int | None = None
) -> ResidualBasis:
    """The shares of least weighted error. wanted: margins and how much the mean variance of their cells matters."""
    demands = _demands(sizes, wanted)
    contrasted = (2 if pure else FEW_VALUES) if few is None else few
    tables, parts = list(demands), tuple(demands)
    demand = np.array(list(demands.values()))
    costs = np.array([_varying(sizes, part) for part in parts])
    shares = (demand / costs) ** (1 / 3) if pure else np.sqrt(demand * costs)
    ways = _Ways(sizes, tables, parts, contrasted)
    shares = ways.improved(shares / shares.sum(), demand, pure)
    kept = ways.worth_measuring(shares)
    if len(kept) < len(tables):
        tables = [tables[place] for place in kept]
        ways = _Ways(sizes, tables, parts, contrasted)
        shares = ways.improved(shares[kept] / shares[kept].sum(), demand, pure)
    by_table = dict(zip(tables, shares.tolist(), strict=True))
    return ResidualBasis(tuple(sizes), pure, contrasted, by_table, parts)


def least_error(sizes: Sequence[int], wanted: Mapping[Places, float], rho: float) -> float:
    """The least weighted sum of mean variances that unbiased answers with Gaussian noise can have."""
    demands = _demands(sizes, wanted)
    return sum(sqrt(demand * _varying(sizes, part)) for part, demand in demands.items()) ** 2 / (2 * rho)


class _Ways:
    """Which table tells which part, and how well: a row for each of the two, and numbers side by side."""

    def __init__(self, sizes: Sequence[int], tables: list[Places], parts: Sequence[Places], few: int) -> None:
        place = {part: number for number, part in enumerate(parts)}
        table: list[int] = []
        part: list[int] = []
        worth: list[float] = []
        for number, places in enumerate(tables):
            always = [axis for axis in places if sizes[axis] <= few]
            others = [axis for axis in places if sizes[axis] > few]
            rate = 1.0 / prod(1 - 1 / sizes[axis] for axis in always)
            for order in range(len(others) + 1):
                for some in combinations(others, order):
                    table.append(number)
                    part.append(place[tuple(sorted((*always, *some)))])
                    worth.append(rate / prod(sizes[axis] for axis in others if axis not in some))
        self._table: Codes = np.array(table)
        self._part: Codes = np.array(part)
        self._worth: Floats = np.array(worth)
        self._own = np.array([place[places] for places in tables])
        self._parts = len(parts)

    def precisions(self, shares: Floats, amount: float, pure: bool) -> Floats:
        """Of all parts. A table's own is 2 rho / p, or epsilon^2 / (2 p) with Laplace noise."""
        given = (amount * shares) ** 2 / 2 if pure else 2 * amount * shares
        return np.asarray(np.bincount(self._part, self._worth * given[self._table], self._parts), dtype=np.float64)

    def improved(self, shares: Floats, demand: Floats, pure: bool) -> Floats:
        """Shares that grow with the root of what a little more of each would be worth, until all are worth the same."""
        for _ in range(ROUNDS):
            precisions = self.precisions(shares, 1.0, pure)
            gains = np.bincount(self._table, self._worth * (demand / precisions**2)[self._part], len(shares))
            now = shares * np.sqrt(gains * shares if pure else gains)
            now /= now.sum()
            if np.abs(now - shares).max() < 1e-9 * now.max():
                break
            shares = now
        return shares

    def worth_measuring(self, shares: Floats) -> Codes:
        """Tables that deserve a share, or that nothing else tells of."""
        kept = shares > LITTLE / len(shares)
        told = np.bincount(self._part, kept[self._table].astype(np.float64), self._parts) > 0
        return np.flatnonzero(kept | ~told[self._own])


def _demands(sizes: Sequence[int], wanted: Mapping[Places, float]) -> dict[Places, float]:
    found: dict[Places, float] = {}
    for places, weight in wanted.items():
        for part, share in _by_part(sizes, places):
            found[part] = found.get(part, 0.0) + weight * share
    return {part: found[part] for part in sorted(found, key=lambda part: (len(part), part))}


def _by_part(sizes: Sequence[int], places: Places) -> list[tuple[Places, float]]:
    """How much of the mean variance of a margin's cells each part has, in variances of the part."""
    every = [part for order in range(len(places) + 1) for part in combinations(places, order)]
    others = ([axis for axis in places if axis not in part] for part in every)
    return [
        (part, _varying(sizes, part) / prod(sizes[axis] ** 2 for axis in rest))
        for part, rest in zip(every, others, strict=True)
    ]


def _varying(sizes: Sequence[int], part: Places) -> float:
    return prod(1 - 1 / sizes[axis] for axis in part)
