"""A release as a database: what pandas and other tools do with it."""

from __future__ import annotations

from datetime import date, datetime

import pytest
from exact_release import save_exact_release, save_visits

import sfumato as sf
from sfumato import dbapi


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return save_exact_release(tmp_path_factory.mktemp("released"))


@pytest.fixture
def connection(path):
    with sf.connect(path) as opened:
        yield opened


def test_the_module_says_what_the_standard_asks_for():
    assert (dbapi.apilevel, dbapi.threadsafety, dbapi.paramstyle) == ("2.0", 1, "qmark")
    assert issubclass(dbapi.NotSupportedError, dbapi.DatabaseError) and issubclass(dbapi.DatabaseError, dbapi.Error)
    assert issubclass(dbapi.InterfaceError, dbapi.Error) and issubclass(dbapi.Error, sf.SfumatoError)
    assert dbapi.Date(2024, 2, 1) == date(2024, 2, 1) and dbapi.Binary(b"x") == b"x"


def test_execute_and_fetch(connection):
    cursor = connection.cursor()
    assert cursor.description is None and cursor.rowcount == -1
    cursor.execute("SELECT sex, COUNT(*) AS n FROM census WHERE age < ? GROUP BY sex", [5])
    names = [column[0] for column in cursor.description]
    assert names == ["sex", "n", "n_stderr", "n_low", "n_high"] and cursor.rowcount == 3
    assert [column[1] for column in cursor.description] == [dbapi.STRING] + [dbapi.NUMBER] * 4
    first = cursor.fetchone()
    assert first[0] == "F" and round(first[1]) == 60 and first[3] <= first[1] <= first[4]
    assert [row[0] for row in cursor.fetchmany(5)] == ["M", "it's"] and cursor.fetchone() is None
    assert [row[0] for row in cursor.execute("SELECT sex, COUNT(*) FROM census GROUP BY 1")] == ["F", "M", "it's"]


def test_an_answer_without_rows_still_has_columns(connection):
    cursor = connection.execute("SELECT sex, COUNT(*) AS n FROM census GROUP BY sex LIMIT 0")
    assert len(cursor.description) == 5 and cursor.fetchall() == []


def test_describe_and_notes(connection):
    names = [row[0] for row in connection.execute("DESCRIBE census").fetchall()]
    assert names == ["age", "sex", "income", "ill", "charge"]
    cursor = connection.execute("SELECT COUNT(*) FROM census WHERE income < ?", [100.5])
    kinds, notes = zip(*cursor.messages, strict=True)
    assert set(kinds) == {dbapi.Warning} and "cuts the bin" in notes[0] and notes[-1].startswith("counted: ")


def test_confidence_and_strict(path):
    cut = "SELECT COUNT(*) AS n FROM census WHERE income < 100"
    with sf.connect(path, strict=True) as opened, pytest.raises(dbapi.ProgrammingError, match="strict"):
        opened.execute(cut)
    with sf.connect(path, confidence=2) as opened, pytest.raises(dbapi.ProgrammingError, match="confidence"):
        opened.execute(cut)


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("DELETE FROM census", dbapi.NotSupportedError),
        ("INSERT INTO census VALUES (1)", dbapi.NotSupportedError),
        ("DROP TABLE census", dbapi.NotSupportedError),
        ("SELECT COUNT(*) FROM nobody", dbapi.ProgrammingError),
        ("SELECT COUNT(*) FROM census; SELECT COUNT(*) FROM census", dbapi.NotSupportedError),
    ],
)
def test_it_is_only_read(connection, statement, error):
    with pytest.raises(error):
        connection.execute(statement)
    with pytest.raises(dbapi.NotSupportedError):
        connection.cursor().executemany("INSERT INTO census VALUES (?)", [[1]])


def test_error_columns_can_be_left_out(path):
    with sf.connect(path, errors=False) as opened:
        for end in ("", " LIMIT 0"):
            cursor = opened.execute(f"SELECT sex, COUNT(*) AS n FROM census GROUP BY sex{end}")
            assert [column[0] for column in cursor.description] == ["sex", "n"]
            assert all(len(row) == 2 for row in cursor)
        assert opened.execute("SELECT COUNT(*) AS n FROM census").result.rows[0][0].stderr > 0


def test_closed_is_closed(path):
    connection = sf.connect(path)
    cursor = connection.cursor()
    with pytest.raises(dbapi.InterfaceError):
        cursor.fetchall()
    connection.commit()
    connection.rollback()
    connection.close()
    for call in (connection.cursor, lambda: cursor.execute("SELECT COUNT(*) FROM census")):
        with pytest.raises(dbapi.InterfaceError):
            call()


def test_a_file_that_cannot_be_opened(tmp_path):
    (tmp_path / "x.sfumato").write_text("nothing")
    with pytest.raises(dbapi.OperationalError):
        sf.connect(tmp_path / "x.sfumato")


@pytest.mark.filterwarnings("ignore:pandas only supports SQLAlchemy")
def test_pandas_reads_it(connection):
    import pandas as pd

    frame = pd.read_sql("SELECT ill, AVG(charge) AS charge FROM census GROUP BY ill", connection)
    assert list(frame.columns) == ["ill", "charge", "charge_stderr", "charge_low", "charge_high"]
    assert frame["charge"].round().tolist() == [50, 50]


def test_days_come_as_dates(tmp_path):
    with sf.connect(save_visits(tmp_path)) as opened:
        cursor = opened.execute(
            "SELECT day, COUNT(*) AS n, MAX(day) AS last FROM visits WHERE day < ? GROUP BY day", [date(2024, 2, 28)]
        )
        kinds = {column[0]: column[1] for column in cursor.description}
        assert {name for name, kind in kinds.items() if kind == dbapi.DATETIME} == {
            "day",
            "last",
            "last_low",
            "last_high",
        }
        (row,) = cursor.fetchall()
        assert row[0] == date(2024, 2, 27) and type(row[0]) is date and date(2024, 2, 27) in row[5:]
        at = opened.execute("SELECT at, COUNT(*) AS n FROM visits GROUP BY at LIMIT 2").fetchall()
        assert [row[0] for row in at] == [datetime(2024, 2, 27, hour) for hour in (0, 1)]
        assert opened.execute("SELECT month, COUNT(*) AS n FROM visits GROUP BY month").fetchone()[0] == "2024-02"
