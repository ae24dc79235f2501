"""Workload: blocks of linear queries with weights, which strategies are optimised for and plans are priced on.

Objective: sum over blocks of weight times the mean squared error of the block's queries. The default workload has all
ranges and values of one and two attributes; from three attributes on also the total, three-way marginals and the cells.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations, product
from math import comb, prod

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.domain import Axis, Domain
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.queries.base import Queries
from sfumato.queries.compose import Stack
from sfumato.queries.kron import Kron, over
from sfumato.queries.ranges import AllRanges, Identity, Total

MOST_SETS = 96  # of two or three attributes that stand for all where these are more
NAMED = 0.95  # of the weight of a tilted workload, for what a user named; the default workload has what is left
GOLDEN = (5**0.5 - 1) / 2  # its multiples, modulo 1, fill the unit interval evenly and fall in with no pattern


@dataclass(frozen=True, eq=False)
class Workload:
    """Named blocks of linear queries over the cells of a domain.

    Its squared error is the sum over blocks of weight times the mean squared error of the block's queries.
    weights: 1 on average; if left out, all blocks weigh the same.
    named: number of leading blocks that a user named, of a workload that is tilted towards them (`tilted`); 0: no tilt.
    """

    names: tuple[str, ...]
    blocks: tuple[Queries, ...]
    weights: tuple[float, ...] = ()
    named: int = 0

    def __post_init__(self) -> None:
        if not self.blocks or len(self.names) != len(self.blocks):
            raise QueryError("a workload needs at least one block of queries, and a name for each")
        if len({block.columns for block in self.blocks}) > 1:
            raise QueryError("the blocks of a workload must span the same cells")
        if not self.weights:
            object.__setattr__(self, "weights", (1.0,) * len(self.blocks))
        if len(self.weights) != len(self.blocks) or min(self.weights) <= 0.0:
            raise QueryError("the weights of a workload must be above 0, one for each block")

    @property
    def columns(self) -> int:
        """Number of cells."""
        return self.blocks[0].columns

    @property
    def queries(self) -> Queries:
        """All blocks, stacked."""
        return self.blocks[0] if len(self.blocks) == 1 else Stack(*self.blocks)

    @property
    def asked(self) -> Workload:
        """Blocks that a user named, without the default workload beside them."""
        if not self.named:
            return self
        weights = np.array(self.weights[: self.named])
        return Workload(self.names[: self.named], self.blocks[: self.named], tuple((weights / weights.mean()).tolist()))

    @property
    def shares(self) -> Floats:
        """Share of a fixed number of sampled queries that each block gets, (blocks,): even, or tilted."""
        rest = len(self.blocks) - self.named
        if not self.named or not rest:
            return np.full(len(self.blocks), 1.0 / len(self.blocks))
        return np.repeat([NAMED / self.named, (1.0 - NAMED) / rest], [self.named, rest])

    def overall(self, errors: Floats) -> float:
        """Weighted root mean square of the blocks' errors, (blocks,)."""
        return float(np.sqrt(np.mean(np.asarray(errors) ** 2 * self.weights)))


def tilted(named: Workload, usual: Workload, scales: tuple[float, float]) -> Workload:
    """Union of a named and a default workload: errors count relative to `scales`, the named has NAMED of the weight.

    scales: error of each workload if the whole budget were its own, so that neither wins by the size of its errors.

    >>> from sfumato.queries.ranges import Identity, Total
    >>> both = tilted(Workload(("t",), (Total(2),)), Workload(("c",), (Identity(2),)), (1.0, 2.0))
    >>> [round(weight, 3) for weight in both.weights], both.asked.names
    ([1.974, 0.026], ('t',))
    """
    parts = [
        share * np.array(workload.weights) / sum(workload.weights) / max(scale, 1e-9) ** 2
        for share, workload, scale in zip((NAMED, 1.0 - NAMED), (named, usual), scales, strict=True)
    ]
    weights = np.concatenate(parts)
    names, blocks = (*named.names, *usual.names), (*named.blocks, *usual.blocks)
    return Workload(names, blocks, tuple((weights / weights.mean()).tolist()), len(named.blocks))


