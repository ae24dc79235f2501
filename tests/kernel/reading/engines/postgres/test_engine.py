"""The same awkward table gives the same cells on PostgreSQL and on DuckDB, and the same release."""

from __future__ import annotations

import weakref
from shutil import copyfile

import duckdb
import numpy as np
import pytest
from awkward import ATTRIBUTES, COLUMNS, PERIODS, odd_people, part_of, schema_of
from postgres import own_schema

import sfumato as sf
from sfumato.errors import TableError
from sfumato.kernel.ledger.ledger import Ledger
from sfumato.kernel.reading.engines.postgres.casts import spelled
from sfumato.kernel.reading.statement import aggregate_statement
from sfumato.kernel.reading.table import open_table
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.lab.audit.reading.linked_tables import as_postgres, on_the_server
from sfumato.lab.audit.reading.server_sources import server_connection, server_url
from sfumato.publishing.linked import open_tables
from sfumato.schema import Schema
from sfumato.schema.codebooks import keys_of_columns
from sfumato.schema.codebooks.plain_text import variables_in
from sfumato.schema.linked import LinkedSchema


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """The same rows as a table of PostgreSQL and one of DuckDB: URL and name of each."""
    path = tmp_path_factory.mktemp("awkward") / "t.duckdb"
    rows = [", ".join(values) for values in zip(*(values for _, _, values in COLUMNS.values()), strict=True)]
    rows = [f"({row}, {place // 2})" for place, row in enumerate(rows)]
    with own_schema() as (connection, url, name), duckdb.connect(path) as other:
        for place, run in enumerate((connection.execute, other.execute)):
            words = [f'"{column}" {kinds[place]}' for column, kinds in COLUMNS.items()]
            run(f"CREATE TABLE t ({', '.join(words)}, who INTEGER)")
            run(f"INSERT INTO t VALUES {', '.join(rows)}")
        other.close()
        yield (url, f"{name}.t"), (f"duckdb:///{path}", "t")


def both(tables, schema: Schema) -> list[tuple[list[int], list[int], dict[str, list[int]]]]:
    found = []
    for url, name in tables:
        with open_table(url, name=name) as table:
            table.check(schema)
            one = table.aggregate(schema, 5)
        found.append(
            (one.cells.tolist(), one.counts.tolist(), {key: values.tolist() for key, values in one.sums.items()})
        )
    return found


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_every_kind_of_value_falls_into_the_same_cell(tables, name):
    here, there = both(tables, schema_of(name))
    assert here == there
    assert len(here[0]) > 1


@pytest.mark.parametrize("admit", [None, odd_people])
def test_the_same_rows_are_in_a_period_and_the_same_people_are_admitted(tables, admit):
    for period in PERIODS:
        here, there = (part_of(open_table(url, name=name), *period, admit=admit) for url, name in tables)
        assert here == there
    assert part_of(open_table(tables[0][0], name=tables[0][1]), "year", "2020", "day", admit=odd_people) != ([], [])


def test_measures_and_people(tables):
    measures = {
        name: {"lower": -4, "upper": 4, "step": 1, "column": column, "missing": missing}
        for name, column, missing in (("i", "int", "keep"), ("d", "dbl", "middle"), ("f", "flt", "keep"))
    }
    schema = schema_of("yes", unit={"column": "who", "contributions": 2}, measures=measures)
    here, there = both(tables, schema)
    assert here == there
    capped = schema_of("yes", unit={"column": "who", "contributions": 1})
    (_, here, _), (_, there, _) = both(tables, capped)
    assert sum(here) == sum(there) == 5  # which of a person's rows are kept is the engine's choice, not how many


def test_a_long_list_is_halved(tables):
    values = [f"v{place}" for place in range(200)]
    ATTRIBUTES["long"] = {"type": "category", "values": ["ä", "a", *values, "a\0"], "other": True, "column": "txt"}
    numbers = {"type": "category", "values": [1, 10, *range(100, 150)], "other": True, "column": "txt"}
    ATTRIBUTES["long_numbers"] = numbers
    for name in ("long", "long_numbers"):
        here, there = both(tables, schema_of(name))
        assert here == there and len(here[0]) > 1


