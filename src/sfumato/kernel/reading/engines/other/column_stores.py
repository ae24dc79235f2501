"""The SQL dialects of ClickHouse and of DuckDB behind a connection of ADBC or SQLAlchemy.

ClickHouse's texts are bytes already, and its NaN is not equal to itself. DuckDB's SQL is that of `engines/duckdb.py`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from sqlglot import exp

from sfumato.errors import TableError
from sfumato.kernel.reading.engines import Column
from sfumato.kernel.reading.engines.other.mysql import Session, Words, is_nan
from sfumato.kernel.reading.expressions import SQL, cast, choose, try_cast, type_of, whole
from sfumato.kernel.reading.formats.origin import bare_type

OLDEST = 24  # the first with the analyzer that tells a column from an alias of the same name
# Engines that hold the rows they were given. Others make them up, merge some into one, or fetch them elsewhere.
STORED = {"MergeTree", "ReplicatedMergeTree", "SharedMergeTree", "Memory", "Log", "TinyLog", "StripeLog"}
_TYPES = {"Date32": "Date", "Date": "Date", "DateTime": "DateTime", "DateTime64": "DateTime", "Bool": "Bool"}
_TYPES |= {f"{sign}Int{bits}": f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)}
_TYPES |= {"Float32": "Float32", "Float64": "Float64", "String": "String", "UUID": "UUID"}
_TYPES |= {"Enum8": "String", "Enum16": "String"}
_SETTINGS = "SETTINGS session_timezone = 'UTC', prefer_column_name_to_alias = 1"
_TABLES = """
SELECT database, name, engine FROM system.tables
WHERE database NOT IN ('system', 'INFORMATION_SCHEMA', 'information_schema') AND NOT is_temporary
"""
_COLUMNS = """
SELECT name, type, if(default_kind IN ('ALIAS', 'EPHEMERAL'), 'yes', 'no') FROM system.columns
WHERE database = {} AND table = {} ORDER BY position
"""


class ClickHouseWords(Words):
    """SQL dialect of ClickHouse. Its settings are part of each statement, so no session's setting is changed."""

    dialect, shown = "clickhouse", "ClickHouse"
    usual, tables, columns = "SELECT currentDatabase()", _TABLES, _COLUMNS

    def must_serve(self, session: Session) -> None:
        """Refuse a ClickHouse that is too old: earlier versions resolve an alias in place of a column."""
        ((version,),) = session.rows("SELECT version()")
        if int(str(version).partition(".")[0]) < OLDEST:
            raise TableError(f"ClickHouse {version} cannot run what a release asks; use version {OLDEST} or later")

    def column(self, kind: str, name: str, *about: str) -> Column:
        """Column from the catalogue; an ALIAS column is derived."""
        word, made = about
        return Column(name, core_type(word), name, derived=kind not in STORED or made == "yes")

    def bytes_of(self, text: SQL) -> SQL:
        """SQL of the text itself, which ClickHouse compares by its bytes."""
        return text

    def number_of(self, text: SQL) -> SQL:
        """SQL of a text as a number; NULL if it is none."""
        blanks = exp.Trim(this=text, expression=exp.Literal.string(" \t\n\v\f\r"))
        return exp.Anonymous(this="toFloat64OrNull", expressions=[blanks])

    def text_of(self, value: SQL, source: Column) -> SQL:
        """SQL of a value as text; decimals with all digits of their type."""
        digits = re.fullmatch(r"DECIMAL\(\d+,(\d+)\)", source.type or "")
        if digits is None:
            return cast(value, "text")
        return exp.Anonymous(this="toDecimalString", expressions=[value, whole(int(digits[1]))])

    def day_of(self, value: SQL, source: Column, to: str) -> SQL:
        """SQL of a date or time in UTC, whatever zone its column displays."""
        if type_of(source, self.dialect) == exp.DataType.Type.DATE:
            return cast(value, to)
        return cast(cast(value, "timestamp"), to)

    def scramble(self, parts: Sequence[SQL]) -> SQL:
        """SQL hash of some values by ClickHouse's own function."""
        return exp.Anonymous(this="cityHash64", expressions=list(parts))

    def spelled(self, statement: SQL) -> str:
        """Text of a statement in ClickHouse's SQL, with its settings."""
        return f"{super().spelled(statement)} {_SETTINGS}"

    def instead(self, node: Any) -> SQL | None:
        """ClickHouse's replacement of a syntax node; None if it stays."""
        return _own_words(node)


