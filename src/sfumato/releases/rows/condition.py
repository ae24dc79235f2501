"""Synthetic rows under a condition, and numbers of rows by group.

A condition is a predicate (domain/predicates.py), a union of disjoint boxes. A row model weights its cells by the share
that lies inside (`DivisibleModel.given`); a model without this, or a condition that it cannot join, leaves choosing
among drawn rows (`Chosen`). Where a condition cuts a cell, values are drawn from the part inside (`Narrowed`): a box in
proportion to its share of the cell, then a span of values in proportion to its length, which is the uniform
distribution on the part.

Synthetic rows that are asked for: how many, under which condition, and how many of each group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import prod

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.domain import Axis, Domain, ValueSet
from sfumato.domain.predicates import Box, Predicate, cover
from sfumato.domain.structural import Structure
from sfumato.effort import at_most
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.releases.rows.model import Block, DivisibleModel, Grouping, RandomNumbers, RowModel, volumes
from sfumato.schema import Schema

EVERYTHING = Predicate.everything()
NOT_DIVIDED = "rows of this release and condition cannot be drawn by group; leave --by (by=...) or --where out"
BLOCK = 2**16  # rows that are drawn to choose from at a time
MOST_BLOCKS = 8  # of them, for one block of chosen rows


class TooFewRows(QueryError):
    """A release counts less than one row that fulfils a condition."""


def rows_under(model: RowModel, where: Predicate, schema: Schema) -> RowModel:
    """Model of the rows that fulfil a condition; refused if the release counts less than one."""
    if where == EVERYTHING:
        return model
    conditional = model.given(where) if isinstance(model, DivisibleModel) else Chosen(model, where, schema)
    if not conditional.total >= 1.0:
        raise TooFewRows(
            f"the release counts {max(conditional.total, 0.0):.2g} rows that fulfil the condition, which is too few to "
            "draw from; ask for more values, or leave a part of the condition out"
        )
    return Narrowed(conditional, where, schema.domain) if where.cuts(schema.domain) else conditional


def classes_of(where: Predicate, schema: Schema) -> dict[str, Codes]:
    """Value classes that a condition distinguishes, by attribute: the class of each value, (axis size,)."""
    from sfumato.answers.question import kinds_asked  # contents of cells do without SQL until a condition is stated
    from sfumato.sql import Amount, Column, Select

    asked = kinds_asked(Select((Column("rows", (Amount(where, None),)),), (), where), schema)
    return {name: np.asarray(kind) for name, kind in asked.items()}


def share_by_class(where: Predicate, domain: Domain, kinds: Mapping[str, Codes]) -> Floats:
    """Share of the values of each combination of classes that fulfils a condition, with an axis for each attribute.

    kinds: class of every value, of all attributes of the condition and perhaps of others.
    """
    first = [np.unique(kind, return_index=True)[1] for kind in kinds.values()]
    shape = tuple(map(len, first))
    grid = np.meshgrid(*first, indexing="ij") if first else []
    codes = {name: along.reshape(-1) for name, along in zip(kinds, grid, strict=True)}
    share = where.weights(domain, codes)[0]
    return np.broadcast_to(share, prod(shape)).reshape(shape)


def share_of_cells(where: Predicate, schema: Schema) -> Floats:
    """Share of every cell of the domain that fulfils a condition, in a shape that broadcasts to the domain's."""
    domain, kinds = schema.domain, classes_of(where, schema)
    kinds = {name: kinds[name] for name in domain.names if name in kinds}
    few = share_by_class(where, domain, kinds)
    whole = few[np.ix_(*kinds.values())] if kinds else few
    return whole.reshape([axis.size if axis.name in kinds else 1 for axis in domain])


def volumes_under(
    where: Predicate, domain: Domain, groupings: Sequence[Grouping], structure: Structure | None = None
) -> Floats:
    """Number of possible cells that fulfil a condition, cut ones by their share, in each combination of groups."""
    if structure is not None:
        kept = [domain.place(grouping.name) for grouping in groupings]
        boxes = ([_share(axis, box) for axis in domain] for box in where.boxes)
        found: Floats = np.sum([structure.summed(weights, kept) for weights in boxes], axis=0)
        for number, grouping in enumerate(groupings):
            found = grouping.gather(found, number)
        return found
    if where == EVERYTHING:
        return volumes(groupings, dict(zip(domain.names, domain.shape, strict=True)))
    cells = np.zeros([grouping.size for grouping in groupings])
    named = {grouping.name for grouping in groupings}
    for box in where.boxes:
        others = prod(float(_share(axis, box).sum()) for axis in domain if axis.name not in named)
        product: Floats = np.full((1,) * len(groupings), others)
        for number, grouping in enumerate(groupings):
            along = grouping.gather(_share(domain[grouping.name], box), 0)
            product = product * along.reshape([-1 if number == other else 1 for other in range(len(groupings))])
        cells += product
    return cells


