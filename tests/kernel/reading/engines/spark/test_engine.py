"""A real Spark on this machine: the same cells as DuckDB, nothing left behind, nothing said."""

from __future__ import annotations

import datetime as dt
import math
import os
import signal
import threading
import time
import zipfile
from decimal import Decimal
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sparks import needs_spark

from sfumato.errors import TableError
from sfumato.kernel.ledger.ledger import Ledger
from sfumato.kernel.reading.table import open_table
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.lab.audit.reading.server_sources import small_session
from sfumato.publishing.publish import release
from sfumato.schema import Schema

pytestmark = [  # Spark 3.5 leaves sockets to the garbage
    needs_spark,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
TOKYO = dt.timezone(dt.timedelta(hours=9))
TIMES = [
    dt.datetime(2020, 1, 31, 23, 59, 59, 999999),
    dt.datetime(2020, 2, 29),
    dt.datetime(1500, 1, 1, 12),
    dt.datetime(1969, 12, 31, 23, 59, 59),
    dt.datetime(2020, 12, 31, 23),
    None,
]
ROWS = {
    "who": pa.array(["p", "P", "é", "e\u0301", "", "p"]),
    "text": pa.array(["a", "A ", "ä", "", "x'\\n\ny", None]),
    "word": pa.array(["yes", "F", " true", "maybe", "1", "TRUE"]),
    "spelled": pa.array(["1", "1d", " 2.5e0 ", "0x1p1", "nan", "-inf"]),
    "big": pa.array([2**63 - 1, -(2**63), 2**53 + 1, 0, None, -1], pa.int64()),
    "number": pa.array([0.25, -0.0, math.nan, math.inf, -math.inf, 5e-324]),
    "small": pa.array([0.0005, 2.5, 3.0, 1e-05, 12345678.5, 1e300]),
    "price": pa.array([Decimal("1.50"), Decimal("-2.00"), Decimal("0.00"), None, Decimal("9999999.99"), Decimal("4")]),
    "flag": pa.array([True, False, None, True, False, True]),
    "day": pa.array(
        [dt.date(2020, 2, 29), dt.date(1, 1, 1), dt.date(9999, 12, 31), None, dt.date(2020, 3, 1)] * 1
        + [dt.date(1500, 1, 1)]
    ),
    "time": pa.array(TIMES, pa.timestamp("us")),
    "zoned": pa.array(
        [None if t is None else t.replace(tzinfo=TOKYO) for t in TIMES], pa.timestamp("us", "Asia/Tokyo")
    ),
}
LISTED = [f"v{place}" for place in range(40)]
ATTRIBUTES = {
    "text": {"type": "category", "values": ["a", "A ", "ä", "x'\\n\ny"], "missing": "keep"},
    "folded": {"type": "category", "column": "text", "values": ["a", "ä"], "fold": ["case", "spaces"], "other": True},
    "long": {"type": "category", "column": "text", "values": ["a", "ä", *LISTED], "other": True},
    "word": {"type": "boolean", "missing": "keep"},
    "spelled": {"type": "category", "values": [1, 2, 2.5], "other": True, "missing": "keep"},
    "big": {"type": "integer", "lower": -2, "upper": 2, "missing": "keep"},
    "number": {"type": "number", "lower": 0, "upper": 1, "width": "0.25", "missing": "keep"},
    "small": {"type": "category", "values": ["0.0005", "2.5", "3", "1e-05", "12345678.5", "1e+300"]},
    "price": {"type": "category", "values": ["1.50", "-2.00", "0.00"], "other": True, "missing": "keep"},
    "flag": {"type": "boolean", "missing": "keep"},
    **{
        f"{column}_{by}": {"type": "date", "column": column, "by": by, "missing": "keep"}
        | ({} if by in ("weekday", "hour_of_day") else {"lower": "2020-01-01", "upper": "2020-12-31"})
        for column in ("day", "time", "zoned")
        for by in ("day", "week", "month", "quarter", "weekday", "hour", "hour_of_day")
    },
}
MEASURES = {"price": {"lower": -4, "upper": 4, "step": "0.5"}, "big": {"lower": -4, "upper": 4, "missing": "drop"}}
CENSUS = Schema.from_dict(
    {
        "dataset": "visits",
        "privacy_unit": {"column": "who", "contributions": 2},
        "budget": {"epsilon": 1000},
        "attributes": {"text": ATTRIBUTES["text"], "flag": ATTRIBUTES["flag"], "big": ATTRIBUTES["big"]},
        "measures": {"price": MEASURES["price"]},
    }
)


def schema_of(*attributes: str, unit: object = "row", measures: dict[str, object] | None = None) -> Schema:
    parts = {name: ATTRIBUTES[name] for name in attributes}
    return Schema.from_dict({"dataset": "t", "privacy_unit": unit, "attributes": parts, "measures": measures or {}})


@pytest.fixture(scope="module")
def visits(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("spark") / "visits.parquet"
    pq.write_table(pa.table(ROWS), path)
    return str(path)


@pytest.fixture(autouse=True)
def nothing_is_left_behind():
    session = small_session()
    zone, ansi = (session.conf.get(f"spark.sql.{key}") for key in ("session.timeZone", "ansi.enabled"))
    yield
    assert session.sql("SHOW VIEWS IN global_temp").collect() == []
    assert zone == session.conf.get("spark.sql.session.timeZone") and ansi == session.conf.get("spark.sql.ansi.enabled")


def gathered(table, schema: Schema) -> dict[int, tuple[int, ...]]:
    found = table.aggregate(schema, key=5)
    sums = zip(*(own.tolist() for own in found.sums.values()), strict=True) if found.sums else [()] * len(found.cells)
    counts = zip(found.cells.tolist(), found.counts.tolist(), sums, strict=True)
    return {cell: (count, *rest) for cell, count, rest in counts}


def test_every_awkward_value_falls_into_the_same_cell_as_in_duckdb(visits):
    """In a few readings of many attributes each: a cell is then one row's, so each value is compared by itself."""
    names = list(ATTRIBUTES)
    session = small_session()
    for some in (names[:10], names[10:17], names[17:24], names[24:]):
        schema = schema_of(*some, measures=MEASURES if "big" in some else {})
        one, other = open_table(visits), open_table(session, name=visits)
        one.check(schema)
        other.check(schema)
        assert gathered(other, schema) == gathered(one, schema), some
    for name in ("small", "text"):  # those that leave rows out, by themselves
        assert gathered(open_table(session, name=visits), schema_of(name)) == gathered(
            open_table(visits), schema_of(name)
        )


def test_the_same_rows_are_in_a_period_and_the_same_people_are_admitted(visits):
    periods = [
        ("year", "2020", "day"),
        ("month", "2020-01", "time"),
        ("quarter", "2020-Q1", "zoned"),
        ("name", "a", "text"),
    ]
    session = small_session()
    for period, label, column in periods:
        series = {"period": period, "unit": f"person in at most 2 {period}s", "column": column}
        schema = Schema.from_dict(CENSUS.to_dict() | {"series": series})
        for admit in (None, lambda people: [name != b"p" for name in people]):
            found = []
            for table in (open_table(visits), open_table(session, name=visits)):
                table.check(schema, label, with_people=admit is not None)
                one = table.aggregate(schema, 5, period=label, admit=admit)
                found.append((one.cells.tolist(), one.counts.tolist(), one.sums["price"].tolist()))
            assert found[0] == found[1] and (found[0][0] or admit), label


def test_releases_are_the_same_to_the_byte_where_nobody_exceeds_the_cap(visits, tmp_path):
    made = []
    for place, (table, name) in enumerate([(visits, None), (small_session(), visits)]):
        how = {"mechanism": "cells", "ledger": tmp_path / f"{place}.sqlite", "entropy": TestingEntropy(8)}
        release(table, CENSUS, 1, table_name=name, **how).save(tmp_path / f"{place}.sfumato")
        with zipfile.ZipFile(tmp_path / f"{place}.sfumato") as file:
            made.append({name: file.read(name) for name in file.namelist() if name.endswith(".parquet")})
    assert made[0] == made[1] and made[0]


def test_as_many_rows_of_a_person_are_kept_where_somebody_exceeds_it(tmp_path):
    people = ["a"] * 5 + ["b"] * 2 + ["c"] * 9 + [None] * 3
    pq.write_table(pa.table({"who": people, "n": list(range(len(people)))}), tmp_path / "t.parquet")
    for most in (1, 3, 8):
        schema = Schema.from_dict(
            {
                "dataset": "t",
                "privacy_unit": {"column": "who", "contributions": most},
                "attributes": {"n": {"type": "integer", "lower": 0, "upper": 30}},
            }
        )
        found = open_table(small_session(), name=str(tmp_path / "t.parquet")).aggregate(schema, key=3)
        kept = [people[cell] for cell in found.cells.tolist()]
        assert {who: kept.count(who) for who in "abc"} == {"a": min(5, most), "b": min(2, most), "c": min(9, most)}
        assert found.counts.max() == 1


def test_row_by_row_it_gives_short_words(visits):
    from sfumato.kernel.counts import Rows

    schema = schema_of(
        "text", "big", "number", "day_day", "time_day", "zoned_day", measures={"price": MEASURES["price"]}
    )
    readings = [open_table(visits), open_table(small_session(), name=visits)]
    one, other = (table.read(schema, 1, for_margins=True) for table in readings)
    assert isinstance(one, Rows) and isinstance(other, Rows)
    assert sorted(zip(*one.words, strict=True)) == sorted(zip(*other.words, strict=True))


def test_a_frame_is_a_view_and_its_collation_joins_nobody(visits):
    session = small_session()
    table = open_table(session.read.parquet(visits))
    with pytest.raises(TableError, match="allow-views"):
        table.check(CENSUS)
    with pytest.raises(TableError, match="leave it out"):
        open_table(session.read.parquet(visits), name="visits")
    if session.version.startswith("3."):
        pytest.skip("Spark 3.5 has no collations")
    loose = session.read.parquet(visits).selectExpr("who COLLATE UTF8_LCASE AS who", "text COLLATE UTF8_LCASE AS text")
    schema = schema_of("text", unit={"column": "who", "contributions": 2})
    assert gathered(open_table(loose, allow_views=True), schema) == gathered(open_table(visits), schema)


def test_what_the_program_set_does_not_matter(visits):
    session = small_session()
    schema, other = schema_of("zoned_day", "price"), {"ansi.enabled": "false", "session.timeZone": "Asia/Tokyo"}
    before = {key: session.conf.get(f"spark.sql.{key}") for key in other}
    try:
        for key, value in other.items():
            session.conf.set(f"spark.sql.{key}", value)
        assert gathered(open_table(session, name=visits), schema) == gathered(open_table(visits), schema)
        assert {key: session.conf.get(f"spark.sql.{key}") for key in other} == other
    finally:
        for key, value in before.items():
            session.conf.set(f"spark.sql.{key}", value)


def test_tables_hold_their_rows_and_views_do_not(tmp_path):
    session = small_session()
    session.sql(f"CREATE TABLE held (x CHAR(5), y INT) USING parquet LOCATION '{tmp_path}/held'")
    session.sql("CREATE TABLE told (x STRING) USING csv LOCATION '{}'".format(tmp_path / "told"))
    session.sql("CREATE VIEW seen AS SELECT x FROM held")
    schema = Schema.from_dict(
        {"dataset": "t", "privacy_unit": "row", "attributes": {"x": {"type": "category", "values": ["F", "M"]}}}
    )
    try:
        session.sql("INSERT INTO held VALUES ('F', 1), ('M', 2), ('F ', 3), ('FM', 4)")
        assert gathered(open_table(session, name="default.held"), schema) == {0: (2,), 1: (1,)}  # blanks pad a CHAR
        for name in ("told", "seen"):
            assert {column.derived for column in open_table(session, name=name).engine.columns} == {True}
    finally:
        session.sql("DROP VIEW seen")
        for name in ("told", "held"):
            session.sql(f"DROP TABLE {name}")


@pytest.mark.parametrize("name", [None, "nothing", "nowhere.nothing", "/nowhere/x.parquet"])
def test_a_table_that_is_not_there_is_refused_in_one_line(name):
    with pytest.raises(TableError) as raised:
        open_table(small_session(), name=name)
    assert "\n" not in str(raised.value) and raised.value.__cause__ is None and raised.value.__context__ is None


def test_an_error_of_spark_is_not_told(visits, capfd):
    """The message of a view that fails quotes what it failed on."""
    session = small_session()
    failing = session.read.parquet(visits).selectExpr("CAST(raise_error(text) AS INT) AS x")
    schema = Schema.from_dict(
        {"dataset": "t", "privacy_unit": "row", "attributes": {"x": {"type": "integer", "lower": 0, "upper": 3}}}
    )
    with pytest.raises(TableError, match="could not be read to its end") as raised:
        open_table(failing, allow_views=True).aggregate(schema, key=1)
    assert raised.value.__cause__ is None and raised.value.__context__ is None
    told = capfd.readouterr()
    assert told.out == "" and told.err == ""


def endless_table():
    """A frame that takes for ever, its schema, and a way to do something once Spark works on it."""
    session = small_session()
    endless = session.range(10**12).selectExpr("id % 2 = 0 AS x").repartition(2)
    schema = Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": {"x": {"type": "boolean"}}})
    tracker = session.sparkContext.statusTracker()

    def once_it_works(then) -> None:
        def wait() -> None:
            while not tracker.getActiveJobsIds():
                time.sleep(0.05)
            then()

        threading.Thread(target=wait, daemon=True).start()

    return endless, schema, tracker, once_it_works


def test_whoever_interrupts_it_stops_spark():
    endless, schema, tracker, once_it_works = endless_table()
    once_it_works(lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        open_table(endless, allow_views=True).aggregate(schema, key=1)
    patience = time.monotonic() + 60
    while tracker.getActiveJobsIds():
        assert time.monotonic() < patience
        time.sleep(0.05)


def test_a_job_that_somebody_else_ends_is_told_in_one_line(capfd):
    """Spark has no timeout of statements; whoever runs a cluster ends jobs by hand, or by a program that does."""
    endless, schema, _, once_it_works = endless_table()
    once_it_works(small_session().sparkContext.cancelAllJobs)
    with pytest.raises(TableError, match="could not be read to its end") as raised:
        open_table(endless, allow_views=True).aggregate(schema, key=1)
    assert "\n" not in str(raised.value) and capfd.readouterr().err == ""


def test_what_spark_cannot_plan_is_refused_before_anything_is_reserved(visits, tmp_path, monkeypatch):
    from sfumato.kernel.reading.engines.spark import engine

    refusing = partial(engine.Spark.scramble, None)
    monkeypatch.setattr(engine.Spark, "scramble", lambda self, parts: _unknown(refusing(parts)))
    with pytest.raises(TableError, match="cannot run what a release asks"):
        release(small_session(), CENSUS, 1, table_name=visits, ledger=tmp_path / "book")
    assert Ledger(tmp_path / "book").entries() == []


def _unknown(call):
    call.set("this", "no_such_function")
    return call
