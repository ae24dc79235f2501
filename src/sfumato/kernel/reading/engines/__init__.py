"""Interface of engines, tables derived by a SELECT, choice of an engine, silence of its messages, progress reports.

An engine is a thin adapter: it names the columns, runs one statement and returns Arrow. It builds no statement of its
own over private rows.

Connections and addresses (SQLAlchemy, ADBC, PostgreSQL, Spark) are recognised without importing their libraries.

Silence (`silenced`). An engine's message can quote a value. It must not survive in the error that is raised in its
place either: not as its cause or context, and not in the variables of a frame that its traceback keeps alive. So the
engine works inside a call of its own, and what is raised is raised when that call, its frames and its errors are gone.

Progress (`watched`) is the engine's own estimate of the share that it has read: of files, row groups or tasks. It goes
to the curator, who holds the table and could watch the clock as well; it is not returned, kept or written anywhere.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sfumato.errors import TableError
from sfumato.frozen import dataclass

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray
    from sqlglot import exp


Admit = Callable[[Sequence[bytes]], "NDArray[np.bool_]"]  # told all people with a row: which of them are counted


@dataclass(frozen=True)
class Spelling:
    """Format of numbers, dates and missing values in a column.

    dates: strptime format; None for ISO 8601. missing: texts that are no value; strip: units around numbers.
    """

    decimal: str = "."
    thousands: str = ""
    dates: str | None = None
    missing: tuple[str, ...] = ()
    strip: tuple[str, ...] = ()


@dataclass(frozen=True)
class Column:
    """A column of a source.

    name: as the source spells it. type: the engine's word for its type, without parameters (those of an enumeration
    are values of the table); None where the source has no types and all is text, as in CSV. reference: what the engine
    calls it. inexact: its numbers went through floats, where two large ones may have become one. derived: its values
    are worked out when they are read, by a view or a lazy frame, so that one row can depend on others or fail.
    spelling: how its text spells numbers and dates. who: what the engine calls the column beside it that tells persons
    apart, where values have types of their own and two of them can have one text; None where the value itself does.
    """

    name: str
    type: str | None
    reference: str
    inexact: bool = False
    derived: bool = False
    spelling: Spelling = Spelling()
    who: str | None = None


# The use of a column that a rule reads as a value of a kind: whichever types can serve it can be read so.
ROLES = {"number": "measure", "text": "category", "boolean": "boolean", "date": "date", "time": "date"}


class Engine(Protocol):
    """Interface of an engine, which holds a private table and runs the kernel's statement on it."""

    @property
    def dialect(self) -> str:
        """SQL dialect, as sqlglot names it."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the source."""

    @property
    def subqueries(self) -> bool:
        """Whether a subquery finds a value in a list as fast as a join; otherwise lists are bisected."""

    def table(self) -> exp.Expression:
        """SQL table expression for the statement's FROM."""

    def bytes_of(self, text: exp.Expression) -> exp.Expression:
        """SQL of a text's UTF-8 bytes, which are equal only if the texts are, whatever the collation."""

    def safe_cast(self, value: exp.Expression, source: Column, to: str) -> exp.Expression:
        """SQL of a value as text, double, bigint, boolean, date or timestamp; NULL on failure, never an error."""

    def without_nan(self, value: exp.Expression, source: Column) -> exp.Expression:
        """SQL of a value with NaN as NULL, where its type has a NaN."""

    def time_of(self, text: exp.Expression, written: str) -> exp.Expression:
        """SQL that parses a text by a strptime format; NULL where it does not match."""

    def scramble(self, parts: Sequence[exp.Expression]) -> exp.Expression:
        """SQL hash of some values, for which engines have different functions. It needs no secrecy."""

    def check(self, statement: exp.Expression) -> None:
        """Refuse a statement that cannot run here, before anything is spent and without reading a row."""

    def run(self, statement: exp.Expression, used: Sequence[Column]) -> pa.Table:
        """Run the statement and return its result; `used` are the only columns that it reads."""

    def close(self) -> None:
        """Close the connection if no statement was run; after a statement it is closed already."""


