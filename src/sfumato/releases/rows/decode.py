"""From cells to values: the columns of the table, each with values that the schema reads back into the row's cells."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sfumato.frozen import dataclass
from sfumato.releases.rows.model import Block
from sfumato.releases.rows.random_numbers import RandomNumbers
from sfumato.releases.rows.values.columns import TableColumn, table_columns
from sfumato.releases.rows.values.listed import Listed
from sfumato.releases.rows.values.numbers import Numbers
from sfumato.releases.rows.values.times import Times
from sfumato.schema import Schema
from sfumato.schema.attributes import Boolean, Category, Date, Integer

if TYPE_CHECKING:
    import pyarrow as pa


class Values(Protocol):
    """A kind of column."""

    @property
    def type(self) -> pa.DataType:
        """Of its values."""

    def draw(self, block: Block, random: RandomNumbers) -> Any:
        """A value for every row of a block."""


@dataclass(frozen=True)
class Decoder:
    """Makes rows of blocks: privacy units are numbered from 1, then values are drawn for attributes and measures."""

    columns: tuple[tuple[str, Values | None], ...]

    @classmethod
    def of(cls, schema: Schema) -> Decoder:
        return cls(tuple((column.name, _values(schema, column)) for column in table_columns(schema)))

    @property
    def types(self) -> pa.Schema:
        """The names and types of the columns."""
        import pyarrow as pa

        return pa.schema([(name, values.type if values else pa.int64()) for name, values in self.columns])

    def rows(self, blocks: Iterator[Block], random: RandomNumbers) -> Iterator[pa.RecordBatch]:
        """A batch of rows for each block."""
        import pyarrow as pa

        types, first = self.types, 1
        for block in blocks:
            rows = len(next(iter(block.codes.values())))
            numbers = np.arange(first, first + rows)  # of units: a release does not tell which rows belong together
            drawn = [values.draw(block, random) if values else pa.array(numbers) for _, values in self.columns]
            first += rows
            yield pa.record_batch(drawn, schema=types)


def column_types(schema: Schema) -> pa.Schema:
    """The columns of synthetic rows."""
    return Decoder.of(schema).types


def _values(schema: Schema, column: TableColumn) -> Values | None:
    """How values of a column are drawn; None where rows are numbered."""
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
    in_whole_steps = not parts and all(measure.step.denominator == 1 for _, measure in measures)
    widest = max(measures, key=lambda one: one[1].upper - one[1].lower, default=None)
    return Numbers((*whole, *real), widest, bool(whole) or in_whole_steps)
