"""Optimal allocation of a budget to residuals of marginals, and integer contrasts that measure them.

Xiao, He, Zhang, Kifer, NeurIPS 2023 (full citation: models/linear/residual.py). With variance v_T in each cell of
residual T before the projection, the mean variance of a marginal A's cells is

    sum over T within A of  v_T * product over T of (1 - 1/n) / product over A beyond T of n^2,

so the objective is a sum of demands d_T v_T. Gaussian noise of variance v_T on contrasts costs rho = p_T / (2 v_T), p_T
= product over T of (1 - 1/n), and by Cauchy-Schwarz the least error at a rho is (sum of sqrt(d_T p_T))^2 / (2 rho).

Contrasts are measured along axes of few values alone. Along others all values are: that costs 1 in place of 1 - 1/n,
but also estimates the residuals of smaller tables. So precisions add up, and shares are improved from the closed form
by a fixed-point iteration: a convex problem for Gaussian noise, a stationary point for Laplace noise.

Contrasts bisect the values of an axis recursively. A half of p values against one of q is the row with q / g on the
first and -p / g on the second, g = gcd(p, q); rows are orthogonal and sum to zero.
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
from sfumato.queries.workload import NAMED

Places = tuple[int, ...]  # of axes in their domain, rising

ORDERS = 3  # attributes of a margin that is wanted if nothing is stated
MOST_SETS = 5_000  # margins of one order; where there are more of them, none of that order or above
MOST_CELLS = 2**14  # of a margin of several attributes
MOST_IN_ALL = 2**23  # cells of all margins of one order; where there are more, none of that order or above


def wanted_margins(domain: Domain, workload: Workload | None = None) -> dict[Places, float]:
    """Wanted marginals, by the indices of their axes, and their weights; axes of one value are left out.

    >>> import numpy as np
    >>> from sfumato.domain import Axis
    >>> domain = Domain(tuple(Axis(name, "integer", np.arange(3.0)) for name in ("a", "b")))
    >>> wanted_margins(domain)
    {(): 1.0, (0,): 1.0, (1,): 1.0, (0, 1): 1.0}
    """
    sizes = domain.shape
    if workload is None or workload is default_workload(domain):
        return dict.fromkeys(small_margins(sizes), 1.0)
    weights: dict[Places, float] = {}
    for block in workload.asked.blocks:
        for places in dict.fromkeys(_asked(block, sizes)):
            weights[places] = weights.get(places, 0.0) + 1.0
    if workload.named:  # a tilt: what is wanted if nothing is stated has the rest of the weight
        usual, rest = small_margins(sizes), (1.0 - NAMED) / NAMED * sum(weights.values())
        for places in usual:
            weights[places] = weights.get(places, 0.0) + rest / len(usual)
    return weights


def small_margins(sizes: Sequence[int]) -> list[Places]:
    """Total, all one-way marginals, and all two- and three-way marginals of few cells, unless these are too many."""
    places = [axis for axis, size in enumerate(sizes) if size > 1]
    marginals: list[Places] = [(), *((axis,) for axis in places)]
    for order in range(2, ORDERS + 1):
        if comb(len(places), order) > MOST_SETS:
            break
        cells = {part: prod(sizes[axis] for axis in part) for part in combinations(places, order)}
        small = [part for part, number in cells.items() if number <= MOST_CELLS]
        if sum(cells[part] for part in small) > MOST_IN_ALL:
            break
        marginals += small
    return marginals


def _asked(queries: Queries, sizes: Sequence[int]) -> Iterator[Places]:
    """Axes of the marginal that each block of queries belongs to (those not summed over)."""
    if isinstance(queries, Stack):
        for block in queries.blocks:
            yield from _asked(block, sizes)
        return
    axes: list[int] = []
    axis_index = 0
    for factor in queries.factors if isinstance(queries, Kron) else (queries,):
        first, cells = axis_index, 1
        while cells < factor.columns:
            cells *= sizes[axis_index]
            axis_index += 1
        if not isinstance(factor, Total):
            axes += [axis for axis in range(first, axis_index) if sizes[axis] > 1]
    yield tuple(axes)


@lru_cache(maxsize=64)
def contrasts(values: int) -> Weighted:
    """Orthogonal integer contrasts of `values` >= 2 values, (values - 1, values).

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
    """Rows over a table's cells: contrasts along axes of at most `most` values, all values along the others.

    >>> tables((2, 3), 2).dense().tolist()
    [[1, 0, 0, -1, 0, 0], [0, 1, 0, 0, -1, 0], [0, 0, 1, 0, 0, -1]]
    """
    factors: list[Queries] = [contrasts(size) if size <= most else Identity(size) for size in sizes]
    return Kron(*factors) if len(factors) > 1 else factors[0] if factors else Identity(1)


@lru_cache(maxsize=32)
def squares(queries: Queries) -> Floats:
    """Squared length of every row of contrast queries, (rows,)."""
    if isinstance(queries, Kron):
        lengths: Floats = np.ones(1)
        for factor in queries.factors:
            lengths = np.asarray(np.kron(lengths, squares(factor)), dtype=np.float64)
        return lengths
    if isinstance(queries, Weighted):
        return np.asarray((queries.matrix**2).sum(axis=1), dtype=np.float64)
    return np.ones(queries.rows)


@lru_cache(maxsize=32)
def levelled(queries: Queries, magnitude: int) -> Queries:
    """Contrast rows, each times the integer that brings its length to about `magnitude`.

    Equal noise on all of them is then noise in proportion to length on the original rows, up to rounding.
    """
    lengths = np.sqrt(squares(queries))
    weights = np.maximum(1, np.rint(magnitude / lengths)).astype(np.int64)
    return Scaled(queries, int(weights[0]) if (weights == weights[0]).all() else weights)


