"""The queries that matter: what a strategy is optimised for and what a plan prices."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np

from sfumato.arrays import Codes
from sfumato.domain import Axis, Domain
from sfumato.errors import QueryError
from sfumato.queries.base import Queries
from sfumato.queries.compose import Stack
from sfumato.queries.identity import Identity
from sfumato.queries.marginals import over
from sfumato.queries.ranges import AllRanges

GOLDEN = (5**0.5 - 1) / 2  # its multiples, modulo 1, fill the unit interval evenly and fall in with no pattern


@dataclass(frozen=True, eq=False)
class Workload:
    """Blocks of linear queries over the counts of a domain's cells, each with a name; all blocks matter alike.

    The squared error of a workload is the sum over blocks of the mean squared error of a block's queries.
    """

    names: tuple[str, ...]
    blocks: tuple[Queries, ...]

    def __post_init__(self) -> None:
        if not self.blocks or len(self.names) != len(self.blocks):
            raise QueryError("a workload needs at least one block of queries, and a name for each")
        if len({block.columns for block in self.blocks}) > 1:
            raise QueryError("the blocks of a workload must span the same cells")

    @property
    def columns(self) -> int:
        return self.blocks[0].columns

    @property
    def queries(self) -> Queries:
        """All blocks, one below the other."""
        return self.blocks[0] if len(self.blocks) == 1 else Stack(*self.blocks)


@lru_cache(maxsize=32)  # the same object for the same domain, so that what is worked out for it is worked out once
def default_workload(domain: Domain) -> Workload:
    """What everybody asks: all ranges (of ordered attributes) and values (of others), of one and of two attributes.

    >>> import numpy as np
    >>> domain = Domain((Axis("age", "integer", np.arange(4.0)), Axis("sex", "category", np.arange(3.0), ("F", "M"))))
    >>> default_workload(domain).names
    ('age', 'sex', 'age x sex')
    """
    axes = list(domain)
    sets = [(axis,) for axis in axes] + list(combinations(axes, 2))
    blocks = tuple(over(domain, {axis.name: _along(axis) for axis in chosen}) for chosen in sets)
    return Workload(tuple(" x ".join(axis.name for axis in chosen) for chosen in sets), blocks)


def places_among(rows: int, count: int) -> Codes:
    """So many places that stand for all rows of a block, spread without a pattern that rows might share."""
    return np.asarray(np.floor(np.arange(1, count + 1) * GOLDEN % 1.0 * rows), dtype=np.int64)


def _along(axis: Axis) -> Queries:
    return AllRanges(axis.size) if axis.ordered else Identity(axis.size)
