"""Tables of SQLite files: read only, value by value, whatever a column was declared as."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from running import sfumato

import sfumato as sf
from sfumato.errors import TableError
from sfumato.kernel.ledger.ledger import Ledger
from sfumato.kernel.reading.table import open_table
from sfumato.schema import Schema
from sfumato.schema.schema import missing_of

UNIT = {"column": "who", "contributions": 1}
YAML = """
dataset: t
privacy_unit: {column: who, contributions: 2}
budget: {epsilon: 3}
attributes:
  sex: {type: category, values: [F, M], other: true, missing: keep}
  day: {type: date, lower: 2020-01-01, upper: 2020-12-31, by: month}
measures:
  pay: {lower: 0, upper: 9, step: 1}
"""
ROWS = [
    ("F", "2020-02-29", 3, 1),
    ("M", "2020-03-01 23:59:59", 4.5, 1),
    (b"F", "2020-02-29", None, 2),  # bytes are no text
    (None, "2020-02-30", 1, 2),  # no such day
    ("F", 1583020800, 1, 3),  # a number is no day
    ("M", "2020-02-29", "high", 3),
    ("F", "2020-02-29", 7, None),
]


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "it's.db"
    with closing(sqlite3.connect(found)) as file, file:
        file.execute(
            "CREATE TABLE t (sex TEXT, day DATE, pay INTEGER, who INTEGER, twice AS (pay * 2), "
            "thrice AS (pay * 3) STORED)"
        )
        file.executemany("INSERT INTO t (sex, day, pay, who) VALUES (?, ?, ?, ?)", ROWS)
        file.execute("INSERT INTO t (sex, day, pay, who) VALUES (CAST(x'ff' AS TEXT), '2020-02-29', 9, 4)")
        file.execute("CREATE VIEW v AS SELECT * FROM t")
    return found


@pytest.fixture
def schema(tmp_path) -> Schema:
    (tmp_path / "t.yaml").write_text(YAML)
    return Schema.load(tmp_path / "t.yaml")


def test_values_are_read_one_by_one(path, schema, monkeypatch):
    sqlalchemy = pytest.importorskip("sqlalchemy")
    monkeypatch.chdir(path.parent)
    before = path.read_bytes()
    with closing(sqlite3.connect(path)) as file:
        urls = (f"sqlite:///{path}", f"sqlite:///{str(path)[1:]}", f"sqlite:///{path.name}")
        for given in (*urls, file, sqlalchemy.create_engine(f"sqlite:///{path}")):
            table = open_table(given, name="t")
            table.check(schema)
            found = table.aggregate(schema, 1)
            cells = {divmod(int(cell), 12): count for cell, count in zip(found.cells, found.counts, strict=True)}
            # Sex F, M, other, missing; and the month. Who is about nobody, and days that are none, fall out.
            assert cells == {(0, 1): 1, (1, 2): 1, (3, 1): 2, (1, 1): 1}
            assert found.sums[missing_of("pay")].sum() == 2
    assert path.read_bytes() == before


def test_what_is_refused(path, schema, tmp_path):
    url = f"sqlite:///{path}"
    with pytest.raises(TableError, match=r"no table was named in it's\.db; it has t, v"):
        open_table(url)
    with pytest.raises(TableError, match="there is no table 'none'"):
        open_table(url, name="none")
    with pytest.raises(TableError, match="names no database file; write sqlite:///FILE"):
        open_table("sqlite:///none.db", name="t")
    (tmp_path / "text.db").write_text("no database, but long enough to be taken for the header of one" * 20)
    with pytest.raises(TableError, match=r"text\.db cannot be opened"):
        open_table(f"sqlite:///{tmp_path / 'text.db'}", name="t")
    with pytest.raises(TableError, match="in memory"), closing(sqlite3.connect(":memory:")) as file:
        open_table(file, name="t")
    with pytest.raises(TableError, match="allow it"):
        open_table(url, name="v").check(schema)
    assert open_table(url, name="v", allow_views=True).derived(schema)
    made = {column.name: column.derived for column in open_table(url, name="t").engine.columns}
    assert made["twice"] and not made["thrice"] and not made["pay"]


def counted(path, who, kind=""):
    """Rows that are counted where each person may have one, of rows that all fall into one cell."""
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("DROP TABLE IF EXISTS p")
        file.execute(f"CREATE TABLE p (n, who {kind})")
        file.executemany("INSERT INTO p VALUES (0, ?)", [(each,) for each in who])
    public = {"n": {"type": "integer", "lower": 0, "upper": 1}}
    schema = Schema.from_dict({"dataset": "p", "privacy_unit": UNIT, "attributes": public})
    return int(open_table(f"sqlite:///{path}", name="p").aggregate(schema, 1).counts.sum())


def test_a_person_is_a_storage_class_and_a_value(tmp_path):
    path = tmp_path / "p.db"
    assert counted(path, [1, "1", 1.0, "1.0", 1, "1", 1.0]) == 4
    assert counted(path, [1, "1", 1.0], "TEXT") == 2  # the column made texts of them: 1, 1 and 1.0
    assert counted(path, [1, "1", 1.0], "INTEGER") == 1
    assert counted(path, [0.0, -0.0]) == 1
    assert counted(path, [None, b"1", b"1"]) == 0  # nobody


def test_a_person_may_be_an_attribute_too(tmp_path):
    with closing(sqlite3.connect(tmp_path / "p.db")) as file, file:
        file.execute("CREATE TABLE p (who)")
        file.executemany("INSERT INTO p VALUES (?)", [(1,), ("1",), (2,)])
    public = {"who": {"type": "integer", "lower": 0, "upper": 3}}
    schema = Schema.from_dict({"dataset": "p", "privacy_unit": UNIT, "attributes": public})
    found = open_table(f"sqlite:///{tmp_path / 'p.db'}", name="p").aggregate(schema, 1)
    assert (found.cells.tolist(), found.counts.tolist()) == ([1, 2], [2, 1])


@pytest.mark.parametrize("encoding", ["UTF-16le", "UTF-16be"])
def test_text_in_another_encoding_is_refused_before_anything_is_spent(tmp_path, schema, encoding):
    """SQLite makes one text of half a character and of the sign that stands for it."""
    path = tmp_path / "16.db"
    with closing(sqlite3.connect(path)) as file, file:
        file.execute(f"PRAGMA encoding = '{encoding}'")
        file.execute("CREATE TABLE t (sex, day, pay, who)")
    with pytest.raises(TableError, match=f"16.db holds text as {encoding}; only SQLite files in UTF-8 can be read"):
        open_table(f"sqlite:///{path}", name="t")


def test_a_release_by_one_command(path, schema, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = sfumato(
        "release", "sqlite:///it's.db", "--table", "t", "--schema", "t.yaml", "--epsilon", "1", "-o", "t.sfumato"
    )
    assert run.returncode == 0, run.stderr
    assert sfumato("query", "t.sfumato", "SELECT COUNT(*) FROM t").returncode == 0


def test_a_file_that_is_damaged_in_the_middle_is_not_read_to_its_end(tmp_path, schema):
    """What was reserved counts as spent: nobody can know what a reading has shown."""
    path, ledger = tmp_path / "torn.db", Ledger(tmp_path / "ledger.sqlite")
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("PRAGMA page_size = 512")
        file.execute("CREATE TABLE t (sex, day, pay, who)")
        file.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", [("F", "2020-02-29", 3, who) for who in range(500)])
    whole = path.read_bytes()
    path.write_bytes(whole[:8192] + b"\xff" * 2048 + whole[10240:])
    with pytest.raises(TableError, match=r"torn\.db could not be read to its end"):
        sf.release(f"sqlite:///{path}", schema, 1, table_name="t", ledger=ledger)
    assert ledger.account("t").spent == 1
