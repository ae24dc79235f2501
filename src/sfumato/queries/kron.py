"""Queries over several attributes: Kronecker products of one family per attribute, and marginals."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from functools import reduce

import numpy as np

from sfumato.domain import LARGEST_NUMBER, Domain
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.queries.arrays import Array, size
from sfumato.queries.base import Form, Queries, check_parts, listed, too_many
from sfumato.queries.compose import Stack, in_order
from sfumato.queries.ranges import Identity, Total

MOST_WASTE = 64  # rows worked out for one that was selected, before a selection is cut in two
FEW_ROWS = 2**16  # but never cut one that is as cheap as this


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Kron(Queries):
    """Kronecker product: every combination of a row from each factor, the last factor fastest.

    Every operation maps over the factors, so a domain far too large to list still has its sensitivity and Gram matrix.

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
        """Apply each factor along its axis, in order of reduction of size.

        shapes: new and old size of each axis.
        """
        sizes = [old for _, old in shapes]
        result = array
        for axis in sorted(range(len(sizes)), key=lambda p: shapes[p][0] / shapes[p][1]):
            factor, (new, old) = self.factors[axis], shapes[axis]
            if type(factor) is Identity:
                continue
            before = math.prod(sizes[:axis])
            front = result.reshape(before, old, -1).swapaxes(0, 1).reshape(old, -1)
            result = apply(factor, front).reshape(new, before, -1).swapaxes(0, 1)
            sizes[axis] = new
        result = result.reshape(-1, array.shape[1])
        return array.copy() if np.may_share_memory(result, array) else result

    def _totals(self, power: int) -> Array:
        self._must_fit(self._peak(power))
        return reduce(np.kron, (factor._totals(power) for factor in self.factors))

    def _peak(self, power: int) -> int | float:
        return math.prod(factor._peak(power) for factor in self.factors)

    def _level(self, power: int) -> int | float | None:
        levels = [factor._level(power) for factor in self.factors]
        if 0 in levels:
            return 0
        constant = [level for level in levels if level is not None]
        return math.prod(constant) if len(constant) == len(levels) else None

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
        order, step, quotient = np.zeros_like(index), 1, index
        for factor in reversed(self.factors):
            quotient, along = np.divmod(quotient, factor.rows)
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
    """Split row numbers of a product into row numbers of each factor, where they form a grid; else None.

    Rows with equal noise mostly form one, a level of each factor's tree. This takes one pass, other selections many.
    """
    sides, quotient = [], index
    for length in sizes[:0:-1]:
        if not len(quotient):
            return None
        start = int(quotient[0]) // length * length
        inside = (quotient[:length] >= start) & (quotient[:length] < start + length)
        count = len(inside) if inside.all() else int(inside.argmin())
        if len(quotient) % count:
            return None
        grid = quotient.reshape(-1, count)
        side = grid[0] - start
        starts = grid[:, 0] - side[0]
        if (starts % length).any() or (grid != starts[:, None] + side).any():
            return None
        sides.append(side)
        quotient = starts // length
    return [quotient, *reversed(sides)]


def _numbered(places: Array, count: int) -> tuple[Array, Array]:
    """Distinct values below `count`, in order, and the rank of each value among them."""
    if count > 4 * len(places):
        return np.unique(places, return_inverse=True)
    seen = np.zeros(count, dtype=np.bool_)
    seen[places] = True
    return np.flatnonzero(seen), (np.cumsum(seen) - 1)[places]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Marginals(Stack):
    """Marginal tables by some of the axes, stacked; each set of axes gives a table, () the total.

    A table's cells are numbered by the domain's order of axes, whatever the order in which a set names them.

    >>> (Marginals((2, 2), [(0,), ()]) @ [1, 2, 3, 4]).tolist()
    [3, 7, 10]
    """

    sizes: tuple[int, ...]
    sets: tuple[tuple[int, ...], ...]

    form = Form("marginals", numbers=("sizes", "sets"), unkept=lambda sizes, sets: too_many(len(sizes) * len(sets)))

    def __init__(self, shape: Iterable[int], sets: Iterable[Iterable[int]]) -> None:
        sizes = tuple(size(length, "Marginals") for length in shape)
        chosen = tuple(_axes(named, len(sizes)) for named in sets)
        if not sizes or not chosen:
            raise QueryError("Marginals needs at least one axis and one set of axes")
        tables = (
            Kron(*(Identity(length) if axis in axes else Total(length) for axis, length in enumerate(sizes)))
            for axes in chosen
        )
        Stack.__init__(self, *tables)
        self._store(sizes=sizes, sets=chosen)

    @classmethod
    def of(cls, domain: Domain, sets: Iterable[Iterable[str]]) -> Marginals:
        """Marginal tables by names of a domain's attributes.

        >>> import numpy as np
        >>> from sfumato.domain import Axis, Domain
        >>> domain = Domain((Axis("age", "integer", np.arange(4)), Axis("sex", "integer", np.arange(3))))
        >>> Marginals.of(domain, [("age",), ("age", "sex"), ()]).rows
        10
        """
        named = [(names,) if isinstance(names, str) else tuple(names) for names in sets]
        return cls(domain.shape, [[domain.place(name) for name in names] for names in named])

    def __repr__(self) -> str:
        return f"Marginals({self.sizes}, {len(self.sets)} tables)"


def over(domain: Domain, queries: Mapping[str, Queries], *, elsewhere: type[Identity | Total] = Total) -> Kron:
    """Queries on some attributes; along the others the total, or every cell with `elsewhere=Identity`.

    >>> import numpy as np
    >>> from sfumato.domain import Axis, Domain
    >>> from sfumato.queries import Prefix
    >>> domain = Domain((Axis("age", "integer", np.arange(4)), Axis("sex", "integer", np.arange(3))))
    >>> over(domain, {"age": Prefix(3)})
    Kron(Prefix(3), Total(2))
    """
    for name, family in queries.items():
        if getattr(family, "columns", None) != domain[name].size:
            raise QueryError(
                f"{name} has {domain[name].size} cells; {family!r:.100} is not a family over so many columns"
            )
    return Kron(*(queries[axis.name] if axis.name in queries else elsewhere(axis.size) for axis in domain))


def _axes(named: Iterable[int], count: int) -> tuple[int, ...]:
    """Validate a set of axes."""
    axes = tuple(map(operator.index, named))
    if len(set(axes)) < len(axes):
        raise QueryError(f"Marginals needs each axis once per set; {axes} repeats one")
    if not all(0 <= axis < count for axis in axes):
        raise QueryError(f"Marginals has axes 0 to {count - 1}; {axes} names another")
    return tuple(sorted(axes))
