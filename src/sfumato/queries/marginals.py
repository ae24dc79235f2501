"""Queries over the attributes of a domain, by name."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping

from sfumato.domain import Domain
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.queries.arrays import size
from sfumato.queries.base import Queries
from sfumato.queries.compose import Stack
from sfumato.queries.form import Form, too_many
from sfumato.queries.identity import Identity, Total
from sfumato.queries.kron import Kron


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Marginals(Stack):
    """Tables of counts by some of the axes, one below the other; each set of axes gives a table, () the total.

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
            Kron(*(Identity(length) if place in axes else Total(length) for place, length in enumerate(sizes)))
            for axes in chosen
        )
        Stack.__init__(self, *tables)
        self._store(sizes=sizes, sets=chosen)

    @classmethod
    def of(cls, domain: Domain, sets: Iterable[Iterable[str]]) -> Marginals:
        """The tables by some of a domain's attributes.

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
    """Queries on some attributes; along the others the total is taken, or every cell with `elsewhere=Identity`.

    >>> import numpy as np
    >>> from sfumato.domain import Axis, Domain
    >>> from sfumato.queries import Prefix
    >>> domain = Domain((Axis("age", "integer", np.arange(4)), Axis("sex", "integer", np.arange(3))))
    >>> over(domain, {"age": Prefix(3)})
    Kron(Prefix(3), Total(2))
    """
    for name, asked in queries.items():
        if getattr(asked, "columns", None) != domain[name].size:
            raise QueryError(
                f"{name} has {domain[name].size} cells; {asked!r:.100} is not a family over so many columns"
            )
    return Kron(*(queries[axis.name] if axis.name in queries else elsewhere(axis.size) for axis in domain))


def _axes(named: Iterable[int], count: int) -> tuple[int, ...]:
    axes = tuple(map(operator.index, named))
    if len(set(axes)) < len(axes):
        raise QueryError(f"Marginals needs each axis once per set; {axes} repeats one")
    if not all(0 <= axis < count for axis in axes):
        raise QueryError(f"Marginals has axes 0 to {count - 1}; {axes} names another")
    return tuple(sorted(axes))
