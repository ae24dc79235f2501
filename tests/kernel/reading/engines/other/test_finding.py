"""Which SQL a connection speaks; what nobody is sure of is refused in a line, and nothing is spent."""

from __future__ import annotations

import pytest

import sfumato as sf
from sfumato.errors import TableError
from sfumato.kernel.reading.table import open_table
from sfumato.schema import Schema

SCHEMA = Schema.from_dict(
    {"dataset": "t", "privacy_unit": "row", "attributes": {"x": {"type": "boolean"}}, "budget": {"epsilon": 1}}
)


class Connection:
    """One of a library that nobody knows; nothing may be asked of it."""

    def cursor(self):
        raise AssertionError


@pytest.mark.parametrize(
    ("dialect", "said"),
    [
        (None, "whose SQL is not known; say which it speaks"),
        ("klingon", "'klingon' is no SQL that sqlglot knows"),
        ("snowflake", "no server that speaks snowflake was ever tried here; write the table to Parquet"),
        ("trino", "no server that speaks trino was ever tried"),
        ("bigquery", "no server that speaks bigquery was ever tried"),
        ("redshift", "no server that speaks redshift was ever tried"),
        ("mssql", "SQL Server may take binary values for equal"),
        ("oracle", "Oracle takes an empty text for NULL"),
        ("postgres", "PostgreSQL is read through psycopg"),
    ],
)
def test_what_is_refused(dialect, said, tmp_path):
    ledger = tmp_path / "own.ledger"
    with pytest.raises(TableError, match=said):
        sf.release(Connection(), SCHEMA, 1, table_name="t", dialect=dialect, ledger=ledger)
    assert not ledger.exists()


def test_a_library_says_what_it_speaks():
    with pytest.raises(TableError, match="SQL Server may"):
        open_table(type("Connection", (Connection,), {"__module__": "pymssql._pymssql"})(), name="t")
    sqlalchemy = pytest.importorskip("sqlalchemy")
    engine = sqlalchemy.create_engine(
        "mssql+pymssql://u:secret@example.org/d", module=type("dbapi", (), {"paramstyle": "format", "__version__": "2"})
    )
    with pytest.raises(TableError, match="SQL Server may"):
        open_table(engine, name="t")


def test_an_address_without_a_driver_is_refused_and_not_quoted():
    pytest.importorskip("sqlalchemy")
    for address in (
        "mysql+nodriver://ada:secret@h/d",
        "clickhouse+nodriver://ada:secret@h/d",
        "mysql+pymysql://ada:secret@[h",
    ):
        with pytest.raises(TableError) as refused:
            open_table(address, name="t")
        assert "secret" not in str(refused.value) and "\n" not in str(refused.value)
