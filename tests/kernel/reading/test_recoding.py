"""Columns that rules make: every function against plain Python on values that break readers, in every source."""

from __future__ import annotations

import csv
import datetime as dt
import math
import random
import sqlite3
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from sqlglot import exp

from sfumato.errors import SchemaError
from sfumato.kernel.reading.engines import Column
from sfumato.kernel.reading.expressions import column, named
from sfumato.kernel.reading.recoding import expression_sql
from sfumato.kernel.reading.table import open_table
from sfumato.lab.audit.reading.expressions import evaluate
from sfumato.lab.audit.reading.reference import boolean_of, moment_of, number_of, text_of
from sfumato.schema.recode import combined, parse_expression

NUMBERS = [0.0, -0.0, 1.0, -2.5, 3.0, 0.1, 1e29, 1e30, 1e308, -1e308, math.inf, -math.inf, math.nan, 5e-324, 1e-30]
NUMBERS += [2.0**53 + 2, -7.0, 1e-31, 12345.678, None]
TEXTS = ["", " ", "a", "A b", "ä", "Ä%_x", "x\ny", "cough, bad", "Husten", "2.5", "true", "🦆🦆", "a\\b", "'q'", '"']
TEXTS += ["nan", "e\u0301", "-", "z" * 40, None]
TIMES = [dt.datetime(2024, 2, 29, 23, 59, 59, 999999), dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59)]
TIMES += [dt.datetime(1969, 12, 31, 23), dt.datetime(2023, 1, 1), dt.datetime(2026, 11, 18, 0, 1), None]
DAYS = [dt.date(2024, 2, 29), dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(2000, 3, 1), dt.date(1950, 12, 31), None]
FLAGS = [True, False, None]
POOLS = {"x": NUMBERS, "y": NUMBERS, "s": TEXTS, "u": TEXTS, "t": TIMES, "d": DAYS, "b": FLAGS}
KINDS = {"x": "number", "y": "number", "s": "text", "u": "text", "t": "time", "d": "date", "b": "boolean"}


def rows(seed: int = 1, many: int = 60) -> list[dict[str, object]]:
    pick = random.Random(seed)
    return [{name: pick.choice(pool) for name, pool in POOLS.items()} for _ in range(many)]


# Expressions with a hole for each part, by the kind that they have.
PARTS = ["MINUTE", "DOW", "ISODOW", "DAY", "MONTH", "QUARTER", "YEAR", "WEEK"]
FORMS = {
    "number": [
        *["{n} + {n}", "{n} - {n}", "{n} * {n}", "{n} / {n}", "-{n}", "ABS({n})", "FLOOR({n})", "CEIL({n})"],
        *["ROUND({n})", "ROUND({n}, 2)", "LEAST({n}, {n})", "GREATEST({n}, {n}, {n})", "COALESCE({n}, {n})"],
        *["NULLIF({n}, {n})", "CASE WHEN {b} THEN {n} WHEN {b} THEN {n} ELSE {n} END", "CASE WHEN {b} THEN {n} END"],
        *["CASE {s} WHEN 'a' THEN {n} WHEN {s} THEN 2 END", "LENGTH({s})", "EXTRACT(HOUR FROM {t})"],
        *[f"EXTRACT({part} FROM {{t}})" for part in PARTS],
        *["MOD({n}, {n})", "{n} % 7", "DATE_DIFF('hour', {t}, {t})", "DATE_DIFF('minute', {d}, {t})"],
        *["AGE_ON({d}, DATE '2026-01-01')", "AGE_ON({d}, {d})", "{d} - {d}"],
        *[f"DATE_DIFF('{unit}', {{d}}, {{d}})" for unit in ("day", "month", "year")],
    ],
    "text": [
        *["LOWER({s})", "UPPER({s})", "TRIM({s})", "SUBSTR({s}, 2, 3)", "SUBSTR({s}, 2)", "LEFT({s}, 1)"],
        *["{s} || {s}", "COALESCE({s}, {s})", "NULLIF({s}, {s})", "CASE WHEN {b} THEN {s} ELSE {s} END"],
        "CAST(FLOOR({n}) AS TEXT)",
    ],
    "boolean": [
        *["{n} < {n}", "{n} = {n}", "{n} >= 3", "{s} = {s}", "{s} <> 'ä'", "{s} < {s}", "{t} <= {t}", "{d} > {t}"],
        *["{b} AND {b}", "{b} OR {b}", "NOT {b}", "{n} IS NULL", "{s} IS NOT NULL", "{n} IN (0, 1, {n})", "{b} = {b}"],
        *["{s} IN ('a', '', {s})", "{s} NOT IN ('a', 'Ä%_x')", "{n} BETWEEN {n} AND {n}", "{s} BETWEEN 'A' AND {s}"],
        *["{s} LIKE '%a%'", "{s} LIKE '_'", "{s} NOT LIKE 'x_y'", "{s} LIKE '%%'"],
        "{t} BETWEEN DATE '2020-01-01' AND {t}",
    ],
    "time": ["CAST({d} AS TIMESTAMP)", "GREATEST({t}, {t})", "CASE WHEN {b} THEN {t} ELSE {t} END"],
    "date": [
        *[f"DATE_TRUNC('{unit}', {{t}})" for unit in ("day", "week", "month", "quarter", "year")],
        *["CAST({t} AS DATE)", "LEAST({d}, {d})", "COALESCE({d}, DATE '2000-01-01')"],
    ],
}
LEAVES = {
    "number": ["CAST(x AS DOUBLE)", "CAST(y AS DOUBLE)", "0", "2.5", "-3", "1e29"],
    "text": ["CAST(s AS TEXT)", "CAST(u AS TEXT)", "'a'", "''", "'ä%'"],
    "boolean": ["CAST(b AS BOOLEAN)", "TRUE", "NULL"],
    "time": ["CAST(t AS TIMESTAMP)", "TIMESTAMP '2024-02-29 12:00:00'"],
    "date": ["CAST(d AS DATE)", "DATE '2024-02-29'"],
}
HOLES = {"{n}": "number", "{s}": "text", "{b}": "boolean", "{t}": "time", "{d}": "date"}


