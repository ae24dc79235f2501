"""A connection that fails says so in one line of ours; what was reserved when it did counts as spent."""

from __future__ import annotations

import traceback

import duckdb
import pytest

import sfumato as sf
from sfumato.errors import TableError
from sfumato.kernel.ledger.ledger import Ledger
from sfumato.kernel.reading.table import open_table
from sfumato.schema import Schema

SCHEMA = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": "row",
        "attributes": {"x": {"type": "integer", "lower": 0, "upper": 9}},
        "budget": {"epsilon": 3},
    }
)


class OperationalError(Exception):
    """As DB-API has it."""


class Fails:
    """A connection of DB-API to DuckDB that fails at some of what is said, quoting a value."""

    def __init__(self, at: str, error: Exception) -> None:
        self.connection, self.at, self.error = duckdb.connect(), at, error
        self.connection.execute("CREATE TABLE t AS SELECT 3 AS x")

    def cursor(self):
        own = self.connection.cursor()
        execute, fails = own.execute, self

        class Cursor:
            description = property(lambda self: own.description)
            fetchall, fetchmany, close = own.fetchall, own.fetchmany, own.close

            def execute(self, text):
                if text.startswith(fails.at) and '"main"."t"' in text:
                    raise fails.error
                execute(text)

        return Cursor()


LOST = OperationalError(2013, "Lost connection while reading 'Ann'")
DENIED = OperationalError(1142, "SELECT command denied to user 'ada'@'h' for 'Ann'")
OTHER = ValueError("cannot convert 'Ann'")


@pytest.mark.parametrize(
    ("error", "said"),
    [(LOST, "the connection to the database was lost"), (OTHER, "the table t cannot be read as it is asked")],
)
def test_in_mid_scan(error, said, tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    with pytest.raises(TableError, match=said) as failed:
        sf.release(Fails("SELECT", error), SCHEMA, 1, table_name="t", dialect="duckdb", ledger=ledger)
    assert "Ann" not in "".join(traceback.format_exception(failed.value))
    assert failed.value.__cause__ is None and failed.value.__context__ is None
    assert ledger.account("t").spent == 1  # as a crash would leave it


def test_before_anything_is_reserved(tmp_path):
    ledger = tmp_path / "own.ledger"
    with pytest.raises(TableError, match="this account may not read the table t; ask for SELECT") as refused:
        sf.release(Fails("EXPLAIN", DENIED), SCHEMA, 1, table_name="t", dialect="duckdb", ledger=ledger)
    assert "Ann" not in str(refused.value) and not ledger.exists()


def test_a_connection_that_is_closed():
    connection = duckdb.connect()
    connection.close()
    with pytest.raises(TableError):
        open_table(connection, name="t")


def test_no_server_and_no_password_in_what_is_said():
    pytest.importorskip("sqlalchemy")
    pytest.importorskip("pymysql")
    with pytest.raises(TableError, match="the connection to the database was lost, or there is none") as refused:
        open_table("mysql+pymysql://ada:secret@127.0.0.1:9/d", name="t")
    assert "secret" not in str(refused.value)
