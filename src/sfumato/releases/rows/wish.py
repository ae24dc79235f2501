"""Synthetic rows that are asked for: how many, under which condition, and how many of each group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.domain.predicates import Predicate
from sfumato.effort import at_most
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.releases.rows.condition import EVERYTHING, NOT_DIVIDED, rows_under
from sfumato.releases.rows.model import Block, DivisibleModel, Grouping, RandomNumbers, RowModel
from sfumato.schema import Schema

MOST_ROWS = 10**9


def check_number(rows: int) -> None:
    """Refuse an invalid number of rows."""
    if not 0 < rows <= MOST_ROWS:
        raise QueryError(f"the number of rows must be a whole number from 1 to {MOST_ROWS:,}")


def check_total(model: RowModel) -> None:
    """Refuse to draw from a release that counts no rows."""
    if not model.total > 0:
        raise QueryError("the release counts no rows in all, as that of an empty table does; there is nothing to draw")


@dataclass(frozen=True, eq=False)
class Quotas:
    """Numbers of rows by group. model: of rows by group (`DivisibleModel.by`); rows: of each group, (groups,)."""

    model: RowModel
    rows: Codes

    @classmethod
    def of(cls, model: RowModel, names: Sequence[str], schema: Schema, rows: int | None) -> Quotas:
        """The release's counts of the groups, rounded, and 0 for negative ones; or `rows` in proportion to them.

        The parts of a number of rows are rounded by the largest remainders (Hamilton).
        """
        from sfumato.answers.question import MOST_GROUPS

        sizes = [schema.domain[name].size for name in names]
        at_most(prod(sizes), MOST_GROUPS, "groups would get their own numbers of rows", "name fewer attributes")
        if not isinstance(model, DivisibleModel):
            raise QueryError(NOT_DIVIDED)
        counts = model.margin([Grouping.of(schema.domain[name], schema.domain[name].size) for name in names])
        counts = np.maximum(counts.reshape(-1), 0.0)
        if not counts.sum() > 0:
            raise QueryError("the release counts no rows in any of these groups; there is nothing to draw")
        if rows is None:
            return cls(model.by(names), np.rint(counts).astype(np.int64))
        exact = rows * counts / counts.sum()
        whole = np.floor(exact).astype(np.int64)
        more = np.argsort(-(exact - whole), kind="stable")[: max(rows - int(whole.sum()), 0)]
        whole[more] += 1
        return cls(model.by(names), whole)

    @property
    def number(self) -> int:
        """Number of all rows."""
        return int(self.rows.sum())

    def places(self, rows: Codes, random: RandomNumbers) -> Floats:
        """Places of some of the rows, numbered by group, each in a stratum of its group; (rows,)."""
        ends = np.cumsum(self.rows)
        group = np.searchsorted(ends, rows, side="right")
        rank = rows - (ends - self.rows)[group]
        within = (rank + random.uniform(len(rows))) / self.rows[group]
        return np.asarray(group + np.minimum(within, LAST), dtype=np.float64)


LAST = 1.0 - 2.0**-30  # of a span, so that adding the number of a group cannot round up to the next


def _attributes(names: Sequence[str], schema: Schema) -> tuple[str, ...]:
    """Attributes by name, which may be written in any case, as in SQL; each once."""
    alike = {known.lower(): known for known in schema.domain.names} | {known: known for known in schema.domain.names}
    found: list[str] = []
    for name in names:
        known = alike.get(name, alike.get(name.lower()))
        if known is None or known in found:
            reason = "is no attribute of the release" if known is None else "is named twice"
            raise QueryError(f"{name} {reason}; rows are drawn by some of: {', '.join(schema.domain.names)}")
        found.append(known)
    return tuple(found)


@dataclass(frozen=True)
class Wish:
    """Rows that are asked for.

    rows: how many; None for as many as the release counts. where: condition that they fulfil. by: attributes whose
    groups have exactly the release's rounded counts, or parts of `rows` in proportion to these.
    """

    rows: int | None = None
    where: Predicate = EVERYTHING
    by: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.rows is not None:
            check_number(self.rows)

    @classmethod
    def by_words(cls, rows: int | None, where: str | None, by: str | Sequence[str], schema: Schema) -> Wish:
        """What a user writes: a condition as in SQL, and names of attributes in any case."""
        wish = cls(rows, by=_attributes([by] if isinstance(by, str) else by, schema))
        if where is None:
            return wish
        from sfumato.sql import compile_where

        return replace(wish, where=compile_where(where, schema))

    def of(self, model: RowModel, schema: Schema) -> Lot:
        """The model to draw from, and how many rows."""
        check_total(model)
        model = rows_under(model, self.where, schema)
        if self.by:
            quotas = Quotas.of(model, self.by, schema, self.rows)
            check_number(quotas.number)
            return Lot(model, quotas.number, quotas)
        rows = max(1, round(model.total)) if self.rows is None else self.rows
        check_number(rows)
        return Lot(model, rows)


@dataclass(frozen=True, eq=False)
class Lot:
    """Number of rows to draw from a model; quotas: of its groups, where these have their own numbers."""

    model: RowModel
    rows: int
    quotas: Quotas | None = None

    def draw(self, rows: Codes, random: RandomNumbers) -> Block:
        """Draw some of the rows, by their numbers in ascending order, each from its own stratum of [0, 1)."""
        if self.quotas is not None:
            return self.quotas.model.draw(self.quotas.places(rows, random), random)
        places: Floats = (rows + random.uniform(len(rows))) / self.rows
        return self.model.draw(np.minimum(places, np.nextafter(1.0, 0.0)), random)