class Derived:
    """Engine whose table is a SELECT over another engine's table: rows that a public rule makes out of a table's rows.

    It becomes the FROM of the one statement (`statement.py`), so that reading, bounding, the cap and every check work
    on its rows as on those of a table. Nothing is written down in between, and the engine is not told. For privacy each
    rule must show what one person's rows can change in its result; who makes a `Derived` says so in docs/privacy.md.

    rows: the SELECT; its aliases are the references of `columns`. columns: what it gives, with the engine's words for
    types. reads: the columns of the engine itself that it reads.
    """

    def __init__(self, engine: Engine, rows: exp.Select, columns: Sequence[Column], reads: Sequence[Column]) -> None:
        self._engine = engine
        self.select = rows
        self._columns = tuple(columns)
        self._reads = tuple(reads)

    @property
    def source(self) -> tuple[Engine, tuple[Column, ...]]:
        """The source engine, and its columns that are read."""
        return self._engine, self._reads

    def __getattr__(self, name: str) -> Any:
        """Delegate to the source engine what does not concern the table: casts, hash, trial, silence."""
        return getattr(self._engine, name)

    @property
    def dialect(self) -> str:
        """SQL dialect of the engine."""
        return self._engine.dialect

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns of the derived rows."""
        return self._columns

    def table(self) -> exp.Expression:
        """SQL of the derived rows."""
        from sqlglot import exp

        rows = exp.Subquery(this=self.select.copy(), alias=exp.TableAlias(this=exp.to_identifier("derived")))
        rows.meta["columns"] = self._columns  # whose types Spark's casts depend on
        return rows

    def run(self, statement: exp.Expression, used: Sequence[Column]) -> pa.Table:
        """Run the statement on the source engine, which always reads the columns that the rule needs."""
        return self._engine.run(statement, self._reads)


NOTHING_DECLARED = (
    "types and constraints can be taken from PostgreSQL, DuckDB and SQLite; leave --from-declarations out, or write "
    "them to a file for --codebook"
)


def used_columns(engine: Engine, columns: Mapping[str, Column]) -> list[Column]:
    """The engine's own columns that a schema uses. columns: by the schema's names, with the schema's spelling."""
    references = {column.reference for column in columns.values()}
    return [column for column in engine.columns if column.reference in references]


def alchemy_url(table: Any) -> Any | None:
    """The URL of an engine or a connection of SQLAlchemy; None for everything else."""
    if not type(table).__module__.startswith("sqlalchemy."):
        return None
    return getattr(getattr(table, "engine", table), "url", None)


def adbc_vendor(table: Any) -> str | None:
    """Name of the database behind an ADBC connection, "" if it is closed; None for all else."""
    if not callable(getattr(table, "adbc_get_info", None)):
        return None
    with suppress(Exception):
        return str(table.adbc_get_info().get("vendor_name", ""))
    return ""


def is_postgres(table: object) -> bool:
    """Whether a table is given as the URL of a PostgreSQL server, or as a connection to one."""
    if isinstance(table, str):
        return table.lower().startswith(("postgresql:", "postgres:"))
    if (url := alchemy_url(table)) is not None:
        return str(url.drivername).startswith("postgresql")
    kind = type(table).__module__.partition(".")[0]
    return kind in ("psycopg", "psycopg2") or is_adbc(table)


def is_adbc(table: Any) -> bool:
    """Whether a table is a connection of ADBC to PostgreSQL."""
    if not type(table).__module__.startswith("adbc_driver_manager."):
        return False
    with suppress(Exception):  # one that is closed is none
        return bool(table.adbc_get_info().get("vendor_name") == "PostgreSQL")
    return False


def is_spark(table: object) -> bool:
    """Whether Spark reads a table: an address, a session or a DataFrame; nothing is imported to find out.

    >>> is_spark("spark://local"), is_spark("sc://example.org:15002"), is_spark("people.csv")
    (True, True, False)
    """
    if isinstance(table, str):
        return table.startswith(("spark://", "sc://"))
    return kind_of(table) is not None


