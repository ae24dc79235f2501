"""A connection of ADBC to PostgreSQL does as well as a URL."""

from __future__ import annotations

import os
import signal
import threading

import pytest
from postgres import own_schema
from waiting import wait_until

from sfumato.errors import TableError
from sfumato.kernel.reading.table import open_table
from sfumato.schema import Schema

adbc = pytest.importorskip("adbc_driver_postgresql.dbapi")
SCHEMA = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": {"column": "who", "contributions": 1},
        "attributes": {"x": {"type": "integer", "lower": 0, "upper": 9}},
        "measures": {"m": {"lower": 0, "upper": 4, "step": 1, "column": "x"}},
    }
)


def test_the_same_cells_as_by_url():
    with own_schema() as (connection, url, name), adbc.connect(url) as given:
        connection.execute("CREATE TABLE t AS SELECT i % 4 AS x, i AS who FROM generate_series(1, 20) i")
        connection.execute("CREATE VIEW failing AS SELECT CAST('secret' || x AS integer) AS x, who FROM t")
        found = []
        for table in (given, url):
            with open_table(table, name=f"{name}.t") as opened:
                opened.check(SCHEMA)
                one = opened.aggregate(SCHEMA, 5)
                found.append((one.cells.tolist(), one.counts.tolist(), one.sums["m"].tolist()))
                assert opened.look(SCHEMA).rows == 20
        assert found[0] == found[1]
        with pytest.raises(TableError, match="there is no table 'none' in the server"):
            open_table(given, name="none")
        with open_table(given, name=f"{name}.failing", allow_views=True) as opened:
            opened.check(SCHEMA)
            with pytest.raises(TableError, match="could not be read to its end") as raised:
                opened.aggregate(SCHEMA, 5)
            assert "secret" not in str(raised.value)


def test_an_interrupt_is_heard_and_cancels_the_query(ctrl_c):
    with own_schema() as (connection, url, name), adbc.connect(url) as given:
        running = f"SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND application_name = '{name}'"
        connection.execute("CREATE VIEW slow AS SELECT CASE WHEN pg_sleep(99) IS NULL THEN 0 ELSE 1 END AS x, 1 AS who")

        def interrupt() -> None:
            wait_until(lambda: connection.execute(running).fetchone() == (1,))
            os.kill(os.getpid(), signal.SIGINT)

        interrupting = threading.Thread(target=interrupt)
        with open_table(given, name=f"{name}.slow", allow_views=True) as opened, pytest.raises(KeyboardInterrupt):
            interrupting.start()
            opened.aggregate(SCHEMA, 5)
        interrupting.join()
        assert connection.execute(running).fetchone() == (0,)
