"""HDMM: the strategy of least expected error for a workload among p-identity products, marginals, trees and wavelets.

McKenna, Miklau, Hay, Machanavajjhala, VLDB 2018. `product_strategy`: a Kronecker product with one strategy per axis,
optimised in turn (OPT_x), the best of p-identity, tree and greedy tree each. `marginal_strategy`: weighted marginals
(OPT_M, section 6.3, which also serves unions of products); here an axis may also have the levels of a tree between its
total and its cells, so that ranges profit too, and the table of all cells is always measured, so that every query has
an answer. Identity, trees and wavelets are further candidates; `best_strategy` takes the least expected error.

P-identity strategies (HDMM's OPT_0) along one axis: all cells and p weighted sums, optimised by projected L-BFGS.

McKenna, Miklau, Hay, Machanavajjhala, VLDB 2018, section 5: A = [diag(d); Theta], Theta (p, n), all columns of equal
norm. With X = A^T A and V the workload's Gram matrix, the error trace(V X^-1) has the gradient -2 A X^-1 V X^-1, and
X^-1 is diag(d)^-2 less a matrix of rank p (Woodbury). The paper starts at random; here the rows of Theta start as
overlapping triangular bumps, which ends lower and sooner, and the columns are integers of exactly equal size.

Optimiser (`least`): L-BFGS (Nocedal 1980) with bounds by projection (Bertsekas 1982). SciPy's L-BFGS-B does the same,
but takes longer to load than most strategies take to find.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import field
from functools import lru_cache
from math import log, prod

import numpy as np

from sfumato.arrays import Floats
from sfumato.domain import Domain
from sfumato.frozen import dataclass
from sfumato.least_squares.expected_error import overall_error
from sfumato.least_squares.gram import Gram, even_cuts, grams_of, kind, products
from sfumato.least_squares.kron import Grid, Table
from sfumato.models.linear.strategies.budget_allocation import best_weights, whole_weights
from sfumato.models.linear.strategies.hierarchies import (
    WEIGHT_BITS,
    AxisPart,
    axis_by_axis,
    combined,
    greedy_for,
    tree_for,
    tree_strategy,
    wanted_of,
    wavelet_strategy,
)
from sfumato.queries import Identity, Kron, Marginals, Queries, Ranges, Scaled, Stack, Total, Tree, Weighted, Workload
from sfumato.queries.strategy import Strategy

REMEMBERED = 10  # steps from which the curvature is known
DECREASE = 1e-4  # of what the slope promises, at least, for a step to be taken
SHORTEST = 2.0**-20  # of the first step tried

ValueAndSlope = Callable[[Floats], tuple[float, Floats]]
Step = tuple[Floats, Floats, float]


def least(
    function: ValueAndSlope, start: Floats, low: float, high: float, *, looks: int, close: float
) -> tuple[float, Floats]:
    """Minimise a smooth function between bounds by projected L-BFGS; return the least value and its argument.

    function: value and gradient. start: (n,). looks: evaluations at most. close: relative decrease over REMEMBERED
    steps at which the search ends.

    >>> value, where = least(lambda x: (float(((x - 3.0) ** 2).sum()), 2 * (x - 3.0)), np.zeros(2), 0.0, 2.0,
    ...                      looks=20, close=1e-9)
    >>> value, where.tolist()
    (2.0, [2.0, 2.0])
    """
    at = np.clip(start, low, high)
    value, slope = function(at)
    looks -= 1
    steps: deque[Step] = deque(maxlen=REMEMBERED)
    values = [value]
    while looks > 0:
        free = ((at > low) | (slope < 0.0)) & ((at < high) | (slope > 0.0))
        if not (slope * free).any():
            break
        direction = -_curved(slope * free, steps) * free
        if not float(slope @ direction) < 0.0:
            steps.clear()
            direction = -slope * free
        length = 1.0 if steps else min(1.0, 1.0 / float(np.abs(direction).max()))
        while looks > 0:
            candidate = np.clip(at + length * direction, low, high)
            new_value, new_slope = function(candidate)
            looks -= 1
            if new_value <= value + DECREASE * float(slope @ (candidate - at)) or length < SHORTEST:
                break
            length /= 2.0
        if not new_value < value:
            break
        step, change = candidate - at, new_slope - slope
        if (product := float(step @ change)) > 1e-12 * float(change @ change):
            steps.append((step, change, product))
        at, value, slope = candidate, new_value, new_slope
        values.append(value)
        if len(values) > REMEMBERED and values[-1 - REMEMBERED] - value <= close * abs(value):
            break
    return value, at


def _curved(slope: Floats, steps: deque[Step]) -> Floats:
    """Gradient times the approximate inverse Hessian (two-loop recursion)."""
    way, shares = slope.copy(), []
    for moved, bent, product in reversed(steps):
        shares.append(float(moved @ way) / product)
        way -= shares[-1] * bent
    if steps:
        moved, bent, product = steps[-1]
        way *= product / float(bent @ bent)
    for (moved, bent, product), share in zip(steps, reversed(shares), strict=True):
        way += (share - float(bent @ way) / product) * moved
    return way


FEW_CELLS = 256  # up to which several numbers of sums are tried
MOST_CELLS = 4096  # beyond, trees are as good as it gets here
LARGEST = 8.0  # weight of a cell in a sum, relative to its own: keeps cells from vanishing when they are rounded
FIRST_LOOKS = 30  # of the optimiser at the error, from which the best of several starts is known
LOOKS = {256: 500, 1024: 32, 4096: 30}  # in all from that one, for up to so many cells
A_SWEEP = 16  # of more than FEW_CELLS in each sweep, where there are several axes
FEW_WRITTEN = 128  # cells up to which what is asked of them is sooner multiplied when it is written out
CLOSE = 1e-6  # relative gain over ten steps that ends it sooner


def with_sums(theta: Floats, pure: bool, bits: int) -> AxisPart:
    """Integer p-identity strategy of given sums theta, (p, n); columns sum to 2^bits, their squares to about 4^bits
    (zCDP).

    >>> from sfumato.queries import AllRanges
    >>> from sfumato.least_squares.gram import gram_of
    >>> part = with_sums(best_sums(gram_of(AllRanges(64)), True), True, 12)
    >>> part.queries, part.queries.constant_column_sum
    (Stack(Scaled(Identity(64), 64 weights), Weighted(4 x 64)), 4096)
    """
    n, matrix = theta.shape[1], _whole(theta, pure, bits)
    queries = Identity(n) if matrix is None else Stack(Scaled(Identity(n), matrix[0]), Weighted(matrix[1]))
    return AxisPart(queries, np.ones(queries.rows))


def better_sums(gram: Gram, before: Floats, pure: bool) -> Floats:
    """Re-optimise sums (p, n) for a Gram matrix close to the one they were optimal for."""
    return _optimised(gram, before, pure, _looks(gram.n, swept=True))[1]


@lru_cache(maxsize=256)
def best_sums(gram: Gram, pure: bool, *, swept: bool = False) -> Floats:
    """Optimal Theta (p, n) before columns are normalised; swept: fewer steps, since another sweep follows."""
    starts = _starts(gram.n)
    if len(starts) > 1:
        results = [_optimised(gram, start, pure, FIRST_LOOKS) for start in starts]
        starts = [min(results, key=lambda one: one[0])[1]]
    return _optimised(gram, starts[0], pure, _looks(gram.n, swept))[1]


def _looks(n: int, swept: bool) -> int:
    """Limit on function evaluations by size of the axis."""
    if swept and n > FEW_CELLS:
        return A_SWEEP
    return next(looks for cells, looks in LOOKS.items() if n <= cells)


def _starts(n: int) -> list[Floats]:
    """Starting matrices Theta (p, n) of the optimisation."""
    if n > FEW_CELLS:
        return [np.vstack([_bumps(n, n // 256), _bumps(n, n // 16)])]
    return [_bumps(n, p) for p in (1, 2, 3, 4, 6, 8, 10, 12, 13) if p == 1 or n // 32 <= p <= n // 6]


def _bumps(n: int, p: int) -> Floats:
    """Triangular bumps of p equal widths, (p, n)."""
    middles = (np.arange(p) + 0.5) * n / p
    return np.maximum(0.0, 1.0 - np.abs(np.arange(n) + 0.5 - middles[:, None]) * p / n)


def _optimised(gram: Gram, start: Floats, pure: bool, looks: int) -> tuple[float, Floats]:
    """Squared error and Theta (p, n) after optimisation from a start."""
    scale = 1.0 / error_and_gradient(start, gram, pure)[0]

    def scaled(flat: Floats) -> tuple[float, Floats]:
        error, gradient = error_and_gradient(flat.reshape(start.shape), gram, pure)
        return error * scale, gradient.reshape(-1) * scale

    error, optimum = least(scaled, start.reshape(-1), 0.0, LARGEST, looks=looks, close=CLOSE)
    return error / scale, optimum.reshape(start.shape)


def error_and_gradient(theta: Floats, gram: Gram, pure: bool) -> tuple[float, Floats]:
    """trace(V X^-1) for [I; theta] with normalised columns, and its gradient by theta, (p, n)."""
    size = 1.0 + theta.sum(axis=0) if pure else np.sqrt(1.0 + (theta**2).sum(axis=0))
    d, apart = 1.0 / size, size**2  # apart: diag(d)^-2
    sums = theta * d
    C = sums * apart
    core = np.linalg.inv(np.eye(len(theta)) + C @ sums.T)
    CV = C @ gram.dense if gram.n <= FEW_WRITTEN else gram.times(C)
    both = CV @ C.T
    error = float((gram.diagonal * apart).sum() - (core * both).sum())

    BV = core @ CV  # with B = sums X^-1
    BV *= apart
    outer = (core @ both @ core.T) @ C
    by_sums = outer - BV
    outer -= 2.0 * BV
    outer *= C
    by_d = -2.0 * d * (gram.diagonal * apart**2 + outer.sum(axis=0))
    through_d = 2.0 * np.einsum("ij,ij->j", by_sums, theta) + by_d
    by_sums *= 2.0 * d
    by_sums -= through_d * (d**2 if pure else d**3 * theta)
    return error, by_sums


def _whole(theta: Floats, pure: bool, bits: int) -> tuple[Floats, Floats] | None:
    """Round Theta to integers and fill up the cells to equal columns: (n,) and (p, n); None where no sums are left."""
    size = 1.0 + theta.sum(axis=0) if pure else np.sqrt(1.0 + (theta**2).sum(axis=0))
    sums = np.rint(theta / size * 2**bits).astype(np.int64)
    sums = sums[sums.any(axis=1)]
    if not len(sums):
        return None
    if pure:
        cells = np.maximum(1, 2**bits - sums.sum(axis=0))
    else:
        cells = np.maximum(1, np.floor(np.sqrt(np.maximum(1.0, 4.0**bits - (sums**2).sum(axis=0)))).astype(np.int64))
    return cells, sums


# -- hdmm

MOST_TABLES = 2**12
LEAST_FOR_CELLS = 1 / 32  # of the budget, for the table of all cells
TABLE_BITS = 12


def marginal_strategy(domain: Domain, workload: Workload, pure: bool, *, trees: bool = False) -> Strategy | None:
    """Optimal weights on all tables by levels of the axes; None where there are too many tables.

    trees: include the levels of each axis's best tree besides its total and its cells; None where there are no more.

    >>> from sfumato.domain import Axis
    >>> from sfumato.queries import default_workload
    >>> domain = Domain(tuple(Axis(name, "category", np.arange(5.0), tuple("wxyz")) for name in "abc"))
    >>> marginal_strategy(domain, default_workload(domain), True).queries
    Marginals((4, 4, 4), 2 tables)
    """
    wanted, sizes = wanted_of(domain, workload), domain.shape
    widths = [{1, size} for size in sizes]
    if trees:
        # Under zCDP a tree has many levels; which they are, the first sweep tells, and their weights are found below.
        deep = axis_by_axis(domain, workload, lambda axis, gram: tree_for(gram, False), sweeps=1)
        deeper = [plain | _levels(part) for plain, part in zip(widths, deep, strict=True)]
        if deeper == widths:
            return None
        widths = deeper
    if prod(map(len, widths)) > MOST_TABLES:
        return None
    grid = Grid(sizes, tuple(tuple(sorted(each)) for each in widths))
    grams = zip(*(grams_of(wanted, axis) for axis in range(len(sizes))), strict=True)
    demand = np.sum([term.weight * grid.asked(each) for term, each in zip(wanted, grams, strict=True)], axis=0)
    weights = best_weights(demand, grid.answered, grid.back, np.ones(len(demand)), pure)[0]
    weights[-1] = max(weights[-1], LEAST_FOR_CELLS)
    measured = [pair for pair in zip(grid.tables, whole_weights(weights, TABLE_BITS), strict=True) if pair[1]]
    queries = _counts(sizes, [table for table, _ in measured])
    if len(measured) == 1:
        return Strategy(queries)
    which = np.repeat(np.arange(len(measured)), [prod(table) for table, _ in measured])
    return Strategy(queries, tuple(weight for _, weight in measured), which)


def _levels(part: AxisPart) -> set[int]:
    """Widths of nested even levels that approximate those of a tree."""
    widths, finer = set(), part.queries.columns
    for cuts in part.queries.levels[-2::-1] if type(part.queries) is Tree else []:
        even = [width for width in range(1, finer) if finer % width == 0]
        finer = min(even, key=lambda width: abs(log(width / (len(cuts) - 1))), default=1)
        widths.add(finer)
    return widths


def _counts(sizes: tuple[int, ...], tables: list[Table]) -> Queries:
    """Queries of several tables, stacked."""
    if all(width in (1, size) for table in tables for width, size in zip(table, sizes, strict=True)):
        return Marginals(sizes, [[a for a, width in enumerate(table) if width == sizes[a]] for table in tables])
    return Stack(*(Kron(*map(_level, sizes, table)) for table in tables))


def _level(size: int, width: int) -> Queries:
    """Counts of `width` even nodes along an axis of `size` cells."""
    cuts = even_cuts(size, width)
    if width in (1, size):
        return Identity(size) if width == size else Total(size)
    return Ranges(size, cuts[:-1], cuts[1:] - 1)


MOST_CELLS_BESIDE_OTHERS = 2**10  # of an axis whose sums are optimised; several axes are optimised several times over
SWEEPS = 2  # over the axes of a product; a third gained a thousandth
MANY_AXES = 3  # from which products of sums were never better than tables
BITS = 20  # of all axes' weights together: counts times weights stay below 2^62 for 2^42 rows


def best_strategy(domain: Domain, workload: Workload, pure: bool, *, bits: int = BITS) -> Strategy:
    """Strategy of least expected error over all candidates.

    >>> import numpy as np
    >>> from sfumato.domain import Axis
    >>> from sfumato.queries import AllRanges
    >>> domain = Domain((Axis("age", "integer", np.arange(65.0)),))
    >>> best_strategy(domain, Workload(("ranges",), (AllRanges(64),)), True).queries
    Stack(Scaled(Identity(64), 64 weights), Weighted(4 x 64))
    """
    return _best(_Case(_key(domain, workload), domain, workload), pure, bits)


@dataclass(frozen=True)
class _Case:
    """Cache key: a domain and a workload, equal to others of the same sizes and families of queries."""

    key: tuple[object, ...]
    domain: Domain = field(compare=False)
    workload: Workload = field(compare=False)  # kept, so that what the key tells apart by identity stays what it was


def _key(domain: Domain, workload: Workload) -> tuple[object, ...]:
    """Cache key: sizes, order and query families that the optimal strategy depends on."""
    blocks = []
    for block in workload.blocks:
        parts = products(block, domain.shape)
        signature = id(block) if parts is None else tuple((term.weight, *map(kind, term.factors)) for term in parts)
        blocks.append((block.rows, signature))
    return (domain.shape, tuple(axis.ordered for axis in domain), tuple(blocks), workload.weights)


@lru_cache(maxsize=64)
def _best(case: _Case, pure: bool, bits: int) -> Strategy:
    """Strategy of least expected error for a case, cached."""
    strategies = candidates(case.domain, case.workload, pure, bits=bits)
    errors = {name: overall_error(strategy, case.workload, pure) for name, strategy in strategies.items()}
    return strategies[min(errors, key=lambda name: errors[name])]


def candidates(domain: Domain, workload: Workload, pure: bool, *, bits: int = BITS) -> dict[str, Strategy]:
    """Candidate strategies by name."""
    strategies = {
        "cells": Strategy(Identity(domain.size)),
        "trees": tree_strategy(domain, workload, pure),
        "wavelets": wavelet_strategy(domain, workload, pure),
    }
    several = sum(size > 1 for size in domain.shape)
    if several < MANY_AXES:
        strategies["product"] = product_strategy(domain, workload, pure, bits=bits)
    if several > 1:
        for name, trees in (("tables", False), ("tables of trees", True)):
            tables = marginal_strategy(domain, workload, pure, trees=trees)
            if tables is not None:
                strategies[name] = tables
    return strategies


def product_strategy(domain: Domain, workload: Workload, pure: bool, *, bits: int = BITS) -> Strategy:
    """Kronecker product of the best of p-identity, tree and greedy tree on every axis, given the other axes."""
    axes = max(1, sum(size > 1 for size in domain.shape))
    whole, tree_bits = min(12, bits // axes), min(12, WEIGHT_BITS // axes)
    most = MOST_CELLS if axes == 1 else MOST_CELLS_BESIDE_OTHERS
    before: dict[int, tuple[Gram, Floats]] = {}  # what was asked of each axis in the sweep before, and its sums

    def choose(axis: int, gram: Gram) -> AxisPart:
        parts = [AxisPart.cells(gram.n)]
        if gram.n > 1:
            parts += [tree_for(gram, pure, "optimised", tree_bits), greedy_for(gram, pure, min(10, tree_bits))]
        if 1 < gram.n <= most:
            asked, sums = before.get(axis) or (gram, best_sums(gram, pure, swept=axes > 1))
            sums = sums if asked == gram else better_sums(gram, sums, pure)
            before[axis] = gram, sums
            parts.append(with_sums(sums, pure, whole))
        return min(parts, key=lambda part: part.error(gram, pure))

    return combined(axis_by_axis(domain, workload, choose, SWEEPS))
