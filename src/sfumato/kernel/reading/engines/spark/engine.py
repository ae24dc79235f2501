"""Spark as an engine: run one statement over a catalogue table, Parquet files or a DataFrame, and return its answer.

The session is set for the statement, and only the answer comes back: as Arrow from Spark 4, row by row from Spark 3.5.
Columns are read under names of their own, because Spark's may come twice or differ by case alone.

The kernel's statement is rewritten into SQL that has the same meaning in Spark, whatever its settings and its Java.
Nothing is added to it. Where Spark's word for something is another, or means more than elsewhere (a text `1d` is a
number to it), that word is replaced.
"""

from __future__ import annotations

import re
import secrets
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from sfumato.errors import TableError
from sfumato.frozen import dataclass
from sfumato.kernel.reading.engines import Column, is_connect, kind_of, silenced
from sfumato.kernel.reading.engines.spark.sessions import (
    followed_tasks,
    must_serve,
    settled,
    shown,
    speechless,
    start,
    tagged,
)
from sfumato.kernel.reading.expressions import SQL, double, is_float, missing_if_nan, try_cast

if TYPE_CHECKING:
    import pyarrow as pa

# Formats that give each value as it was stored. Others work it out when it is read, from text or on another server,
# and some can be told to stop at a value.
STORED = {"parquet", "orc", "delta", "iceberg"}
_CHAR = "__CHAR_VARCHAR_TYPE_STRING"  # where Spark notes that a text is of fixed width


@dataclass(frozen=True)
class Found:
    """DataFrame over private rows. derived: whether Spark computes its values when it reads them."""

    frame: Any = field(repr=False)  # for privacy: its repr can show rows
    shown: str
    derived: bool

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns, renamed c0, c1, ... for the engine: names may repeat, or differ by case alone."""
        return tuple(
            Column(part.name, bare_type(part.dataType.simpleString()), f"c{place}", derived=self.derived)
            for place, part in enumerate(self.frame.schema.fields)
        )

    def cleaned(self, used: Sequence[Column], *, validates: bool) -> Any:
        """DataFrame of the used columns, texts by their bytes. validates: whether this Spark can validate UTF-8."""
        numbered = self.frame.toDF(*(f"c{place}" for place in range(len(self.frame.schema.fields))))
        parts = self.frame.schema.fields
        return numbered.selectExpr(*(_cleaned(column, parts[int(column.reference[1:])], validates) for column in used))


def bare_type(kind: str) -> str:
    """Spark type in capitals without parameters, save those of decimals.

    >>> bare_type("string collate UTF8_LCASE"), bare_type("decimal(9,2)"), bare_type("struct<a:int>")
    ('STRING', 'DECIMAL(9,2)', 'STRUCT')
    >>> bare_type("char(5)"), bare_type("void"), bare_type("timestamp_ntz")
    ('STRING', 'NULL', 'TIMESTAMP_NTZ')
    """
    if re.fullmatch(r"decimal\([0-9, ]+\)", kind):
        return kind.upper()
    word = re.split(r"[ (<]", kind)[0]
    return {"char": "STRING", "varchar": "STRING", "void": "NULL"}.get(word, word.upper())


def _cleaned(column: Column, part: Any, validates: bool) -> str:
    """SQL of a column as the statement reads it.

    A text loses its collation, and the blanks that pad one of fixed width; one that is not valid is missing, as it is
    in Parquet files.
    """
    name = column.reference
    if column.type != "STRING":
        return name
    plain = f"CAST({name} AS STRING)"
    if str(part.metadata.get(_CHAR, part.dataType.simpleString())).startswith("char("):
        plain = f"RTRIM({plain})"
    if validates:
        return f"TRY_VALIDATE_UTF8({plain}) AS {name}"
    raw = f"CAST({plain} AS BINARY)"
    return f"CASE WHEN ENCODE(DECODE({raw}, 'UTF-8'), 'UTF-8') = {raw} THEN {plain} END AS {name}"


def find(session: Any, name: str | None, at: str) -> Found:
    """Table of a session's catalogue by name, or Parquet files by path. at: its name in messages."""
    if name is None:
        raise TableError(f"no table was named at {at}; name one of its catalogue, or a path of Parquet files (--table)")
    if "/" in name or name.lower().endswith(".parquet"):
        try:
            with settled(session) as own:  # where names that differ by case alone are two
                return Found(own.read.parquet(name), name, derived=False)
        except Exception:
            refused = f"{name} at {at} cannot be read as Parquet; check the path, as that Spark sees it"
        raise TableError(refused)  # outside: for privacy, nothing of Spark's own error may be kept
    try:
        known = session.catalog.tableExists(name)
        frame = session.table(name) if known else None
        derived = known and not _is_stored(session, name)
    except Exception:
        known = False
    if not known:
        raise TableError(f"there is no table {name!r} at {at} that may be read; check its name and the catalogue")
    return Found(frame, f"the table {name}", derived)