def test_too_many_cells_come_row_by_row(tables):
    names = ["txt", "pad", "num", "day", "at_hour", "at_of_day", "dbl", "yes"]
    schema = schema_of(*names, measures={"i": {"lower": -4, "upper": 4, "step": 1, "column": "int"}})
    found = []
    for url, name in tables:
        with open_table(url, name=name) as table:
            rows = table.read(schema, 5, for_margins=True)
            gathered = np.sort(np.array([word.astype(np.int64) for word in rows.words]), axis=1)
            found.append((gathered.tolist(), sorted(rows.steps["i"].tolist())))
    assert found[0] == found[1]


def test_a_release_is_the_same_to_the_byte(tables, tmp_path):
    """Nobody has more rows than are used. Both are charged to the same ledger, as it was before."""
    schema = schema_of("yes", "int", unit={"column": "who", "contributions": 2})
    ledger, before, made = tmp_path / "ledger.sqlite", tmp_path / "before.sqlite", []
    Ledger(ledger).set_budget("t", 3)
    copyfile(ledger, before)
    for place, (url, name) in enumerate(tables):
        copyfile(before, ledger)
        released = sf.release(url, schema, 1, table_name=name, ledger=ledger, entropy=TestingEntropy(1))
        made.append(released.save(tmp_path / f"{place}.sfumato").read_bytes())
    assert made[0] == made[1]


def test_what_cannot_be_read_is_refused_before_anything_is_spent(tmp_path):
    with own_schema() as (connection, url, name):
        virtual = connection.info.server_version >= 180000
        worked_out = ", z integer GENERATED ALWAYS AS (10 / x) VIRTUAL" if virtual else ""
        connection.execute(
            f"CREATE TABLE t (x integer, y integer GENERATED ALWAYS AS (x + 1) STORED{worked_out}, doc json, "
            "price money);"
            "CREATE VIEW v AS SELECT x FROM t LIMIT 1; CREATE MATERIALIZED VIEW m AS SELECT x FROM t;"
            "CREATE TABLE parted (x integer) PARTITION BY LIST (x); CREATE TABLE one PARTITION OF parted DEFAULT;"
            "INSERT INTO t (x) VALUES (0), (3); INSERT INTO parted VALUES (3), (4)"
        )
        ledger = tmp_path / "own.ledger"

        def cells(table: str, column: str, **how: bool) -> list[int]:
            facts = {"type": "integer", "lower": 0, "upper": 9, "column": column}
            schema = Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": {"x": facts}})
            with open_table(url, name=f"{name}.{table}", **how) as opened:
                opened.check(schema)
                return opened.aggregate(schema, 1).cells.tolist()

        assert cells("t", "x") == [0, 3] and cells("t", "y") == [1, 4] and cells("parted", "x") == [3, 4]
        for table, column in (("v", "x"), ("m", "x"), *([("t", "z")] if virtual else [])):
            with pytest.raises(TableError, match="allow it"):
                cells(table, column)
        assert cells("v", "x", allow_views=True) and cells("m", "x", allow_views=True) == []
        for column in ("doc", "price"):
            with pytest.raises(TableError, match="needs numbers"):
                cells("t", column)
        assert not ledger.exists()


def test_an_account_needs_no_more_than_to_read():
    with own_schema() as (connection, url, name):
        role = f"reader_{name}"
        connection.execute(
            f"CREATE ROLE {role} LOGIN; CREATE TABLE t (x integer, secret text);"
            f"INSERT INTO t VALUES (1, 'a'), (2, 'b'); GRANT USAGE ON SCHEMA {name} TO {role}"
        )
        schema = Schema.from_dict(
            {"dataset": "t", "privacy_unit": "row", "attributes": {"x": {"type": "integer", "lower": 0, "upper": 9}}}
        )
        own = url.replace("postgres@", f"{role}@")
        try:
            with pytest.raises(TableError, match=rf"this account may not read {name}\.t; ask for GRANT SELECT"):
                open_table(own, name=f"{name}.t")
            connection.execute(f"GRANT SELECT (secret) ON t TO {role}")
            with open_table(own, name=f"{name}.t") as table, pytest.raises(TableError, match="may not read"):
                table.check(schema)  # before anything is reserved
            connection.execute(f"GRANT SELECT (x) ON t TO {role}")
            with open_table(own, name=f"{name}.t") as table:
                assert table.aggregate(schema, 1).cells.tolist() == [1, 2]
            connection.execute("ALTER TABLE t ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON t USING (x > 1)")
            with open_table(own, name=f"{name}.t") as table, pytest.raises(TableError, match="rows behind a policy"):
                table.check(schema)
            with open_table(own, name=f"{name}.t", allow_views=True) as table:
                assert table.aggregate(schema, 1).cells.tolist() == [2]
        finally:
            connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_a_table_that_changed_is_not_read():
    with own_schema() as (connection, url, name):
        connection.execute("CREATE TABLE t (x integer)")
        schema = Schema.from_dict(
            {"dataset": "t", "privacy_unit": "row", "attributes": {"x": {"type": "integer", "lower": 0, "upper": 9}}}
        )
        with open_table(url, name=f"{name}.t") as table:
            table.check(schema)
            connection.execute("DROP TABLE t; CREATE VIEW t AS SELECT 1 AS x")
            with pytest.raises(TableError, match="has changed since"):
                table.aggregate(schema, 1)


