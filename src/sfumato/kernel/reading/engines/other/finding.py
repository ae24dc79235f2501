"""Awkward constants for a trial: of each kind some that engines differ about, and what the schema itself states.

Which SQL a connection speaks, and which of those that sqlglot knows are let through; docs/engines.md has why.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

from sqlglot import exp

from sfumato.errors import TableError
from sfumato.kernel.reading.engines import Column
from sfumato.kernel.reading.engines.alchemy import adbc_vendor, alchemy_url
from sfumato.kernel.reading.engines.other.mysql import Words
from sfumato.kernel.reading.expressions import TEXTS, type_of
from sfumato.schema.attributes import Boolean, Category, Date

LISTED = 12  # spellings of a list that are tried, and as many with the other case
Kind = str  # text, uuid, double, bigint, boolean, date, timestamp, decimal(digits,after)
_TYPES = exp.DataType.Type
_TEXTS = ["a", "A", "ä", "a\u0308", "", " ", " a", "a ", "\ta", "1", "1.0", " 1", "1.5e0", "1e400", "-inf", "true"]
_TEXTS += ["TRUE", "F", "maybe", "nan", "x'y", 'x"y', "x\\y", "😀", "ß", "ss", "é", "e\u0301", "%s", "\\'", "a\n"]
_NUMBERS = [0.0, -0.0, 0.5, -0.5, 1.0, 1.5, 2.5, -2.0, 0.1, 0.3, 1e-300, 5e-324, 1e15, 1e300, -1e300, 2.0**53, 2.0**63]
_WHOLE = [0, 1, -1, 2, -2, 3, 100, -128, 127]
_DAYS = [dt.date(2020, 2, 29), dt.date(2019, 12, 31), dt.date(2020, 12, 31), dt.date(2021, 1, 3), dt.date(1970, 1, 1)]


def kind_of(source: Column, dialect: str) -> Kind:
    """What constants of a column's type are made from."""
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
    """Values of one kind, NULL among them. parts: the attributes and measures of the schema that read the column."""
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
    "chdb": "clickhouse",
    "clickhouse_connect": "clickhouse",
    "clickhouse_driver": "clickhouse",
    "clickhousedb": "clickhouse",
    "pymysql": "mysql",
    "mysqldb": "mysql",
    "mysql": "mysql",
    "mariadb": "mysql",
    "asyncmy": "mysql",
    "pymssql": "tsql",
    "mssql": "tsql",
    "mssql_python": "tsql",
    "microsoft sql server": "tsql",
    "oracledb": "oracle",
    "cx_oracle": "oracle",
    "google": "bigquery",
    "redshift_connector": "redshift",
    "prestodb": "presto",
    "pyathena": "athena",
    "awsathena": "athena",
    "teradatasql": "teradata",
    "pyexasol": "exasol",
    "exa": "exasol",
    "pg8000": "postgres",
    "asyncpg": "postgres",
    "postgresql": "postgres",
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
    """How to speak to a connection; refused if nobody knows how, or whether, its SQL keeps the promise."""
    spoken = _known(stated) if stated is not None else _spoken(table)
    if spoken == "duckdb":
        from sfumato.kernel.reading.engines.other.ducks import DuckWords

        return DuckWords()
    if spoken == "clickhouse":
        from sfumato.kernel.reading.engines.other.clickhouse import ClickHouseWords

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
    """What a connection tells of itself: the backend of SQLAlchemy, the vendor behind ADBC, or its library."""
    if isinstance(table, str):
        return table.partition("://")[0].partition("+")[0]
    if (url := alchemy_url(table)) is not None:
        return str(url.get_backend_name())
    if (vendor := adbc_vendor(table)) is not None:
        return vendor
    return type(table).__module__.partition(".")[0].lstrip("_")
