"""Synthetic rows of linked tables, with keys that match.

Parents are drawn first, with fresh keys. A parent has as many children as its own drawn row says, where the release
counts them; else the children that the release counts of each group of parents are dealt to these at random, none with
more than the link allows. Children are drawn from their table's release under the condition that the columns which they
carry are in their parent's cells, and then have their parent's values in them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.arrays import Codes
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.releases.rows.condition import NOT_DIVIDED
from sfumato.releases.rows.decode import Decoder, draw_blocks
from sfumato.releases.rows.model import Block, DivisibleModel, RandomNumbers, arrow_numbers
from sfumato.releases.rows.to_file import Agreement, Tally
from sfumato.releases.rows.wish import Lot, Quotas, Wish, check_number

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.releases.file.linked import TableRecord
    from sfumato.releases.release import Release


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
    """Number of children of each parent: those of a group fall on its parents' places, `most` each, at random."""
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
