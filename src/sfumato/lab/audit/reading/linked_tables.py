"""Linked tables as a source of the reading audit: persons in households, their visits, and codes of visits.

They have orphans, keys that are twice in a household or in two households, missing keys and units, households beyond
every limit, and texts that a collation equates. A neighbour lacks the persons of one unit, and the rows of other tables
whose key nobody else has; rows of a key that somebody else has stay (docs/privacy.md, theorem L).
"""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

from sfumato.kernel.counts import Aggregate
from sfumato.kernel.reading.joining import LinkedTable
from sfumato.lab.audit.reading.reference import Row, difference
from sfumato.lab.audit.reading.tables import Case
from sfumato.publishing.linked import open_tables
from sfumato.schema import PrivacyUnit
from sfumato.schema.linked import LinkedSchema, TableInGroup

Part = tuple[str, Row]  # a row and the table that it is of
Tables = Mapping[str, Sequence[Row]]
Bring = Callable[[Tables, Path, bool], Any]  # write tables, with texts for keys or not; return what `open_tables` takes
# What rows of a child amount to, and the same in plain Python; a value that is missing is in none of them.
AMOUNTS: dict[str, Callable[[Sequence[Row]], object]] = {
    "COUNT(*)": len,
    "COUNT(*) FILTER (WHERE cost > 1)": lambda rows: sum(cost > 1 for cost in _costs(rows)),
    "COUNT(DISTINCT kind)": lambda rows: len({row["kind"] for row in rows} - {None}),
    "MAX(cost)": lambda rows: max(_costs(rows), default=None),
    "COALESCE(SUM(cost), 1)": lambda rows: sum(_costs(rows)) if any(True for _ in _costs(rows)) else 1,
}
TEXTS = ["a", "A", "b", "1", "01", "ß", "ss"]
COLUMNS = {"persons": ("home", "pid", "age"), "visits": ("pid", "vid", "kind", "cost"), "codes": ("vid", "code")}


def linked_source(
    random: Random,
    folder: Path,
    bring: Bring,
    where: Callable[[str, Path], str] = lambda name, folder: name,
    kind: type[LinkedTable] = LinkedTable,
    large: float = 0.2,
    crowded: bool = False,
    shared: bool = False,
    amounts: bool = False,
) -> Case:
    """Case of linked tables, of which one is read.

    where: source of a table in the schema. kind: class of reader; broken ones are its subclasses. large: probability
    that one household has far more persons than any limit. crowded: one household exceeds every limit, so that it moves
    as much as is charged. shared: two households have the same person, whose visits are read. amounts: persons are
    read, with an aggregate of their visits.
    """
    texts, name = random.random() < 0.5, random.choice(["persons", "visits", "visits", "codes"])
    name = "visits" if shared else "persons" if amounts else name
    sources = {table: where(table, folder) for table in COLUMNS}
    group = _schema(
        random,
        sources,
        units=("home",) if crowded or shared else ("home", "home", "pid"),
        often=1.0 if amounts else 0.7,
    )
    key = (lambda: random.choice(TEXTS)) if texts else (lambda: random.randint(1, 8))
    parts = tuple(_crowd(texts) if crowded else _rows(random, key, large=random.random() < large))
    if shared:
        persons = [("persons", {"home": home, "pid": key_of(texts, 1), "age": home}) for home in (1, 2)]
        visits = [("visits", {"pid": key_of(texts, 1), "vid": n, "kind": "x", "cost": 4.0}) for n in range(6)]
        parts = (*persons, *visits)
    own = group.tables[name]

    def opening(some: Sequence[Part]) -> LinkedTable:
        tables = {table: [row for of, row in some if of == table] for table in COLUMNS}
        found = open_tables(bring(tables, folder, texts), group)[name]
        return kind(found.engine, found.allow_views, found.chain, found.below)

    return Case(
        own.schema,
        parts,
        lambda part: None,
        opening,
        lambda some: [],
        neighbours=lambda: _neighbours(group, parts),
        unlike=lambda some, found: _unlike(group, own, some, found),
    )


