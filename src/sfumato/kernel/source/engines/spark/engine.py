"""Spark as an engine: one statement, in a session that is set for it, of which only the answer comes back."""

from __future__ import annotations

import secrets
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from sfumato.errors import TableError
from sfumato.frozen import dataclass
from sfumato.kernel.source.engines import Column
from sfumato.kernel.source.engines.silencing import silenced
from sfumato.kernel.source.engines.spark import is_connect, kind_of
from sfumato.kernel.source.engines.spark.answers import as_arrow
from sfumato.kernel.source.engines.spark.sessions import must_serve, settled, shown, start
from sfumato.kernel.source.engines.spark.tables import Found, find, given
from sfumato.kernel.source.engines.spark.watching import followed_tasks, speechless, tagged

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp

# strptime in Spark's letters; those that a schema may use
_LETTERS = {"%Y": "yyyy", "%y": "yy", "%m": "MM", "%d": "dd", "%H": "HH", "%M": "mm", "%S": "ss", "%b": "MMM"}


@dataclass(frozen=True)
class Spark:
    """An engine over one source of a session. stop: lets go of a session that was started for it."""

    session: Any = field(repr=False)
    source: Found = field(repr=False)
    columns: tuple[Column, ...]
    stop: Callable[[], object] = field(default=lambda: None, repr=False)
    view: str = field(default_factory=lambda: f"sfumato_{secrets.token_hex(8)}", repr=False)
    dialect: str = "spark"
    subqueries: bool = True

    def table(self) -> exp.Expression:
        """A view under a name that nobody else has, for as long as the statement runs."""
        from sqlglot import exp

        return exp.to_table(self.view) if is_connect(self.session) else exp.table_(self.view, db=self._shared_views)

    def bytes_of(self, text: exp.Expression) -> exp.Expression:
        """Spark's BINARY, which has no collation."""
        from sqlglot import exp

        return exp.Cast(this=text, to=exp.DataType.build("binary", dialect=self.dialect))

    def safe_cast(self, value: exp.Expression, source: Column, to: str) -> exp.Expression:
        """Spark's TRY_CAST, which `in_sparks_words` makes to mean what it means elsewhere."""
        from sfumato.kernel.source.expressions import try_cast

        return try_cast(value, to)

    def without_nan(self, value: exp.Expression, source: Column) -> exp.Expression:
        """Floats are the only numbers of Spark that can be NaN."""
        from sfumato.kernel.source.expressions import missing_if_nan
        from sfumato.kernel.source.types import is_float

        return missing_if_nan(value) if is_float(source, self.dialect) else value

    def time_of(self, text: exp.Expression, written: str) -> exp.Expression:
        """Spark's reading of times that does not fail."""
        from sqlglot import exp

        for letters, instead in _LETTERS.items():
            written = written.replace(letters, instead)
        return exp.Anonymous(this="try_to_timestamp", expressions=[text, exp.Literal.string(written)])

    def scramble(self, parts: Sequence[exp.Expression]) -> exp.Expression:
        """Spark's own hash of 64 bits."""
        from sqlglot import exp

        return exp.Anonymous(this="xxhash64", expressions=list(parts))

    def check(self, statement: exp.Expression) -> None:
        """Let Spark plan the statement, which reads no row."""
        refused = f"this Spark ({self.session.version}) cannot run what a release asks of {self.source.shown}"
        with self._closing_if_it_fails():
            silenced(lambda: self._asked(statement, self.columns, lambda frame: frame.schema), refused)

    def run(self, statement: exp.Expression, used: Sequence[Column]) -> pa.Table:
        """The statement's result."""
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
        with speechless(), self._mounted(used), settled(self.session) as own, tagged(own), followed_tasks(own):
            return outcome(own.sql(self._spelled(statement)))

    def _spelled(self, statement: exp.Expression) -> str:
        from sfumato.kernel.source.engines.spark.wording import in_sparks_words

        return in_sparks_words(statement, self.columns).sql(dialect=self.dialect, identify=True)

    @contextmanager
    def _mounted(self, used: Sequence[Column]) -> Iterator[None]:
        """The used columns under the view's name; it is seen by this program alone, and is gone afterwards."""
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
