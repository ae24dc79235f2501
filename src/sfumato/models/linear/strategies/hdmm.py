"""HDMM: the strategy of least expected error for a workload among p-identity products, marginals, trees and wavelets.

McKenna, Miklau, Hay, Machanavajjhala, VLDB 2018. `product_strategy`: a Kronecker product with one strategy per axis,
optimised in turn (OPT_x), the best of p-identity, tree and greedy tree each. `marginal_strategy`: weighted marginals
(OPT_M, section 6.3, which also serves unions of products); here an axis may also have the levels of a tree between its
total and its cells, so that ranges profit too, and the table of all cells is always measured, so that every query has
an answer. Identity, trees and wavelets are further candidates; `best_strategy` takes the least expected error.
"""

from __future__ import annotations

from dataclasses import field
from functools import lru_cache
from math import log, prod

import numpy as np

from sfumato.arrays import Floats
from sfumato.domain import Domain
from sfumato.frozen import dataclass
from sfumato.least_squares.expected_error import overall_error
from sfumato.least_squares.gram import Gram, even_cuts, grams_of, kind, products
from sfumato.least_squares.marginals import Grid, Table
from sfumato.models.linear.strategies.budget_allocation import best_weights, whole_weights
from sfumato.models.linear.strategies.hierarchies import (
    WEIGHT_BITS,
    greedy_for,
    tree_for,
    tree_strategy,
    wavelet_strategy,
)
from sfumato.models.linear.strategies.per_axis import AxisPart, axis_by_axis, combined, wanted_of
from sfumato.models.linear.strategies.pidentity import MOST_CELLS, best_sums, better_sums, with_sums
from sfumato.queries import Identity, Kron, Marginals, Queries, Ranges, Stack, Total, Tree, Workload
from sfumato.queries.strategy import Strategy

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
