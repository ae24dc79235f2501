"""Awkward tables in a SQLite file, where each value keeps a type of its own."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random

from sfumato.audit.reading.reference import Row, unit_of
from sfumato.audit.reading.source import Case
from sfumato.audit.reading.tables import awkward_table
from sfumato.kernel.source.table import Table, open_table

KINDS = ("", "TEXT", "BLOB")  # a column of numbers would turn texts that look like numbers into numbers


def sqlite_case(random: Random, folder: Path) -> Case:
    """A table whose columns are declared somehow, and hold what they are given."""
    made = awkward_table(random)
    while len({name.lower() for name in made.types}) < len(made.types):  # which are one name to SQLite
        made = awkward_table(random)
    kinds = {name: random.choice(KINDS) for name in made.types}
    rows = tuple({name: stored(value, kinds[name]) for name, value in row.items()} for row in made.rows)
    unit, path = made.schema.privacy_unit.column, folder / "t.sqlite"

    def opening(some: Sequence[Row]) -> Table:
        path.unlink(missing_ok=True)
        with closing(sqlite3.connect(path)) as file, file:
            columns = ", ".join('"{}" {}'.format(name.replace('"', '""'), kind) for name, kind in kinds.items())
            file.execute(f"CREATE TABLE t ({columns})")
            places = ", ".join("?" * len(kinds))
            file.executemany(f"INSERT INTO t VALUES ({places})", [tuple(row.values()) for row in some])
        return open_table(f"sqlite:///{path}", name="t")

    return Case(
        made.schema,
        rows,
        (lambda row: unit_of(row[unit])) if unit is not None else (lambda row: None),
        opening,
        lambda some: some,
        typed=False,
    )


def stored(value: object, kind: str) -> object:
    """A value as SQLite keeps it in a column that was declared so."""
    if isinstance(value, datetime):
        value = (value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value).isoformat(" ")
    elif isinstance(value, date):
        value = value.isoformat()
    elif isinstance(value, Decimal):
        value = float(value)
    elif isinstance(value, bool):
        value = int(value)
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, int) and abs(value) >= 2**63:
        value = float(value)
    if kind == "TEXT" and isinstance(value, int | float):
        with closing(sqlite3.connect(":memory:")) as memory:
            return memory.execute("SELECT CAST(? AS TEXT)", [value]).fetchone()[0]
    return value
