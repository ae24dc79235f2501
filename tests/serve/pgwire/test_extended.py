"""Prepared statements: byte by byte, and as psycopg, asyncpg and pandas use them."""

from __future__ import annotations

import asyncio
import datetime
from struct import pack

import pandas as pd
import psycopg
import pytest
from raw_wire import EXECUTE, SYNC, Raw, bind, code, kinds, parse

asyncpg = pytest.importorskip("asyncpg")
sqlalchemy = pytest.importorskip("sqlalchemy")

COUNT = "SELECT region, COUNT(*) AS n FROM survey WHERE age >= {} AND sex = {} AND paid < {} GROUP BY region"


def test_an_error_is_followed_by_silence_until_sync(pg_port):
    with Raw(pg_port) as raw:
        raw.send(parse("SELECT nothing FROM survey"), bind(), (b"D", b"P\0"), EXECUTE, EXECUTE, parse("SELECT 1"), SYNC)
        found = raw.until(b"Z")
        assert kinds(found) == b"12EZ" and code(found) == "42703"
        raw.send(parse("SELECT 1"), bind(), (b"D", b"P\0"), EXECUTE, (b"C", b"P\0"), SYNC)
        assert kinds(raw.until(b"Z")) == b"12TDC3Z"
        raw.send((b"B", b"\0none\0" + bytes(6)), SYNC)
        assert code(raw.until(b"Z")) == "26000"
        raw.send((b"E", b"none\0" + bytes(4)), SYNC)
        assert code(raw.until(b"Z")) == "34000"


@pytest.mark.parametrize(
    "message",
    [
        (b"P", b""),
        (b"P", b"\0SELECT 1\0" + pack("!h", -1)),
        (b"P", b"\0\xff\xfe\0" + bytes(2)),
        (b"B", b"\0\0" + pack("!h", 30000)),
        (b"B", b"\0\0" + pack("!hhhi", 0, 1, 9, 10**6)),
        (b"B", b"\0\0" + pack("!hhhh", 1, 7, 0, 0)),
        (b"D", b"X\0"),
        (b"E", b"\0\0"),
        (b"C", b"S"),
        (b"D", b"S\0more"),
    ],
)
def test_malformed_messages_are_refused_and_the_connection_goes_on(pg_port, message):
    with Raw(pg_port) as raw:
        raw.send(message, SYNC)
        assert code(raw.until(b"Z")) == "08P01"
        assert kinds(raw.ask("SELECT 1")) == b"TDCZ"


def test_rows_come_in_parts_and_unfit_values_are_refused(pg_port):
    text = "SELECT region, COUNT(*) AS n FROM survey WHERE age >= $1 GROUP BY region"
    with Raw(pg_port) as raw:
        raw.send(parse(text), bind(b"20"), (b"E", b"\0" + pack("!i", 3)), EXECUTE, SYNC)
        assert kinds(raw.until(b"Z")) == b"12DDDsDCZ"
        for wrong in (bind(b"twenty"), bind(), bind(b"20", b"30"), bind(b"\0", form=1)):
            raw.send(parse(text), wrong, EXECUTE, SYNC)
            assert code(raw.until(b"Z")) in ("22P02", "08P01")
        for gap in ("$2", "?", "$0"):
            raw.send(parse(f"SELECT COUNT(*) FROM survey WHERE age >= {gap}"), (b"D", b"S\0"), SYNC)
            assert code(raw.until(b"Z")) in ("42P18", "42601")


def test_what_a_client_keeps_is_bounded(pg_port):
    with Raw(pg_port) as raw:
        raw.send(*(parse("SELECT 1", b"s%d" % number) for number in range(501)), SYNC)
        found = raw.until(b"Z")
        assert kinds(found) == b"1" * 500 + b"EZ" and code(found) == "54000"
        assert kinds(raw.ask("DEALLOCATE ALL; BEGIN")) == b"CCZ"
        large = b"x" * 1_000_000
        ask = [(b"B", b"p%d\0\0" % n + pack("!hhi", 0, 1, len(large)) + large + bytes(2)) for n in range(12)]
        raw.send(parse("SELECT $1"), *ask, SYNC)
        found = raw.until(b"Z")
        assert code(found) == "54000" and kinds(found).count(b"2") == 8
        raw.send((b"F", b""))
        assert code(raw.until(b"Z")) == "0A000"


