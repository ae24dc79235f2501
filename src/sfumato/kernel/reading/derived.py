"""`Derived`: rows that a public rule makes out of a private table's rows, as an engine like any other.

The rule is a SELECT over the tables of one engine. It becomes the FROM of the one statement (`statement.py`), so that
reading, bounding, the cap and every check work on its rows as on those of a table. Nothing is written down in between.

For privacy each rule must show what one person's rows can change in its result; whoever makes a `Derived` says so in
docs/privacy.md. The engine is not told: to it all is one statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sfumato.kernel.reading.engines import Column, Engine

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp


class Derived:
    """Engine whose table is a SELECT over another engine's table.

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
