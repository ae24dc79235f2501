"""Trial of a server's SQL before anything is reserved: the release's own statement, on constants instead of the table.

The constants are values of the columns' types that engines differ about, and the bounds and lists of the schema, which
are public. Server and DuckDB run the same statement. If a cast fails on the server, if two texts are one to it, if a
time is of another day or a window keeps other rows, the answers differ and the table is refused. No row of it is read.

What passes is no proof, which is why dialects are let through one by one: `words_of` names those that are, and says
why others are refused (docs/engines.md).
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from itertools import count
from typing import Any, Protocol

import numpy as np
from sqlglot import exp

from sfumato.errors import TableError
from sfumato.kernel.counts import Aggregate
from sfumato.kernel.reading.engines import Column, Engine, adbc_vendor, alchemy_url
from sfumato.kernel.reading.engines.duckdb import over_origin
from sfumato.kernel.reading.engines.other.mysql import Words
from sfumato.kernel.reading.expressions import SQL, TEXTS, day, double, moment, named, type_of, whole
from sfumato.kernel.reading.formats.columnar import Frame
from sfumato.kernel.reading.statement import aggregate_statement, checked, comes_by_rows
from sfumato.schema import Schema
from sfumato.schema.attributes import Boolean, Category, Date
from sfumato.schema.attributes.lists import as_number

LISTED = 12  # spellings of a list that are tried, and as many with the other case
Kind = str  # text, uuid, double, bigint, boolean, date, timestamp, decimal(digits,after)
_TYPES = exp.DataType.Type
_TEXTS = ["a", "A", "ä", "a\u0308", "", " ", " a", "a ", "\ta", "1", "1.0", " 1", "1.5e0", "1e400", "-inf", "true"]
_TEXTS += ["TRUE", "F", "maybe", "nan", "x'y", 'x"y', "x\\y", "😀", "ß", "ss", "é", "e\u0301", "%s", "\\'", "a\n"]
_NUMBERS = [0.0, -0.0, 0.5, -0.5, 1.0, 1.5, 2.5, -2.0, 0.1, 0.3, 1e-300, 5e-324, 1e15, 1e300, -1e300, 2.0**53, 2.0**63]
_WHOLE = [0, 1, -1, 2, -2, 3, 100, -128, 127]
_DAYS = [dt.date(2020, 2, 29), dt.date(2019, 12, 31), dt.date(2020, 12, 31), dt.date(2021, 1, 3), dt.date(1970, 1, 1)]


def kind_of(source: Column, dialect: str) -> Kind:
    """Kind of trial constants that fits a column's type."""
    found = type_of(source, dialect)
    if found in TEXTS:
        return "text"
    if found in exp.DataType.FLOAT_TYPES:
        return "double"
    if found == _TYPES.DECIMAL:
        digits = re.search(r"\((\d+), ?(\d+)\)", source.type or "")
        return "decimal({},{})".format(*digits.groups()) if digits else "decimal(18,3)"
    if found in exp.DataType.INTEGER_TYPES:
        return "bigint"
    if found in (_TYPES.BOOLEAN, _TYPES.UUID):
        return "boolean" if found == _TYPES.BOOLEAN else "uuid"
    return "date" if found == _TYPES.DATE else "timestamp"


def pool(kind: Kind, parts: Sequence[Any], words: Words) -> list[Any]:
    """Trial values of one kind, NULL included. parts: the schema's attributes and measures that read the column."""
    bounds = [Decimal(str(bound)) for part in parts for bound in _bounds(part)]
    values: list[Any]
    if kind == "text":
        values = [*_TEXTS, *(text for part in parts for text in _listed(part))]
    elif kind == "uuid":
        values = ["00000000-0000-0000-0000-00000000000a", "ffffffff-ffff-ffff-ffff-ffffffffffff"]
    elif kind == "boolean":
        values = [True, False]
    elif kind in ("date", "timestamp"):
        values = _days(parts, times=kind == "timestamp")
    elif kind == "double":
        values = [*_NUMBERS, *(float(one) for bound in bounds for one in _around(bound, Decimal("0.001")))]
        values += [math.nan, math.inf, -math.inf] if words.not_finite else []
    elif kind == "bigint":
        whole = [int(one) for bound in bounds for one in _around(bound, Decimal(1))]
        values = [*_WHOLE, *(one for one in whole if abs(one) < 2**63), 2**63 - 1, -(2**63)]
    else:
        values = _decimals(kind, bounds)
    return [*dict.fromkeys(values), None]


