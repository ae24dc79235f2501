"""Queries over several attributes: one family per attribute, combined in every way."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce

import numpy as np

from sfumato.domain import LARGEST_NUMBER
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.queries.arrays import Array
from sfumato.queries.base import Queries, check_parts, listed
from sfumato.queries.compose import Stack
from sfumato.queries.form import Form
from sfumato.queries.identity import Identity
from sfumato.queries.selected import in_order

MOST_WASTE = 64  # rows worked out for one that was selected, before a selection is cut in two
FEW_ROWS = 2**16  # but never cut one that is as cheap as this


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Kron(Queries):
    """Every combination of a row from each factor, numbered row by row: the last factor runs fastest.

    Every law maps over the factors, so a domain far too large to list still has its sensitivity and its Gram matrix.

    >>> from sfumato.queries import Identity, Total
    >>> (Kron(Total(2), Identity(3)) @ [1, 2, 3, 10, 20, 30]).tolist()
    [11, 22, 33]
    """

    factors: tuple[Queries, ...]

    form = Form("kron", numbers=(), parts="factors")

    def __init__(self, *factors: Queries) -> None:
        check_parts(factors, "Kron")
        columns = math.prod(factor.columns for factor in factors)
        if columns > LARGEST_NUMBER:
            raise QueryError(
                f"Kron spans {columns:.3g} cells, more than the 2^62 that can be numbered; use fewer factors"
            )
        self._store(rows=math.prod(factor.rows for factor in factors), columns=columns, factors=factors)

    def __repr__(self) -> str:
        return f"Kron({listed(self.factors)})"

    @property
    def integral(self) -> bool:
        return all(factor.integral for factor in self.factors)

    @property
    def entry_bound(self) -> int | float:
        return math.prod(factor.entry_bound for factor in self.factors)

    def _times(self, x: Array) -> Array:
        return self._along_each(x, [factor.shape for factor in self.factors], lambda factor, part: factor._times(part))

    def _back(self, y: Array) -> Array:
        shapes = [(factor.columns, factor.rows) for factor in self.factors]
        return self._along_each(y, shapes, lambda factor, part: factor._back(part))

    def _along_each(
        self, array: Array, shapes: list[tuple[int, int]], apply: Callable[[Queries, Array], Array]
    ) -> Array:
        """Apply each factor along its own axis, those that shrink their axis most first."""
        sizes = [taken for _, taken in shapes]
        result = array.copy()
        for place in sorted(range(len(sizes)), key=lambda p: shapes[p][0] / shapes[p][1]):
            factor, (given, taken) = self.factors[place], shapes[place]
            if type(factor) is Identity:
                continue
            before = math.prod(sizes[:place])
            front = result.reshape(before, taken, -1).swapaxes(0, 1).reshape(taken, -1)
            result = apply(factor, front).reshape(given, before, -1).swapaxes(0, 1)
            sizes[place] = given
        return result.reshape(-1, array.shape[1])

    def _totals(self, power: int) -> Array:
        self._must_fit(self._peak(power))
        return reduce(np.kron, (factor._totals(power) for factor in self.factors))

    def _peak(self, power: int) -> int | float:
        return math.prod(factor._peak(power) for factor in self.factors)

    def _level(self, power: int) -> int | float | None:
        levels = [factor._level(power) for factor in self.factors]
        if 0 in levels:
            return 0
        known = [level for level in levels if level is not None]
        return math.prod(known) if len(known) == len(levels) else None

    def _magnitudes(self, power: int) -> Queries:
        return Kron(*(factor._magnitudes(power) for factor in self.factors))

    def _gram(self, weights: Array | None) -> Array:
        if weights is not None and (weights != weights[0]).any():
            return Queries._gram(self, weights)
        whole: Array = reduce(np.kron, (factor._gram(None) for factor in self.factors))
        return whole if weights is None else whole * weights[0]

    def _select(self, index: Array) -> Queries:
        sides = _sides(index, [factor.rows for factor in self.factors])
        if sides is not None:
            return Kron(*(factor._select(side) for factor, side in zip(self.factors, sides, strict=True)))
        chosen: list[Queries] = []
        order, step, rest = np.zeros_like(index), 1, index
        for factor in reversed(self.factors):
            rest, along = np.divmod(rest, factor.rows)
            used, renumbered = _numbered(along, factor.rows)
            chosen.insert(0, factor._select(used))
            order = order + renumbered * step
            step *= len(used)
            if step > max(FEW_ROWS, MOST_WASTE * len(index)) and len(index) > 1:
                half = len(index) // 2
                return Stack(self._select(index[:half]), self._select(index[half:]))
        return in_order(Kron(*chosen), order)

    def _row(self, place: int) -> Array:
        row = np.ones(1, dtype=np.int64)
        for factor in reversed(self.factors):
            place, along = divmod(place, factor.rows)
            row = np.kron(factor._row(along), row)
        return row

    def _dense(self) -> Array:
        return reduce(np.kron, (factor._dense() for factor in self.factors))


def _sides(index: Array, sizes: list[int]) -> list[Array] | None:
    """The rows of each factor of which these are all combinations, in order; None where they are not.

    Rows of one noise are mostly a level of each tree. Seeing that takes one pass; any other selection takes many.
    """
    sides, rest = [], index
    for size in sizes[:0:-1]:
        if not len(rest):
            return None
        start = int(rest[0]) // size * size
        inside = (rest[:size] >= start) & (rest[:size] < start + size)
        count = len(inside) if inside.all() else int(inside.argmin())
        if len(rest) % count:
            return None
        grid = rest.reshape(-1, count)
        side = grid[0] - start
        starts = grid[:, 0] - side[0]
        if (starts % size).any() or (grid != starts[:, None] + side).any():
            return None
        sides.append(side)
        rest = starts // size
    return [rest, *reversed(sides)]


def _numbered(places: Array, count: int) -> tuple[Array, Array]:
    """The distinct places among so many, in order, and for each place its number among them."""
    if count > 4 * len(places):
        return np.unique(places, return_inverse=True)
    seen = np.zeros(count, dtype=np.bool_)
    seen[places] = True
    return np.flatnonzero(seen), (np.cumsum(seen) - 1)[places]