FEW_VALUES = 16  # along an axis that is measured by contrasts, where noise is Gaussian
ROUNDS = 400
LITTLE = 1e-3  # of an even share: tables that deserve less, and can do without, are not measured


@dataclass(frozen=True, eq=False)
class ResidualBasis:
    """Allocation of a budget to tables of a residual basis.

    shares: of the budget, by table.
    few: axes of at most so many values are measured by contrasts.
    parts: tables whose residuals are estimable; `precisions` has one for each.
    """

    sizes: tuple[int, ...]
    pure: bool
    few: int
    shares: dict[Places, float]
    parts: tuple[Places, ...]

    def precisions(self, amount: float) -> dict[Places, float]:
        """Precision 1 / v_T of each residual, for an amount of rho or epsilon and one row per person."""
        ways = _Ways(self.sizes, list(self.shares), self.parts, self.few)
        values = ways.precisions(np.array(list(self.shares.values())), amount, self.pure)
        return dict(zip(self.parts, values.tolist(), strict=True))

    def variance(self, places: Places, amount: float) -> float:
        """Mean variance of the cells of a marginal whose residuals are all estimated."""
        precisions = self.precisions(amount)
        return sum(weight / precisions[part] for part, weight in _by_part(self.sizes, places))


def residual_basis(
    sizes: Sequence[int], wanted: Mapping[Places, float], *, pure: bool, few: int | None = None
) -> ResidualBasis:
    """Shares of least weighted error; wanted: weight of the mean cell variance of each marginal."""
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
        tables = [tables[index] for index in kept]
        ways = _Ways(sizes, tables, parts, contrasted)
        shares = ways.improved(shares[kept] / shares[kept].sum(), demand, pure)
    by_table = dict(zip(tables, shares.tolist(), strict=True))
    return ResidualBasis(tuple(sizes), pure, contrasted, by_table, parts)


def least_error(sizes: Sequence[int], wanted: Mapping[Places, float], rho: float) -> float:
    """Least weighted sum of mean cell variances of any unbiased estimate with Gaussian noise, in closed form."""
    demands = _demands(sizes, wanted)
    return sum(sqrt(demand * _varying(sizes, part)) for part, demand in demands.items()) ** 2 / (2 * rho)


class _Ways:
    """Sparse matrix of the precision that a unit share of each table adds to each residual, as coordinate lists."""

    def __init__(self, sizes: Sequence[int], tables: list[Places], parts: Sequence[Places], few: int) -> None:
        index = {residuals: number for number, residuals in enumerate(parts)}
        table: list[int] = []
        residuals: list[int] = []
        worth: list[float] = []
        for number, places in enumerate(tables):
            always = [axis for axis in places if sizes[axis] <= few]
            others = [axis for axis in places if sizes[axis] > few]
            rate = 1.0 / prod(1 - 1 / sizes[axis] for axis in always)
            for order in range(len(others) + 1):
                for some in combinations(others, order):
                    table.append(number)
                    residuals.append(index[tuple(sorted((*always, *some)))])
                    worth.append(rate / prod(sizes[axis] for axis in others if axis not in some))
        self._table: Codes = np.array(table)
        self._part: Codes = np.array(residuals)
        self._worth: Floats = np.array(worth)
        self._own = np.array([index[places] for places in tables])
        self._parts = len(parts)

    def precisions(self, shares: Floats, amount: float, pure: bool) -> Floats:
        """Precision of every residual, (parts,); a table adds 2 rho / p, or epsilon^2 / (2 p) with Laplace noise."""
        by_table = (amount * shares) ** 2 / 2 if pure else 2 * amount * shares
        return np.asarray(np.bincount(self._part, self._worth * by_table[self._table], self._parts), dtype=np.float64)

    def improved(self, shares: Floats, demand: Floats, pure: bool) -> Floats:
        """Fixed-point iteration of the shares (tables,) until their marginal values are equal."""
        for _ in range(ROUNDS):
            precisions = self.precisions(shares, 1.0, pure)
            gains = np.bincount(self._table, self._worth * (demand / precisions**2)[self._part], len(shares))
            updated = shares * np.sqrt(gains * shares if pure else gains)
            updated /= updated.sum()
            if np.abs(updated - shares).max() < 1e-9 * updated.max():
                break
            shares = updated
        return shares

    def worth_measuring(self, shares: Floats) -> Codes:
        """Indices of tables with a share that matters, or with a residual that no other table estimates."""
        kept = shares > LITTLE / len(shares)
        covered = np.bincount(self._part, kept[self._table].astype(np.float64), self._parts) > 0
        return np.flatnonzero(kept | ~covered[self._own])


def _demands(sizes: Sequence[int], wanted: Mapping[Places, float]) -> dict[Places, float]:
    """Demand d_T of every residual: derivative of the objective by v_T."""
    demands: dict[Places, float] = {}
    for places, weight in wanted.items():
        for part, share in _by_part(sizes, places):
            demands[part] = demands.get(part, 0.0) + weight * share
    return {part: demands[part] for part in sorted(demands, key=lambda part: (len(part), part))}


def _by_part(sizes: Sequence[int], places: Places) -> list[tuple[Places, float]]:
    """Weight of v_T in the mean cell variance of a marginal, for every residual T within it."""
    every = [subset for order in range(len(places) + 1) for subset in combinations(places, order)]
    others = ([axis for axis in places if axis not in subset] for subset in every)
    return [
        (subset, _varying(sizes, subset) / prod(sizes[axis] ** 2 for axis in beyond))
        for subset, beyond in zip(every, others, strict=True)
    ]


def _varying(sizes: Sequence[int], part: Places) -> float:
    """Product over a table's axes of 1 - 1 / n."""
    return prod(1 - 1 / sizes[axis] for axis in part)