def _around(bound: Decimal, step: Decimal) -> tuple[Decimal, ...]:
    return bound - step, bound, bound + step


def _bounds(part: Any) -> list[Any]:
    found = [getattr(part, name, None) for name in ("lower", "upper")]
    if isinstance(part, Category) and part.numeric:
        return list(part.spellings)[:LISTED]
    return [] if isinstance(part, Category | Boolean | Date) else [bound for bound in found if bound is not None]


def _listed(part: Any) -> list[str]:
    if not isinstance(part, Category | Boolean):
        return []
    spelled = list(part.spellings or {})[:LISTED]
    return [one for text in spelled for one in (text, text.swapcase(), f" {text}") if "\0" not in one]


def _days(parts: Sequence[Any], *, times: bool) -> list[Any]:
    stated = [bound for part in parts if isinstance(part, Date) for bound in part.bounds if 1900 < bound.year < 2200]
    days = [*_DAYS, *stated, *(bound + dt.timedelta(days=by) for bound in stated for by in (-1, 1))]
    if not times:
        return days
    clocks = (dt.time(), dt.time(23, 59, 59, 999999), dt.time(12, 30))
    return [dt.datetime.combine(day, clock) for day in days for clock in clocks]


def _decimals(kind: Kind, bounds: Sequence[Decimal]) -> list[Decimal]:
    digits, after = map(int, kind[len("decimal(") : -1].split(","))
    step = Decimal(1).scaleb(-after)
    some = [Decimal(text) for text in ("0", "1", "-1", "1.5", "0.25", "-0.5", "3")]
    near = [one for bound in bounds for one in _around(bound, step)]
    fits = [one.quantize(step) for one in (*some, *near) if abs(one) < Decimal(10) ** min(digits - after, 15)]
    return fits


# What a library of connections, or SQLAlchemy, or a driver of ADBC, calls the SQL that sqlglot calls otherwise.
_SPOKEN = {
    **dict.fromkeys(("chdb", "clickhouse_connect", "clickhouse_driver", "clickhousedb"), "clickhouse"),
    **dict.fromkeys(("pymysql", "mysqldb", "mysql", "mariadb", "asyncmy"), "mysql"),
    **dict.fromkeys(("pymssql", "mssql", "mssql_python", "microsoft sql server"), "tsql"),
    **dict.fromkeys(("oracledb", "cx_oracle"), "oracle"),
    **dict.fromkeys(("pyathena", "awsathena"), "athena"),
    **dict.fromkeys(("pyexasol", "exa"), "exasol"),
    **dict.fromkeys(("pg8000", "asyncpg", "postgresql"), "postgres"),
    "google": "bigquery",
    "redshift_connector": "redshift",
    "prestodb": "presto",
    "teradatasql": "teradata",
    "pyhive": "hive",
    "sqlite3": "sqlite",
}
# Where nobody can be sure, nothing is read.
_REFUSED = {
    "tsql": "SQL Server may take binary values for equal that differ in zeros at their end",
    "oracle": "Oracle takes an empty text for NULL and pads some comparisons with blanks",
    "postgres": "PostgreSQL is read through psycopg, ADBC or SQLAlchemy, or by its address",
    "spark": "Spark is read through a session, or by its address",
    "sqlite": "SQLite is read through sqlite3, ADBC or SQLAlchemy, or by its address",
}
_INSTEAD = "write the table to Parquet and release that"


def words_of(table: Any, stated: str | None) -> Words:
    """Dialect of a connection; refused unless its SQL is known to mean what the kernel's statement means."""
    spoken = _known(stated) if stated is not None else _spoken(table)
    if spoken == "duckdb":
        from sfumato.kernel.reading.engines.other.column_stores import DuckWords

        return DuckWords()
    if spoken == "clickhouse":
        from sfumato.kernel.reading.engines.other.column_stores import ClickHouseWords

        return ClickHouseWords()
    if spoken == "mysql":
        from sfumato.kernel.reading.engines.other.mysql import MySQLWords

        return MySQLWords()
    why = _REFUSED.get(spoken, f"no server that speaks {spoken} was ever tried here")
    raise TableError(f"{why}; {_INSTEAD}" if spoken not in ("postgres", "spark", "sqlite") else why)


