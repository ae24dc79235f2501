"""Cursors of SQL: positions as PostgreSQL has them, their life, and psycopg's named cursors."""

from __future__ import annotations

import random

import psycopg
import pytest
from raw_wire import EXECUTE, SYNC, Raw, bind, code, kinds, parse

from sfumato.serve.pgwire.asking import Answer, Asked, pack_answer
from sfumato.serve.pgwire.catalogue.tables import Who
from sfumato.serve.pgwire.commands import read_command
from sfumato.serve.pgwire.extended import Cursor
from sfumato.serve.pgwire.protocol import INT8
from sfumato.serve.web.questions import Query

REGIONS = "SELECT region, COUNT(*) AS n FROM survey GROUP BY region"
WAYS = ("", "NEXT", "PRIOR", "FIRST", "LAST", "ALL", "FORWARD", "FORWARD ALL", "BACKWARD", "BACKWARD ALL")
COUNTED = ("", "ABSOLUTE", "RELATIVE", "FORWARD", "BACKWARD")


def cursor_of(rows: int) -> Cursor:
    found = Answer.unpacked(pack_answer([("n", INT8)], [(number,) for number in range(1, rows + 1)]))
    return Cursor(Asked("VALUES (1)", Who("me", "db"), Query(sql="-")), found, held=False)


def fetched(cursor: Cursor, text: str) -> list[int]:
    part = cursor.fetch(read_command(text))
    return [int(cell[7:]) for cell in part.rows.split(b"D\0\0\0")[1:]]


def test_every_direction():
    cursor = cursor_of(5)
    for text, expected in (
        *(("FETCH c", [1]), ("FETCH FROM c", [2]), ("FETCH 2 IN c", [3, 4]), ("FETCH 0 c", [4]), ("FETCH ALL c", [5])),
        *(("FETCH NEXT FROM c", []), ("FETCH PRIOR c", [5]), ("FETCH BACKWARD 2 FROM c", [4, 3]), ("FETCH -1 c", [2])),
        *(
            ("FETCH ABSOLUTE 4 c", [4]),
            ("FETCH RELATIVE -2 c", [2]),
            ("FETCH ABSOLUTE -1 c", [5]),
            ("FETCH LAST c", [5]),
        ),
        *(("FETCH FIRST c", [1]), ("FETCH ABSOLUTE 99 c", []), ("FETCH BACKWARD ALL c", [5, 4, 3, 2, 1])),
        *(("FETCH PRIOR c", []), ("FETCH FORWARD 99 c", [1, 2, 3, 4, 5]), ("FETCH FORWARD c", []), ("FETCH 0 c", [])),
    ):
        assert fetched(cursor, text) == expected, text
    assert cursor.fetch(read_command("MOVE BACKWARD 3 FROM c")).count == 3 and fetched(cursor, "FETCH c") == [4]


@pytest.mark.engines
def test_positions_are_those_of_postgresql():
    """400 random steps on cursors of 0 to 4 rows, on both."""
    from postgres import own_schema

    draw = random.Random(7)
    with own_schema() as (server, _, _):
        for rows in range(5):
            server.execute(f"BEGIN; DECLARE c SCROLL CURSOR FOR SELECT * FROM generate_series(1, {rows})")
            mine = cursor_of(rows)
            for _ in range(80):
                way = draw.choice(WAYS) if draw.random() < 0.5 else f"{draw.choice(COUNTED)} {draw.randint(-6, 6)}"
                text = f"FETCH {way} FROM c"
                assert fetched(mine, text) == [row[0] for row in server.execute(text).fetchall()], (rows, text)
            server.execute("ROLLBACK")


def test_psycopgs_named_cursors(pg_port):
    with psycopg.connect(host="127.0.0.1", port=pg_port, user="me", dbname="db") as connection:
        plain = connection.execute(REGIONS).fetchall()
        for binary in (False, True):
            with connection.cursor("named", binary=binary) as cursor:
                cursor.itersize = 1
                assert list(cursor.execute(REGIONS)) == plain
                assert [column.name for column in cursor.description][:2] == ["region", "n"]
        with connection.cursor("scrolled", scrollable=True) as cursor:
            cursor.execute(REGIONS)
            assert (cursor.fetchmany(2), cursor.fetchone()) == (plain[:2], plain[2])
            cursor.scroll(-3)
            assert cursor.fetchall() == plain
        with connection.cursor("valued") as cursor:
            text = "SELECT COUNT(*) AS n FROM survey WHERE age >= %s AND sex = %s"
            found = cursor.execute(text, (20, "F")).fetchall()
        assert found == connection.execute(text.replace("%s", "{}").format(20, "'F'")).fetchall()
        with connection.cursor("held", withhold=True) as cursor:
            cursor.execute(REGIONS)
            connection.commit()
            assert cursor.fetchall() == plain
        with connection.cursor("lookup") as cursor:
            assert cursor.execute("SELECT relname FROM pg_class WHERE relname = 'survey'").fetchone() == ("survey",)


