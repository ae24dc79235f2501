"""Spine: counts of small areas at every level of a public hierarchy, each level with its own share of the budget.

Abowd et al., "The 2020 Census Disclosure Avoidance System TopDown Algorithm", Harvard Data Science Review 2022: measure
country, states, counties, tracts and blocks, each crossed with the other attributes. Theirs is made consistent from the
top down, with counts that are forced to be whole and not negative, and the shares of the levels are set by hand. Here
all levels are fitted together by generalised least squares (Hay et al., VLDB 2010, for uneven trees): counts are
unbiased and have the least variance, and the shares minimise the expected error on the workload.

Variances. A subtree estimates its own total with variance s. Children combine as S = sum of s; a node's own row of
precision p brings S to 1 / (1 / S + p). Downwards, a child of a node whose final variance is F has the final variance
s - s^2 / S + (s / S)^2 F: what its siblings leave open, and its share of what its parent does.

A node with a single child is the same area twice: it is asked once, with the budget of both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from itertools import combinations, pairwise, product
from math import prod
from typing import Any

import numpy as np

from sfumato.arrays import MOST_DENSE, MOST_MEASURED, Codes, Flags, Floats
from sfumato.domain import Axis, Domain
from sfumato.frozen import dataclass
from sfumato.least_squares.classes import ranked, words
from sfumato.least_squares.gram import MOST_WRITTEN, Gram, Product, added, gram_of, has_short_gram, kind, products
from sfumato.models.base.measure_and_fit import linear
from sfumato.models.base.mechanism import Forecast, Holds, Mechanism
from sfumato.models.linear.strategies.budget_allocation import whole_weights
from sfumato.models.linear.strategies.hierarchies import MOST_ROWS, SWEEPS, WEIGHT_BITS, AxisPart, combined, tree_for
from sfumato.queries import AllRanges, Identity, Kron, Queries, Ranges, Total, Tree, Workload, default_workload
from sfumato.queries.strategy import Strategy
from sfumato.queries.workload import GOLDEN
from sfumato.schema import Schema

FEW_BITS = 12  # of the weights along one axis
STARTS = 4  # of the search for shares, each with other levels left out
CLOSE = 1e-6  # relative change of the error at which the search for shares ends
LEAST = (
    1e-4  # of the largest weight, while shares are searched for: the level is then left out when weights are rounded
)


@dataclass(frozen=True, eq=False)
class Nodes:
    """Areas of each level from the whole to the smallest, or classes of areas with equal variances (`Spine.kinds`).

    parents: for each level but the first, the node above, (nodes,). many: number of such areas in one area of the node
    above, (nodes,). counts: for each level, number of areas in each node, (nodes,).
    """

    parents: tuple[Codes, ...]
    many: tuple[Floats, ...]
    counts: tuple[Floats, ...]

    def _together(self, level: int, values: Floats) -> Floats:
        """Sum the values of one level of areas within each area of the level above."""
        each: Floats = values * self.many[level - 1]
        return np.bincount(self.parents[level - 1], each, len(self.counts[level - 1])).astype(np.float64)

    def row_weights(self, weights: Sequence[float], pure: bool) -> list[Floats]:
        """Weights of the nodes' rows by level, (nodes,) each; a node with one child has 0, the child both shares."""
        power, carried, result = (1 if pure else 2), np.zeros(1), list[Floats]()
        for level, weight in enumerate(weights[:-1]):
            alone = self._together(level + 1, np.ones(len(self.counts[level + 1]))) < 1.5
            own = carried + weight**power
            result.append(np.where(alone, 0.0, own) ** (1 / power))
            carried = np.where(alone, own, 0.0)[self.parents[level]]
        return [*result, (carried + weights[-1] ** power) ** (1 / power)]

    def variances(self, by_level: Sequence[Floats]) -> list[Floats]:
        """Variance of each area's least-squares count, level by level; by_level: precisions of the nodes' own rows."""
        alone, together = [1.0 / by_level[-1]], list[Floats]()
        for level in range(len(self.parents), 0, -1):
            together.append(self._together(level, alone[-1]))
            alone.append(1.0 / (1.0 / together[-1] + by_level[level - 1]))
        final = [alone.pop()]
        for parents, whole in zip(self.parents, reversed(together), strict=True):
            own = alone.pop()
            share = own / whole[parents]
            final.append(own - own * share + share**2 * final[-1][parents])
        return final


