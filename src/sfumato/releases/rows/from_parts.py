"""Rows of a series: those of every part by its own sampler, with the period of each.

Synthetic rows of linked tables, with keys that match.

Parents are drawn first, with fresh keys. A parent has as many children as its own drawn row says, where the release
counts them; else the children that the release counts of each group of parents are dealt to these at random, none with
more than the link allows. Children are drawn from their table's release under the condition that the columns which they
carry are in their parent's cells, and then have their parent's values in them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.domain import Domain
from sfumato.domain.predicates import Box, Predicate, cover
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.releases.rows.coding import Decoder, draw_blocks
from sfumato.releases.rows.condition import NOT_DIVIDED, Lot, Quotas, TooFewRows, Wish, check_number, rows_under
from sfumato.releases.rows.model import Block, DivisibleModel, Grouping, RandomNumbers, RowModel, arrow_numbers
from sfumato.releases.rows.write import Agreement, Tally
from sfumato.schema import Schema
from sfumato.schema.series import PERIOD

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.releases.file.linked import TableRecord
    from sfumato.releases.release import Release

LAST = 1.0 - 2.0**-30


def dealt_out(rows: Floats, places: Floats) -> tuple[Codes, Floats]:
    """Allocate quantiles to parts by their rows: part of each, and quantile within it; rows: (parts,)."""
    ends = np.cumsum(rows) / max(float(rows.sum()), 1e-300)
    which = np.minimum(np.searchsorted(ends, places, side="right"), len(rows) - 1)
    starts = ends - np.diff(ends, prepend=0.0)
    inside = (places - starts[which]) / np.maximum(ends - starts, 1e-300)[which]
    return which, np.clip(inside, 0.0, LAST)


@dataclass(frozen=True, eq=False)
class RowsOfPart:
    """Sampler of one part. code: of its period. share: of its rows that fulfil a condition on the period.

    codes: of its cells on the axes of the series, where these have grown. schema: of the part. lacks: why no rows
    of the series can be drawn from it, in words; empty where they can.
    """

    code: int
    model: RowModel
    codes: Mapping[str, Codes]
    schema: Schema
    share: float = 1.0
    lacks: str = ""

    @property
    def total(self) -> float:
        return max(self.model.total, 0.0) * self.share

    def margin(self, groupings: Sequence[Grouping], sizes: Mapping[str, int]) -> Floats:
        """Marginal counts of the part by groupings of the series, none by period; sizes: of the series' axes."""
        single = {name: Grouping(name, np.arange(len(codes) + 1)) for name, codes in self.codes.items()}
        own = [single.get(each.name, each) for each in groupings]
        table = self.model.margin(own) * self.share
        for place, grouping in enumerate(groupings):
            if grouping.name in self.codes:
                wide = np.zeros([*table.shape[:place], sizes[grouping.name], *table.shape[place + 1 :]])
                np.moveaxis(wide, place, 0)[self.codes[grouping.name]] = np.moveaxis(table, place, 0)
                table = grouping.gather(wide, place)
        return np.asarray(table)

    def draw(self, places: Floats, random: RandomNumbers) -> Block:
        block = self.model.draw(places, random)
        codes = {name: self.codes[name][each] if name in self.codes else each for name, each in block.codes.items()}
        return replace(block, codes={PERIOD: np.full(len(places), self.code), **codes})


@dataclass(frozen=True, eq=False)
class RowsOfParts:
    """Row sampler of a series: a part in proportion to its rows, then a row of it."""

    domain: Domain
    parts: tuple[RowsOfPart, ...]

    @property
    def total(self) -> float:
        return sum(part.total for part in self.parts)

    @property
    def lacks(self) -> str:
        """Reason why rows cannot be drawn from all parts; empty where they can."""
        return next((part.lacks for part in self.parts if part.lacks), "")

    def margin(self, groupings: Sequence[Grouping]) -> Floats:
        sizes = {axis.name: axis.size for axis in self.domain}
        others = [each for each in groupings if each.name != PERIOD]
        tables = [part.margin(others, sizes) for part in self.parts]
        if len(others) == len(groupings):
            return np.asarray(sum(tables))
        place = next(at for at, each in enumerate(groupings) if each.name == PERIOD)
        laid_out = np.zeros([sizes[PERIOD], *(each.size for each in others)])
        for part, table in zip(self.parts, tables, strict=True):
            laid_out[part.code] = table
        return np.moveaxis(groupings[place].gather(laid_out, 0), 0, place)

    def draw(self, places: Floats, random: RandomNumbers) -> Block:
        which, inside = dealt_out(np.array([part.total for part in self.parts]), places)
        return self._drawn(which, inside, [part.draw for part in self.parts], random)

    def _drawn(self, which: Codes, places: Floats, draws: Sequence[object], random: RandomNumbers) -> Block:
        """Draw a row at each place, part by part. which: number of the part, (rows,). draws: `draw` of each part."""
        blocks = [
            draws[number](np.sort(places[which == number]), random)  # type: ignore[operator]
            for number in range(len(self.parts))
            if (which == number).any()
        ]
        return Block.joined(blocks)

    def given(self, where: Predicate) -> RowsOfParts:
        """Conditional row model: each part under the condition on its own columns."""
        axis, parts = self.domain[PERIOD], []
        for mine in self.parts:
            shares = [float(cover(axis, box[PERIOD]).share[mine.code]) for box in where.boxes]
            inner = [
                Box(tuple(one for one in box.sets if one[0] != PERIOD))
                for box, share in zip(where.boxes, shares, strict=True)
                if share > 0.0
            ]
            if not inner:
                continue
            if mine.lacks:
                raise QueryError(mine.lacks)
            try:
                model = rows_under(mine.model, Predicate(tuple(inner)) & Predicate.everything(), mine.schema)
            except TooFewRows:
                continue
            parts.append(replace(mine, model=model, share=max(shares)))
        return replace(self, parts=tuple(parts))

    def by(self, names: Sequence[str]) -> RowsByGroup:
        """Model whose places are g + u in group number g."""
        if not all(isinstance(part.model, DivisibleModel) or [*names] == [PERIOD] for part in self.parts):
            raise QueryError(NOT_DIVIDED)
        return RowsByGroup(self, tuple(names))