def _known(stated: str) -> str:
    from sqlglot.dialects.dialect import Dialect

    name = stated.strip().lower()
    spoken = _SPOKEN.get(name, name)
    with suppress(ValueError):
        if Dialect.get(spoken) is not None:
            return spoken
    raise TableError(f"{stated!r} is no SQL that sqlglot knows; known here are clickhouse, duckdb and mysql")


def _spoken(table: Any) -> str:
    from sqlglot.dialects.dialect import Dialect

    said = _said(table).lower()
    spoken = _SPOKEN.get(said, said)
    if Dialect.get(spoken) is None:
        kind = f"{type(table).__module__}.{type(table).__name__}"
        raise TableError(f"a table cannot be a {kind} whose SQL is not known; say which it speaks (dialect=)")
    return spoken


def _said(table: Any) -> str:
    """The name of a connection's database: the backend of SQLAlchemy, the vendor behind ADBC, or its library."""
    if isinstance(table, str):
        return table.partition("://")[0].partition("+")[0]
    if (url := alchemy_url(table)) is not None:
        return str(url.get_backend_name())
    if (vendor := adbc_vendor(table)) is not None:
        return vendor
    return type(table).__module__.partition(".")[0].lstrip("_")


KEY = 7  # no person is secret here
Rows = Mapping[Column, Sequence[Any]]


class Tried(Engine, Protocol):
    """Interface of an engine that can run its dialect over constants in place of the table."""

    @property
    def words(self) -> Words: ...

    def over(self, constants: SQL) -> Engine: ...


def tried(schema: Schema, engine: Tried, columns: Mapping[str, Column]) -> None:
    """Refuse an engine whose trial result differs from DuckDB's."""
    kinds = {each: kind_of(each, engine.dialect) for each in columns.values()}
    _refuse_unsure(schema, engine, columns, kinds)
    unit = None if schema.privacy_unit.column is None else columns[schema.privacy_unit.column]
    rows = _rows(schema, engine, columns, kinds, unit)
    same = _same(_there(schema, engine, columns, kinds, rows), _here(schema, columns, kinds, rows))
    if same and unit is not None:
        some = schema.privacy_unit.contributions + 3  # rows of one person, who has too many then
        one = {each: values[:some] for each, values in rows.items()}
        one[unit] = [rows[unit][0]] * len(one[unit])
        here, there = _here(schema, columns, kinds, one), _there(schema, engine, columns, kinds, one)
        same = here.counts.sum() == there.counts.sum() <= schema.most_of_a_unit
    if not same:
        raise TableError(
            f"{engine.words.shown} does not work out this schema as it is meant (tried on constants, no row was read); "
            "write the table to Parquet and release that"
        )


def _refuse_unsure(schema: Schema, engine: Tried, columns: Mapping[str, Column], kinds: Mapping[Column, Kind]) -> None:
    """Refuse types on which dialects disagree: floats or times as privacy unit, floats compared with texts."""
    unit = schema.privacy_unit.column
    if unit is not None and kinds[columns[unit]] in ("double", "boolean", "timestamp"):
        raise TableError(f"privacy_unit: {engine.words.shown} tells people apart by text, whole numbers or days only")
    for name, part in schema.attributes.items():
        listed = isinstance(part, Category) and not part.numeric
        if listed and kinds[columns[part.column]] == "double" and engine.dialect != "duckdb":
            raise TableError(f"attributes.{name} lists texts, but its column holds floats; list numbers, or use bins")


