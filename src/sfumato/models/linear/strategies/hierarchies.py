"""Tree and wavelet strategies along an axis: branching, weights of levels or nodes, chosen by expected error.

`tree_for`: trees of ranges (papers: models/linear/measure.py). The Gram matrices of the levels of an even tree
commute: on vectors that are constant on the nodes of level l and sum to zero within each node above, level k has the
eigenvalue "cells per node of level k" if k >= l and 0 otherwise.

`with_groups`: trees whose nodes are groups of values stated in the schema, such as regions of municipalities.

`greedy_for`: GreedyH (Li, Hay, Miklau, Wang, VLDB 2014, section 5.2), every node with its own weight and any branching.
From the cells up, each node divides the budget between its own count and the subtrees of its children. With Y the
inverse normal matrix of the subtrees, u = Y 1, S = 1^T u, precision a for them and b for the node, the inverse becomes
(Y - b / (a + b S) u u^T) / a (Sherman, Morrison), so only trace(V Y), S and u^T V u are needed.

`wavelet_for`: Haar along ordered axes and the nominal wavelet along others.

Optimise a Kronecker-product strategy one axis at a time.

McKenna, Miklau, Hay, Machanavajjhala, "Optimizing error of high-dimensional statistical queries under differential
privacy", VLDB 2018, section 6: the squared error of a product strategy on a product workload is the product of the
errors along the axes. For a union of products with weights c_j each axis is optimised for the Gram matrix

    V = sum_j c_j (product of the errors of j along the other axes) V_j,

and the axes are gone through a few times (block coordinate descent).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import combinations
from math import ceil, log2, prod
from typing import Literal

import numpy as np

from sfumato.arrays import Floats
from sfumato.domain import Axis, Domain
from sfumato.frozen import dataclass
from sfumato.least_squares.closed_forms import least_squares
from sfumato.least_squares.gram import MOST_WRITTEN, Gram, Product, added, even_cuts, grams_of, has_short_gram, products
from sfumato.models.linear.strategies.budget_allocation import best_weights, squared_error, whole_weights
from sfumato.queries import Haar, Identity, NominalHaar, Queries, Scaled, Tree, Workload
from sfumato.queries.strategy import Combined, Strategy
from sfumato.queries.workload import usual_along

SWEEPS = 3
MOST_ROWS = 2**25  # of a combination: more are not worth their file, whatever they would answer


@dataclass(frozen=True, eq=False)
class AxisPart:
    """Strategy along one axis: queries, and integer weights of its rows (rows,)."""

    queries: Queries
    weights: Floats

    @classmethod
    def cells(cls, n: int) -> AxisPart:
        """Identity strategy on n cells."""
        return cls(Identity(n), np.ones(n))

    def price(self, *grams: Gram) -> Floats:
        """Squared error trace(V (A^T P A)^-1) for each Gram matrix V, for unit noise variance on the weighted rows."""
        fit = least_squares(self.queries, self.weights**-2.0)
        prices = {id(gram): fit.price(gram) for gram in {id(gram): gram for gram in grams}.values()}
        return np.array([prices[id(gram)] for gram in grams])

    def error(self, gram: Gram, pure: bool) -> float:
        """Squared error on a workload's Gram matrix, at unit sensitivity."""
        weighted = Scaled(self.queries, self.weights.astype(np.int64))
        load = float(weighted.l1) ** 2 if pure else float(weighted.l2_squared)
        return load * float(self.price(gram)[0])


def combined(parts: list[AxisPart]) -> Strategy:
    """Kronecker product of axis strategies: every combination of rows, with the product of their weights.

    >>> from sfumato.queries import Stack, Total
    >>> nodes = AxisPart(Stack(Total(2), Identity(2)), np.array([3, 1, 1]))
    >>> combined([AxisPart.cells(2), nodes]).weights
    (1, 3)
    """
    return Combined(tuple(map(_strategy, parts)))


def not_too_long(parts: list[AxisPart]) -> list[AxisPart]:
    """Replace trees by the identity on the shortest axes where the product would have too many rows."""
    kept, rows = [AxisPart.cells(part.queries.columns) for part in parts], prod(part.queries.columns for part in parts)
    for axis in sorted(range(len(parts)), key=lambda axis: -parts[axis].queries.columns):
        longer = rows * parts[axis].queries.rows // parts[axis].queries.columns
        if longer <= max(MOST_ROWS, rows):
            kept[axis], rows = parts[axis], longer
    return kept