def _schema(random: Random, sources: Mapping[str, str], units: Sequence[str], often: float) -> LinkedSchema:
    """Random schema: limits, inherited columns, aggregates of children, and one of `units` (home, pid) as the unit.

    often: probability that a table has a column that aggregates its children.
    """
    persons = {"unit": random.choice(units), "key": "pid"}
    age = {"age": {"type": "integer", "lower": 0, "upper": 2}}
    many = {"type": "integer", "lower": 0, "upper": 2}
    if random.random() < often:
        persons["children"] = f"SELECT pid, {random.choice([*AMOUNTS])} AS many FROM visits GROUP BY pid"
        age["many"] = many
    kinds = {"kind": {"type": "category", "values": ["x", "y"], **({"other": True} if random.random() < 0.5 else {})}}
    visits: dict[str, Any] = {"belongs_to": "persons", "by": "pid", "key": "vid", "at_most": random.randint(1, 3)}
    codes: dict[str, Any] = {"belongs_to": "visits", "by": "vid", "at_most": random.randint(1, 2)}
    if random.random() < 0.7:
        visits["with_parents"] = ["age"]
    if random.random() < often:
        visits["children"] = "SELECT vid, COUNT(*) AS codes FROM codes GROUP BY vid"
        kinds["codes"] = many
    codes["with_parents"] = random.sample(["kind", *visits.get("with_parents", [])], random.randint(0, 1))
    measures = {"cost": {"lower": 0, "upper": 4, "step": 1}} if random.random() < 0.5 else {}
    code = {"code": {"type": "category", "values": ["p", "q"]}}
    tables = {
        "persons": {**persons, "attributes": age},
        "visits": {**visits, "attributes": kinds, "measures": measures},
        "codes": {**codes, "attributes": code},
    }
    tables = {name: {**table, "source": sources[name]} for name, table in tables.items()}
    unit = {"column": "unit", "contributions": random.randint(1, 3)}
    return LinkedSchema.from_dict({"dataset": "reading", "privacy_unit": unit, "tables": tables})


def _rows(random: Random, key: Callable[[], object], *, large: bool) -> list[Part]:
    """Random rows of all tables. large: one household has most persons."""

    def some(value: Callable[[], object], gone: float = 0.1) -> object:
        return None if random.random() < gone else value()

    parts = list[Part]()
    for _ in range(random.randint(2, 60 if large else 9)):
        home = 1 if large and random.random() < 0.8 else random.choice([None, 1, 1, 2, 2, 3, 3, 4, 4])
        parts.append(("persons", {"home": home, "pid": some(key), "age": some(lambda: random.randint(0, 2))}))
    for number in range(random.randint(2, 14)):
        vid = number if random.random() < 0.7 else random.randint(0, 5)
        row = {"pid": some(key), "vid": some(lambda: vid), "kind": some(lambda: random.choice("xyz"))}  # noqa: B023
        parts.append(("visits", row | {"cost": some(lambda: float(random.randint(-1, 5)))}))
    for _ in range(random.randint(2, 12)):
        parts.append(
            ("codes", {"vid": some(lambda: random.randint(0, 15)), "code": some(lambda: random.choice("pqr"))})
        )
    return parts


def key_of(texts: bool, number: int) -> object:
    """Key of person `number`, as a text or a number."""
    return f"p{number}" if texts else number


