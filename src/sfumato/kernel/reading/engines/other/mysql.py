"""The contract of SQL dialects (`Words`), and the dialect of MariaDB and MySQL.

A dialect must give the kernel's statement the meaning that it has everywhere. A column has a declared type, so most
casts cannot fail; those that can, from text, are each dialect's own. What a dialect does not provide is refused, and
its SQL is tried on constants before anything is reserved (`trial.py`).

In MySQL doubles are finite, a date can lack a day or month, and a failed cast makes up a value.

Texts are compared by their bytes in UTF-8, whatever the column's collation and the connection's character set. People
are told apart by a SHA-256 of those bytes: a sort looks at the first thousand bytes of a text alone, and would let
two whose names begin alike take turns.

Tables are found by name, as most catalogues list them (`chosen`).
"""

from __future__ import annotations

import re
import string
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from sqlglot import exp

from sfumato.errors import TableError
from sfumato.kernel.reading.engines import Column
from sfumato.kernel.reading.expressions import SQL, TEXTS, cast, choose, double, is_present, named, type_of, whole

if TYPE_CHECKING:
    from sqlglot import exp

SHOWN = 20  # tables in a message


def chosen(tables: Sequence[tuple[object, ...]], name: str | None, usual: str, at: str) -> tuple[str, str, str]:
    """Schema, name and kind of the table that a name means: a bare name in the usual schema, or schema.name.

    at: what a message calls the database.
    """
    rows = [(str(schema), str(own), str(kind)) for schema, own, kind in tables]
    bare = [row for row in rows if row[0] == usual and row[1] == name]
    in_full = [row for row in rows if f"{row[0]}.{row[1]}" == name]
    if bare or in_full:
        return (bare or in_full)[0]
    asked = "no table was named (--table)" if name is None else f"there is no table {name!r}"
    names = sorted(own if schema == usual else f"{schema}.{own}" for schema, own, _ in rows)
    there = ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")
    raise TableError(f"{asked} in {at} that this account may read; it has {there or 'no tables'}")


def quoted_table(own: str, schema: str) -> SQL:
    """SQL of a table by its full name."""
    return exp.Table(this=exp.to_identifier(own, quoted=True), db=exp.to_identifier(schema, quoted=True))


def literal(text: str, dialect: str) -> str:
    """SQL text literal of a name."""
    if "\0" in text:
        raise TableError("no table has a NUL in its name; check --table")
    return exp.Literal.string(text).sql(dialect=dialect)


TRUE, FALSE = ("true", "t", "1", "yes", "y"), ("false", "f", "0", "no", "n")
_TYPES = exp.DataType.Type


class Session(Protocol):
    """Interface of a connection for a dialect's own queries."""

    def rows(self, text: str) -> list[tuple[object, ...]]:
        """Fetch all rows of a small result."""