def _rows(
    schema: Schema, engine: Tried, columns: Mapping[str, Column], kinds: Mapping[Column, Kind], unit: Column | None
) -> Rows:
    """Rows of constants: every value of every column, in varying combinations, each of another person."""
    pools = {
        each: [*_no_values(kind, each), *pool(kind, _parts(schema, columns, each), engine.words)]
        for each, kind in kinds.items()
    }
    longest = max(map(len, pools.values()))
    rows: dict[Column, Sequence[Any]] = {}
    for place, (each, values) in enumerate(pools.items()):
        rows[each] = [values[(row + place * (row // len(values))) % len(values)] for row in range(longest)]
    if unit is not None:
        people = (_person(kinds[unit], number) for number in count())
        rows[unit] = [next(people) for _ in range(longest)]
    return rows


def _no_values(kind: Kind, source: Column) -> list[Any]:
    """The words for a missing value that a column of this kind can hold."""
    words = source.spelling.missing
    if kind == "text":
        return [one for word in words for one in (word, word.swapcase(), f" {word}")]
    numbers = [number for number in map(as_number, words) if number is not None]
    whole_ones = [int(number) for number in numbers if number.is_integer() and abs(number) < 2**53]
    return numbers if kind == "double" else whole_ones if kind == "bigint" else []


def _parts(schema: Schema, columns: Mapping[str, Column], each: Column) -> list[Any]:
    parts = [*schema.attributes.values(), *schema.measures.values(), *filter(None, [schema.weight])]
    return [part for part in parts if columns[part.column] == each]


def _person(kind: Kind, number: int) -> Any:
    """Identifier of a person; consecutive ones differ only by case, an accent or a blank."""
    if kind == "text":
        return ("p{}", "P{}", "p{} ", "p\u00e9{}")[number % 4].format(number // 4)
    if kind == "uuid":
        return f"00000000-0000-0000-0000-{number:012}"
    if kind == "date":
        return dt.date(2000, 1, 1) + dt.timedelta(days=number)
    return Decimal(number) if kind.startswith("decimal") else number


def _same(one: Aggregate, other: Aggregate) -> bool:
    if not (np.array_equal(one.cells, other.cells) and np.array_equal(one.counts, other.counts)):
        return False
    return all(np.array_equal(one.sums[name], other.sums[name]) for name in one.sums)


def _here(schema: Schema, columns: Mapping[str, Column], kinds: Mapping[Column, Kind], rows: Rows) -> Aggregate:
    import pyarrow as pa

    arrays = [pa.array(values, _arrow(kinds[each])) for each, values in rows.items()]
    engine = over_origin(Frame(pa.table(arrays, names=[each.name for each in rows]), "pyarrow", "Table"))
    own = {each: replace(here, spelling=each.spelling) for each, here in zip(rows, engine.columns, strict=True)}
    return _gathered(schema, engine, {name: own[each] for name, each in columns.items()})


def _there(
    schema: Schema, engine: Tried, columns: Mapping[str, Column], kinds: Mapping[Column, Kind], rows: Rows
) -> Aggregate:
    selects = [
        exp.Select(
            expressions=[named(_constant(value, kinds[each], engine), each.reference) for each, value in each_row]
        )
        for each_row in (list(zip(rows, values, strict=True)) for values in zip(*rows.values(), strict=True))
    ]
    constants = exp.Subquery(
        this=exp.union(*selects, distinct=False, copy=False), alias=exp.TableAlias(this=exp.to_identifier("tried"))
    )
    return _gathered(schema, engine.over(constants), columns)


def _gathered(schema: Schema, engine: Engine, columns: Mapping[str, Column]) -> Aggregate:
    row_by_row = comes_by_rows(schema, for_margins=False)
    statement = aggregate_statement(schema, engine, columns, KEY, row_by_row=row_by_row)
    found = checked(engine.run(statement, list(dict.fromkeys(columns.values()))), schema, row_by_row=row_by_row)
    return found if isinstance(found, Aggregate) else found.gathered


def _constant(value: Any, kind: Kind, engine: Tried) -> SQL:
    plain: dict[str, Callable[[Any], SQL]] = {"double": double, "date": day, "timestamp": moment}
    plain["text"] = engine.words.text_constant
    if value is not None and kind in plain:
        return plain[kind](value)
    if value is None or kind == "boolean":
        return engine.words.constant(exp.Null() if value is None else exp.Boolean(this=value), kind)
    literal = exp.Literal.string(str(value)) if kind == "uuid" or kind.startswith("decimal") else whole(value)
    return engine.words.constant(literal, kind)


def _arrow(kind: Kind) -> Any:
    import pyarrow as pa

    if kind.startswith("decimal"):
        digits, after = kind[len("decimal(") : -1].split(",")
        return pa.decimal128(int(digits), int(after))
    plain = {"text": pa.string(), "uuid": pa.string(), "double": pa.float64(), "boolean": pa.bool_()}
    return {**plain, "date": pa.date32(), "timestamp": pa.timestamp("us"), "bigint": pa.int64()}[kind]
