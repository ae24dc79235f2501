"""Trees of ranges: how far each level branches and how precisely it is measured, by expected error.

Hay, Rastogi, Miklau, Suciu, VLDB 2010 (trees), Qardaji, Yang, Li, VLDB 2013 (branching by expected error). The papers
give all levels the same budget, or geometric weights (Cormode et al., ICDE 2012); here the weights that minimise the
expected error are found exactly, and a level that is not worth its weight is not asked at all.

For an even tree the levels' Gram matrices commute: on vectors that are constant on the nodes of level l and add up to
zero in each node above, level k answers with the size of its nodes if k >= l and with nothing otherwise.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, log2, prod
from typing import Literal

import numpy as np

from sfumato.arrays import Floats
from sfumato.domain import Domain
from sfumato.least_squares.gram import Gram, even_cuts
from sfumato.models.linear.strategies.budget_allocation import best_weights, squared_error, whole_weights
from sfumato.models.linear.strategies.group_trees import with_groups
from sfumato.models.linear.strategies.per_axis import AxisPart, axis_by_axis, combined, not_too_long
from sfumato.queries import Tree, Workload
from sfumato.queries.strategy import Strategy

Levels = Literal["uniform", "geometric", "optimised"]

TILTS = (0.5, 0.7, 1.0, 1.4, 2.0)  # how much more a level branches than the one above
WEIGHT_BITS = 24  # of the products of weights over the axes, so that their squares stay whole numbers below 2^62


def tree_strategy(domain: Domain, workload: Workload, pure: bool, levels: Levels = "optimised") -> Strategy:
    """One tree per axis, combined.

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
    """The tree over one axis with the least expected error, and the weights of its rows."""
    n = gram.n
    if n == 1:
        return AxisPart.cells(1)
    tried = _branchings(n)
    errors, each = _best_weights(gram, tried, levels, pure)
    best = int(errors.argmin())
    if levels == "optimised" and errors[best] >= gram.diagonal.sum():
        return AxisPart.cells(n)  # no tree is better than its cells alone
    widths = np.minimum(np.cumprod([1, *tried[best]]), n)
    whole = whole_weights(each[best, : len(widths)], bits)
    whole[-1] = max(1, whole[-1])  # single cells are always asked, so that every query has an answer
    kept = [(int(width), weight) for width, weight in zip(widths.tolist(), whole, strict=True) if weight]
    if len(kept) == 1:
        return AxisPart.cells(n)
    tree = Tree.of_levels([even_cuts(n, width) for width, _ in kept])
    return AxisPart(tree, np.array([weight for _, weight in kept], dtype=np.float64)[tree.row_level])


@lru_cache(maxsize=256)
def _branchings(n: int) -> list[tuple[int, ...]]:
    """Branchings worth trying: any number of levels, even or growing or shrinking from the root to the cells."""
    found: dict[tuple[int, ...], None] = {}
    for height in range(1, ceil(log2(n)) + 1):
        for tilt in TILTS:
            wanted = n ** (1 / height) * tilt ** (np.arange(height) - (height - 1) / 2)
            upper = [max(2, round(b)) for b in wanted[:-1].tolist()]
            width = prod(upper)
            if 2 * width <= n or height == 1:
                found[(*upper, -(-n // width))] = None
    return list(found)


def _best_weights(gram: Gram, tried: list[tuple[int, ...]], levels: Levels, pure: bool) -> tuple[Floats, Floats]:
    """For every branching at once: its squared error, and the weights of its levels (0 where it has none)."""
    deepest = 1 + max(map(len, tried))
    asked, size = np.zeros((len(tried), deepest)), np.zeros((len(tried), deepest))
    known: dict[int, float] = {}  # per number of nodes: what is asked beyond what they answer
    whole = float(gram.diagonal.sum())
    for row, branching in enumerate(tried):
        widths = np.minimum(np.cumprod([1, *branching]), gram.n).tolist()
        for width in widths:
            if width not in known:
                known[width] = gram.roughness(width)
        asked[row, : len(widths)] = np.maximum(-np.diff([known[width] for width in widths], prepend=whole), 0.0)
        size[row, : len(widths)] = gram.n / np.array(widths)

    def answered(squares: Floats) -> Floats:
        return np.asarray(np.add.accumulate((squares * size)[:, ::-1], axis=1)[:, ::-1])

    def back(each: Floats) -> Floats:
        return np.asarray(np.add.accumulate(each, axis=1) * size)

    if levels == "optimised":
        weights, errors = best_weights(asked, answered, back, (size > 0).astype(np.float64), pure)
        return errors, weights
    weights = np.where(size > 0, 1.0 if levels == "uniform" else (gram.n / np.maximum(size, 1.0)) ** (1 / 3), 0.0)
    return squared_error(asked, answered, weights, pure), weights