class Words(ABC):
    """Interface of a SQL dialect; a class for each, without state of a connection.

    dialect: as sqlglot names it. subqueries: as in `Engine`. shown: its name in messages. not_finite: whether its
    doubles can be NaN or infinite. settings: statements to run first, each with the one that undoes it.
    who: query for a connection's number; None where it cannot be cancelled. end: statement by which another connection
    cancels what it runs. usual, tables, columns: catalogue queries for the schema of a bare name, for all tables
    (schema, name, kind), and for the columns of one table (name, then the further arguments of `column`).
    """

    dialect: str
    shown: str
    usual: str
    tables: str
    columns: str
    subqueries = False
    not_finite = True
    settings: Sequence[tuple[str, str]] = ()
    who: str | None = None
    end = ""

    def must_serve(self, session: Session) -> None:  # noqa: B027 (any will do, unless a dialect says otherwise)
        """Refuse a server that is too old for the statement."""

    def found(self, session: Session, name: str | None) -> tuple[SQL, tuple[Column, ...]]:
        """The table of this name, or schema.name, and its columns, from the catalogue alone."""
        ((usual,),) = session.rows(self.usual)
        schema, own, kind = chosen(session.rows(self.tables), name, str(usual), self.shown)
        rows = session.rows(self.columns.format(literal(schema, self.dialect), literal(own, self.dialect)))
        return quoted_table(own, schema), tuple(self.column(kind, *map(str, row)) for row in rows)

    @abstractmethod
    def column(self, kind: str, name: str, *about: str) -> Column:
        """Column from its catalogue row; kind: that of its table."""

    @abstractmethod
    def bytes_of(self, text: SQL) -> SQL:
        """SQL of a text's bytes: equal only if the texts are, and ordered."""

    @abstractmethod
    def number_of(self, text: SQL) -> SQL:
        """SQL of a text as a double; NULL if it is none."""

    @abstractmethod
    def scramble(self, parts: Sequence[SQL]) -> SQL:
        """SQL hash of some values."""

    def spelled(self, statement: SQL) -> str:
        """Text of a statement in the dialect's SQL."""
        own = statement.copy()
        for node in reversed(list(own.walk())):  # from the inside out: what is replaced is not looked at again
            if (instead := self.instead(node)) is not None:
                node.replace(instead)
        return own.sql(dialect=self.dialect, identify=True)

    def instead(self, node: Any) -> SQL | None:
        """Dialect's replacement of a syntax node; None if it stays."""
        return None

    def planned(self, text: str) -> str:
        """Statement that makes the server plan `text` without reading a row."""
        return f"EXPLAIN {text}"

    def constant(self, value: SQL, kind: str) -> SQL:
        """SQL of a constant of a trial, of this kind."""
        return cast(value, kind)

    def text_constant(self, text: str) -> SQL:
        """SQL of a text constant of a trial."""
        return cast(exp.Literal.string(text), "text")

    def text_of(self, value: SQL, source: Column) -> SQL:
        """SQL of a column's value as text."""
        return cast(value, "text")

    def day_of(self, value: SQL, source: Column, to: str) -> SQL:
        """SQL of a column's date or time as a date or a timestamp."""
        return cast(value, to)

    def safe_cast(self, value: SQL, source: Column, to: str) -> SQL:
        """SQL of a value as text, double, bigint, boolean, date or timestamp; NULL on failure, never an error."""
        found = type_of(source, self.dialect)
        if to == "boolean":
            return self._boolean(value, source, found)
        if to in ("date", "timestamp"):
            return self.day_of(value, source, to)
        if found == _TYPES.BOOLEAN and to in ("text", "double"):
            no, yes = map(exp.Literal.string, ("false", "true")) if to == "text" else map(double, (0, 1))
            return choose([(value, yes), (exp.Not(this=value), no)], exp.Null())
        if to == "text":
            return self.text_of(value, source)
        return self.number_of(self.text_of(value, source)) if found in TEXTS else cast(value, to)

    def _boolean(self, value: SQL, source: Column, found: exp.DType | None) -> SQL:
        if found == _TYPES.BOOLEAN:
            return value
        if found not in TEXTS:
            return choose([(exp.NEQ(this=value, expression=whole(0)), exp.true())], _unless_missing(value))
        word = self.bytes_of(exp.Lower(this=self.text_of(value, source)))
        told: list[tuple[SQL, SQL]] = [
            (exp.EQ(this=word, expression=self.bytes_of(exp.Literal.string(one))), exp.Boolean(this=truth))
            for spelled, truth in ((TRUE, True), (FALSE, False))
            for one in spelled
        ]
        return choose(told, exp.Null())


def _unless_missing(value: SQL) -> SQL:
    return choose([(exp.Is(this=value, expression=exp.Null()), exp.Null())], exp.false())


def is_nan(node: object) -> bool:
    """Whether an expression is the NaN constant of the kernel's statement."""
    return isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and node.this.this == "nan"


OLDEST = (10, 5)
LONGEST = 100  # characters of a text that is searched by a pattern: MySQL stops a search that takes long, at a value
LARGEST = 1.7976931348623157e308  # stands for what is infinite, which no double is here
TYPES = {
    **{word: word.upper() for word in ("tinyint", "smallint", "mediumint", "int", "bigint", "float", "double")},
    **{word: word.upper() for word in ("decimal", "date", "datetime", "timestamp")},
    **dict.fromkeys(("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum"), "TEXT"),
}
_NUMBER = r"^[ \t\n\v\f\r]*[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]{1,4})?[ \t\n\v\f\r]*$"
_TABLES = """
SELECT table_schema, table_name, CONCAT(table_type, ' ', COALESCE(engine, '')) FROM information_schema.tables
WHERE table_schema NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys')
"""
_COLUMNS = """
SELECT column_name, data_type, column_type, extra FROM information_schema.columns
WHERE table_schema = {} AND table_name = {} ORDER BY ordinal_position
"""
STORED = {"BASE TABLE InnoDB", "BASE TABLE MyISAM", "BASE TABLE Aria"}


