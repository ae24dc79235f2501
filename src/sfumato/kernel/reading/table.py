"""The private table as a source: checked by names and types, then read once, as counts by cell.

`open_engine` chooses the engine that reads it: DuckDB, PostgreSQL, Spark, or another database behind a connection.

No row is read before `Table.read`, save for the curator's own check, which is not private (`look`).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from sfumato.errors import TableError
from sfumato.frozen import dataclass
from sfumato.kernel.counts import Aggregate, Rows
from sfumato.kernel.reading.engines import (
    NOTHING_DECLARED,
    ROLES,
    Admit,
    Column,
    Engine,
    is_other,
    is_postgres,
    is_spark,
    used_columns,
)
from sfumato.plain_text import file_safe
from sfumato.schema import Schema
from sfumato.schema.dialect import PLAIN, Dialect, same_name
from sfumato.schema.row_rules import columns_read

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sfumato.kernel.reading.checking import Checked


def open_engine(
    table: object, name: str | None, dialect: Dialect, wanted: Sequence[str], spoken: str | None = None
) -> Engine:
    """Engine for a table given as path, URL, connection, session or frame; see `open_table`.

    dialect: how a file is written. spoken: the SQL of a connection.
    """
    if is_postgres(table):
        from sfumato.kernel.reading.engines.postgres.engine import open_postgres

        return open_postgres(table, name)
    if is_spark(table):
        from sfumato.kernel.reading.engines.spark.engine import open_spark

        return open_spark(table, name)
    if is_other(table, spoken) and not _is_sqlite(table):
        from sfumato.kernel.reading.engines.other.session import open_other

        return open_other(table, name, spoken)
    from sfumato.kernel.reading.engines.duckdb import open_duckdb

    return open_duckdb(table, name, dialect, wanted)


def _is_sqlite(table: object) -> bool:
    """Whether a connection is one to SQLite, whose rows DuckDB reads."""
    from sfumato.kernel.reading.formats.databases import is_sqlite

    return is_sqlite(table)


__all__ = ["Aggregate", "Table", "open_table"]


def open_table(
    table: Any,
    *,
    name: str | None = None,
    allow_views: bool = False,
    schema: Schema | None = None,
    file: Dialect | None = None,
    dialect: str | None = None,
) -> Table:
    """Open a table: its column names and types are looked at, no row is read.

    table: a path or pattern (csv, json lines, parquet, arrow, xlsx), - for the standard input, a URL (duckdb:///FILE,
    postgresql://USER@HOST/DATABASE, spark://, sc://), a connection to a server, a Spark session, or a pandas, polars,
    Arrow or Spark frame.
    name: which table of a database.
    schema: says how a file is written (`file`) and which columns it has, where the file itself does not.
    file: how it is written, where there is no schema yet.
    dialect: the SQL that a connection speaks, as sqlglot names it, where that cannot be told from the connection.
    allow_views: take a view, a lazy frame or a relation too. What one of its rows means may depend on others, so the
    promise is about the rows it gives.
    """

    written = file or (schema and schema.file) or PLAIN
    wanted = [] if schema is None else list(dict.fromkeys(column for _, _, column in (*_asked(schema), *_read(schema))))
    return Table(open_engine(table, name, written, wanted, dialect), allow_views)


@dataclass(frozen=True)
class Table:
    """Private table as a source. `check` looks at names and types; `read` is the only reading of rows."""

    engine: Engine = field(repr=False)  # for privacy: it may hold a frame, whose repr shows rows
    allow_views: bool = False

    def __enter__(self) -> Table:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection, unless a statement already did."""
        self.engine.close()

    @property
    def columns(self) -> list[tuple[str, str | None]]:
        """Names and types as the engine words them; a CSV file has no types."""
        return [(column.name, column.type) for column in self.engine.columns]

    def declarations(self) -> tuple[str, str]:
        """CREATE TABLE with ENUM types and CHECK constraints, from a database's catalogue, and the SQL that it is in.

        No row is read. But whoever made a type or a constraint may have had rows in mind, so it is for drafts alone.
        """
        declared = getattr(self.engine, "declarations", None)
        if declared is None:
            raise TableError(NOTHING_DECLARED)
        found: tuple[str, str] = declared()
        return found

    def check(self, schema: Schema, period: str | None = None, *, with_people: bool = False) -> None:
        """Refuse, before anything is spent, a schema that this table cannot serve. Arguments as in `read`.

        What is refused depends on names, types and the schema, never on a row; an empty table is accepted, because to
        refuse it would tell that it is empty.
        """
        from sfumato.kernel.reading.statement import aggregate_statement

        engine, columns = self._reading(schema)
        trial = getattr(engine, "trial", None)  # of servers that nobody can know to keep the meaning
        if trial is not None:
            trial(schema, columns)
        statement = aggregate_statement(schema, engine, columns, 0, period=period, with_people=with_people)
        engine.check(statement)

    def read(
        self,
        schema: Schema,
        key: int,
        *,
        for_margins: bool = False,
        period: str | None = None,
        admit: Admit | None = None,
    ) -> Aggregate | Rows:
        """Read the private table: an aggregate of the non-empty cells, or placed rows where `comes_by_rows` holds.

        See `sfumato.kernel.reading.statement` for the rules.
        Values outside their bounds count at the bound. A row falls out if an attribute is missing or unreadable
        (unless it keeps such rows) or not listed (unless the category has `other`), or if its privacy unit is missing.
        Where a measure is missing or unreadable its row is counted as one without a value, or falls out
        (`missing: drop`).
        key: chooses which rows of a unit are kept; draw it afresh for every reading.
        for_margins: whether margins alone will be counted.
        period: of a series; rows of others fall out where the table has a column for it.
        admit: given everybody with a row that would be counted, returns a flag for each: whether the rows are.
        """
        from sfumato.kernel.reading.statement import admitted, aggregate_statement, checked, comes_by_rows

        (engine, columns), row_by_row = self._reading(schema), comes_by_rows(schema, for_margins=for_margins)
        people = admit is not None
        how = {"row_by_row": row_by_row, "with_people": people}
        statement = aggregate_statement(schema, engine, columns, key, period=period, **how)
        used = _used(engine, columns, None if people else schema.privacy_unit.column)
        try:
            if admit is None:
                return checked(engine.run(statement, used), schema, row_by_row=row_by_row)
            rows = checked(admitted(engine.run(statement, used), admit), schema, row_by_row=True)
            return rows.gathered if isinstance(rows, Rows) and not row_by_row else rows
        finally:
            engine.close()

    def aggregate(
        self, schema: Schema, key: int, *, period: str | None = None, admit: Admit | None = None
    ) -> Aggregate:
        """Read as `read` does, and aggregate by cell wherever cells can be numbered."""
        found = self.read(schema, key, period=period, admit=admit)
        return found.gathered if isinstance(found, Rows) else found

    def check_values(self, schema: Schema, most: int) -> None:
        """Refuse, before anything is spent, a look at values that this table cannot serve; see `read_values`."""
        from sfumato.kernel.reading.statement import values_statement

        self.check(schema)
        engine, columns = self._reading(schema)
        people = schema.privacy_unit.column is not None and most > 1
        engine.check(values_statement(schema, engine, columns, 0, most, with_people=people))

    def read_values(
        self, schema: Schema, key: int, most: int
    ) -> tuple[list[bytes], NDArray[np.int64], NDArray[np.int64]]:
        """Read the different values of a schema's one attribute, a category whatever it lists, at most `most` a person.

        Returns the values, sorted by bytes, and two arrays. With one value a person, or row: the index of each value
        and its number of people. With several: for each value that a person has, its index and the person's number.
        key: chooses which values of a person are kept; draw it afresh for every reading.
        """
        from sfumato.kernel.reading.statement import as_values, values_statement

        engine, columns = self._reading(schema)
        people = schema.privacy_unit.column is not None and most > 1
        statement = values_statement(schema, engine, columns, key, most, with_people=people)
        try:
            return as_values(engine.run(statement, _used(engine, columns, schema.privacy_unit.column)))
        finally:
            engine.close()

    def look(self, schema: Schema, period: str | None = None) -> Checked:
        """NOT PRIVATE: counts of values that the schema leaves out, clips or cannot read, for the curator alone.

        period: as in `read`.
        """
        from sfumato.kernel.reading.checking import looked_at

        engine, columns = self._reading(schema)
        return looked_at(engine, columns, schema, period)

    def derived(self, schema: Schema) -> bool:
        """Whether values that the schema uses are computed on reading, by a view or a lazy frame."""
        uses = [*_read(schema), *(use for use in _asked(schema) if use[2] not in schema.made)]
        return any(self.source(schema, *use).derived for use in uses)

    def _reading(self, schema: Schema) -> tuple[Engine, dict[str, Column]]:
        """The engine over the rows that the schema's rules derive, and its column for each name in use."""
        engine, uses = self.engine, list(_asked(schema))
        if schema.made:
            from sfumato.kernel.reading.recoding import with_made_columns

            engine, columns = with_made_columns(engine, schema.made, uses, lambda *use: self.source(schema, *use))
            for role, kind, wanted in uses:
                _refuse_unfit(role, kind, columns[wanted], engine.dialect)
        else:
            columns = {wanted: self.source(schema, role, kind, wanted) for role, kind, wanted in uses}
        if schema.people is None:
            return engine, columns
        from sfumato.kernel.reading.people import per_person

        engine = per_person(engine, schema.people, columns, schema)
        return engine, fitting(engine, list(used_by(schema)))

    def source(self, schema: Schema, role: str, kind: str, wanted: str) -> Column:
        """Column of the source itself by its name, if it can serve."""
        column = _match(self.engine.columns, role, wanted)
        if column.derived and not self.allow_views:
            raise TableError(
                f"{role} asks for the column {wanted!r} of a view, a lazy frame, a foreign table, rows behind "
                "a policy or an expression, where one row can depend on others or fail on a value; write it to a "
                "table or file first, or allow it (--allow-views): "
                "the promise is then about the rows of the view, not about those behind it"
            )
        _refuse_unfit(role, kind, column, self.engine.dialect)
        if schema.file is not None:  # in this one place for every source, whatever else of the file it heeds
            words, marks = schema.file.missing_words(wanted), schema.file.marks(wanted)
            column = replace(column, spelling=replace(column.spelling, missing=words, strip=marks))
        return column


def fitting(engine: Engine, uses: Sequence[tuple[str, str, str]]) -> dict[str, Column]:
    """Column of derived rows for each name in use, if it can serve."""
    columns = {}
    for role, kind, wanted in uses:
        columns[wanted] = _match(engine.columns, role, wanted)
        _refuse_unfit(role, kind, columns[wanted], engine.dialect)
    return columns


def _asked(schema: Schema) -> Iterator[tuple[str, str, str]]:
    """Uses of the table's own columns, as `used_by` has them: by the schema, or by the rule that makes its columns."""
    return used_by(schema) if schema.people is None else schema.people.reads


def _used(engine: Engine, columns: dict[str, Column], unit: str | None) -> list[Column]:
    """Columns of the engine that are read; only the unit's column keeps its identity of persons."""
    own = {columns[name].reference for name in columns if name == unit}
    used = used_columns(engine, columns)
    return [column if column.reference in own else replace(column, who=None) for column in used]


def used_by(schema: Schema) -> Iterator[tuple[str, str, str]]:
    """Uses of columns by a schema: (role for messages, kind, column name)."""
    for name, attribute in schema.attributes.items():
        yield f"attributes.{name}", attribute.type, attribute.column
    for name, measure in schema.measures.items():
        yield f"measures.{name}", "measure", measure.column
    if schema.weight is not None:
        yield "weight", "measure", schema.weight.column
    if schema.privacy_unit.column is not None:
        yield "privacy_unit", "unit", schema.privacy_unit.column
    if schema.series is not None and schema.series.column is not None:
        yield "series", "period", schema.series.column


def _read(schema: Schema) -> Iterator[tuple[str, str, str]]:
    """Uses of columns of the source by the schema's rules, as in `used_by`."""
    for name, wanted, kind in columns_read(schema.made) if schema.made else ():
        yield f"the rule for {name}", ROLES[kind], wanted


def _match(columns: Sequence[Column], role: str, wanted: str) -> Column:
    """Column of this name: spelled exactly so, or else the only one that differs in case or outer blanks."""
    close = [column for column in columns if column.name == wanted]
    if not close:
        close = [column for column in columns if same_name(column.name) == same_name(wanted)]
    if not close:  # as synthetic rows have it where a spreadsheet would run the name
        close = [column for column in columns if column.name == file_safe(wanted)]
    if len(close) == 1:
        return close[0]
    names = [column.name if column.name.isprintable() else repr(column.name) for column in columns]
    if close:
        there = ", ".join(repr(column.name) for column in close)
        raise TableError(f"{role} asks for the column {wanted!r}, and the table has {there}; rename all but one")
    if any(column.type is None and not re.search(r"[^\W\d_]", column.name) for column in columns):
        # For privacy: a first line with a number in it may be a row, which a message must not show.
        raise TableError(
            f"{role} asks for the column {wanted!r}, but the first line does not name every column; add names, "
            "or list them all in --columns"
        )
    guess = difflib.get_close_matches(wanted.lower(), {name.lower(): name for name in names}, 1)
    hint = next((f"; did you mean {name!r}?" for name in names if [name.lower()] == guess), "")
    shown = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
    raise TableError(f"{role} asks for the column {wanted!r}, which the table lacks; it has {shown}{hint}")


def _refuse_unfit(role: str, kind: str, column: Column, dialect: str) -> None:
    """Refuse a column whose type does not fit its use (kind); untyped sources, such as CSV, pass."""
    if kind == "unit" and column.inexact:
        raise TableError(
            f"the column {column.name!r} says who a row is about, but pandas holds it as floats, in which two large "
            "numbers can become one; turn it into text or into Int64 where the frame is made"
        )
    if column.type is None:
        return
    from sqlglot import errors, exp

    types = exp.DataType.Type
    whole, text = exp.DataType.INTEGER_TYPES - {types.BIT}, exp.DataType.TEXT_TYPES
    numbers = whole | exp.DataType.REAL_TYPES | {types.BOOLEAN}
    days = exp.DataType.TEMPORAL_TYPES - {types.TIME, types.TIMETZ}
    names = text | numbers | {types.ENUM, types.UUID, types.DATE}
    serves, words = {
        "date": (days, "dates or times"),
        "boolean": (whole | text | {types.BOOLEAN}, "booleans, whole numbers or text"),
        "category": (names, "text, numbers, booleans or dates"),
        "unit": (names, "text, numbers, booleans or dates"),
        "period": (names | days, "dates, or periods as they are written"),
    }.get(kind, (numbers, "numbers"))
    try:
        found = exp.DataType.build(column.type, dialect=dialect).this
    except errors.SqlglotError:
        found = None
    if found in serves or found == types.NULL:
        return
    what = f"holds text ({column.type})" if found in text else f"is of type {column.type}"
    raise TableError(
        f"{role} needs {words}, but the column {column.name!r} {what}; convert it when the table is written"
    )
