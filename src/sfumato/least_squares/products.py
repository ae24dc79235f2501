"""Workloads over several axes, taken apart axis by axis where they are products."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.frozen import dataclass
from sfumato.least_squares.gram import Gram, gram_of
from sfumato.queries import AllRanges, Identity, Kron, Prefix, Queries, Scaled, Stack, Total


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


def along_axes(blocks: Sequence[Queries]) -> list[tuple[Queries, ...]] | None:
    """The factors of each block along the axes of all; None where some are no combinations along the same axes.

    >>> along_axes([Total(6), Kron(Identity(2), Total(3))])
    [(Total(2), Total(3)), (Identity(2), Total(3))]
    """
    shapes = {tuple(factor.columns for factor in block.factors) for block in blocks if type(block) is Kron}
    (sizes, *more) = shapes or {(blocks[0].columns,)}
    found = [None if more else products(block, sizes) for block in blocks]
    single = [one[0].factors for one in found if one is not None and len(one) == 1 and one[0].weight == 1.0]
    return single if len(single) == len(blocks) else None


def grams_of(wanted: list[Product], axis: int, shared: dict[object, Gram] | None = None) -> list[Gram]:
    """Per product, what it asks of one axis; equal families share one, usual ones also between calls (`shared`)."""
    usual, own = {} if shared is None else shared, dict[object, Gram]()
    for factor in (product.factors[axis] for product in wanted):
        known = usual if isinstance(kind(factor), type) else own
        if kind(factor) not in known:
            known[kind(factor)] = gram_of(factor)
    known = usual | own
    return [known[kind(product.factors[axis])] for product in wanted]


def kind(factor: Queries) -> object:
    """Equal for families that are sure to be equal, on one axis."""
    return type(factor) if type(factor) in (AllRanges, Identity, Prefix, Total) else id(factor)