class MySQLWords(Words):
    """SQL dialect of MariaDB and MySQL."""

    dialect, shown, not_finite = "mysql", "the database", False
    usual, tables, columns = "SELECT DATABASE()", _TABLES, _COLUMNS
    settings = (
        ("SET @sfumato_zone = @@SESSION.time_zone, time_zone = '+00:00'", "SET time_zone = @sfumato_zone"),
        # Without modes quotes, blanks and bad casts mean what they are taken to mean here.
        ("SET @sfumato_mode = @@SESSION.sql_mode, sql_mode = ''", "SET sql_mode = @sfumato_mode"),
    )

    who, end = "SELECT CONNECTION_ID()", "KILL QUERY {}"

    def must_serve(self, session: Session) -> None:
        """Refuse a server that is not MariaDB, or too old."""
        ((version,),) = session.rows("SELECT VERSION()")
        if "mariadb" not in str(version).lower():  # near to it, but nobody has tried whether near enough
            raise TableError("MySQL was never tried here, MariaDB is; write the table to Parquet and release that")
        if tuple(int(part) for part in re.findall(r"\d+", str(version))[:3]) < OLDEST:
            least = ".".join(map(str, OLDEST))
            raise TableError(f"this MariaDB cannot run what a release asks; use version {least} or later")

    def column(self, kind: str, name: str, *about: str) -> Column:
        """Column from the catalogue; a virtual column is derived."""
        word, in_full, extra = about
        return Column(name, _type(word, in_full), name, derived=kind not in STORED or "VIRTUAL" in extra.upper())

    def bytes_of(self, text: SQL) -> SQL:
        """SQL of a text's UTF-8 bytes as BINARY; a literal's bytes are written out."""
        bare = text.this if isinstance(text, exp.Cast) else text
        if isinstance(bare, exp.Literal):
            return exp.HexString(this=bare.this.encode().hex())
        return cast(text, "binary")

    def text_of(self, value: SQL, source: Column) -> SQL:
        """SQL of a value as UTF-8 text: the connection's own character set may equate two texts."""
        return _utf8(value) if type_of(source, self.dialect) in TEXTS else cast(value, "text")

    def text_constant(self, text: str) -> SQL:
        """SQL of a text constant by its bytes, whatever the connection's character set."""
        return _utf8(exp.HexString(this=text.encode().hex()))

    def constant(self, value: SQL, kind: str) -> SQL:
        """SQL of a constant of this kind; NULL texts are typed as UTF-8."""
        return _utf8(value) if kind == "text" else cast(value, kind)

    def number_of(self, text: SQL) -> SQL:
        """SQL of a text as a number; NULL if it is none."""
        short = exp.LTE(this=_call("CHAR_LENGTH", text), expression=whole(LONGEST))
        spelled = exp.GT(this=_call("REGEXP_INSTR", text, exp.Literal.string(_NUMBER)), expression=whole(0))
        bare = _binary(exp.Lower(this=text))
        words: list[tuple[SQL, SQL]] = [
            (exp.EQ(this=bare, expression=self.bytes_of(exp.Literal.string(f"{sign}{word}"))), double(value))
            for sign, value in (("", LARGEST), ("+", LARGEST), ("-", -LARGEST))
            for word in ("inf", "infinity")
        ]
        words.insert(0, (spelled, cast(text, "double")))
        return choose([(short, choose(words, exp.Null()))], exp.Null())

    def day_of(self, value: SQL, source: Column, to: str) -> SQL:
        """SQL of a date or time; NULL where day or month is 0."""
        month, number = (exp.GT(this=_call(part, value), expression=whole(0)) for part in ("MONTH", "DAYOFMONTH"))
        there: SQL = exp.And(this=month, expression=number)
        return choose([(there, cast(value, to))], exp.Null())

    def scramble(self, parts: Sequence[SQL]) -> SQL:
        """SQL digest of some values."""
        return _call("MD5", _call("CONCAT_WS", exp.Literal.string("|"), *parts))

    def instead(self, node: Any) -> SQL | None:
        """MySQL's replacement of a syntax node; None if it stays."""
        return _own_words(node)

    def planned(self, text: str) -> str:
        """Statement with LIMIT 0, which is planned and reads no row."""
        return f"SELECT * FROM ({text}) AS answer LIMIT 0"


