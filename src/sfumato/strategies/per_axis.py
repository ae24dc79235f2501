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
from sfumato.least_squares.axis_error import MOST_DENSE, axis_error
from sfumato.least_squares.grams import Gram, has_short_gram
from sfumato.least_squares.products import AxisPart, Product, asked_of_axis, grams_of, kind, products
from sfumato.queries import AllRanges, Identity, Queries, Workload

SWEEPS = 3

Choose = Callable[[int, Gram], AxisPart]  # the number of an axis and what is asked of it


def wanted_of(domain: Domain, workload: Workload) -> list[Product]:
    """What a workload asks, as products over the axes.

    What is no product, or too long to write out on its axis, is taken for all ranges and values: that decides only
    which strategy is chosen, not what its error is said to be.
    """
    sizes = tuple(axis.size for axis in domain)
    wanted = []
    for block in workload.blocks:
        usual = tuple(map(_usual, domain))
        for one in products(block, sizes) or [Product(1.0, usual)]:
            factors = tuple(_short(factor, axis) for factor, axis in zip(one.factors, domain, strict=True))
            own = factors == one.factors and factors != usual  # families are equal only to themselves
            rows = block.rows if own else prod(factor.rows for factor in factors)
            wanted.append(Product(one.weight / rows, factors))
    return wanted


def axis_by_axis(wanted: list[Product], sizes: tuple[int, ...], choose: Choose) -> list[AxisPart]:
    """The part of a strategy along each axis."""
    parts = [AxisPart(Identity(size), np.ones(size)) for size in sizes]
    if len(sizes) == 1:
        return [choose(0, asked_of_axis(wanted, 0, np.ones(len(wanted))))]
    errors = np.array([_errors(part, wanted, axis) for axis, part in enumerate(parts)])
    for _ in range(SWEEPS):
        for axis in range(len(sizes)):
            others = np.delete(errors, axis, axis=0).prod(axis=0)
            parts[axis] = choose(axis, asked_of_axis(wanted, axis, others / others.max()))
            errors[axis] = _errors(parts[axis], wanted, axis)
    return parts


def _errors(part: AxisPart, wanted: list[Product], axis: int) -> Floats:
    """The squared error of every product along one axis."""
    known: dict[object, float] = {}
    for product, gram in zip(wanted, grams_of(wanted, axis), strict=True):
        factor = kind(product.factors[axis])
        if factor not in known:
            known[factor] = axis_error(part.queries, part.shares, gram)
    return np.array([known[kind(product.factors[axis])] for product in wanted])


def _usual(axis: Axis) -> Queries:
    return AllRanges(axis.size) if axis.ordered else Identity(axis.size)


def _short(factor: Queries, axis: Axis) -> Queries:
    return factor if factor.columns <= MOST_DENSE or has_short_gram(factor) else _usual(axis)