def _crowd(texts: bool) -> Iterator[Part]:
    """Rows of a household of five persons and one of one person; each has five visits, and each visit four codes."""
    for number in range(6):
        pid = key_of(texts, number)
        yield "persons", {"home": 1 + number // 5, "pid": pid, "age": number % 3}
        for vid in range(5 * number, 5 * number + 5):
            yield "visits", {"pid": pid, "vid": vid, "kind": "x", "cost": 4.0}
            yield from [("codes", {"vid": vid, "code": "p"})] * 4


def _neighbours(group: LinkedSchema, parts: Sequence[Part]) -> Iterator[tuple[Part, ...]]:
    """Neighbouring tables: rows of all tables without the persons of each unit in turn, as `_left` removes them."""
    unit = group.tables["persons"].unit
    for one in dict.fromkeys(row[unit or ""] for of, row in parts if of == "persons"):
        if one is not None:
            yield _left(parts, lambda of, row, one=one: of == "persons" and row[unit or ""] == one)  # type: ignore[misc]


def _left(parts: Sequence[Part], gone: Callable[[str, Row], bool]) -> tuple[Part, ...]:
    """Remove the rows that are `gone`, and rows of the tables below whose key only removed rows had."""
    left = [part for part in parts if not gone(*part)]
    for above, below, key in (("persons", "visits", "pid"), ("visits", "codes", "vid")):
        before, after = ({row[key] for of, row in some if of == above} for some in (parts, left))
        left = [(of, row) for of, row in left if of != below or row[key] not in before - after]
    return tuple(left)


def _unlike(group: LinkedSchema, own: TableInGroup, parts: Sequence[Part], found: Aggregate) -> str | None:
    """Difference of a reading from the reference; None if they agree, or if a limit above the table leaves a choice."""
    persons, visits = group.tables["persons"], group.tables["visits"]
    rows = {name: [row for of, row in parts if of == name] for name in COLUMNS}
    if own.name == "persons":
        amount = next((one for sql, one in AMOUNTS.items() if f" {sql} AS" in (persons.children or "")), len)
        of = {row["pid"]: [each for each in rows["visits"] if each["pid"] == row["pid"]] for row in rows["persons"]}
        there = [
            {**row, "many": amount(of[row["pid"]] if row["pid"] is not None else []), "(key)": row[persons.unit or ""]}
            for row in rows["persons"]
        ]
        unit = PrivacyUnit(column="(key)", contributions=own.at_most)
        return difference(own.schema.model_copy(update={"privacy_unit": unit}), there, found, typed=True)
    codes = Counter(row["vid"] for row in rows["codes"] if row["vid"] is not None)
    rows["visits"] = [{**row, "codes": codes[row["vid"]]} for row in rows["visits"]]
    held = _held([(row[persons.unit or ""], row["pid"], row) for row in rows["persons"]], persons.at_most)
    if held is not None and own.name == "codes":
        above, under = held, [row for row in rows["visits"] if row["pid"] in held]
        held = _held([(row["pid"], row["vid"], {**above[row["pid"]], **row}) for row in under], visits.at_most)
    if held is None:
        return None
    by = own.by or ""
    below = [{**held[row[by]], **row, "(key)": row[by]} for row in rows[own.name] if row[by] in held]
    unit = PrivacyUnit(column="(key)", contributions=own.at_most)
    return difference(own.schema.model_copy(update={"privacy_unit": unit}), below, found, typed=True)


def _costs(rows: Sequence[Row]) -> Iterator[float]:
    return (float(str(row["cost"])) for row in rows if row["cost"] is not None)


def _held(rows: Sequence[tuple[object, object, Row]], most: int) -> dict[object, Row] | None:
    """Row of each key with one holder, from (holder, key, row); None if a limit or a repeated pair leaves a choice."""
    there = [(holder, key, row) for holder, key, row in rows if holder is not None and key is not None]
    pairs = {(holder, key) for holder, key, _ in there}
    if len(pairs) < len(there) or any(many > most for many in Counter(holder for holder, _ in pairs).values()):
        return None
    holders = Counter(key for _, key in pairs)
    return {key: row for _, key, row in there if holders[key] == 1}


def as_frames(tables: Tables, folder: Path, texts: bool) -> dict[str, Any]:
    """Arrow tables in memory. texts: whether keys of persons are texts, in every table."""
    return {name: _arrow(name, rows, texts) for name, rows in tables.items()}


def _arrow(name: str, rows: Sequence[Row], texts: bool) -> Any:
    import pyarrow as pa

    kinds = {
        "pid": pa.string() if texts else pa.int64(),
        "cost": pa.float64(),
        "kind": pa.string(),
        "code": pa.string(),
    }
    return pa.table({one: pa.array([row[one] for row in rows], kinds.get(one, pa.int64())) for one in COLUMNS[name]})


def as_files(tables: Tables, folder: Path, texts: bool) -> dict[str, Any]:
    """Write persons as a CSV file, the other tables as Parquet, so that keys are compared as text; their paths."""
    import pyarrow.csv as pc
    import pyarrow.parquet as pq

    frames = as_frames(tables, folder, texts)
    pc.write_csv(frames["persons"], folder / "persons.csv")
    for name in ("visits", "codes"):
        pq.write_table(frames[name], folder / f"{name}.parquet", row_group_size=3)
    return {name: folder / f"{name}.{'csv' if name == 'persons' else 'parquet'}" for name in frames}


def as_sqlite(tables: Tables, folder: Path, texts: bool) -> str:
    """Write the tables into a SQLite file; its URL."""
    path = folder / "linked.sqlite"
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as file, file:
        for name, rows in tables.items():
            file.execute(f"CREATE TABLE {name} ({', '.join(COLUMNS[name])})")
            places = ", ".join("?" * len(COLUMNS[name]))
            file.executemany(
                f"INSERT INTO {name} VALUES ({places})", [tuple(row[c] for c in COLUMNS[name]) for row in rows]
            )
    return f"sqlite:///{path}"


def on_the_server(name: str, folder: Path | None = None) -> str:
    """Name of a table of this process on the PostgreSQL server, which processes share."""
    return f"sfumato_audit.linked{os.getpid()}_{name}"


def in_folder(name: str, folder: Path) -> str:
    """Path of a table's Parquet file."""
    return str(folder / f"{name}.parquet")


def as_postgres(tables: Tables, folder: Path, texts: bool) -> str:
    """Write the tables to the PostgreSQL server, text keys under a collation that equates several; its URL."""
    from sfumato.lab.audit.reading.server_sources import server_connection, server_url

    kinds = {"pid": "loose_text" if texts else "bigint", "cost": "float8", "kind": "text", "code": "text"}
    connection = server_connection()
    for table, rows in tables.items():
        name = on_the_server(table).partition(".")[2]
        columns = ", ".join(f"{one} {kinds.get(one, 'bigint')}" for one in COLUMNS[table])
        connection.execute(f"DROP TABLE IF EXISTS {name}; CREATE TABLE {name} ({columns})")
        places = ", ".join(["%s"] * len(COLUMNS[table]))
        with connection.cursor() as cursor:
            cursor.executemany(
                f"INSERT INTO {name} VALUES ({places})", [tuple(row[c] for c in COLUMNS[table]) for row in rows]
            )
    return server_url()


def as_spark(tables: Tables, folder: Path, texts: bool) -> Any:
    """Write the tables as Parquet files; a Spark session that reads them."""
    import pyarrow.parquet as pq

    from sfumato.lab.audit.reading.server_sources import small_session

    for name, frame in as_frames(tables, folder, texts).items():
        pq.write_table(frame, folder / f"{name}.parquet", row_group_size=3)
    return small_session()
