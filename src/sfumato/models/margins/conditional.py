"""Synthetic rows of marginals under a condition: tables of the rows that fulfil it.

The condition's attributes are joined to those of a table as classes of values (answers/question.py), and the joined
counts, weighted by the share of each cell inside, are summed over them: what the release answers to COUNT(*) ... WHERE
... GROUP BY. One-way tables are joined value by value, as queries do; tables of two and more attributes by class, and
then raked to these. A condition that is no product of sets of values is kept as a table of its own attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from math import prod

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.domain.predicates import Predicate
from sfumato.frozen import dataclass
from sfumato.models.margins.joining import LITTLE
from sfumato.models.margins.rows import RowsOfMargins
from sfumato.models.margins.table import Places, spread_out, sum_out
from sfumato.releases.rows.condition import Chosen, classes_of, share_by_class
from sfumato.releases.rows.model import RowModel
from sfumato.schema import Schema

MOST_KEPT = 2**15  # cells of the table of a condition's own attributes
MOST_CONDITIONS = 4  # whose tables are kept for the next question
ROUNDS = 20  # of raking a table to its one-way sums, which it nearly has
CLOSE = 1e-5  # of the rows: nearer than this no rows show a difference


@dataclass(frozen=True, eq=False)
class Source:
    """Marginals of all rows.

    tables: axes of the known tables, by statistic. joined: estimates of one statistic by classes of values along some
    axes, joined value by value if the last argument is true. given: model of the rows that fulfil a condition.
    most_cells, most_attributes: that can be joined for one table.
    """

    schema: Schema
    tables: Mapping[str, Collection[Places]]
    joined: Callable[[str, Mapping[int, Codes], bool], Floats]
    unbiased: bool
    given: Callable[[Predicate], RowModel]
    most_cells: int
    most_attributes: int


def rows_given(where: Predicate, source: Source, rows: RowModel) -> RowModel:
    """Model of the rows that fulfil a condition, from joined tables; by rejection where these would be too large.

    Also where tables are unbiased: these do not tell how three attributes go together. rows: the model of all rows.
    """
    domain = source.schema.domain
    distinct = {domain.place(name): kind for name, kind in classes_of(where, source.schema).items() if kind.any()}
    kinds, along = dict(sorted(distinct.items())), tuple(sorted(distinct))
    classes = prod(int(kind.max()) + 1 for kind in kinds.values())
    mixed = len(where.boxes) > 1 and len(along) > 2  # no pairs tell which rows fulfil it

    def fits(places: Places) -> bool:
        size = prod(domain.shape[place] for place in places)
        return size * classes <= source.most_cells and len({*places, *along}) <= source.most_attributes

    widest = tuple(sorted(set(range(len(domain.shape))) - {*along}, key=lambda place: -domain.shape[place])[:2])
    tables = ConditionalTables(source, where, kinds)
    if source.unbiased or not fits(widest) or (mixed and prod(domain.shape[place] for place in along) > MOST_KEPT):
        counted = tables.total if fits(()) and (along in source.tables["count"] or not source.unbiased) else None
        return Chosen(rows, where, source.schema, counted)
    larger = {places for places in source.tables["count"] if len(places) > 2 and fits(places)}
    kept = sorted(larger | ({along} if mixed else set()))
    sums = {
        of: {places: tables.table(of, places, fine=False) for places in known if 0 < len(places) <= 2}
        for of, known in source.tables.items()
        if of != "count"
    }
    counts = {places: tables.counts(places) for places in kept}
    return RowsOfMargins(
        source.schema, tables.total, tables.counts, counts, sums, lambda more: source.given(where & more)
    )


@dataclass(frozen=True, eq=False)
class ConditionalTables:
    """Tables along some axes of the rows that fulfil a condition.

    kinds: by axis, the classes of values that the condition distinguishes.
    """

    source: Source
    where: Predicate
    kinds: Mapping[int, Codes]

    @cached_property
    def total(self) -> float:
        """Estimated count of the rows that fulfil the condition."""
        return float(self.table("count", (), fine=True))

    def counts(self, places: Places) -> Floats:
        """Estimated counts along some axes, in ascending order."""
        if places not in self._known:
            self._known[places] = self._counts(places)
        return self._known[places]

    @cached_property
    def _known(self) -> dict[Places, Floats]:
        return {}

    def _counts(self, places: Places) -> Floats:
        if not places:
            return np.asarray(self.total)
        if len(places) == 1:
            table = self.table("count", places, fine=True)
            return table * (self.total / max(float(table.sum()), LITTLE))
        if self._tied(places):
            return self._raked(self.table("count", places, fine=False), places)
        every = self.source.joined("count", {place: np.arange(self._size(place)) for place in places}, False)
        return self._raked(every * (self.total / max(float(every.sum()), LITTLE)), places)

    def _tied(self, some: Places) -> bool:
        """Whether any known table links axes to the condition: if none does, it tells nothing about them."""
        known = self.source.tables["count"]
        return any(not {*some}.isdisjoint(places) and not {*self.kinds}.isdisjoint(places) for places in known)

    def _raked(self, table: Floats, places: Places) -> Floats:
        """Table with the one-way sums of the rows that fulfil the condition (iterative proportional fitting)."""
        for _ in range(ROUNDS):
            off = 0.0
            for place in places:
                now, wanted = sum_out(table, (place,), places), self.counts((place,))
                table = table * spread_out(wanted / np.maximum(now, LITTLE), (place,), places)
                off = max(off, float(np.abs(now - wanted).sum()))
            if off <= CLOSE * self.total:
                break
        return table

    def table(self, of: str, places: Places, *, fine: bool) -> Floats:
        """Sums of one statistic over the rows that fulfil the condition, along some axes in ascending order."""
        every = {place: np.arange(self._size(place)) for place in places}
        kinds = dict(sorted({**self.kinds, **every}.items()))
        domain = self.source.schema.domain
        share = share_by_class(self.where, domain, {domain.names[place]: kind for place, kind in kinds.items()})
        return sum_out(self.source.joined(of, kinds, fine) * share, places, tuple(kinds))

    def _size(self, place: int) -> int:
        return self.source.schema.domain.shape[place]