@dataclass(frozen=True, eq=False)
class RowsByGroup:
    """Row sampler of a series by group: a place g + u, with u in [0, 1), draws a row of group g."""

    rows: RowsOfParts
    names: tuple[str, ...]

    @property
    def total(self) -> float:
        return self.rows.total

    def margin(self, groupings: Sequence[Grouping]) -> Floats:
        return self.rows.margin(groupings)

    def draw(self, places: Floats, random: RandomNumbers) -> Block:
        domain, parts = self.rows.domain, self.rows.parts
        group, inside = np.floor(places).astype(np.int64), places - np.floor(places)
        codes = dict(zip(self.names, np.unravel_index(group, [domain[n].size for n in self.names]), strict=True))
        others = [name for name in self.names if name != PERIOD]
        shape = [domain[name].size for name in others]
        number = np.ravel_multi_index([codes[name] for name in others], shape) if others else np.zeros_like(group)
        if PERIOD in codes:
            at = np.full(domain[PERIOD].size, -1)
            at[[part.code for part in parts]] = np.arange(len(parts))
            which = at[codes[PERIOD]]
        else:
            sizes = {axis.name: axis.size for axis in domain}
            whole = [Grouping.of(domain[name], domain[name].size) for name in others]
            rows = np.stack([np.maximum(part.margin(whole, sizes), 0.0).reshape(prod(shape)) for part in parts])
            ends = np.cumsum(rows, axis=0) / np.maximum(rows.sum(axis=0), 1e-300)
            which = np.minimum((inside >= ends[:, number]).sum(axis=0), len(parts) - 1)
            starts = np.vstack([np.zeros(ends.shape[1]), ends[:-1]])[which, number]
            inside = np.clip((inside - starts) / np.maximum(ends[which, number] - starts, 1e-300), 0.0, LAST)
        draws = []
        for part in parts:
            if any(name in part.codes for name in others):
                raise QueryError(NOT_DIVIDED)
            model = part.model.by(others) if others else part.model  # type: ignore[attr-defined]
            draws.append(replace(part, model=model).draw)
        return self.rows._drawn(np.asarray(which), number + inside, draws, random)


# -- linked tables


@dataclass(frozen=True, eq=False)
class DrawnTable:
    """Rows of one table. codes: cells of its rows by attribute, (rows,). agreements: with the table's own release."""

    rows: pa.Table
    codes: Mapping[str, Codes]
    agreements: tuple[Agreement, ...]


def draw_linked(
    tables: Mapping[str, Release], links: Sequence[TableRecord], rows: int | None = None, seed: int | None = None
) -> dict[str, DrawnTable]:
    """Draw rows of every table, parents first. rows: of each table that belongs to none; by default as the release."""
    drawn: dict[str, DrawnTable] = {}
    for number, link in enumerate(links, 1):
        release, random = tables[link.name], RandomNumbers(seed, number)
        if link.belongs_to is None:
            lot = Wish(rows).of(release.content.row_model, release.schema)
            block, whose = Block.joined(list(draw_blocks(lot, lot.rows, random))), None
        else:
            parent, above = drawn[link.belongs_to], tables[link.belongs_to]
            scale = parent.rows.num_rows / max(1.0, above.content.row_model.total)
            column = _named(links, link.belongs_to).counts.get(link.name)
            counted = None if column is None else above.schema.attributes[column].column
            block, whose = _children(release, link, parent, counted, scale, random)
        made = _decoded(release, block, random)
        if whose is not None:
            made = _belonging(made, link, release, parent, above, whose)
            keys = parent.rows.column(str(_named(links, str(link.belongs_to)).key)).take(arrow_numbers(whose))
            made = _with(made, str(link.by), keys, first=True)
        if link.key is not None:
            made = _with(made, link.key, arrow_numbers(np.arange(1, made.num_rows + 1)), first=True)
        tally = Tally.over(release.domain)
        tally.add(block.codes)
        drawn[link.name] = DrawnTable(made, block.codes, tally.compare(release.content.row_model))
    return drawn


