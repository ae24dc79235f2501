"""Decode drawn cells to the columns of the table that the schema describes, batch by batch.

Values are such that the schema reads them back into the same cells.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sfumato.frozen import dataclass
from sfumato.releases.rows.listed_values import Listed
from sfumato.releases.rows.model import Block, RandomNumbers, RowModel, arrow_numbers
from sfumato.releases.rows.ordered_values import Numbers, Times
from sfumato.releases.rows.wish import Lot, check_number, check_total
from sfumato.schema import Schema
from sfumato.schema.attributes import Boolean, Category, Date, Integer

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class TableColumn:
    """Column of the table with the attributes and measures read from it; with neither it is the privacy unit's."""

    name: str
    attributes: tuple[str, ...] = ()
    measures: tuple[str, ...] = ()


def table_columns(schema: Schema) -> tuple[TableColumn, ...]:
    """Columns of the table: the privacy unit's, if any, then those of attributes and measures, each once.

    >>> census = Schema(dataset="t", privacy_unit={"column": "person", "contributions": 2}, attributes={
    ...     "day": {"type": "date", "by": "weekday", "column": "at"},
    ...     "hour": {"type": "date", "by": "hour_of_day", "column": "at"}})
    >>> [column.name for column in table_columns(census)]
    ['person', 'at']
    """
    names = dict.fromkeys(part.column for part in (*schema.attributes.values(), *schema.measures.values()))
    unit = schema.privacy_unit.column
    alone = [TableColumn(unit)] if unit is not None and unit not in names else []
    return (
        *alone,
        *(
            TableColumn(
                name,
                tuple(key for key, part in schema.attributes.items() if part.column == name),
                tuple(key for key, part in schema.measures.items() if part.column == name),
            )
            for name in names
        ),
    )


class Values(Protocol):
    """Drawer of a column's values."""

    @property
    def type(self) -> pa.DataType:
        """Arrow type of the values."""

    def draw(self, block: Block, random: RandomNumbers) -> Any:
        """Draw a value for every row of a block."""


@dataclass(frozen=True)
class Decoder:
    """Decoder of blocks to rows: privacy units are numbered from 1, other values are drawn."""

    columns: tuple[tuple[str, Values | None], ...]

    @classmethod
    def of(cls, schema: Schema) -> Decoder:
        return cls(tuple((column.name, _values(schema, column)) for column in table_columns(schema)))

    @property
    def types(self) -> pa.Schema:
        """Arrow schema of the rows."""
        import pyarrow as pa

        return pa.schema([(name, values.type if values else pa.int64()) for name, values in self.columns])

    def rows(self, blocks: Iterator[Block], random: RandomNumbers) -> Iterator[pa.RecordBatch]:
        """Decode each block to a batch of rows."""
        import pyarrow as pa

        types, first = self.types, 1
        for block in blocks:
            rows = len(next(iter(block.codes.values())))
            numbers = np.arange(first, first + rows)  # of units: a release does not tell which rows belong together
            drawn = [values.draw(block, random) if values else arrow_numbers(numbers) for _, values in self.columns]
            first += rows
            yield pa.record_batch(drawn, schema=types)


def column_types(schema: Schema) -> pa.Schema:
    """Arrow schema of synthetic rows."""
    return Decoder.of(schema).types


def _values(schema: Schema, column: TableColumn) -> Values | None:
    """Drawer of a column's values; None where rows are numbered."""
    parts = tuple((schema.attributes[name], schema.domain[name]) for name in column.attributes)
    measures = [(name, schema.measures[name]) for name in column.measures]
    if not parts and not measures:
        return None
    listed = [part for part in parts if isinstance(part[0], Category | Boolean)]
    if listed:
        others = [part for part in parts if part not in listed]
        return Listed((*listed, *others), bool(others or measures))
    dates = tuple((attribute, axis) for attribute, axis in parts if isinstance(attribute, Date))
    if dates:
        return Times(dates)
    # A column that an attribute reads whole numbers from holds such, whatever the steps in which a measure is summed.
    whole = [axis for attribute, axis in parts if isinstance(attribute, Integer)]
    real = [axis for attribute, axis in parts if not isinstance(attribute, Integer)]
    in_whole_steps = not parts and all(
        measure.step.denominator == 1 and max(-measure.lower, measure.upper) <= 2**53 for _, measure in measures
    )
    widest = max(measures, key=lambda one: one[1].upper - one[1].lower, default=None)
    return Numbers((*whole, *real), widest, bool(whole) or in_whole_steps)


BATCH = 2**16


def draw_blocks(model: RowModel | Lot, rows: int, random: RandomNumbers) -> Iterator[Block]:
    """Draw blocks of rows in random order by stratified sampling.

    [0, 1), or that of each group, is cut into as many equal strata as there are rows, with one uniform place in each:
    no share of the rows has a larger variance than under independent draws, and most have a much smaller one. A block
    takes every so-many-th stratum, so that it is a small sample of its own.
    """
    check_number(rows)
    lot = model if isinstance(model, Lot) else Lot(model, rows)
    check_total(lot.model)
    blocks = -(-rows // BATCH)
    for block in random.order(blocks):
        parts = np.arange(int(block), rows, blocks)
        yield lot.draw(parts, random)[random.order(len(parts))]


def draw_batches(
    model: RowModel | Lot, schema: Schema, rows: int, seed: int | None = None, table: int = 1
) -> Iterator[pa.RecordBatch]:
    """Draw synthetic rows with their values, batch by batch. table: number of one of several tables of a seed."""
    check_number(rows)
    random = RandomNumbers(seed, table)
    return Decoder.of(schema).rows(draw_blocks(model, rows, random), random)