def test_the_server_may_work_on_it_in_several_processes():
    """Each step stays one of its own, which the server neither merges with another nor works out twice."""
    with own_schema() as (connection, url, name):
        connection.execute("CREATE TABLE t AS SELECT i % 10 AS x, i AS who FROM generate_series(1, 2000) i; ANALYZE t")
        schema = Schema.from_dict(
            {
                "dataset": "t",
                "privacy_unit": {"column": "who", "contributions": 2},
                "attributes": {"x": {"type": "integer", "lower": 0, "upper": 9}},
            }
        )
        with open_table(url, name=f"{name}.t") as table:
            columns = {column.name: column for column in table.engine.columns}
            statement = aggregate_statement(schema, table.engine, columns, key=1)
            connection.execute("SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0")
            connection.execute("SET min_parallel_table_scan_size = 0; SET max_parallel_workers_per_gather = 2")
            plan = "\n".join(line for (line,) in connection.execute(f"EXPLAIN {spelled(statement)}").fetchall())
            assert "Parallel Seq Scan" in plan and plan.count("Subquery Scan") >= 4, plan


def test_types_and_constraints_come_from_the_catalogue():
    """ENUM values in their order, checks with and without names, domains as what they stand for; no row."""
    with own_schema() as (connection, url, name):
        connection.execute(
            "CREATE TYPE mood AS ENUM ('low', 'it''s \\ok', 'high'); CREATE DOMAIN years AS integer; "
            'CREATE TABLE t ("My mood" mood, age years CHECK (age BETWEEN 0 AND 120), ward text, cost numeric, '
            "CHECK (ward IN ('A', 'B')), CONSTRAINT c CHECK (cost >= 0 AND cost <= 9.5) NOT VALID); "
            "INSERT INTO t VALUES ('low', 17, 'A', 7)"
        )
        with open_table(url, name=f"{name}.t") as table:
            text, dialect = table.declarations()
            found = keys_of_columns(variables_in(text, "t", dialect), [column for column, _ in table.columns])
    assert found["My mood"] == {"type": "category", "values": "[low, it's \\ok, high]"}
    assert found["age"] == {"type": "integer", "lower": "0", "upper": "120"}
    assert found["ward"]["values"] == "[A, B]" and (found["cost"]["lower"], found["cost"]["upper"]) == ("0", "9.5")
    assert "17" not in text


def test_linked_tables_are_read_in_one_state_though_others_write_meanwhile(tmp_path):
    rows = {"home": 1, "pid": 1, "age": 1}
    tables = {"persons": [rows], "visits": [{"pid": 1, "vid": 1, "kind": "x", "cost": 1.0}], "codes": []}
    persons = {"source": on_the_server("persons"), "unit": "home", "key": "pid"}
    visits = {"source": on_the_server("visits"), "belongs_to": "persons", "by": "pid", "at_most": 9}
    age, kind = {"age": {"type": "integer", "lower": 0, "upper": 2}}, {"kind": {"type": "category", "values": ["x"]}}
    group = LinkedSchema.from_dict(
        {
            "dataset": "town",
            "privacy_unit": {"column": "home", "contributions": 9},
            "tables": {"persons": {**persons, "attributes": age}, "visits": {**visits, "attributes": kind}},
        }
    )

    def read(opened, name):
        return int(opened[name].read(group.tables[name].schema, 1).counts.sum())

    opened = open_tables(as_postgres(tables, tmp_path, False), group)
    assert read(opened, "persons") == 1
    server_connection().execute(f"INSERT INTO {on_the_server('visits')} VALUES (1, 2, 'x', 1.0)")
    assert read(opened, "visits") == 1
    session = weakref.ref(opened["visits"].engine.session)
    del opened
    assert session() is None  # and with it its connection
    assert read(open_tables(server_url(), group), "visits") == 2