def kind_of(table: object) -> str | None:
    """Class name, SparkSession or DataFrame, of such an object, behind Spark Connect or not; else None."""
    names = {part.__name__ for part in type(table).__mro__ if part.__module__.startswith("pyspark.sql")}
    return next((name for name in ("SparkSession", "DataFrame") if name in names), None)


def is_connect(session: object) -> bool:
    """Whether a session speaks Spark Connect."""
    return type(session).__module__.startswith("pyspark.sql.connect")


# Addresses that SQLAlchemy opens, by what stands before the first + or : in them.
ADDRESSES = ("mysql", "mariadb", "clickhouse")


def is_other(table: object, dialect: str | None = None) -> bool:
    """Whether a table is a connection, or an address that SQLAlchemy opens; nothing is imported to find out.

    dialect: the SQL that the user says it speaks; whatever has it is one.

    >>> is_other("mysql://ada@example.org/census"), is_other("people.csv"), is_other("duckdb:///census.duckdb")
    (True, False, False)
    """
    if isinstance(table, str):
        scheme, parted, _ = table.partition("://")
        return bool(parted) and scheme.partition("+")[0].lower() in ADDRESSES
    return dialect is not None or alchemy_url(table) is not None or callable(getattr(table, "cursor", None))


OFTEN = 0.2  # seconds between two looks
Watch = Callable[[float], None]
_WATCHING: list[Watch] = []  # one command runs at a time


@contextmanager
def watched(by: Watch) -> Iterator[None]:
    """Context in which reading progress is reported to `by` as a share in [0, 1], from another thread."""
    _WATCHING.append(by)
    try:
        yield
    finally:
        _WATCHING.remove(by)


def is_watched() -> bool:
    """Whether any caller wants to be told of reading progress."""
    return bool(_WATCHING)


def tell(share: float) -> None:
    """Report the share of the table read so far to all callers that asked for it."""
    for watch in _WATCHING:
        watch(min(max(share, 0.0), 1.0))


@contextmanager
def followed(share: Callable[[], float | None]) -> Iterator[None]:
    """Context that polls an engine's progress and reports it; share: returns None where it is unknown."""
    if not is_watched():
        yield
        return
    over = threading.Event()

    def look() -> None:
        while not over.wait(OFTEN):
            with suppress(Exception):  # a connection that is closed in between; it is only for show
                found = share()
                if found is not None and not over.is_set():
                    tell(found)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(1)


T = TypeVar("T")


def silenced(work: Callable[[], T], otherwise: str) -> T:
    """Run work that touches private rows, replacing any error of the engine, whose text could quote a value.

    A TableError, which the kernel itself worded, is raised anew; whatever else goes wrong is told as `otherwise`.
    """
    said = otherwise
    with _hearing_interrupts() as heard:
        try:
            outcome = work()
        except TableError as refused:
            said = str(refused)
        except KeyboardInterrupt:
            heard.append(True)
        except Exception:  # noqa: S110 (for privacy: nothing of it may be kept; an error is raised below)
            pass
        else:
            said = ""
    if heard:  # also where an engine made an error of its own of it, or nothing at all
        raise KeyboardInterrupt
    if said:
        raise TableError(said)
    return outcome


@contextmanager
def _hearing_interrupts() -> Iterator[list[bool]]:
    """Context that records a Ctrl-C, which an engine may turn into an ordinary error, as DuckDB does inside a query."""
    heard: list[bool] = []
    before = signal.getsignal(signal.SIGINT)
    if not callable(before) or threading.current_thread() is not threading.main_thread():
        yield heard  # nobody is listening, or Python calls the handler elsewhere
        return

    def hear(number: int, frame: FrameType | None) -> None:
        try:
            before(number, frame)
        except BaseException:  # Spark's own handler asks Spark first, which can fail while it is asked something else
            heard.append(True)
            raise

    signal.signal(signal.SIGINT, hear)
    try:
        yield heard
    finally:
        signal.signal(signal.SIGINT, before)