def core_type(word: str) -> str:
    """ClickHouse type in sqlglot's spelling; one that cannot be read becomes `type NAME`, which sqlglot rejects.

    >>> core_type("LowCardinality(Nullable(String))"), core_type("Decimal(9, 2)"), core_type("DateTime64(3, 'UTC')")
    ('String', 'DECIMAL(9,2)', 'DateTime')
    >>> core_type("FixedString(3)"), core_type("Enum8('Ann' = 1)")
    ('type FixedString', 'String')
    """
    while (inner := re.fullmatch(r"(?:LowCardinality|Nullable)\((.*)\)", word, re.DOTALL)) is not None:
        word = inner[1]
    if (digits := re.fullmatch(r"Decimal\((\d+), ?(\d+)\)", word)) is not None and int(digits[1]) <= 38:
        return f"DECIMAL({digits[1]},{digits[2]})"
    bare = re.split(r"[( ]", word)[0]
    return _TYPES.get(bare, f"type {bare}")


@lru_cache
def _type(word: str) -> exp.DataType:
    return exp.DataType.build(word, dialect="clickhouse")


def _own_words(node: Any) -> SQL | None:
    """ClickHouse's replacement of a syntax node; None if it stays."""
    if isinstance(node, exp.Nullif) and is_nan(node.expression):
        return choose([(exp.IsNan(this=node.this), exp.Null())], node.this.copy())
    if isinstance(node, exp.NEQ) and is_nan(node.expression):
        return exp.Not(this=exp.IsNan(this=node.this))
    if isinstance(node, exp.Extract) and node.name.upper() == "ISODOW":
        return exp.Anonymous(this="toDayOfWeek", expressions=[node.expression])
    if isinstance(node, exp.Cast):
        types = exp.DataType.Type
        word = {types.DATE: "Nullable(Date32)", types.TIMESTAMP: "Nullable(DateTime64(6, 'UTC'))"}.get(node.to.this)
        if word is not None:
            return exp.Cast(this=node.this, to=_type(word).copy())
    return None


_DUCK_TABLES = """
SELECT table_schema, table_name, table_type FROM information_schema.tables
WHERE table_catalog = current_database() AND table_schema NOT IN ('information_schema', 'pg_catalog')
"""
_DUCK_COLUMNS = """
SELECT column_name, data_type, CASE WHEN is_generated <> 'NEVER' THEN 'yes' END FROM information_schema.columns
WHERE table_catalog = current_database() AND table_schema = {} AND table_name = {} ORDER BY ordinal_position
"""


class DuckWords(Words):
    """SQL dialect of DuckDB."""

    dialect, shown, subqueries = "duckdb", "DuckDB", True
    usual, tables, columns = "SELECT 'main'", _DUCK_TABLES, _DUCK_COLUMNS
    settings = (("SET TimeZone = 'UTC'", "RESET TimeZone"),)

    def column(self, kind: str, name: str, *about: str) -> Column:
        """Column from the catalogue; a generated column is derived."""
        word, made = about
        return Column(name, bare_type(word), name, derived=kind != "BASE TABLE" or made == "yes")

    def bytes_of(self, text: SQL) -> SQL:
        """SQL of a text as BLOB, which has no collation."""
        return exp.Anonymous(this="encode", expressions=[text])

    def number_of(self, text: SQL) -> SQL:
        """SQL TRY_CAST of a text to a number."""
        return try_cast(text, "double")

    def safe_cast(self, value: SQL, source: Column, to: str) -> SQL:
        """SQL TRY_CAST of a value."""
        return try_cast(value, to)

    def scramble(self, parts: Sequence[SQL]) -> SQL:
        """SQL hash() of some values."""
        return exp.Anonymous(this="hash", expressions=list(parts))
