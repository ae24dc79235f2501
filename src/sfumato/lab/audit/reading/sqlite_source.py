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

from sfumato.kernel.reading.engines.duckdb import over_origin
from sfumato.kernel.reading.formats.sqlite import Sqlite
from sfumato.kernel.reading.table import Table
from sfumato.lab.audit.reading.reference import Row, unit_of
from sfumato.lab.audit.reading.source import Case, Make
from sfumato.lab.audit.reading.tables import awkward_table

KINDS = ("", "TEXT", "BLOB")  # a column of numbers would turn texts that look like numbers into numbers
ALIKE = [1, "1", 1.0, "1.0", 2**53, float(2**53), str(2**53), 0.0, -0.0, "0", None]  # persons of one text


def sqlite_source(files: type[Sqlite] = Sqlite, people: Sequence[object] = ()) -> Make:
    """Tables whose columns are declared somehow, and hold what they are given.

    people: identifiers of any types, in a column that was declared as nothing; those of the table where there are none.
    """
    return lambda random, folder: _case(random, folder, files, people)


def _case(random: Random, folder: Path, files: type[Sqlite], people: Sequence[object]) -> Case:
    made = awkward_table(random)
    while len({name.lower() for name in made.types}) < len(made.types):  # which are one name to SQLite
        made = awkward_table(random)
    kinds = {name: random.choice(KINDS) for name in made.types}
    rows = tuple({name: stored(value, kinds[name]) for name, value in row.items()} for row in made.rows)
    unit, path = made.schema.privacy_unit.column, folder / "t.sqlite"
    if people and unit is not None:
        kinds[unit] = ""
        rows = tuple({**row, unit: random.choice(people)} for row in rows)

    def opening(some: Sequence[Row]) -> Table:
        path.unlink(missing_ok=True)
        with closing(sqlite3.connect(path)) as file, file:
            columns = ", ".join('"{}" {}'.format(name.replace('"', '""'), kind) for name, kind in kinds.items())
            file.execute(f"CREATE TABLE t ({columns})")
            places = ", ".join("?" * len(kinds))
            file.executemany(f"INSERT INTO t VALUES ({places})", [tuple(row.values()) for row in some])
        return Table(over_origin(files(path, "t")))

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
