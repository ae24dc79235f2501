"""Workloads and strategies over several axes, taken apart axis by axis where they are products."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np

from sfumato.arrays import Floats
from sfumato.least_squares.grams import Gram, added, gram_of
from sfumato.queries import AllRanges, Identity, Kron, Prefix, Queries, Scaled, Stack, Total
from sfumato.queries.strategy import Strategy


@dataclass(frozen=True, eq=False)
class Product:
    """Queries that combine one family per axis: `weight` times the squared error of the combination counts."""

    weight: float
    factors: tuple[Queries, ...]


def products(queries: Queries, sizes: tuple[int, ...]) -> list[Product] | None:
    """The same Gram matrix as a sum of products over the axes; None where it is not one.

    >>> [product.factors for product in products(Identity(6), (2, 3))]
    [(Identity(2), Identity(3))]
    """
    if type(queries) is Identity or type(queries) is Total:
        return [Product(1.0, tuple(type(queries)(size) for size in sizes))]
    if type(queries) is Kron and tuple(factor.columns for factor in queries.factors) == sizes:
        return [Product(1.0, queries.factors)]
    if isinstance(queries, Stack):
        parts = [products(block, sizes) for block in queries.blocks]
        return None if any(part is None for part in parts) else [one for part in parts for one in part or []]
    if type(queries) is Scaled and queries.weights.ndim == 0:
        inner = products(queries.queries, sizes)
        square = float(queries.weights) ** 2
        return None if inner is None else [Product(square * one.weight, one.factors) for one in inner]
    return [Product(1.0, (queries,))] if len(sizes) == 1 else None


def grams_of(wanted: list[Product], axis: int) -> list[Gram]:
    """Per product, what it asks of one axis; equal families share one."""
    known: dict[object, Gram] = {}
    for factor in {id(product.factors[axis]): product.factors[axis] for product in wanted}.values():
        if kind(factor) not in known:
            known[kind(factor)] = gram_of(factor)
    return [known[kind(product.factors[axis])] for product in wanted]


def kind(factor: Queries) -> object:
    """Equal for families that are sure to be equal, on one axis."""
    return type(factor) if type(factor) in (AllRanges, Identity, Prefix, Total) else id(factor)


def asked_of_axis(wanted: list[Product], axis: int, costs: Floats) -> Gram:
    """What a workload asks of one axis, if each product's error along the other axes is its cost."""
    along = zip(grams_of(wanted, axis), wanted, costs.tolist(), strict=True)
    return added([gram * (one.weight * cost) for gram, one, cost in along])


@dataclass(frozen=True, eq=False)
class AxisPart:
    """One axis of a strategy: its queries and how precisely each row is answered."""

    queries: Queries
    shares: Floats


def parts_of(strategy: Strategy) -> tuple[AxisPart, ...] | None:
    """A strategy axis by axis; None where its shares are not products of one share per axis.

    >>> [part.shares.tolist() for part in parts_of(Strategy(Kron(Identity(2), Total(3)), (7,)))]
    [[1.0, 1.0], [7.0]]
    """
    shares = np.array(strategy.shares, dtype=np.float64)
    factors = strategy.queries.factors if type(strategy.queries) is Kron else (strategy.queries,)
    if strategy.which is None:
        each = [np.ones(factor.rows) for factor in factors]
        each[-1] = each[-1] * shares[0]
        return tuple(AxisPart(factor, part) for factor, part in zip(factors, each, strict=True))
    table = shares[strategy.which].reshape([factor.rows for factor in factors])
    each = [table[tuple(slice(None) if a == axis else 0 for a in range(table.ndim))] for axis in range(table.ndim)]
    each = [part if axis == 0 else part / part[0] for axis, part in enumerate(each)]
    if not np.allclose(reduce(np.multiply.outer, each), table, rtol=1e-12, atol=0):
        return None
    return tuple(AxisPart(factor, part) for factor, part in zip(factors, each, strict=True))


def combined(parts: list[AxisPart]) -> Strategy:
    """One strategy over all axes: every combination of rows, as precise as the product of their shares.

    >>> nodes = AxisPart(Stack(Total(2), Identity(2)), np.array([3, 1, 1]))
    >>> combined([AxisPart(Identity(2), np.ones(2)), nodes]).shares
    (1, 3)
    """
    queries = parts[0].queries if len(parts) == 1 else Kron(*(part.queries for part in parts))
    values, which = np.ones(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    for part in parts:
        own, codes = np.unique(np.asarray(part.shares, dtype=np.int64), return_inverse=True)
        values = np.multiply.outer(values, own // np.gcd.reduce(own)).reshape(-1)
        which = np.add.outer(which * len(own), codes).reshape(-1)
    if len(values) == 1:
        return Strategy(queries)
    return Strategy(queries, tuple(values.tolist()), which)
