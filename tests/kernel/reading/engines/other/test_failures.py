"""What went wrong on a server, in a line of ours; nothing of what the server said is in it."""

from __future__ import annotations

import duckdb
import pytest

from sfumato.errors import TableError
from sfumato.kernel.reading.engines.other.session import told
from sfumato.kernel.reading.table import open_table


class OperationalError(Exception):
    """As drivers have it."""


class InterfaceError(Exception):
    """As drivers have it."""


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OperationalError(2003, "Can't connect to MySQL server on 'secret'"), "or there is none; check the server"),
        (OperationalError(2013, "secret"), "was lost"),
        (OperationalError(1045, "Access denied for user 'secret'"), "refuses this user or password"),
        (OperationalError(1049, "Unknown database 'secret'"), "no such database"),
        (OperationalError(1142, "SELECT command denied for 'secret'"), "this account may not read t; ask for SELECT"),
        (OperationalError(1146, "Table 'secret' doesn't exist"), "t is not there any more"),
        (OperationalError(1969, "secret (max_statement_time exceeded)"), "by a time limit or by hand"),
        (ValueError("Code: 497. DB::Exception: secret: Not enough privileges"), "this account may not read t"),
        (ValueError("Code: 516. DB::Exception: secret: Authentication failed"), "refuses this user or password"),
        (ValueError("Code: 159. DB::Exception: secret: Timeout exceeded"), "by a time limit or by hand"),
        (InterfaceError("secret"), "was lost"),
        (ConnectionResetError("secret"), "was lost"),
        (ValueError("secret"), "t cannot be read as it is asked; ask whoever runs the database"),
    ],
)
def test_what_is_told(error, said):
    line = told(error, "t")
    assert said in line and "secret" not in line and "\n" not in line


def test_the_error_behind_one_of_sqlalchemy_is_looked_at():
    outer = ValueError("(pymysql.err.OperationalError) secret")
    outer.orig = OperationalError(1045, "secret")
    assert "refuses this user" in told(outer, "t")


@pytest.mark.parametrize("dialect", ["mysql", "clickhouse"])
def test_a_connection_that_speaks_something_else_than_was_said(dialect):
    with duckdb.connect() as connection, pytest.raises(TableError) as refused:
        connection.execute("CREATE TABLE t AS SELECT 1 AS x")
        open_table(connection, name="t", dialect=dialect)
    assert "\n" not in str(refused.value)