def _strategy(part: AxisPart) -> Strategy:
    """Axis strategy with its distinct weights divided by their greatest common divisor."""
    values, which = np.unique(np.asarray(part.weights, dtype=np.int64), return_inverse=True)
    weights = tuple((values // np.gcd.reduce(values)).tolist())
    return Strategy(part.queries, weights, which if len(weights) > 1 else None)


Choose = Callable[[int, Gram], AxisPart]  # the number of an axis and what is asked of it


def wanted_of(domain: Domain, workload: Workload) -> list[Product]:
    """Workload as a sum of Kronecker products over the axes.

    A block that is no product, or too long to write out along an axis, is replaced by all ranges and values: that
    affects which strategy is chosen, not its stated error.
    """
    wanted, usual = [], tuple(map(usual_along, domain))
    for block, matters in zip(workload.blocks, workload.weights, strict=True):
        for term in products(block, domain.shape) or [Product(1.0, usual)]:
            factors = tuple(_short(factor, axis) for factor, axis in zip(term.factors, domain, strict=True))
            own = factors == term.factors and factors != usual  # families are equal only to themselves
            rows = block.rows if own else prod(factor.rows for factor in factors)
            wanted.append(Product(matters * term.weight / rows, factors))
    return wanted


def axis_by_axis(domain: Domain, workload: Workload, choose: Choose, sweeps: int = SWEEPS) -> list[AxisPart]:
    """Strategy along each axis by block coordinate descent; choose: the best strategy for a Gram matrix of one axis."""
    wanted, axes = wanted_of(domain, workload), range(len(domain.shape))
    grams = [grams_of(wanted, axis) for axis in axes]
    weights = np.array([term.weight for term in wanted])

    def asked(axis: int, costs: Floats) -> Gram:
        """Gram matrix of one axis, with each product weighted by its error along the others, costs (products,)."""
        total: dict[int, float] = {}  # few families of queries make many products
        for gram, cost in zip(grams[axis], (weights * costs).tolist(), strict=True):
            total[id(gram)] = total.get(id(gram), 0.0) + cost
        return added([gram * total[own] for own, gram in {id(gram): gram for gram in grams[axis]}.items()])

    if len(axes) == 1:
        return [choose(0, asked(0, np.ones(len(wanted))))]
    parts = [AxisPart.cells(size) for size in domain.shape]
    errors = np.array([part.price(*each) for part, each in zip(parts, grams, strict=True)])
    for _ in range(sweeps):
        for axis in axes:
            others = np.delete(errors, axis, axis=0).prod(axis=0)
            parts[axis] = choose(axis, asked(axis, others / others.max()))
            errors[axis] = parts[axis].price(*grams[axis])
    return parts


def _short(factor: Queries, axis: Axis) -> Queries:
    """Queries along an axis, or the usual ones where their Gram matrix would be too large."""
    return factor if factor.columns <= MOST_WRITTEN or has_short_gram(factor) else usual_along(axis)


# -- hierarchies

WEIGHTS = ((1, 2), (1, 1), (2, 1), (4, 1), (8, 1))  # of every level of groups, and of single cells
MOST_VALUES = 1024  # of an attribute, for which trees of groups are priced


@lru_cache(maxsize=256)
def with_groups(part: AxisPart, gram: Gram, splits: tuple[tuple[int, ...], ...], pure: bool) -> AxisPart:
    """Replace an axis strategy by a tree of the axis's groups if that has a smaller expected error.

    splits: for each level of groups, the cells at which they begin.
    """
    if not splits or gram.n > MOST_VALUES:
        return part
    best, least = part, part.error(gram, pure)
    for number in range(1, len(splits) + 1):
        for chosen in combinations(splits, number):
            tree = Tree.of_levels([np.array([0, *cuts, gram.n]) for cuts in (*chosen, range(1, gram.n))])
            for groups, cells in WEIGHTS:
                candidate = AxisPart(tree, np.where(tree.row_level < number, float(groups), float(cells)))
                error = candidate.error(gram, pure)
                if error < least:
                    best, least = candidate, error
    return best


Levels = Literal["uniform", "geometric", "optimised"]

TILTS = (0.5, 0.7, 1.0, 1.4, 2.0)  # how much more a level branches than the one above
WEIGHT_BITS = 24  # of the products of weights over the axes, so that their squares stay whole numbers below 2^62


def tree_strategy(domain: Domain, workload: Workload, pure: bool, levels: Levels = "optimised") -> Strategy:
    """Kronecker product of one tree per axis.

    >>> import numpy as np
    >>> from sfumato.domain import Axis
    >>> from sfumato.queries import default_workload
    >>> domain = Domain((Axis("age", "integer", np.arange(1025.0)),))
    >>> tree_strategy(domain, default_workload(domain), True).queries
    Tree(1024, levels of 9, 81, 1024)
    """
    bits = min(12, WEIGHT_BITS // max(1, sum(size > 1 for size in domain.shape)))

    def choose(axis: int, gram: Gram) -> AxisPart:
        tree = tree_for(gram, pure, levels, bits)
        return with_groups(tree, gram, domain.axes[axis].splits, pure) if levels == "optimised" else tree

    return combined(not_too_long(axis_by_axis(domain, workload, choose)))


@lru_cache(maxsize=256)
def tree_for(gram: Gram, pure: bool, levels: Levels = "optimised", bits: int = 12) -> AxisPart:
    """Tree over one axis with the least expected error, and the weights of its rows.

    levels: "optimised" weights, or the papers' "uniform" or "geometric" ones.
    """
    n = gram.n
    if n == 1:
        return AxisPart.cells(1)
    tried = _branchings(n)
    errors, weights = _best_weights(gram, tried, levels, pure)
    best = int(errors.argmin())
    if levels == "optimised" and errors[best] >= gram.diagonal.sum():
        return AxisPart.cells(n)  # no tree is better than its cells alone
    widths = np.minimum(np.cumprod([1, *tried[best]]), n)
    whole = whole_weights(weights[best, : len(widths)], bits)
    whole[-1] = max(1, whole[-1])  # single cells are always asked, so that every query has an answer
    kept = [(int(width), weight) for width, weight in zip(widths.tolist(), whole, strict=True) if weight]
    if len(kept) == 1:
        return AxisPart.cells(n)
    tree = Tree.of_levels([even_cuts(n, width) for width, _ in kept])
    return AxisPart(tree, np.array([weight for _, weight in kept], dtype=np.float64)[tree.row_level])


@lru_cache(maxsize=256)
def _branchings(n: int) -> list[tuple[int, ...]]:
    """Candidate branchings of n cells: any height, even or growing or shrinking from the root to the cells."""
    branchings: dict[tuple[int, ...], None] = {}
    for height in range(1, ceil(log2(n)) + 1):
        for tilt in TILTS:
            wanted = n ** (1 / height) * tilt ** (np.arange(height) - (height - 1) / 2)
            upper = [max(2, round(b)) for b in wanted[:-1].tolist()]
            width = prod(upper)
            if 2 * width <= n or height == 1:
                branchings[(*upper, -(-n // width))] = None
    return list(branchings)


def _best_weights(gram: Gram, tried: list[tuple[int, ...]], levels: Levels, pure: bool) -> tuple[Floats, Floats]:
    """Squared error (branchings,) and weights of levels (branchings, levels) of every candidate branching at once."""
    deepest = 1 + max(map(len, tried))
    demand, size = np.zeros((len(tried), deepest)), np.zeros((len(tried), deepest))
    unanswered: dict[int, float] = {}  # per number of nodes: what is asked beyond what they answer
    whole = float(gram.diagonal.sum())
    for row, branching in enumerate(tried):
        widths = np.minimum(np.cumprod([1, *branching]), gram.n).tolist()
        for width in widths:
            if width not in unanswered:
                unanswered[width] = gram.roughness(width)
        demand[row, : len(widths)] = np.maximum(-np.diff([unanswered[width] for width in widths], prepend=whole), 0.0)
        size[row, : len(widths)] = gram.n / np.array(widths)

    def answered(squares: Floats) -> Floats:
        return np.asarray(np.add.accumulate((squares * size)[:, ::-1], axis=1)[:, ::-1])

    def back(each: Floats) -> Floats:
        return np.asarray(np.add.accumulate(each, axis=1) * size)

    if levels == "optimised":
        weights, errors = best_weights(demand, answered, back, (size > 0).astype(np.float64), pure)
        return errors, weights
    weights = np.where(size > 0, 1.0 if levels == "uniform" else (gram.n / np.maximum(size, 1.0)) ** (1 / 3), 0.0)
    return squared_error(demand, answered, weights, pure), weights


BRANCHINGS = (2, 3, 4, 6, 8, 12, 16, 24, 32)
DIVISIONS = np.linspace(0.0, 0.95, 96)[:, None]  # shares of a node's own count that are tried


@lru_cache(maxsize=256)
def greedy_for(gram: Gram, pure: bool, bits: int = 10) -> AxisPart:
    """Best of several GreedyH trees over one axis; weights of few bits, so that many nodes share one.

    >>> from sfumato.queries import AllRanges
    >>> from sfumato.least_squares.gram import gram_of
    >>> greedy_for(gram_of(AllRanges(256)), True).queries
    Tree(256, levels of 1, 16, 256)
    """
    if gram.n == 1:
        return AxisPart.cells(1)
    trees = [Tree(gram.n, branching) for branching in BRANCHINGS if branching < gram.n] + [Tree(gram.n, gram.n)]
    parts = [AxisPart(tree, _weighed(tree, gram, pure, bits)) for tree in trees]
    return min(parts, key=lambda part: part.error(gram, pure))


def _weighed(tree: Tree, gram: Gram, pure: bool, bits: int) -> Floats:
    """Integer GreedyH weights of every row of a tree."""
    error, sums, spread = gram.diagonal, np.ones(gram.n), np.ones(gram.n)
    below, above = (1.0 - DIVISIONS) ** (2 if pure else 1), DIVISIONS ** (2 if pure else 1)
    divisions: list[Floats] = []
    for cuts, first, measured in zip(tree.levels[-2::-1], tree.children[::-1], tree.asked[-2::-1], strict=True):
        error, sums = np.add.reduceat(error, first[:-1]), np.add.reduceat(sums, first[:-1])
        gain = below + above * sums
        tried = (error - above * gram.squares(spread, cuts) / gain) / below
        best = np.where(measured, tried.argmin(axis=0), 0)
        node = np.arange(len(best))
        error, gained = tried[best, node], gain[best, node]
        sums, spread = sums / gained, spread / np.repeat(gained, np.diff(cuts))
        divisions.insert(0, DIVISIONS[best, 0])
    return _whole(tree, divisions, pure, bits)


def _whole(tree: Tree, divisions: list[Floats], pure: bool, bits: int) -> Floats:
    """Integer weights from the shares that each node keeps, from the root down.

    divisions: by level, the share of a node's budget for its own count, (nodes,). Under pure epsilon the cells' weights
    make all column sums equal.
    """
    left, borne, rows = np.ones(1), np.zeros(1), []
    for division, first, measured in zip(divisions, tree.children, tree.asked, strict=False):
        own = left * division
        weight = np.maximum(1.0, np.rint((own if pure else np.sqrt(own)) * 2**bits))
        rows.append(weight[measured])
        borne = np.repeat(borne + np.where(measured, weight, 0.0), np.diff(first))
        left = np.repeat(left - own, np.diff(first))
    cells = 2.0**bits - borne if pure else np.rint(np.sqrt(left) * 2**bits)
    return np.concatenate([*rows, np.maximum(1.0, cells)])


SURELY_WORTH = 2**12  # cells of an ordered axis from which the wavelet always pays


def wavelet_strategy(domain: Domain, workload: Workload, pure: bool) -> Strategy:
    """Kronecker product of a wavelet or the identity on every axis, by expected error.

    >>> from sfumato.domain import Axis
    >>> from sfumato.queries import default_workload
    >>> ages, sexes = Axis("age", "integer", np.arange(1025.0)), Axis("sex", "category", np.arange(3.0), ("F", "M"))
    >>> domain = Domain((ages, sexes))
    >>> wavelet_strategy(domain, default_workload(domain), True).queries
    Kron(Haar(1024), Identity(2))
    """
    ordered = [axis.ordered for axis in domain]
    return combined(axis_by_axis(domain, workload, lambda axis, gram: wavelet_for(gram, ordered[axis], pure)))


@lru_cache(maxsize=256)
def wavelet_for(gram: Gram, ordered: bool, pure: bool) -> AxisPart:
    """Wavelet over one axis, or the identity where its expected error is smaller."""
    n = gram.n
    cells = AxisPart.cells(n)
    if n == 1:
        return cells
    if ordered and n >= SURELY_WORTH:
        return AxisPart(Haar(n), np.ones(n))
    # a row in one category moves the total by 1 and the differences by 2 (n - 1) together: the same for both
    nominal = AxisPart(NominalHaar(n), np.append(2.0 * (n - 1), np.ones(n)))
    wavelet = AxisPart(Haar(n), np.ones(n)) if ordered else nominal
    return min(cells, wavelet, key=lambda part: part.error(gram, pure))