def _is_stored(session: Any, name: str) -> bool:
    """Whether a table stores its values (no view or derived table), by Spark's description."""
    if session.catalog.getTable(name).tableType not in ("MANAGED", "EXTERNAL"):
        return False
    quoted = ".".join("`" + part.strip("`").replace("`", "``") + "`" for part in re.findall(r"`[^`]+`|[^.]+", name))
    rows = session.sql(f"DESCRIBE TABLE EXTENDED {quoted}").collect()
    facts = {row["col_name"]: str(row["data_type"]).lower() for row in rows}
    if facts.get("Provider") == "hive":
        return any(kind in facts.get("Serde Library", "") for kind in ("parquet", "orc"))
    return facts.get("Provider") in STORED


def given(frame: Any) -> Found:
    """Wrap a DataFrame of the program: a plan, so its values count as derived."""
    return Found(frame, "the Spark DataFrame", derived=True)


CHUNK = 100_000  # rows that are turned into Arrow at a time


def as_arrow(frame: Any) -> pa.Table:
    """The result of a statement as Arrow; nothing else of a table leaves Spark."""
    if hasattr(frame, "toArrow"):
        return frame.toArrow()
    import pyarrow as pa

    kinds = {"bigint": pa.int64(), "int": pa.int32(), "string": pa.string()}
    schema = pa.schema([pa.field(part.name, kinds[part.dataType.simpleString()]) for part in frame.schema.fields])
    batches, rows = [], list[Any]()

    def pack() -> None:
        columns = zip(*rows, strict=True) if rows else [[] for _ in schema]
        batches.append(pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema))
        rows.clear()

    for row in frame.toLocalIterator(prefetchPartitions=True):
        rows.append(row)
        if len(rows) == CHUNK:
            pack()
    pack()
    return pa.Table.from_batches(batches, schema)


# strptime in Spark's letters; those that a schema may use
_LETTERS = {"%Y": "yyyy", "%y": "yy", "%m": "MM", "%d": "dd", "%H": "HH", "%M": "mm", "%S": "ss", "%b": "MMM"}