def test_psycopg_with_values_on_the_server_in_text_and_binary(pg_port):
    with psycopg.connect(host="127.0.0.1", port=pg_port, user="me", autocommit=True) as connection:
        plain = connection.execute(COUNT.format("20", "'F'", "250")).fetchall()
        values = (20, "F", 250.0)
        for binary in (False, True):
            for mark in ("%s", "%b", "%t"):
                cursor = connection.cursor(binary=binary)
                assert cursor.execute(COUNT.format(mark, mark, mark), values, prepare=True).fetchall() == plain
        with pytest.raises(
            psycopg.Error, match="has no value \"x' OR sex = 'F\""
        ):  # it is one label, whatever is in it
            connection.execute("SELECT COUNT(*) AS n FROM survey WHERE sex = %s", ["x' OR sex = 'F"])
        some = connection.execute("SELECT COUNT(*) AS n FROM survey WHERE region IN ('North', 'East')").fetchone()
        for written, given in (("IN (%s,%s)", ["North", "East"]), ("= ANY(%s)", [["North", "East"]])):
            assert (
                connection.execute(f"SELECT COUNT(*) AS n FROM survey WHERE region {written}", given).fetchone() == some
            )
        assert connection.execute("SELECT 'day', %s::date, %s::int", [datetime.date(2024, 6, 1), 3]).fetchone()[2] == 3
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            connection.execute("UPDATE survey SET age = %s", [1])


def test_asyncpg_which_asks_for_types_first_and_has_all_in_binary(pg_port):
    async def ask():
        connection = await asyncpg.connect(host="127.0.0.1", port=pg_port, user="me", database="db")
        plain = await connection.fetch(COUNT.format("20", "'F'", "250"))
        statement = await connection.prepare(COUNT.format("$1", "$2", "$3"))
        assert [one.name for one in statement.get_parameters()] == ["int8", "text", "float8"]
        assert [one.name for one in statement.get_attributes()] == ["region", "n", "n_stderr", "n_low", "n_high"]
        assert await statement.fetch(20, "F", 250) == plain
        some = await connection.fetchval("SELECT COUNT(*) AS n FROM survey WHERE region = ANY($1)", ["North", "East"])
        assert some == await connection.fetchval(
            "SELECT COUNT(*) AS n FROM survey WHERE region IN ($1,$2)", "North", "East"
        )
        with pytest.raises(asyncpg.UndefinedColumnError):
            await connection.fetch("SELECT nothing FROM survey WHERE sex = $1", "F")
        async with connection.transaction():
            found = [row async for row in connection.cursor(COUNT.format("20", "'F'", "250"), prefetch=2)]
        assert found == plain
        every = (
            "SELECT member, COUNT(*) AS n FROM survey WHERE member = $1 GROUP BY member HAVING COUNT(*) > $2 LIMIT $3"
        )
        assert [row["member"] for row in await connection.fetch(every, True, 1, 5)] == [True]
        assert await connection.fetchval("SELECT array_agg(nspname) FROM pg_namespace WHERE oid = 11") == ["pg_catalog"]
        await connection.reset()
        await connection.close()

    asyncio.run(ask())


def test_pandas_over_sqlalchemy(pg_port):
    engine = sqlalchemy.create_engine(f"postgresql+psycopg://me@127.0.0.1:{pg_port}/db")
    text = sqlalchemy.text("SELECT region, AVG(hours) AS h FROM survey WHERE age >= :age GROUP BY region")
    frame = pd.read_sql(text, engine, params={"age": 20})
    assert list(frame.columns) == ["region", "h", "h_stderr", "h_low", "h_high"]
    assert sorted(frame["region"]) == ["East", "North", "South", "West"]
    assert ((frame["h_low"] <= frame["h"]) & (frame["h"] <= frame["h_high"])).all()
    table = sqlalchemy.Table("survey", sqlalchemy.MetaData(), autoload_with=engine)
    assert [str(column.type) for column in table.columns] == [
        *("BIGINT", "TEXT", "TEXT", "DOUBLE PRECISION", "BOOLEAN", "DOUBLE PRECISION")
    ]
    asked = sqlalchemy.select(table.c.sex, sqlalchemy.func.count().label("n")).group_by(table.c.sex)
    with engine.connect() as connection:
        assert [row.sex for row in connection.execute(asked.where(table.c.age.between(20, 39)))] == ["F", "M"]
    engine.dispose()
