"""The same awkward table gives the same cells behind a connection of ClickHouse or DuckDB, and the same release."""

from __future__ import annotations

from datetime import UTC
from shutil import copyfile

import duckdb
import pytest
from awkward import ATTRIBUTES, COLUMNS, PERIODS, odd_people, part_of, schema_of

import sfumato as sf
from sfumato.errors import TableError
from sfumato.kernel.ledger.ledger import Ledger
from sfumato.kernel.reading.engines.other.session import Other
from sfumato.kernel.reading.table import Table, open_table
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.lab.audit.reading import database_sources as other_source
from sfumato.schema import Schema

CLICKHOUSE = {
    "VARCHAR": "LowCardinality(Nullable(String))",
    "DECIMAL(20,3)": "Nullable(Decimal(20, 3))",
    "BIGINT": "Nullable(Int64)",
    "DOUBLE": "Nullable(Float64)",
    "FLOAT": "Nullable(Float32)",
    "BOOLEAN": "Nullable(Bool)",
    "DATE": "Nullable(Date32)",
    "TIMESTAMPTZ": "Nullable(DateTime64(6, 'Asia/Tokyo'))",
}
INFINITE = "infinity"  # which no day of ClickHouse is


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """The same rows behind a connection of ClickHouse, one of DuckDB, and in a file of DuckDB."""
    pytest.importorskip("chdb")
    from chdb import dbapi

    path = tmp_path_factory.mktemp("awkward") / "t.duckdb"
    columns = {
        name: (kind, [value for value in values if INFINITE not in value])
        for name, (_, kind, values) in COLUMNS.items()
    }
    rows = [", ".join(values) for values in zip(*(values for _, values in columns.values()), strict=False)]
    words = ", ".join(f'"{name}" {kind}' for name, (kind, _) in columns.items())
    filled = ", ".join(f"({row}, {place // 2})" for place, row in enumerate(rows))
    with duckdb.connect(path) as file:
        file.execute(f"CREATE TABLE t ({words}, who INTEGER); INSERT INTO t VALUES {filled}")
        held = file.execute('SELECT * REPLACE (CAST("at" AS TIMESTAMP) AS "at") FROM t').fetchall()
    memory, server = duckdb.connect(), dbapi.connect()
    memory.execute(f"CREATE TABLE t ({words}, who INTEGER); INSERT INTO t VALUES {filled}")
    kinds = [*(CLICKHOUSE[kind] for kind, _ in columns.values()), "Int32"]
    other_source.say(server, "DROP TABLE IF EXISTS awkward")
    typed = ", ".join(f'"{name}" {kind}' for name, kind in zip([*columns, "who"], kinds, strict=True))
    other_source.say(server, f"CREATE TABLE awkward ({typed}) ENGINE = MergeTree ORDER BY tuple()")
    for row in held:
        values = (value.replace(tzinfo=UTC) if hasattr(value, "tzinfo") else value for value in row)
        made = ", ".join(other_source.in_clickhouse(value, kind) for value, kind in zip(values, kinds, strict=True))
        other_source.say(server, f"INSERT INTO awkward SELECT {made}")
    yield {"clickhouse": (server, "awkward"), "duckdb": (memory, "t"), "file": (f"duckdb:///{path}", "t")}
    other_source.say(server, "DROP TABLE awkward")


def cells(table, schema: Schema) -> tuple[list[int], list[int], dict[str, list[int]]]:
    with open_table(table[0], name=table[1]) as opened:
        opened.check(schema)
        one = opened.aggregate(schema, 5)
    return one.cells.tolist(), one.counts.tolist(), {key: values.tolist() for key, values in one.sums.items()}


def together(*names: str, **more: object) -> Schema:
    """Several attributes at once, so that few statements are made; no row falls out for want of a value."""
    facts = schema_of(*names).to_dict() | more
    for part in facts["attributes"].values():
        part["missing"] = "keep"
    return Schema.from_dict(facts)


NAMES = [name for name in ATTRIBUTES if name != "dbl_text"]  # which no dialect but DuckDB's writes as DuckDB does
MEASURES = {"d": {"lower": -4, "upper": 4, "step": 1, "column": "dbl"}}


@pytest.mark.parametrize("names", [NAMES[start::3] for start in range(3)])
def test_every_kind_of_value_falls_into_the_same_cell(tables, names):
    schema = together(*names, measures=MEASURES)
    found = cells(tables["file"], schema)
    assert found == cells(tables["clickhouse"], schema) and len(found[0]) > 3