def _share(axis: Axis, box: Box) -> Floats:
    return cover(axis, box[axis.name]).share


def box_of_rows(where: Predicate, weights: Iterator[Floats], rows: int, random: RandomNumbers) -> Codes:
    """Number of a box for each row, in proportion to weights, by weighted reservoir sampling (Chao 1982); (rows,).

    weights: of the rows in each box, (rows,) each.
    """
    chosen, total = np.zeros(rows, dtype=np.int64), np.zeros(rows)
    for number, weight in enumerate(weights):
        total += weight
        if len(where.boxes) > 1:
            chosen[random.uniform(rows) * total < weight] = number
    return chosen


def uniform_inside(
    where: Predicate, domain: Domain, held: Mapping[str, Codes], rows: int, random: RandomNumbers
) -> Codes:
    """Cells drawn evenly from those that fulfil a condition, with given codes along some attributes.

    held: codes of the rows along these attributes, (rows,) each. Returns codes, (attributes, rows).
    """
    free = [axis for axis in domain if axis.name not in held]

    def weights() -> Iterator[Floats]:
        for box in where.boxes:
            weight = np.full(rows, prod(float(_share(axis, box).sum()) for axis in free))
            for name, codes in held.items():
                weight *= _share(domain[name], box)[codes]
            yield weight

    boxes, found = box_of_rows(where, weights(), rows, random), np.zeros((len(domain.axes), rows), dtype=np.int64)
    for place, axis in enumerate(domain):
        if axis.name in held:
            found[place] = held[axis.name]
            continue
        uniform = random.uniform(rows)
        for number in np.unique(boxes):
            ends, here = np.cumsum(_share(axis, where.boxes[number])), boxes == number
            drawn = np.searchsorted(ends, uniform[here] * ends[-1], side="right")
            found[place, here] = np.minimum(drawn, int(np.flatnonzero(np.diff(ends, prepend=0.0) > 0)[-1]))
    return found


def possible_inside(
    where: Predicate, domain: Domain, structure: Structure, held: Mapping[str, int], rows: int, random: RandomNumbers
) -> Codes:
    """As `uniform_inside`, from possible cells alone, with one code along each held attribute."""
    linked, tables = sorted(structure.axes), list[Floats]()
    shares = [[_share(axis, box) for axis in domain] for box in where.boxes]
    for along in shares:
        for name, code in held.items():
            place = domain.place(name)
            along[place] = along[place] * (np.arange(len(along[place])) == code)
        table = structure.summed(along, linked)
        tables.append(table.reshape(-1))
    ends = np.cumsum(np.concatenate(tables))
    drawn = np.searchsorted(ends, random.uniform(rows) * ends[-1], side="right")
    boxes, cells = np.divmod(np.minimum(drawn, len(ends) - 1), len(tables[0]))
    found = np.zeros((len(domain.axes), rows), dtype=np.int64)
    found[linked] = np.unravel_index(cells, [domain.shape[place] for place in linked])
    for place in range(len(domain.axes)):
        uniform = random.uniform(rows)
        for number in np.unique(boxes) if place not in linked else ():
            own, here = np.cumsum(shares[number][place]), boxes == number
            at = np.searchsorted(own, uniform[here] * own[-1], side="right")
            found[place, here] = np.minimum(at, len(own) - 1)
    return found


@dataclass(frozen=True, eq=False)
class Narrowed:
    """Row model whose values lie inside a condition that cuts cells."""

    model: RowModel
    where: Predicate
    domain: Domain

    @property
    def total(self) -> float:
        return self.model.total

    def margin(self, groupings: Sequence[Grouping]) -> Floats:
        return self.model.margin(groupings)

    def by(self, names: Sequence[str]) -> RowModel:
        if not isinstance(self.model, DivisibleModel):
            raise QueryError(NOT_DIVIDED)
        return Narrowed(self.model.by(names), self.where, self.domain)

    def given(self, where: Predicate) -> RowModel:
        if not isinstance(self.model, DivisibleModel):
            return self.model
        return Narrowed(self.model.given(where), self.where & where, self.domain)

    def draw(self, places: Floats, random: RandomNumbers) -> Block:
        block = self.model.draw(places, random)
        rows = len(places)
        shares = (box.weights(self.domain, block.codes, rows, "share") for box in self.where.boxes)
        boxes = box_of_rows(self.where, shares, rows, random)
        within = {}
        for name in self.where.cuts(self.domain):
            low, high = np.full(rows, -np.inf), np.full(rows, np.inf)
            uniform = random.uniform(rows)
            for number in np.unique(boxes):
                values, here = self.where.boxes[number][name], np.flatnonzero(boxes == number)
                here = here[block.codes[name][here] < self.domain[name].places]  # rows without a value have no span
                low[here], high[here] = span_inside(self.domain[name], values, block.codes[name][here], uniform[here])
            within[name] = low, high
        return Block(block.codes, block.means, within)


