"""The connection is closed up, and databases are opened for reading."""

from __future__ import annotations

import stat
import tempfile
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from sfumato.errors import TableError
from sfumato.kernel.reading.engines.duckdb import Session
from sfumato.kernel.reading.table import open_table
from sfumato.schema import Schema

SCHEMA = Schema.from_dict(
    {"dataset": "t", "privacy_unit": "row", "attributes": {"x": {"type": "integer", "lower": 0, "upper": 9}}}
)


def settings_of(connection) -> dict[str, str]:
    return dict(connection.sql("SELECT name, value FROM duckdb_settings()").fetchall())


def test_the_connection_is_limited_and_locked(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Session() as connection:
        found = settings_of(connection)
        (scratch,) = tmp_path.iterdir()
        assert found["temp_directory"] == str(scratch)
        assert stat.S_IMODE(scratch.stat().st_mode) == 0o700
        assert found["max_temp_directory_size"] not in ("", "90% of available disk space")
        assert found["memory_limit"] != settings_of(duckdb.connect())["memory_limit"]
        off = ("autoinstall_known_extensions", "autoload_known_extensions", "enable_progress_bar")
        assert {found[name].lower() for name in (*off, "python_enable_replacements", "preserve_insertion_order")} == {
            "false"
        }
        assert found["TimeZone"] == "UTC"
        with pytest.raises(duckdb.Error):
            connection.execute("SET threads = 1")
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_behind_when_reading_fails(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    (tmp_path / "t.parquet").write_text("nothing")
    with pytest.raises(TableError):
        open_table(tmp_path / "t.parquet")
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_variable_of_the_program_is_not_a_table():
    source = pa.table({"x": [1]})  # noqa: F841  # what DuckDB would find by name
    with Session() as connection, pytest.raises(duckdb.Error):
        connection.sql("SELECT * FROM source").fetchall()


@pytest.fixture
def database(tmp_path) -> Path:
    path = tmp_path / "it's.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS x")
        connection.execute('CREATE SCHEMA "other one"; CREATE TABLE "other one"."a ""b" AS SELECT 2 AS x')
        connection.execute("CREATE VIEW v AS SELECT x + 2 AS x FROM t")
    return path


@pytest.mark.parametrize(("name", "cell"), [("t", 1), ('other one.a "b', 2), ("v", 3)])
def test_tables_and_views_of_a_database(database, monkeypatch, name, cell):
    before = database.read_bytes()
    monkeypatch.chdir(database.parent)
    for url in (f"duckdb:///{database}", f"duckdb:///{str(database)[1:]}", f"duckdb:///{database.name}"):
        table = open_table(url, name=name, allow_views=name == "v")
        table.check(SCHEMA)
        assert table.aggregate(SCHEMA, key=1).cells.tolist() == [cell]
    assert database.read_bytes() == before


def test_what_a_database_does_not_have(database, tmp_path):
    url = f"duckdb:///{database}"
    with pytest.raises(TableError, match=r"no table was named in it's\.duckdb; it has t, v, other one"):
        open_table(url)
    with pytest.raises(TableError, match="there is no table 'T; DROP'"):
        open_table(url, name="T; DROP")
    with pytest.raises(TableError, match="names no database file"):
        open_table("duckdb:///none.duckdb", name="t")
    (tmp_path / "text.duckdb").write_text("no database")
    with pytest.raises(TableError, match=r"text\.duckdb cannot be opened"):
        open_table(f"duckdb:///{tmp_path / 'text.duckdb'}", name="t")


def test_what_is_worked_out_on_reading_is_refused_unless_allowed(tmp_path):
    """A view, and a column that is made from others: the one may look at other rows, the other may fail on a value."""
    path = tmp_path / "made.duckdb"
    with duckdb.connect(path) as connection:
        connection.execute("CREATE TABLE t (w VARCHAR, y INTEGER, x INTEGER GENERATED ALWAYS AS (CAST(w AS INTEGER)))")
        connection.execute("INSERT INTO t (w, y) VALUES ('1', 2), ('7', 3)")
        connection.execute("CREATE VIEW v AS SELECT y AS x FROM t LIMIT 1")
    for name in ("t", "v"):
        with pytest.raises(TableError, match="the promise is then about the rows of the view"):
            open_table(f"duckdb:///{path}", name=name).check(SCHEMA)
    view = open_table(f"duckdb:///{path}", name="v", allow_views=True)
    view.check(SCHEMA)
    assert view.derived(SCHEMA) and view.aggregate(SCHEMA, key=1).counts.tolist() == [1]
    plain = Schema.from_dict(
        {"dataset": "t", "privacy_unit": "row", "attributes": {"y": {"type": "integer", "lower": 0, "upper": 9}}}
    )
    table = open_table(f"duckdb:///{path}", name="t")  # its other columns are as good as any
    table.check(plain)
    assert not table.derived(plain) and table.aggregate(plain, key=1).cells.tolist() == [2, 3]
