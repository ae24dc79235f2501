"""A server can be given as a URL, as a connection or as an engine of SQLAlchemy."""

from __future__ import annotations

import psycopg
import pytest
from postgres import own_schema

from sfumato.kernel.reading.engines import is_postgres
from sfumato.kernel.reading.engines.postgres.session import address_of
from sfumato.kernel.reading.table import open_table
from sfumato.schema import Schema

SCHEMA = Schema.from_dict(
    {"dataset": "t", "privacy_unit": "row", "attributes": {"x": {"type": "integer", "lower": 0, "upper": 9}}}
)


def test_a_connection_or_an_engine_says_where_its_server_is():
    sqlalchemy = pytest.importorskip("sqlalchemy")
    with own_schema() as (connection, url, name):
        connection.execute("CREATE TABLE t AS SELECT 3 AS x")
        folder = url.partition("host=")[2].partition("&")[0]
        engine = sqlalchemy.create_engine(f"postgresql+psycopg://postgres:hunter2@/postgres?host={folder}")
        with psycopg.connect(url) as own:
            own.execute("SELECT 1")  # in the middle of a transaction, which stays as it is
            with engine.connect() as connected:
                seen = (url, connection, own, engine, connected)
            engine.dispose()
            for given in seen:
                assert is_postgres(given)
                address = address_of(given)
                assert "hunter2" not in repr(address)
                with open_table(given, name=f"{name}.t") as table:
                    assert table.aggregate(SCHEMA, 1).cells.tolist() == [3]
            assert own.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS


@pytest.mark.parametrize(
    ("url", "shown", "place"),
    [
        ("postgresql://ada:pw@example.org:5433/census", "example.org:5433/census", "ada@example.org:5433/census"),
        ("postgres://example.org/census?sslmode=require&password=pw", "example.org/census", "example.org/census"),
        ("postgresql://a%40b@[::1]:5432/d", "[::1]:5432/d", "a%40b@[::1]:5432/d"),
        ("postgresql:///?service=census", "/", "/"),
        ("postgresql://ada@one:5432,two:5432/d", "one:5432,two:5432/d", "ada@one:5432,two:5432/d"),
    ],
)
def test_what_is_shown_of_a_url(url, shown, place):
    address = address_of(url)
    assert (address.shown, address.place) == (f"postgresql://{shown}", f"postgresql://{place}")
    assert not is_postgres("postgres.csv") and not is_postgres("duckdb:///postgres.duckdb")
