"""Views of a session: a name for a SELECT, which no other session sees and nothing stores."""

from __future__ import annotations

import psycopg
import pytest
from raw_wire import Raw, code, kinds

REGIONS = "SELECT region, COUNT(*) AS n FROM survey GROUP BY region"
COLUMNS = (
    "SELECT a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_attribute a JOIN pg_class c ON a.attrelid = c.oid "
    "WHERE c.relname = %s AND c.relkind = 'v' ORDER BY a.attnum"
)


@pytest.fixture
def connection(pg_port):
    with psycopg.connect(host="127.0.0.1", port=pg_port, user="me", dbname="db", autocommit=True) as found:
        yield found


def test_a_view_is_asked_as_its_select_and_described_in_the_catalogue(connection, pg_port):
    plain = connection.execute(REGIONS).fetchall()
    connection.execute(f"CREATE TEMPORARY VIEW v AS {REGIONS}")
    assert connection.execute("SELECT * FROM v").fetchall() == plain
    assert connection.execute('SELECT v.region, v.n FROM public."v" AS v WHERE v.n > 0').fetchall() == plain
    connection.execute("CREATE TEMP VIEW \"of V\" AS SELECT region, n FROM v WHERE region <> 'West'")
    assert len(connection.execute('WITH x AS (SELECT * FROM "of V") SELECT region, n FROM x').fetchall()) == 3
    connection.execute("CREATE TEMP VIEW names AS SELECT relname FROM pg_class")
    assert connection.execute("SELECT * FROM names WHERE relname = 'survey'").fetchall() == [("survey",)]
    connection.execute("DROP VIEW names")
    assert connection.execute(COLUMNS, ["v"]).fetchall()[:2] == [("region", "text"), ("n", "double precision")]
    listed = "SELECT table_name, table_type FROM information_schema.tables WHERE table_type = 'VIEW' ORDER BY 1"
    assert connection.execute(listed).fetchall() == [("of V", "VIEW"), ("v", "VIEW")]
    with Raw(pg_port) as other:  # of another session
        assert code(other.ask("SELECT * FROM v")) == "42P01" and kinds(other.ask(listed)) == b"TCZ"
    connection.execute("SET sfumato.errors = off")
    connection.execute(f"CREATE OR REPLACE TEMP VIEW v AS {REGIONS}")
    assert connection.execute(COLUMNS, ["v"]).fetchall() == [("region", "text"), ("n", "double precision")]
    connection.execute('DROP VIEW "of V"; DROP VIEW IF EXISTS v; DROP VIEW IF EXISTS v; DROP VIEW IF EXISTS')
    assert connection.execute(listed).fetchall() == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *(
            (f"CREATE {rest}", "25006")
            for rest in ("VIEW v AS SELECT 1", "TABLE t (a int)", "TEMP TABLE t AS SELECT 1")
        ),
        *((f"DROP {rest}", "25006") for rest in ("TABLE survey", "VIEW", "SCHEMA public CASCADE")),
        ("DROP VIEW survey", "42P01"),
        ("CREATE TEMP VIEW v AS DELETE FROM survey", "25006"),
        ("CREATE TEMP VIEW v AS", "42601"),
        ("CREATE TEMP VIEW v AS SELECT nothing FROM survey", "42703"),
        ("CREATE TEMP VIEW v AS SELECT 1 AS x; CREATE TEMP VIEW v AS SELECT 2 AS x", "42P07"),
        ("CREATE TEMP VIEW v AS SELECT * FROM '/etc/passwd'", "42P01"),
        ("CREATE TEMP VIEW survey_2 AS SELECT COUNT(*) AS n FROM survey; SELECT n FROM survey_2, harm", "0A000"),
    ],
)
def test_refusals(pg_port, text, expected):
    with Raw(pg_port) as raw:
        assert code(raw.ask(text)) == expected
        assert kinds(raw.ask("SELECT 1")) == b"TDCZ"


def test_what_views_keep_is_bounded(pg_port):
    long = "SELECT COUNT(*) AS n FROM survey WHERE age > 20" + " " * 15_000 + "AND age < 90"
    with Raw(pg_port) as raw:
        raw.ask("SET client_min_messages = error")
        found = [raw.ask(f"CREATE TEMP VIEW v{number} AS {long}") for number in range(5)]
        assert [kinds(one) for one in found] == [b"CZ"] * 4 + [b"EZ"] and code(found[-1]) == "54000"
        grows = [f"CREATE TEMP VIEW w{n + 1} AS SELECT a.n FROM w{n} a, w{n} b" for n in range(6)]
        raw.ask(
            "CREATE OR REPLACE TEMP VIEW v0 AS SELECT 1 AS n; CREATE TEMP VIEW w0 AS SELECT 1 AS n UNION ALL SELECT 2"
        )
        assert code(raw.ask("; ".join(grows))) in ("54000", "57014")  # 2^64 rows, of which it is told before
        assert kinds(raw.ask("DISCARD ALL; CREATE TEMP VIEW v0 AS SELECT COUNT(*) AS n FROM survey")) == b"CCZ"
