"""Optimise a Kronecker-product strategy one axis at a time.

McKenna, Miklau, Hay, Machanavajjhala, "Optimizing error of high-dimensional statistical queries under differential
privacy", VLDB 2018, section 6: the squared error of a product strategy on a product workload is the product of the
errors along the axes. For a union of products with weights c_j each axis is optimised for the Gram matrix

    V = sum_j c_j (product of the errors of j along the other axes) V_j,

and the axes are gone through a few times (block coordinate descent).
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from sfumato.arrays import Floats
from sfumato.domain import Axis, Domain
from sfumato.frozen import dataclass
from sfumato.least_squares.families import least_squares
from sfumato.least_squares.gram import MOST_WRITTEN, Gram, Product, added, grams_of, has_short_gram, products
from sfumato.queries import AllRanges, Identity, Queries, Scaled, Workload
from sfumato.queries.strategy import Combined, Strategy

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
    wanted, usual = [], tuple(map(_usual, domain))
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


def _usual(axis: Axis) -> Queries:
    """All ranges of an ordered axis, all values of any other."""
    return AllRanges(axis.size) if axis.ordered else Identity(axis.size)


def _short(factor: Queries, axis: Axis) -> Queries:
    """Queries along an axis, or the usual ones where their Gram matrix would be too large."""
    return factor if factor.columns <= MOST_WRITTEN or has_short_gram(factor) else _usual(axis)
