"""Tables of regions: grids that cut every axis of a domain into nested intervals of nearly equal length.

Along an ordered axis the cuts form a tree with about `BRANCHES` children per node, from single values up to the whole
axis; along any other there are single values and the whole axis. So a table with at least as many parts on every axis
refines another. Candidate tables are those that a release may measure sums of; they depend on the schema alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations, product
from math import prod

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.domain import Domain
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.queries import Identity, Kron, Queries, Ranges, Total

BRANCHES = 8  # parts that are put together on the way up an ordered axis
MOST_REGIONS = 512  # of one table
MOST_IN_ALL = 1024  # of all tables but that of cells; equations are solved in as many numbers
MOST_TABLES = 24
MOST_TOGETHER = 3  # attributes of a table that is not that of cells
MOST_WORK = 2**27  # pairs of tables times cells, each of which is looked at


@dataclass(frozen=True)
class Table:
    """Grid of boxes. sides: the sizes of the domain's axes. parts: number of intervals on each axis."""

    sides: tuple[int, ...]
    parts: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.sides) != len(self.parts) or any(
            part not in chain(side) for side, part in zip(self.sides, self.parts, strict=True)
        ):
            raise QueryError("a table cuts each axis into as many parts as Sfumato does")

    @property
    def size(self) -> int:
        """Number of regions."""
        return prod(self.parts)

    @property
    def cells(self) -> float:
        """Mean number of cells of a region."""
        return prod(self.sides) / self.size

    def within(self, other: Table) -> bool:
        """Whether this table refines the other, every region lying inside one of the other's."""
        return all(mine >= theirs for mine, theirs in zip(self.parts, other.parts, strict=True))

    def labels(self) -> Codes:
        """Region of every cell, (cells,)."""
        labels = np.zeros(1, dtype=np.int64)
        for side, part in zip(self.sides, self.parts, strict=True):
            labels = (labels[:, None] * part + part_of(side, part)).reshape(-1)
        return labels

    def queries(self) -> Queries:
        """Query matrix of all region sums, (regions, cells)."""
        if self.parts == self.sides:
            return Identity(prod(self.sides))
        factors = [_along(side, part) for side, part in zip(self.sides, self.parts, strict=True)]
        return factors[0] if len(factors) == 1 else Kron(*factors)

    @classmethod
    def asked(cls, sides: tuple[int, ...], queries: Queries) -> Table:
        """Recognise the table whose region sums some queries are; raise a QueryError if they are none."""
        if type(queries) is Identity and queries.columns == prod(sides):
            return cls(sides, sides)
        factors = queries.factors if type(queries) is Kron else (queries,)
        if tuple(factor.columns for factor in factors) != sides:
            raise QueryError("sums of regions are those of a table along the axes")
        table = cls(sides, tuple(factor.rows for factor in factors))
        for mine, theirs in zip((_along(*pair) for pair in zip(sides, table.parts, strict=True)), factors, strict=True):
            same = type(mine) is type(theirs)
            if same and isinstance(mine, Ranges) and isinstance(theirs, Ranges):
                same = np.array_equal(mine.lows, theirs.lows) and np.array_equal(mine.highs, theirs.highs)
            if not same:
                raise QueryError("sums of regions are those of a table along the axes")
        return table


@lru_cache(maxsize=256)
def chain(side: int) -> tuple[int, ...]:
    """Numbers of intervals into which an ordered axis may be cut, the finest first.

    >>> chain(100), chain(5)
    ((100, 13, 2, 1), (5, 1))
    """
    numbers = [side]
    while numbers[-1] > 1:
        numbers.append(-(-numbers[-1] // BRANCHES))
    return tuple(numbers)


@lru_cache(maxsize=256)
def part_of(side: int, parts: int) -> Codes:
    """Interval of each value of an axis at one level, (side,); intervals of a level nest in those of the next."""
    intervals = np.arange(side)
    for finer in chain(side):
        if finer == parts:
            break
        coarser = -(-finer // BRANCHES)
        intervals = (intervals * coarser + coarser - 1) // finer
    return intervals


def candidates(domain: Domain) -> list[Table]:
    """Candidate tables: the total first, then few attributes before many, the table of cells last.

    Limited in number, in regions, and in work.
    """
    sides, most = domain.shape, min(MOST_TABLES, max(3, int((MOST_WORK / domain.size) ** 0.5)))
    tables, regions = list[Table](), 0
    for parts in _few_at_first([chain(axis.size) if axis.ordered else (axis.size, 1) for axis in domain]):
        size = prod(parts)
        if len(tables) + 1 < most and parts != sides and size <= MOST_REGIONS and regions + size <= MOST_IN_ALL:
            tables.append(Table(sides, parts))
            regions += size
    return [*tables, Table(sides, sides)]


def _few_at_first(levels: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Possible numbers of parts per axis, ordered by number of attributes, then by number of regions.

    levels: for each axis its possible numbers of parts. With three axes and more, sets of two and more attributes are
    by single values only.
    """
    axes = range(len(levels))
    several = [chosen for count in range(min(len(levels), MOST_TOGETHER) + 1) for chosen in combinations(axes, count)]
    possible: dict[tuple[int, ...], None] = {}
    for chosen in several:
        coarse = len(levels) < 3 or len(chosen) < 2
        sides = [(levels[axis] if coarse else levels[axis][:1]) if axis in chosen else (1,) for axis in axes]
        possible |= dict.fromkeys(product(*sides))
    return sorted(possible, key=lambda parts: (sum(part > 1 for part in parts), prod(parts)))


def gathered(labels: Codes, values: Floats, size: int) -> Floats:
    """Sum cell values by region: labels (cells,), values (cells,) -> (regions,)."""
    return np.asarray(np.bincount(labels, weights=values, minlength=size), dtype=np.float64)


def crossed(one: Codes, other: Codes, values: Floats, sizes: tuple[int, int]) -> Floats:
    """Sum cell values by pairs of regions of two tables, (regions of the one, regions of the other)."""
    return gathered(one * sizes[1] + other, values, sizes[0] * sizes[1]).reshape(sizes)


def _along(side: int, parts: int) -> Queries:
    """Query matrix of the interval sums of one axis."""
    if parts == side:
        return Identity(side)
    if parts == 1:
        return Total(side)
    starts = np.searchsorted(part_of(side, parts), np.arange(parts + 1))
    return Ranges(side, starts[:-1], starts[1:] - 1)
