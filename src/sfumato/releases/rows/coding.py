"""Encode rows that a user brings to a published model as cell codes; read CSV files in the table's dialect.

Decode drawn cells to the columns of the table that the schema describes, batch by batch.

Values are such that the schema reads them back into the same cells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.domain import EPOCH, Axis
from sfumato.errors import QueryError, TableError
from sfumato.frozen import dataclass
from sfumato.releases.rows.condition import Lot, check_number, check_total
from sfumato.releases.rows.model import Block, RandomNumbers, RowModel, arrow_numbers, numpy_numbers
from sfumato.releases.rows.ordered_values import Listed, Numbers, Times, cell_of
from sfumato.schema import Schema
from sfumato.schema.attributes import Attribute, Boolean, Category, Date, Integer, Number
from sfumato.schema.dialect import PLAIN, Dialect, same_name

if TYPE_CHECKING:
    import pyarrow as pa

MOST_HEADER = 2**16  # bytes in which the first line ends


def read_csv(path: Path, schema: Schema | None = None) -> pa.Table:
    """Read a CSV file; columns of categories, booleans and dates stay texts."""
    from pyarrow import csv

    dialect = _dialect(path, schema)
    header = _first_line(path, dialect)
    names = [name.strip('"') for name in header.split(dialect.delimiter or ",")]
    listed: dict[str, Any] = (
        {} if dialect.columns is None or _names_any(names, dialect) else {"column_names": dialect.columns}
    )
    types = _texts(schema, [*listed.get("column_names", names)])
    return csv.read_csv(
        path,
        csv.ReadOptions(encoding=dialect.encoding or "utf8", **listed),
        csv.ParseOptions(delimiter=dialect.delimiter or ",", quote_char=dialect.quote or '"'),
        csv.ConvertOptions(column_types=types, decimal_point=dialect.decimal or ".", strings_can_be_null=True),
    )


def read_back(path: Path, schema: Schema, types: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Read the attributes of a CSV file of synthetic rows, batch by batch. types: of all its columns."""
    import pyarrow as pa
    from pyarrow import csv

    dialect = schema.file or PLAIN
    written = {same_name(name): types.field(name).type for name in types.names}
    listed = dialect.columns or types.names
    kinds = {name: written.get(same_name(name), pa.string()) for name in listed}
    spelled = {name for name in listed if dialect.date_format(name) is not None}
    # A text is read as it is spelled: a label may look like a number, and a truth like a word.
    kinds |= {name: pa.string() for name, kind in kinds.items() if pa.types.is_boolean(kind) or name in spelled}
    used = {same_name(part.column or name) for name, part in schema.attributes.items()}
    columns = [name for name in listed if same_name(name) in used and same_name(name) in written]
    return iter(
        csv.open_csv(
            path,
            csv.ReadOptions(
                encoding=dialect.encoding or "utf8", column_names=listed, skip_rows=0 if dialect.columns else 1
            ),
            csv.ParseOptions(
                delimiter=dialect.delimiter or ",",
                quote_char='"' if dialect.quote is None else dialect.quote or False,
                newlines_in_values=True,
            ),
            csv.ConvertOptions(
                column_types=kinds,
                include_columns=columns,
                decimal_point=dialect.decimal or ".",
                strings_can_be_null=True,
                null_values=[""],
            ),
        )
    )


def _dialect(path: Path, schema: Schema | None) -> Dialect:
    """CSV dialect of the schema where the file has it; the plain one where its first line shows otherwise."""
    stated = schema.file if schema is not None and schema.file is not None else PLAIN
    parted = stated.delimiter or ","
    return stated if parted in _first_line(path, stated) or parted == "," else PLAIN


def _first_line(path: Path, dialect: Dialect) -> str:
    with path.open("rb") as file:
        text = file.read(MOST_HEADER).decode(dialect.encoding or "utf-8-sig", errors="replace")
    return text.partition("\n")[0].strip("\r\ufeff")


def _names_any(names: list[str], dialect: Dialect) -> bool:
    known = {same_name(name) for name in dialect.columns or ()}
    return any(same_name(name) in known for name in names)


def _texts(schema: Schema | None, names: list[str]) -> dict[str, Any]:
    """Types of the columns that are read as text: a value such as 01 is no number."""
    import pyarrow as pa

    if schema is None:
        return {}
    texts = {
        same_name(word)
        for name, attribute in schema.attributes.items()
        if isinstance(attribute, Category | Boolean | Date)
        for word in (name, attribute.column or name)
    }
    return {name: pa.string() for name in names if same_name(name) in texts}


NOWHERE = -1  # the code of a value that the schema does not list


def read_rows(rows: Any, schema: Schema | None = None) -> pa.Table:
    """Read rows from a .csv or .parquet file, a pandas, polars or Arrow frame, or a list of dicts.

    schema: of the release, whose file may be written in a way of its own, as synthetic rows are.
    """
    import pyarrow as pa

    if isinstance(rows, str | Path):
        return _read_file(Path(rows), schema)
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, list):
        return pa.Table.from_pylist(rows)
    if hasattr(rows, "__arrow_c_stream__"):
        return pa.table(rows)
    raise QueryError("rows to judge are a path (csv, parquet), a frame or a list of dicts")