def _children(
    release: Release, link: TableRecord, parent: DrawnTable, counted: str | None, scale: float, random: RandomNumbers
) -> tuple[Block, Codes]:
    """Cells of children, and the row of each one's parent, ascending."""
    from sfumato.answers.question import MOST_GROUPS

    model, domain = release.content.row_model, release.domain
    names = [name for name in link.carried if name in domain and name in parent.codes]
    while prod(domain[name].size for name in names) > MOST_GROUPS:
        names.pop()  # its values are the parent's all the same, without what they say about other columns
    if names and not isinstance(model, DivisibleModel):
        raise QueryError(NOT_DIVIDED)
    shape = [domain[name].size for name in names]
    group = np.zeros(parent.rows.num_rows, dtype=np.int64)
    if names:
        group = np.ravel_multi_index([parent.codes[name] for name in names], shape).astype(np.int64)
        quotas = Quotas.of(model, names, release.schema, None)
        counts = np.maximum(np.rint(quotas.rows * scale).astype(np.int64), quotas.rows > 0)
    else:
        counts = np.array([max(1, round(model.total * scale))], dtype=np.int64)
    most = link.at_most or 1
    if counted is not None:
        numbers = np.nan_to_num(parent.rows.column(counted).to_numpy(zero_copy_only=False).astype(np.float64))
        children = np.clip(np.rint(numbers), 0, most).astype(np.int64) * (counts[group] > 0)
    else:
        children = _dealt(group, counts, most, random)
    whose = np.repeat(np.arange(len(children)), children)
    check_number(max(1, len(whose)))
    order = np.argsort(group[whose], kind="stable")
    if names:
        wanted = Quotas(quotas.model, np.bincount(group[whose], minlength=prod(shape)).astype(np.int64))
        lot = Lot(model, len(whose), wanted)
    else:
        lot = Lot(model, len(whose))
    found = lot.draw(np.arange(len(whose)), random)
    if not names:
        found = found[random.order(len(whose))]
    back = np.empty(len(order), dtype=np.int64)
    back[order] = np.arange(len(order))
    block = found[back]
    return Block(
        {**block.codes, **{name: parent.codes[name][whose] for name in names}}, block.means, block.within
    ), whose


def _dealt(group: Codes, counts: Codes, most: int, random: RandomNumbers) -> Codes:
    """Number of children of each parent: counts, (groups,), dealt at random to parents, at most `most` to each."""
    parents = np.bincount(group, minlength=len(counts))
    wanted = np.minimum(counts, parents * most)
    place = np.repeat(np.arange(len(group)), most)
    place = place[random.order(len(place))]
    place = place[np.argsort(group[place], kind="stable")]
    starts = np.concatenate([[0], np.cumsum(parents * most)])[:-1]
    rank = np.arange(len(place)) - starts[group[place]]
    return np.bincount(place[rank < wanted[group[place]]], minlength=len(group)).astype(np.int64)


def _decoded(release: Release, block: Block, random: RandomNumbers) -> pa.Table:
    import pyarrow as pa

    decoder = Decoder.of(release.schema)
    return pa.Table.from_batches(decoder.rows(iter([block]), random), decoder.types)


def _belonging(
    made: pa.Table, link: TableRecord, release: Release, parent: DrawnTable, above: Release, whose: Codes
) -> pa.Table:
    """Children with their parent's privacy unit and values of the columns that they carry."""
    columns = {
        release.schema.attributes[name].column: above.schema.attributes[name].column
        for name in link.carried
        if name in release.schema.attributes and name in above.schema.attributes
    }
    unit, others = release.schema.privacy_unit.column, above.schema.privacy_unit.column
    if unit is not None and others is not None and {unit} <= {*made.column_names}:
        columns[unit] = others
    for mine, its in columns.items():
        values = parent.rows.column(its).take(arrow_numbers(whose))
        made = _with(made, str(mine), values.cast(made.schema.field(mine).type))
    return made


def _named(links: Sequence[TableRecord], name: str) -> TableRecord:
    return next(link for link in links if link.name == name)


def _with(table: pa.Table, name: str, values: Any, *, first: bool = False) -> pa.Table:
    """A table with a column replaced, or added before all others."""
    if name in table.column_names:
        return table.set_column(table.column_names.index(name), name, values)
    return table.add_column(0 if first else table.num_columns, name, values)