@pytest.mark.parametrize("admit", [None, odd_people])
def test_the_same_rows_are_in_a_period_and_the_same_people_are_admitted(tables, admit):
    for period in PERIODS[:6]:  # decimals are written as their types say
        file, *others = (
            part_of(open_table(*table[:1], name=table[1]), *period, admit=admit) for table in tables.values()
        )
        assert others == [file, file]


def test_as_many_rows_of_each_person_are_kept(tables):
    for most, kept in ((1, 4), (2, 7)):
        schema = together("yes", "txt", privacy_unit={"column": "who", "contributions": most})
        counts = [sum(cells(table, schema)[1]) for table in tables.values()]
        assert counts == [kept] * 3


def test_a_release_is_the_same_to_the_byte(tables, tmp_path):
    """Nobody has more rows than are used. All are charged to the same ledger, as it was before."""
    schema = schema_of("yes", "int", unit={"column": "who", "contributions": 2})
    ledger, before, made = tmp_path / "ledger.sqlite", tmp_path / "before.sqlite", set()
    Ledger(ledger).set_budget("t", 3)
    copyfile(ledger, before)
    for place, (table, name) in enumerate(tables.values()):
        copyfile(before, ledger)
        released = sf.release(table, schema, 1, table_name=name, ledger=ledger, entropy=TestingEntropy(1))
        made.add(released.save(tmp_path / f"{place}.sfumato").read_bytes())
    assert len(made) == 1


def test_duckdb_behind_adbc_and_sqlalchemy(tmp_path):
    path, schema = tmp_path / "t.duckdb", schema_of("txt")
    with duckdb.connect(path) as file:
        file.execute("CREATE TABLE t AS SELECT unnest(['a', 'A', 'ä', 'b', NULL]) AS txt")
    expected = cells((f"duckdb:///{path}", "t"), schema)
    sqlalchemy, adbc = pytest.importorskip("sqlalchemy"), pytest.importorskip("adbc_driver_duckdb.dbapi")
    pytest.importorskip("duckdb_engine")
    engine = sqlalchemy.create_engine(f"duckdb:///{path}")
    assert cells((engine, "t"), schema) == expected
    engine.dispose()
    with adbc.connect(str(path)) as connection:
        assert cells((connection, "main.t"), schema) == expected


def test_a_connection_is_left_as_it_was():
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE t AS SELECT 'a' AS txt; SET TimeZone = 'Asia/Tokyo'; BEGIN; CREATE TABLE u (x INT)"
        )
        cells((connection, "t"), schema_of("txt"))
        assert connection.execute("SELECT current_setting('TimeZone')").fetchone() == ("Asia/Tokyo",)
        connection.execute("INSERT INTO u VALUES (1); COMMIT")


def test_views_and_types_that_cannot_be_read_are_refused_before_anything_is_spent(tmp_path):
    ledger = tmp_path / "own.ledger"
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (x INTEGER, n DOUBLE, z INTEGER AS (10 / x)); CREATE VIEW v AS FROM t")
        facts = {"dataset": "t", "privacy_unit": "row", "budget": {"epsilon": 1}}
        facts["attributes"] = {"x": {"type": "integer", "lower": 0, "upper": 9}}
        with pytest.raises(TableError, match="allow it"):
            sf.release(connection, Schema.from_dict(facts), 1, table_name="v", ledger=ledger)
        with pytest.raises(TableError, match=r"there is no table 'w' in DuckDB.*it has t, v"):
            sf.release(connection, Schema.from_dict(facts), 1, table_name="w", ledger=ledger)
        by_float = Schema.from_dict(facts | {"privacy_unit": {"column": "n", "contributions": 1}})
        with pytest.raises(TableError, match="tells people apart by text, whole numbers or days"):
            sf.release(connection, by_float, 1, table_name="t", ledger=ledger)
        facts["attributes"]["x"]["column"] = "z"
        with pytest.raises(TableError, match="allow it"):
            sf.release(connection, Schema.from_dict(facts), 1, table_name="t", ledger=ledger)
    assert not ledger.exists()


def test_a_check_for_the_curator_counts_rows(tables):
    server, name = tables["clickhouse"]
    with open_table(server, name=name) as table:
        assert isinstance(table, Table) and isinstance(table.engine, Other)
        found = table.look(schema_of("txt", "num", unit={"column": "who", "contributions": 1}))
    with open_table(tables["file"][0], name="t") as table:
        other = table.look(schema_of("txt", "num", unit={"column": "who", "contributions": 1}))
    assert (found.rows, found.placed, found.units, found.over, found.counted) == (
        other.rows,
        other.placed,
        other.units,
        other.over,
        other.counted,
    )