@lru_cache(maxsize=32)  # the same object for the same domain, so that what is worked out for it is worked out once
def default_workload(domain: Domain) -> Workload:
    """Default workload: all ranges (ordered attributes) and values (others), of one and of two attributes.

    From three attributes on also the total, the three-way marginals and the cells, each of these five kinds with a
    weight that falls with the root of the number of cells that a query sums. With equal weights on squared errors the
    queries that sum most cells would dominate; with weights inverse to the error of noisy cells nothing could beat
    noisy cells.

    >>> import numpy as np
    >>> domain = Domain((Axis("age", "integer", np.arange(4.0)), Axis("sex", "category", np.arange(3.0), ("F", "M"))))
    >>> default_workload(domain).names
    ('age', 'sex', 'age x sex')
    """
    sets = attribute_sets(domain)
    names = tuple(" x ".join(axis.name for axis in chosen) for chosen in sets)
    blocks: tuple[Queries, ...] = tuple(over(domain, {axis.name: usual_along(axis) for axis in one}) for one in sets)
    if len(domain.axes) < 3:
        return Workload(names, blocks)
    tables = sets_of(domain, 3)
    blocks += tuple(over(domain, {axis.name: Identity(axis.size) for axis in chosen}) for chosen in tables)
    names += tuple(" x ".join(axis.name for axis in chosen) for chosen in tables)
    kinds = [len(chosen) for chosen in sets + tables]
    if len(domain.axes) > 3:
        names, blocks, kinds = (*names, "cells"), (*blocks, Identity(domain.size)), [*kinds, len(domain.axes)]
    names, blocks, kinds = ("total", *names), (Total(domain.size), *blocks), [0, *kinds]
    weights = np.array([_summed(block) ** -0.5 / kinds.count(kind) for block, kind in zip(blocks, kinds, strict=True)])
    return Workload(names, blocks, tuple((weights / weights.mean()).tolist()))


def attribute_sets(domain: Domain) -> list[tuple[Axis, ...]]:
    """Attributes of the blocks of ranges and values in the default workload, in their order."""
    return sets_of(domain, 1) + sets_of(domain, 2)


def sets_of(domain: Domain, size: int) -> list[tuple[Axis, ...]]:
    """All sets of `size` attributes; where these are more than MOST_SETS, a balanced subset (cyclic design)."""
    axes = list(domain)
    if size == 1 or comb(len(axes), size) <= MOST_SETS:
        return list(combinations(axes, size))
    chosen_sets: dict[tuple[int, ...], None] = {}
    for step, first in product(range(1, len(axes)), range(len(axes))):  # around the circle, in ever longer steps
        chosen = {(first + position * step + position // 2) % len(axes) for position in range(size)}
        if len(chosen) == size:
            chosen_sets[tuple(sorted(chosen))] = None
        if len(chosen_sets) == MOST_SETS:
            break
    return [tuple(axes[index] for index in chosen) for chosen in chosen_sets]


def some_sets(domain: Domain, size: int, most: int) -> list[tuple[Axis, ...]]:
    """Sample of at most `most` sets of `size` attributes; one empty set for size 0."""
    every: list[tuple[Axis, ...]] = sets_of(domain, size) if size else [()]
    return every if len(every) <= most else [every[index] for index in places_among(len(every), most)]


def _summed(block: Queries) -> float:
    """Mean number of cells that a query of a block sums."""
    if isinstance(block, Kron):
        return prod(map(_summed, block.factors))
    if isinstance(block, AllRanges):
        return (block.columns + 2) / 3
    return block.columns / block.rows


def places_among(rows: int, count: int) -> Codes:
    """Low-discrepancy sample of `count` row numbers below `rows` (golden-section sequence)."""
    return np.asarray(np.floor(np.arange(1, count + 1) * GOLDEN % 1.0 * rows), dtype=np.int64)


def usual_along(axis: Axis) -> Queries:
    """All ranges of an ordered axis, all values of any other."""
    return AllRanges(axis.size) if axis.ordered else Identity(axis.size)
