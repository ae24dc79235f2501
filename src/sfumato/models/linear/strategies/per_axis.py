"""Strategies for several axes, chosen one axis at a time.

McKenna, Miklau, Hay, Machanavajjhala, "Optimizing error of high-dimensional statistical queries under differential
privacy", VLDB 2018, section 6: the error of a combination is the product of the errors along the axes, so each axis is
optimised for what all products together ask of it, given the others, and that a few times over.
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
    """One axis of a strategy: its queries and how precisely each row is answered, in whole numbers."""

    queries: Queries
    weights: Floats

    @classmethod
    def cells(cls, n: int) -> AxisPart:
        """Every cell, all alike."""
        return cls(Identity(n), np.ones(n))

    def price(self, *grams: Gram) -> Floats:
        """The squared error on each of these, for noise of variance 1 on the weighted rows."""
        fit = least_squares(self.queries, self.weights**-2.0)
        known = {id(gram): fit.price(gram) for gram in {id(gram): gram for gram in grams}.values()}
        return np.array([known[id(gram)] for gram in grams])

    def error(self, gram: Gram, pure: bool) -> float:
        """The squared error, for noise of variance 1 for a cell that bears 1."""
        weighted = Scaled(self.queries, self.weights.astype(np.int64))
        load = float(weighted.l1) ** 2 if pure else float(weighted.l2_squared)
        return load * float(self.price(gram)[0])


def combined(parts: list[AxisPart]) -> Strategy:
    """One strategy over all axes: every combination of rows, as precise as the product of their weights.

    >>> from sfumato.queries import Stack, Total
    >>> nodes = AxisPart(Stack(Total(2), Identity(2)), np.array([3, 1, 1]))
    >>> combined([AxisPart.cells(2), nodes]).weights
    (1, 3)
    """
    return Combined(tuple(map(_strategy, parts)))


def not_too_long(parts: list[AxisPart]) -> list[AxisPart]:
    """The same parts; where all combinations of their rows would be too many, single cells on the shortest axes."""
    found, rows = [AxisPart.cells(part.queries.columns) for part in parts], prod(part.queries.columns for part in parts)
    for place in sorted(range(len(parts)), key=lambda place: -parts[place].queries.columns):
        longer = rows * parts[place].queries.rows // parts[place].queries.columns
        if longer <= max(MOST_ROWS, rows):
            found[place], rows = parts[place], longer
    return found


def _strategy(part: AxisPart) -> Strategy:
    values, which = np.unique(np.asarray(part.weights, dtype=np.int64), return_inverse=True)
    weights = tuple((values // np.gcd.reduce(values)).tolist())
    return Strategy(part.queries, weights, which if len(weights) > 1 else None)


Choose = Callable[[int, Gram], AxisPart]  # the number of an axis and what is asked of it


def wanted_of(domain: Domain, workload: Workload) -> list[Product]:
    """What a workload asks, as products over the axes.

    What is no product, or too long to write out on its axis, is taken for all ranges and values: that decides only
    which strategy is chosen, not what its error is said to be.
    """
    wanted, usual = [], tuple(map(_usual, domain))
    for block, matters in zip(workload.blocks, workload.weights, strict=True):
        for one in products(block, domain.shape) or [Product(1.0, usual)]:
            factors = tuple(_short(factor, axis) for factor, axis in zip(one.factors, domain, strict=True))
            own = factors == one.factors and factors != usual  # families are equal only to themselves
            rows = block.rows if own else prod(factor.rows for factor in factors)
            wanted.append(Product(matters * one.weight / rows, factors))
    return wanted


def axis_by_axis(domain: Domain, workload: Workload, choose: Choose, sweeps: int = SWEEPS) -> list[AxisPart]:
    """The part of a strategy along each axis; sweeps: how often each is chosen anew, given the others."""
    wanted, axes = wanted_of(domain, workload), range(len(domain.shape))
    grams = [grams_of(wanted, axis) for axis in axes]
    weights = np.array([one.weight for one in wanted])

    def asked(axis: int, costs: Floats) -> Gram:
        """What all ask of one axis, if each product's error along the other axes is its cost."""
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
    return AllRanges(axis.size) if axis.ordered else Identity(axis.size)


def _short(factor: Queries, axis: Axis) -> Queries:
    return factor if factor.columns <= MOST_WRITTEN or has_short_gram(factor) else _usual(axis)