def written(kind: str, form: str, pick: random.Random, depth: int) -> str:
    for hole, inner in HOLES.items():
        while hole in form:
            deeper = depth > 0 and pick.random() < 0.5
            part = written(inner, pick.choice(FORMS[inner]), pick, depth - 1) if deeper else pick.choice(LEAVES[inner])
            form = form.replace(hole, f"({part})", 1)
    return form


def expressions(seed: int, times: int, depth: int) -> dict[str, object]:
    """Each form some times, with random parts; those that are refused for their size left out."""
    pick, found = random.Random(seed), {}
    for kind, forms in FORMS.items():
        for form in forms * times:
            text = written(kind, form, pick, depth)
            try:
                found[text] = parse_expression(text)
            except SchemaError as refused:
                assert "so often" in str(refused) or "too long" in str(refused), text
            else:
                assert found[text].kind == kind
    listed = ("cough", "a b", "é", "ä", "2 5", "%use%", "%a b%")
    words = combined("has word", "boolean", [parse_expression("CAST(s AS TEXT)")], listed)
    return found | {"has word": words}


def leaf_of(row, name: str, kind: str):
    """The value of a column as one of a kind, as the schema's reading has it."""
    value = row[name]
    if kind in ("date", "time"):
        moment = moment_of(value)
        return moment if moment is None or kind == "time" else moment.date()
    return {"number": partial(number_of, typed=False), "text": text_of, "boolean": boolean_of}[kind](value)


def same(found: object, wanted: object) -> bool:
    if isinstance(found, dt.datetime) and isinstance(wanted, dt.datetime):
        return found.replace(tzinfo=None) == wanted
    return found == wanted and (found is None) == (wanted is None)


def compare(statement, run, texts, table) -> None:
    """Run all expressions in one statement and compare with Python, row by row."""
    found = run(statement)
    assert found.num_rows == len(table)
    order = np.argsort(found.column("place").to_numpy())
    for n, (text, expression) in enumerate(texts.items()):
        values = found.column(f"v{n}").to_pylist()
        for row, place in zip(table, order, strict=True):
            wanted = evaluate(expression, partial(leaf_of, row))
            assert same(values[place], wanted), (text, row, values[place], wanted)


def statement_of(engine, columns: dict[str, Column], texts) -> exp.Expression:
    wanted = [named(column(columns["place"].reference), "place")]
    wanted += [named(expression_sql(one, columns, engine), f"v{n}") for n, one in enumerate(texts.values())]
    return exp.Select(expressions=wanted).from_(engine.table(), copy=False)


def as_text(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return value if value is None else value.isoformat(" ") if isinstance(value, dt.datetime) else str(value)


def arrow(table) -> pa.Table:
    types = {"number": pa.float64(), "text": pa.string(), "time": pa.timestamp("us"), "date": pa.date32()}
    arrays = [pa.array([row[name] for row in table], types.get(KINDS[name], pa.bool_())) for name in POOLS]
    return pa.table([pa.array(range(len(table))), *arrays], names=["place", *POOLS])


def opened(source: str, table, tmp_path):
    names = ["place", *POOLS]
    texts = [[place, *(as_text(row[name]) for name in POOLS)] for place, row in enumerate(table)]
    if source == "csv":
        with (tmp_path / "t.csv").open("w", newline="") as file:
            csv.writer(file).writerows([names, *texts])
        return open_table(tmp_path / "t.csv")
    if source == "sqlite":
        with sqlite3.connect(tmp_path / "t.sqlite") as connection:
            connection.execute(f"CREATE TABLE t ({', '.join(names)})")
            connection.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(names))})", texts)
        connection.close()
        return open_table(f"sqlite:///{tmp_path / 't.sqlite'}", name="t")
    return open_table(arrow(table))