def test_a_cursor_keeps_the_settings_that_it_was_declared_with(pg_port):
    with Raw(pg_port) as raw:
        raw.ask("SET client_min_messages = error")
        raw.ask("BEGIN; SET sfumato.errors = off; DECLARE c CURSOR FOR " + REGIONS + "; SET sfumato.errors = on")
        found = raw.ask("FETCH 2 FROM c; FETCH 9 FROM c; MOVE ALL c; CLOSE c")
        assert kinds(found) == b"TDDCTDDCCCZ" and {body[:2] for kind, body in found if kind == b"T"} == {b"\0\2"}
        assert [body for kind, body in found if kind == b"C"] == [
            b"FETCH 2\0",
            b"FETCH 2\0",
            b"MOVE 0\0",
            b"CLOSE CURSOR\0",
        ]


def test_in_the_extended_protocol_a_cursor_is_described_and_closed_as_a_portal(pg_port):
    with Raw(pg_port) as raw:
        raw.ask("BEGIN; SET client_min_messages = error")
        raw.send(parse("DECLARE c CURSOR FOR " + REGIONS), (b"D", b"S\0"), bind(), (b"D", b"P\0"), EXECUTE, SYNC)
        assert kinds(raw.until(b"Z")) == b"1tn2nCZ"
        raw.send((b"D", b"Pc\0"), parse("FETCH 3 FROM c"), (b"D", b"S\0"), bind(), (b"D", b"P\0"), EXECUTE, SYNC)
        assert kinds(raw.until(b"Z")) == b"T1tT2TDDDCZ"
        raw.send(parse("MOVE 1 FROM c"), bind(), (b"D", b"P\0"), EXECUTE, (b"C", b"Pc\0"), SYNC)
        assert kinds(raw.until(b"Z")) == b"12nC3Z"
        assert code(raw.ask("FETCH c")) == "34000"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DECLARE c CURSOR FOR SELECT 1", "25P01"),
        *(
            (f"DECLARE {rest}", "42601")
            for rest in ("c", "c CURSOR", "c CURSOR FOR", "c CURSOR FOR SHOW ALL", "c FOR SELECT 1")
        ),
        ("DECLARE c CURSOR WITH HOLD FOR DELETE FROM survey", "25006"),
        ("DECLARE c CURSOR WITH HOLD FOR SELECT nothing FROM survey", "42703"),
        ("DECLARE c BINARY CURSOR WITH HOLD FOR SELECT 1", "0A000"),
        ("BEGIN; DECLARE c CURSOR FOR SELECT 1; DECLARE c CURSOR FOR SELECT 2", "42P03"),
        ("BEGIN; DECLARE c CURSOR FOR SELECT 1; COMMIT; FETCH c", "34000"),
        ("DECLARE c CURSOR WITH HOLD FOR SELECT 1; CLOSE ALL; FETCH c", "34000"),
        ("CLOSE nothing", "34000"),
        *((f"FETCH {rest}", "42601") for rest in ("", "SIDEWAYS 2 FROM c", "ABSOLUTE ALL c", "1 2 3 4 5", "x" * 2000)),
    ],
)
def test_refusals(pg_port, text, expected):
    with Raw(pg_port) as raw:
        assert code(raw.ask(text)) == expected
        raw.ask("ROLLBACK")
        assert kinds(raw.ask("DECLARE c CURSOR WITH HOLD FOR VALUES (1), (2); FETCH ALL c")) == b"CTDDCZ"


def test_what_cursors_keep_is_bounded(pg_port):
    with Raw(pg_port) as raw:
        raw.ask("SET client_min_messages = error")
        for start in range(0, 501, 100):
            many = (
                f"DECLARE c{number} CURSOR WITH HOLD FOR VALUES (1)" for number in range(start, min(start + 100, 501))
            )
            found = raw.ask(";".join(many))
        assert code(found) == "54000"
        assert kinds(raw.ask("DISCARD ALL; DECLARE c1 CURSOR WITH HOLD FOR VALUES (1)")) == b"CCZ"