@dataclass(frozen=True, eq=False)
class Spine:
    """Nested levels of areas along one axis: boundaries of each level, from the whole to single cells."""

    levels: tuple[Codes, ...]

    @classmethod
    def of(cls, axis: Axis) -> Spine | None:
        """Levels of an axis with groups; None of one without.

        >>> places = Axis("town", "category", np.arange(5.0), ("a", "b", "c", "d"), splits=((3,),))
        >>> [level.tolist() for level in Spine.of(places).levels]
        [[0, 4], [0, 3, 4], [0, 1, 2, 3, 4]]
        """
        n = axis.size
        inner = [np.array([0, *cuts, n], dtype=np.int64) for cuts in axis.splits if len(cuts) < n - 1]
        ends = np.array([0, n], dtype=np.int64), np.arange(n + 1, dtype=np.int64)
        return cls((ends[0], *inner, ends[1])) if inner else None

    @property
    def n(self) -> int:
        """Number of cells."""
        return len(self.levels[-1]) - 1

    def queries(self) -> list[Queries]:
        """Counts of all areas of each level."""
        inner = [Ranges(self.n, cuts[:-1], cuts[1:] - 1) for cuts in self.levels[1:-1]]
        return [Total(self.n), *inner, Identity(self.n)]

    def demand(self, factor: Queries) -> Floats:
        """Number of areas of each level that rows of queries are sums of, weights squared, (levels,).

        Every row is taken apart into the largest areas in which it weighs all cells alike. Exact where a row is one
        area; for lists of areas it leaves their covariances out.
        """
        marks = np.arange(1, factor.rows + 1) * GOLDEN % 1.0  # two cells in different rows get different sums
        seen = np.asarray(factor.T @ marks[:, None], dtype=np.float64)[:, 0]
        squares = np.asarray(factor.column_squares(), dtype=np.float64)
        result, covered = np.zeros(len(self.levels)), np.zeros(self.n, dtype=bool)
        for number, cuts in enumerate(self.levels):
            first, sizes = cuts[:-1], np.diff(cuts)
            alike: Flags = np.maximum.reduceat(seen, first) == np.minimum.reduceat(seen, first)
            new = alike & ~covered[first]
            result[number] = squares[first[new]].sum()
            covered |= np.repeat(alike, sizes)
        return result

    @cached_property
    def nodes(self) -> Nodes:
        """Every area by itself."""
        parents = [
            np.repeat(np.arange(len(upper) - 1), np.diff(np.searchsorted(lower, upper)))
            for upper, lower in pairwise(self.levels)
        ]
        ones = [np.ones(len(cuts) - 1) for cuts in self.levels]
        return Nodes(tuple(parents), tuple(ones[1:]), tuple(ones))

    @cached_property
    def kinds(self) -> Nodes:
        """Merge areas with identical subtrees and ancestors: their variances are equal whatever the weights."""
        below = [np.zeros(self.n, dtype=np.int64)]  # by level from the last, which areas divide alike
        for parents in reversed(self.nodes.parents):
            sums = np.zeros(int(parents[-1]) + 1, dtype=np.uint64)
            np.add.at(sums, parents, words(int(below[-1].max()) + 1)[below[-1]])
            below.append(ranked(sums))
        own = np.zeros(1, dtype=np.int64)
        found, many, counts = list[Codes](), list[Floats](), [np.ones(1)]
        for parents, alike in zip(self.nodes.parents, below[-2::-1], strict=True):
            pairs, own, each = np.unique(
                own[parents] * (int(alike.max()) + 1) + alike, return_inverse=True, return_counts=True
            )
            found.append(pairs // (int(alike.max()) + 1))
            many.append(each / counts[-1][found[-1]])
            counts.append(each.astype(np.float64))
        return Nodes(tuple(found), tuple(many), tuple(counts))

    def errors(self, weights: Sequence[float], pure: bool) -> Floats:
        """Mean variance of the areas of each level at unit sensitivity, (levels,)."""
        load = sum(weights) ** 2 if pure else sum(weight**2 for weight in weights)
        rows = self.kinds.row_weights(weights, pure)
        levels = self.kinds.variances([own**2 for own in rows])
        return load * np.array([np.average(s, weights=n) for s, n in zip(levels, self.kinds.counts, strict=True)])

    def best_weights(self, demand: Floats, pure: bool) -> Floats:
        """Weights of levels that minimise the squared error sum of demand times variance, (levels,); sum 1."""
        from scipy.optimize import minimize

        def error(logs: Floats) -> float:
            return float(np.log(self.errors(np.exp(logs - logs.max()).tolist(), pure) @ demand))

        # The error has several minima, in which different levels are left out.
        sets = np.array([(*asked, True) for asked in product((True, False), repeat=len(self.levels) - 1)])
        starts = sorted(np.log(np.where(sets, 1.0, LEAST)), key=error)[:STARTS]
        limits = [(float(np.log(LEAST)), 0.5)] * len(self.levels)
        tried = [minimize(error, start, method="L-BFGS-B", bounds=limits, options={"ftol": CLOSE}) for start in starts]
        best = np.exp(min(tried, key=lambda result: float(result.fun)).x)
        return np.asarray(best / best.sum())

    def part(self, weights: Floats, pure: bool, bits: int) -> AxisPart:
        """Tree of the levels that are worth asking, with whole weights."""
        whole = whole_weights(weights, bits)
        whole[-1] = max(1, whole[-1])  # single cells are always asked, so that every query has an answer
        kept = [number for number, weight in enumerate(whole) if weight]
        asked = Spine(tuple(self.levels[number] for number in kept))
        if len(kept) == 1:
            return AxisPart.cells(self.n)
        rows = asked.nodes.row_weights([float(whole[number]) for number in kept], pure)
        tree = Tree.of_levels(asked.levels)
        own = [np.floor(level[nodes] + 0.5 * pure) for level, nodes in zip(rows, tree.asked, strict=True)]
        return AxisPart(tree, np.concatenate(own))


@lru_cache(maxsize=8)
def areas_workload(domain: Domain) -> Workload:
    """Default workload: areas of every level, crossed with no other attribute, each one, each two and all of them.

    Levels count alike: with the whole budget for itself each would have the same error. Crossings count alike by kind,
    and less the more cells a query sums, by the root of their number, as in the default workload.
    """
    spines = [Spine.of(axis) for axis in domain]
    others = [number for number, spine in enumerate(spines) if spine is None and domain.shape[number] > 1]
    crossed = [chosen for size in range(min(2, len(others)) + 1) for chosen in combinations(others, size)]
    crossed += [tuple(others)] if len(others) > 2 else []
    names, blocks, weights = list[str](), list[Queries](), list[float]()
    for place, spine in enumerate(spines):
        for level, areas in enumerate(spine.queries() if spine else ()):
            for chosen in crossed:
                factors: list[Queries] = [
                    Identity(size) if number in chosen else Total(size) for number, size in enumerate(domain.shape)
                ]
                factors[place] = areas
                names.append(" x ".join([f"{domain.names[place]} {level}", *(domain.names[one] for one in chosen)]))
                blocks.append(Kron(*factors) if len(factors) > 1 else factors[0])
                summed = np.prod([size for number, size in enumerate(domain.shape) if number not in (*chosen, place)])
                same = sum(len(other) == len(chosen) for other in crossed)
                weights.append(float(summed) ** -0.5 / same)
    return Workload(tuple(names), tuple(blocks), tuple((np.array(weights) / np.mean(weights)).tolist()))


Price = Callable[[Any], float]  # squared error of what a product asks of one axis, at unit sensitivity


class _Areas:
    """Strategy search along an axis with levels of areas; the workload enters as a demand by level."""

    def __init__(self, spine: Spine, pure: bool, bits: int) -> None:
        self._spine, self._pure, self._bits, self._kept = spine, pure, bits, dict[object, Floats]()

    def asked(self, factor: Queries) -> Floats:
        """Demand of queries along the axis."""
        if kind(factor) not in self._kept:
            self._kept[kind(factor)] = self._spine.demand(factor)
        return self._kept[kind(factor)]

    def cells(self) -> tuple[AxisPart, Price]:
        """Single cells alone."""
        weights = [0.0] * (len(self._spine.levels) - 1) + [1.0]
        return AxisPart.cells(self._spine.n), self._price(weights)

    def choose(self, asked: Sequence[Floats], amounts: Floats) -> tuple[AxisPart, Price]:
        """Tree with the best weights of levels for the sum of demands, each times its amount; and the price."""
        weights = self._spine.best_weights(amounts @ np.array(asked), self._pure)
        return self._spine.part(weights, self._pure, self._bits), self._price(weights.tolist())

    def _price(self, weights: list[float]) -> Price:
        errors = self._spine.errors(weights, self._pure)
        return lambda demand: float(demand @ errors)


class _Values:
    """Strategy search, tree or single cells, along any other axis; the workload enters as a Gram matrix."""

    def __init__(self, axis: Axis, pure: bool, bits: int) -> None:
        self._axis, self._pure, self._bits, self._kept = axis, pure, bits, dict[object, Gram]()

    def asked(self, factor: Queries) -> Gram:
        """Gram matrix of queries along the axis."""
        if factor.columns > MOST_WRITTEN and not has_short_gram(factor):
            factor = AllRanges(factor.columns) if self._axis.ordered else Identity(factor.columns)
        if kind(factor) not in self._kept:
            self._kept[kind(factor)] = gram_of(factor)
        return self._kept[kind(factor)]

    def cells(self) -> tuple[AxisPart, Price]:
        """Single cells alone."""
        part = AxisPart.cells(self._axis.size)
        return part, self._price(part)

    def choose(self, asked: Sequence[Gram], amounts: Floats) -> tuple[AxisPart, Price]:
        """Best tree for the sum of Gram matrices, each times its amount; and the price."""
        total: dict[int, float] = {}
        for gram, amount in zip(asked, amounts.tolist(), strict=True):
            total[id(gram)] = total.get(id(gram), 0.0) + amount
        distinct = {id(gram): gram for gram in asked}
        part = tree_for(added([gram * total[key] for key, gram in distinct.items()]), self._pure, bits=self._bits)
        return part, self._price(part)

    def _price(self, part: AxisPart) -> Price:
        kept: dict[int, float] = {}

        def price(gram: Gram) -> float:
            if id(gram) not in kept:
                kept[id(gram)] = part.error(gram, self._pure)
            return kept[id(gram)]

        return price


@lru_cache(maxsize=8)  # a release asks for it when it is checked, and when it is measured
def levels_strategy(domain: Domain, workload: Workload, pure: bool) -> Strategy:
    """Kronecker product of a tree of areas along each axis with groups and a tree or cells along the others.

    >>> places = Axis("town", "category", np.arange(61.0), tuple(map(str, range(60))), splits=((20, 40),))
    >>> domain = Domain((places, Axis("sex", "category", np.arange(3.0), ("F", "M"))))
    >>> levels_strategy(domain, areas_workload(domain), True).queries
    Kron(Tree(60, levels of 3, 60), Identity(2))
    """
    bits = min(FEW_BITS, WEIGHT_BITS // max(1, sum(size > 1 for size in domain.shape)))
    spines = [Spine.of(axis) for axis in domain]
    along: list[Any] = [
        _Areas(spine, pure, bits) if spine else _Values(axis, pure, bits)
        for axis, spine in zip(domain, spines, strict=True)
    ]
    wanted = _wanted(domain, workload)
    asked = [[axis.asked(term.factors[number]) for term in wanted] for number, axis in enumerate(along)]
    parts, prices = map(list, zip(*(axis.cells() for axis in along), strict=True))
    matters = np.array([term.weight for term in wanted])
    errors = np.array([list(map(price, each)) for price, each in zip(prices, asked, strict=True)])
    areas = [
        Tree.of_levels(spine.levels).rows if spine else axis.size for spine, axis in zip(spines, domain, strict=True)
    ]
    most = max(MOST_ROWS, prod(areas))  # rows: trees of areas come first
    for _ in range(SWEEPS if len(along) > 1 else 1):
        for number, axis in enumerate(along):
            amounts = matters * np.delete(errors, number, axis=0).prod(axis=0)
            parts[number], price = axis.choose(asked[number], amounts / amounts.max())
            others = [max(part.queries.rows, least) for part, least in zip(parts, areas, strict=True)]
            if spines[number] is None and prod(others) > most:
                parts[number], price = axis.cells()
            errors[number] = list(map(price, asked[number]))
    return combined(parts)


def _wanted(domain: Domain, workload: Workload) -> list[Product]:
    """Workload as a sum of Kronecker products over the axes; a block that is none counts as all cells.

    That affects which strategy is chosen, not its stated error.
    """
    result = []
    for block, matters in zip(workload.blocks, workload.weights, strict=True):
        terms = products(block, domain.shape)
        if terms is None:
            result.append(Product(matters / domain.size, tuple(map(Identity, domain.shape))))
        result += [Product(matters * term.weight / block.rows, term.factors) for term in terms or ()]
    return result


def spine_strategy(schema: Schema, workload: Workload, pure: bool) -> Strategy:
    """Strategy for the workload; where none was named, for areas of every level (`areas_workload`)."""
    domain = schema.domain
    if workload is default_workload(domain) and any(Spine.of(axis) for axis in domain):
        workload = areas_workload(domain)
    return levels_strategy(domain, workload, pure)


MECHANISM = Mechanism(
    name="spine",
    summary="counts areas at every level of a hierarchy of groups, made consistent",
    paper="Abowd et al. 2022",
    run=linear(spine_strategy),
    gaussian=True,
    holds=Holds(most_cells=MOST_MEASURED, zeros=True, most_with_zeros=MOST_DENSE),
    forecast=Forecast(strategy=spine_strategy, for_auto=False),
)