@dataclass(frozen=True)
class Spark:
    """Engine over one source of a Spark session. stop: ends a session that was started for it."""

    session: Any = field(repr=False)
    source: Found = field(repr=False)
    columns: tuple[Column, ...]
    stop: Callable[[], object] = field(default=lambda: None, repr=False)
    view: str = field(default_factory=lambda: f"sfumato_{secrets.token_hex(8)}", repr=False)
    dialect: str = "spark"
    subqueries: bool = True
    others: tuple[tuple[Spark, tuple[Column, ...]], ...] = field(default=(), repr=False)
    renamed: tuple[Column, ...] = field(default=(), repr=False)

    def beside(self, others: Sequence[tuple[Spark, Sequence[Column]]], renamed: Sequence[Column]) -> Spark:
        """The engine with further sources of its session, each with its used columns.

        renamed: columns of all sources, as the statement calls them, whose types decide what a cast means.
        """
        return replace(self, others=tuple((other, tuple(used)) for other, used in others), renamed=tuple(renamed))

    def called(self, number: int) -> Spark:
        """The engine itself: each source is mounted under a name of its own."""
        return self

    def table(self) -> exp.Expression:
        """Temporary view under a unique name, which exists while the statement runs."""
        return exp.to_table(self.view) if is_connect(self.session) else exp.table_(self.view, db=self._shared_views)

    def bytes_of(self, text: exp.Expression) -> exp.Expression:
        """SQL of a text as BINARY, which has no collation."""
        return exp.Cast(this=text, to=exp.DataType.build("binary", dialect=self.dialect))

    def safe_cast(self, value: exp.Expression, source: Column, to: str) -> exp.Expression:
        """SQL TRY_CAST, whose meaning `in_sparks_words` aligns with other engines."""
        return try_cast(value, to)

    def without_nan(self, value: exp.Expression, source: Column) -> exp.Expression:
        """SQL of a value with NaN as NULL, in columns of floats."""
        return missing_if_nan(value) if is_float(source, self.dialect) else value

    def time_of(self, text: exp.Expression, written: str) -> exp.Expression:
        """SQL try_to_timestamp of a text."""
        for letters, instead in _LETTERS.items():
            written = written.replace(letters, instead)
        return exp.Anonymous(this="try_to_timestamp", expressions=[text, exp.Literal.string(written)])

    def scramble(self, parts: Sequence[exp.Expression]) -> exp.Expression:
        """SQL 64-bit hash (xxhash64) of some values."""
        return exp.Anonymous(this="xxhash64", expressions=list(parts))

    def check(self, statement: exp.Expression) -> None:
        """Have Spark plan the statement, which reads no row."""
        refused = f"this Spark ({self.session.version}) cannot run what a release asks of {self.source.shown}"
        with self._closing_if_it_fails():
            silenced(lambda: self._asked(statement, self.columns, lambda frame: frame.schema), refused)

    def run(self, statement: exp.Expression, used: Sequence[Column]) -> pa.Table:
        """Run the statement and return its result."""
        failed = "could not be read to its end; Spark may have lost a worker, its memory or a file"
        return silenced(lambda: self._asked(statement, used, as_arrow), f"{self.source.shown} {failed}")

    def close(self) -> None:
        """End the session, if it was started for this table."""
        self.stop()

    @property
    def _shared_views(self) -> str:
        return str(self.session.conf.get("spark.sql.globalTempDatabase"))

    @contextmanager
    def _closing_if_it_fails(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise

    def _asked(self, statement: exp.Expression, used: Sequence[Column], outcome: Callable[[Any], Any]) -> Any:
        with ExitStack() as stack:
            stack.enter_context(speechless())
            for engine, its in ((self, used), *self.others):
                stack.enter_context(engine._mounted(its))
            own = stack.enter_context(settled(self.session))
            stack.enter_context(tagged(own))
            stack.enter_context(followed_tasks(own))
            return outcome(own.sql(self._spelled(statement)))

    def _spelled(self, statement: exp.Expression) -> str:
        return in_sparks_words(statement, self.renamed or self.columns).sql(dialect=self.dialect, identify=True)

    @contextmanager
    def _mounted(self, used: Sequence[Column]) -> Iterator[None]:
        """Context of a temporary view of the used columns, visible to this program alone."""
        frame = self.source.cleaned(used, validates=not self.session.version.startswith("3."))
        catalog = self.session.catalog
        if is_connect(self.session):
            make, drop = frame.createTempView, catalog.dropTempView
        else:  # read in a session of its own, so shared between those of this program
            make, drop = frame.createGlobalTempView, catalog.dropGlobalTempView
        try:
            make(self.view)
            yield
        finally:
            with suppress(Exception):
                drop(self.view)


def open_spark(table: Any, name: str | None) -> Spark:
    """The engine for an address with a table's name, for a session with one, or for a DataFrame."""
    if isinstance(table, str):
        return _at_address(table, name)
    if kind_of(table) == "SparkSession":
        return _over(table, lambda: find(table, name, "this Spark session"))
    if name is not None:
        raise TableError(f"the table name {name!r} was given with a DataFrame; leave it out, or pass the session")
    return _over(table.sparkSession, lambda: given(table))


def _at_address(address: str, name: str | None) -> Spark:
    at = shown(address)
    session = silenced(lambda: start(address), f"Spark cannot be started for {at}; check its version and settings")
    try:
        engine = _over(session, lambda: find(session, name, at))
    except BaseException:
        _end(session)
        raise
    return replace(engine, stop=weakref.finalize(engine.source, _end, session))  # once, now or when nobody needs it


def _end(session: Any) -> None:
    with suppress(Exception):
        session.stop()


def _over(session: Any, finding: Callable[[], Found]) -> Spark:
    def found() -> tuple[Found, tuple[Column, ...]]:
        must_serve(session)
        source = finding()
        return source, source.columns

    source, columns = silenced(found, "the table cannot be opened; check that Spark runs and that it may be read")
    return Spark(session, source, columns)


_BLANKS = r"[ \t\n\x0B\f\r]*"
_NUMBER = rf"(?i)^{_BLANKS}[+-]?(([0-9]+[.]?[0-9]*|[.][0-9]+)(e[+-]?[0-9]+)?|inf|infinity){_BLANKS}$"
_WORD = "^[A-Za-z0-9]+$"
_TYPES = exp.DataType.Type
_SMALLEST, _LARGEST = 1e-4, 1e16  # doubles between are written in plain digits
_PLAIN = "DECIMAL(38, 21)"  # 17 digits before the point and 17 after three zeros, which is all that they need


def in_sparks_words(statement: SQL, columns: Sequence[Column]) -> SQL:
    """Rewrite the statement for Spark. columns: of the source, whose types determine casts."""
    derived = [column for node in statement.find_all(exp.Subquery) for column in node.meta.get("columns", ())]
    kinds = {
        column.reference: exp.DataType.build(column.type or "string", dialect="spark").this
        for column in (*columns, *derived)
    }

    statement = statement.copy()
    for node in reversed(list(statement.walk())):  # from the inside out: what is replaced is not looked at again
        if isinstance(node, exp.Extract) and node.name.upper() == "ISODOW":
            node.set("this", exp.var("DAYOFWEEK_ISO"))
        elif isinstance(node, exp.Cast):
            node.replace(_cast(node, kinds))
    return statement


def _cast(node: exp.Cast, kinds: Mapping[str, exp.DType]) -> SQL:
    value, to = node.this, node.to.this
    kind = kinds.get(value.name) if isinstance(value, exp.Column) and not value.table else None
    if to in exp.DataType.TEXT_TYPES:  # which never fails
        return _text_of(value) if kind in exp.DataType.FLOAT_TYPES else exp.Cast(this=value, to=node.to)
    if isinstance(value, exp.Literal) or to == _TYPES.BINARY:
        return exp.Cast(this=value, to=node.to)
    safe = _try_cast(value, node.to)  # for privacy: no value may stop a reading, in ANSI mode or not
    if kind in exp.DataType.TEXT_TYPES and to in (_TYPES.DOUBLE, _TYPES.BOOLEAN):
        pattern = exp.Literal.string(_NUMBER if to == _TYPES.DOUBLE else _WORD)
        spelled = exp.RegexpLike(this=value.copy(), expression=pattern)
        return exp.Case(ifs=[exp.If(this=spelled, true=safe)])
    return safe


def _text_of(value: SQL) -> SQL:
    """SQL of a float as the shortest text that reads back to it, 0.0005 or 1e-05, unlike Java's."""
    java = exp.Cast(this=value.copy(), to=_type("STRING"))
    size = exp.Abs(this=exp.Cast(this=value.copy(), to=_type("DOUBLE")))
    digits = exp.Cast(this=_try_cast(java.copy(), _type(_PLAIN)), to=_type("STRING"))
    plain = _replaced(digits, "0+$", "")
    scientific: SQL = exp.Lower(this=_replaced(java, "[.]0E", "E"))
    for pattern, instead in (("^(-?)infinity$", "$1inf"), ("e([0-9])", "e+$1"), ("e-([0-9])$", "e-0$1")):
        scientific = _replaced(scientific, pattern, instead)
    between = exp.and_(size >= double(_SMALLEST), size.copy() < double(_LARGEST))
    return exp.Case(ifs=[exp.If(this=between, true=plain)], default=scientific)


def _replaced(text: SQL, pattern: str, instead: str) -> SQL:
    parts = [text, exp.Literal.string(pattern), exp.Literal.string(instead)]
    return exp.Anonymous(this="regexp_replace", expressions=parts)


def _try_cast(value: SQL, to: exp.DataType) -> SQL:
    return exp.TryCast(this=value, to=to, safe=True)  # safe: or sqlglot writes CAST


def _type(name: str) -> exp.DataType:
    return exp.DataType.build(name, dialect="spark")