def span_inside(axis: Axis, values: ValueSet, cells: Codes, uniform: Floats) -> tuple[Floats, Floats]:
    """A span of a set of values within each cell, in proportion to its length there: starts and ends, (cells,) each.

    >>> age = Axis("age", "integer", np.array([0.0, 10.0, 20.0]))
    >>> low, high = span_inside(age, ValueSet.below(13, inclusive=True), np.array([0, 1]), np.array([0.2, 0.9]))
    >>> low.tolist(), high.tolist()
    ([0.0, 10.0], [10.0, 14.0])
    """
    spans = axis.numbers(values)
    spans = spans[spans[:, 1] > spans[:, 0]]
    lengths = spans[:, 1] - spans[:, 0]
    before = np.append(0.0, np.cumsum(lengths))

    def below(ends: Floats) -> Floats:
        at = np.searchsorted(spans[:, 0], ends, side="right") - 1
        return np.where(at < 0, 0.0, before[at] + np.clip(ends - spans[at, 0], 0.0, lengths[at]))

    low, high = axis.edges[cells], axis.edges[cells + 1]
    first, last = below(low), below(high)
    at = np.searchsorted(before[1:], first + uniform * (last - first), side="right")
    at = np.minimum(at, len(spans) - 1)
    return np.maximum(low, spans[at, 0]), np.minimum(high, spans[at, 1])


@dataclass(frozen=True, eq=False)
class Chosen:
    """Row model by rejection sampling: drawn rows are kept by the share of their cell that fulfils a condition.

    counted: the release's own count of the rows that fulfil it, where it has one.
    """

    model: RowModel
    where: Predicate
    schema: Schema
    counted: float | None = None

    @cached_property
    def _pool(self) -> Block:
        """Chosen rows by which counts are estimated where the release does not answer them."""
        return self._kept(RandomNumbers(0))

    @property
    def total(self) -> float:
        """Count of the rows that fulfil the condition: the release's own, or estimated from drawn ones."""
        if self.counted is not None:
            return self.counted
        return self.model.total * len(next(iter(self._pool.codes.values()))) / BLOCK

    def margin(self, groupings: Sequence[Grouping]) -> Floats:
        shape = tuple(grouping.size for grouping in groupings)
        labels = [grouping.labels(self._pool.codes[grouping.name]) for grouping in groupings]
        held = np.bincount(np.ravel_multi_index(labels, shape), minlength=prod(shape)).reshape(shape)
        return np.asarray(held * self.total / max(held.sum(), 1), dtype=np.float64)

    def draw(self, places: Floats, random: RandomNumbers) -> Block:
        blocks: list[Block] = []
        lacking = len(places)
        for _ in range(MOST_BLOCKS):
            blocks.append(self._kept(random))
            lacking -= len(next(iter(blocks[-1].codes.values())))
            if lacking <= 0:
                return Block.joined(blocks)[np.arange(len(places))]
        raise QueryError(
            f"of {MOST_BLOCKS * BLOCK:,} rows drawn {len(places) - lacking:,} fulfil the condition, and "
            f"{len(places):,} are asked for; ask for fewer rows, or for a condition on fewer attributes"
        )

    def _kept(self, random: RandomNumbers) -> Block:
        places = np.minimum((np.arange(BLOCK) + random.uniform(BLOCK)) / BLOCK, np.nextafter(1.0, 0.0))
        block = self.model.draw(places, random)[random.order(BLOCK)]
        share = np.broadcast_to(self.where.weights(self.schema.domain, block.codes)[0], BLOCK)
        return block[np.flatnonzero(random.uniform(BLOCK) < share)]


# -- wish

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
            return cls(model.by(names), np.rint(counts * schema.count_step).astype(np.int64))
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
        """Stratified quantiles of some rows, each plus the number of its group, (rows,)."""
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
        """Parse a user's wish: a condition as in SQL, and names of attributes in any case."""
        wish = cls(rows, by=_attributes([by] if isinstance(by, str) else by, schema))
        if where is None:
            return wish
        from sfumato.sql import compile_where

        return replace(wish, where=compile_where(where, schema))

    def of(self, model: RowModel, schema: Schema) -> Lot:
        """The model to draw from, and how many rows."""
        check_total(model)
        model = rows_under(model, self.where, schema)
        if lacks := getattr(model, "lacks", ""):  # of parts of a series
            raise QueryError(lacks)
        if self.by:
            quotas = Quotas.of(model, self.by, schema, self.rows)
            check_number(quotas.number)
            return Lot(model, quotas.number, quotas)
        rows = max(1, round(model.total * schema.count_step)) if self.rows is None else self.rows
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