def _type(kind: str, in_full: str) -> str:
    """MySQL type in sqlglot's spelling; one that cannot be read becomes `type NAME`, which sqlglot rejects.

    >>> _type("bigint", "bigint(20) unsigned"), _type("varbinary", "varbinary(9)")
    ('BIGINT UNSIGNED', 'type varbinary')
    """
    word = TYPES.get(kind.lower(), f"type {kind.lower()}")
    return f"{word} UNSIGNED" if word.endswith("INT") and "unsigned" in in_full.lower() else word


def _call(name: str, *parts: SQL) -> SQL:
    return exp.Anonymous(this=name, expressions=[part.copy() for part in parts])


def _utf8(value: SQL) -> SQL:
    return exp.Cast(this=value, to=exp.DataType(this=exp.DataType.Type.CHARACTER_SET, kind=exp.var("utf8mb4")))


def _binary(text: SQL) -> SQL:
    return cast(text, "binary")


def _own_words(node: Any) -> SQL | None:
    """MySQL's replacement of a syntax node; None if it stays."""
    found: SQL | None = None
    if isinstance(node, exp.Nullif | exp.NEQ) and is_nan(node.expression):  # which no double is
        found = node.this if isinstance(node, exp.Nullif) else is_present(node.this)
    elif isinstance(node, exp.Ordered):
        # As it is here; and nothing that is ordered is NULL.
        found = exp.Ordered(this=node.this, desc=node.args.get("desc"), nulls_first=True)
    elif isinstance(node, exp.Trim):
        found = _trimmed(node.this, node.expression.name)
    elif isinstance(node, exp.Anonymous) and node.name == "translate":
        found = _lowered(node.expressions[0])
    elif isinstance(node, exp.Alias) and node.alias == "unit" and _is_binary(node.this):
        found = named(_call("UNHEX", _call("SHA2", node.this, whole(256))), "unit")
    # Times to the microsecond, weekdays from Monday, differences in whole hours.
    elif isinstance(node, exp.Cast) and node.to.this == exp.DataType.Type.TIMESTAMP:
        found = exp.Cast(this=node.this, to=_to_the_microsecond().copy())
    elif isinstance(node, exp.DateDiff) and node.text("unit") == "HOUR":
        found = _call("TIMESTAMPDIFF", exp.var("HOUR"), node.expression, node.this)
    elif isinstance(node, exp.Extract) and node.name.upper() == "ISODOW":
        found = exp.paren(_call("WEEKDAY", node.expression) + whole(1))
    return found


@lru_cache
def _to_the_microsecond() -> exp.DataType:
    return exp.DataType.build("DATETIME(6)", dialect="mysql")


def _is_binary(node: SQL) -> bool:
    return isinstance(node, exp.Cast) and node.to.this == exp.DataType.Type.BINARY


def _trimmed(text: SQL, blanks: str) -> SQL:
    pattern = exp.Literal.string(f"^[{blanks}]+|[{blanks}]+$")
    short = exp.LTE(this=_call("CHAR_LENGTH", text), expression=whole(LONGEST))
    return choose([(short, _call("REGEXP_REPLACE", text, pattern, exp.Literal.string("")))], text.copy())


def _lowered(text: SQL) -> SQL:
    """SQL of a text with ASCII capitals lowered, byte by byte."""
    found = _binary(text)
    for upper, lower in zip(string.ascii_uppercase, string.ascii_lowercase, strict=True):
        found = _call("REPLACE", found, exp.Literal.string(upper), exp.Literal.string(lower))
    return found