@pytest.mark.parametrize("source", ["csv", "sqlite", "arrow"])
def test_every_function_is_what_python_makes_of_it(source, tmp_path):
    """Each of the forms with random parts inside each other, on 40 rows of awkward values."""
    table = rows(many=40)
    if source == "csv":  # where an empty text and none are one
        table = [row | {name: row[name] or None for name in ("s", "u")} for row in table]
    engine = opened(source, table, tmp_path).engine
    checked_against_python(engine, table, seed=len(source))


def checked_against_python(engine, table, seed: int) -> None:
    texts = expressions(seed, 1, 2)
    assert len(texts) > 60
    columns = {one.name: one for one in engine.columns}
    compare(
        statement_of(engine, columns, texts), lambda one: _numbered(engine.run(one, [*engine.columns])), texts, table
    )


def _numbered(found: pa.Table) -> pa.Table:
    place = pa.array([int(value) for value in found.column("place").to_pylist()])
    return found.set_column(0, "place", place)


@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP"])
def test_blanks_around_a_day_are_no_part_of_it(kind):
    """DuckDB takes `2024-02-29 ` for a date and for no time."""
    table = pa.table({"x": ["2024-02-29", "2024-02-29 ", " 2024-02-29\t", "2024-02-29 00:00 ", "2024-02-29 x"]})
    engine = open_table(table).engine
    sql = expression_sql(parse_expression(f"CAST(x AS {kind})"), {one.name: one for one in engine.columns}, engine)
    found = engine.run(exp.Select(expressions=[named(sql, "v")]).from_(engine.table(), copy=False), [*engine.columns])
    day = dt.date(2024, 2, 29) if kind == "DATE" else dt.datetime(2024, 2, 29)
    assert found.column("v").to_pylist() == [day] * 4 + [None]


@pytest.mark.parametrize(
    ("text", "values", "wanted"),
    [
        ("MOD(x, y)", [(7, 3), (-7, 3), (7, -3), (2**52 - 1, 10), (6, 3), (5, 0)], [1, -1, 1, 5, 0, None]),
        (
            "DATE_DIFF('hour', x, y)",
            [("2026-01-01 23:59", "2026-01-02 00:00"), ("2026-01-02", "2025-12-31 22:30"), ("x", "2026-01-01")],
            [1, -26, None],
        ),
        ("DATE_DIFF('minute', x, y) / 60", [("2026-03-01 10:15", "2026-03-02 11:45")], [25.5]),
    ],
)
def test_remainders_and_hours_are_what_sql_says(text, values, wanted):
    table = pa.table(
        {name: [str(value) for value in part] for name, part in zip("xy", zip(*values, strict=True), strict=True)}
    )
    engine = open_table(table).engine
    sql = expression_sql(parse_expression(text), {one.name: one for one in engine.columns}, engine)
    statement = exp.Select(expressions=[named(sql, "v")]).from_(engine.table(), copy=False)
    assert engine.run(statement, [*engine.columns]).column("v").to_pylist() == wanted


def test_postgresql_makes_the_same(tmp_path):
    """Where a product that is too small, or a date beyond every timestamp, stops a statement."""
    from postgres import own_schema

    from sfumato.kernel.reading.engines.postgres.casts import spelled

    table = rows(5, many=40)
    kinds = {"number": "double precision", "text": "text", "time": "timestamp", "date": "date", "boolean": "boolean"}
    with own_schema() as (connection, url, schema):
        connection.execute(f"CREATE TABLE t (place bigint, {', '.join(f'{n} {kinds[k]}' for n, k in KINDS.items())})")
        values = [[place, *row.values()] for place, row in enumerate(table)]
        with connection.cursor() as cursor:
            cursor.executemany(f"INSERT INTO t VALUES ({', '.join(['%s'] * 8)})", values)
            cursor.execute(
                "INSERT INTO t (place, t, d) VALUES (40, 'infinity', '5874897-12-31'), "
                "(41, '-infinity', '4713-01-01 BC')"
            )
        table += [dict.fromkeys(POOLS)] * 2  # no time and no day of the calendar
        engine = open_table(url, name=f"{schema}.t").engine
        texts = expressions(5, 1, 2)
        columns = {one.name: one for one in engine.columns}
        statement = statement_of(engine, columns, texts)

        def run(one):
            found = connection.execute(spelled(one)).fetchall()
            names = ["place", *(f"v{n}" for n in range(len(texts)))]
            return pa.table([pa.array(values) for values in zip(*found, strict=True)], names=names)

        connection.execute("SET TimeZone = 'UTC'; SET extra_float_digits = 1")
        compare(statement, run, texts, table)
        engine.close()


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_spark_makes_the_same(tmp_path):
    pytest.importorskip("pyspark")
    import pyarrow.parquet as pq

    from sfumato.lab.audit.reading.server_sources import small_session

    table = rows(6, many=40)
    pq.write_table(arrow(table), tmp_path / "t.parquet")
    engine = open_table(small_session(), name=str(tmp_path / "t.parquet")).engine
    checked_against_python(engine, table, seed=6)