def codes_in(rows: pa.Table, schema: Schema, names: Sequence[str], *, whole: bool = False) -> dict[str, Codes]:
    """Cell of every row along some attributes, (rows,) each; `NOWHERE` for values that are not listed or unreadable.

    Columns have the names of attributes, or those of the table that was released, as synthetic rows have them. whole:
    an attribute of whole numbers has `NOWHERE` for others too, which otherwise are rounded down, as in a table.
    """
    codes = {}
    for name in names:
        attribute = schema.attributes[name]
        column = _column(rows, name, attribute.column)
        if column is None:
            said = "" if attribute.column == name else f" nor {attribute.column!r}, as the table has it"
            raise QueryError(f"the rows have no column {name!r}{said}; the model needs {', '.join(names)}")
        dates = None if schema.file is None else schema.file.date_format(attribute.column or name)
        codes[name] = _codes(rows.column(column), attribute, schema.domain[name], dates, whole=whole)
    return codes


def _column(rows: pa.Table, *wanted: str | None) -> str | None:
    """First column of one of these names, ignoring case and outer blanks as for a released table."""
    columns = {same_name(name): name for name in reversed(rows.column_names)}
    columns |= {name: name for name in rows.column_names}
    return next((columns[key] for name in wanted if name for key in (name, same_name(name)) if key in columns), None)


def _codes(column: Any, attribute: Attribute, axis: Axis, dates: str | None, *, whole: bool) -> Codes:
    import pyarrow as pa

    kind = column.type
    if isinstance(attribute, Integer | Number) and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return _places(_floats(column), axis, whole=whole and isinstance(attribute, Integer))
    if (
        isinstance(attribute, Date)
        and (pa.types.is_date(kind) or pa.types.is_timestamp(kind))
        and getattr(kind, "tz", None) is None
    ):
        seconds = column.cast(pa.timestamp("s"), safe=False).cast(pa.int64())
        return _places(_moments(_floats(seconds), attribute), axis)
    coded = column.combine_chunks().dictionary_encode()
    shown = {str(label): cell for cell, label in enumerate(axis.labels()) if label is not None}
    values = [*coded.dictionary.to_pylist(), None]
    cells = np.array([_cell(value, attribute, axis, dates, shown) for value in values])
    places = numpy_numbers(coded.indices, len(cells) - 1)
    return np.asarray(cells[places], dtype=np.int64)


def _floats(column: Any) -> Floats:
    """Numbers of an Arrow column, NaN for nulls."""
    import pyarrow as pa

    return numpy_numbers(column.combine_chunks().cast(pa.float64(), safe=False), np.nan)


def _places(numbers: Floats, axis: Axis, *, whole: bool = False) -> Codes:
    """Cells of numbers, (rows,), clipped to the bounds; NaN is a missing value."""
    places = np.clip(np.searchsorted(axis.edges, numbers, side="right") - 1, 0, axis.places - 1)
    nowhere = np.isnan(numbers) if not whole else ~(np.floor(numbers) == numbers)
    cells = np.where(nowhere, NOWHERE, places)
    return np.asarray(np.where(np.isnan(numbers) & axis.missing, axis.places, cells), dtype=np.int64)


def _moments(seconds: Floats, attribute: Date) -> Floats:
    """Axis coordinate of times in seconds since 1970, (rows,)."""
    days = seconds / 86_400
    if attribute.by == "weekday":
        return np.asarray((np.floor(days) + 3) % 7)  # 1970 began on a Thursday
    if attribute.by == "hour_of_day":
        return np.asarray(np.floor(seconds / 3600) % 24)
    return days if attribute.has_time else np.floor(days)


def _cell(value: object, attribute: Attribute, axis: Axis, dates: str | None, shown: Mapping[str, int]) -> int:
    """Cell of one value, read as in the released table: mapped spellings, clipped bounds."""
    nowhere = axis.places if axis.missing else NOWHERE
    if value is None:
        return nowhere
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if isinstance(attribute, Category | Boolean):
        try:
            return int(axis.read(value))
        except QueryError:
            cell = cell_of(attribute, axis, text)
            return NOWHERE if cell is None else cell
    if text in shown:
        return shown[text]
    try:
        number = _moment(value, attribute, dates) if isinstance(attribute, Date) else axis.read(value)
    except (QueryError, ValueError):
        return NOWHERE
    index = int(np.searchsorted(axis.edges, number, side="right")) - 1
    return min(max(index, 0), axis.places - 1)


def _moment(value: object, attribute: Date, dates: str | None) -> float:
    """Axis coordinate of one date or time."""
    if dates is not None and isinstance(value, str):
        value = datetime.strptime(value, dates)
    elif not isinstance(value, date):
        value = datetime.fromisoformat(str(value))
    moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
    if attribute.by == "weekday":
        return float(moment.weekday())
    if attribute.by == "hour_of_day":
        return float(moment.hour)
    since = moment.replace(tzinfo=None) - datetime(EPOCH.year, EPOCH.month, EPOCH.day)
    days = since.total_seconds() / 86_400
    return days if attribute.has_time else float(np.floor(days))


def _read_file(path: Path, schema: Schema | None) -> pa.Table:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        if path.suffix.lower() == ".csv":
            return read_csv(path, schema)
        if path.suffix.lower() == ".parquet":
            return parquet.read_table(path)
    except (OSError, ValueError, LookupError, pa.ArrowInvalid):
        raise TableError(f"cannot read {path}; is it a csv or parquet file?") from None
    raise TableError(f"rows to judge are read from .csv or .parquet, not {path.name}")


# -- decode


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
