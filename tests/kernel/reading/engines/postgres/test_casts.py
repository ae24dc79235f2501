"""No value stops a cast, and numbers, words and times come out as other engines have them."""

from __future__ import annotations

import math
import random
import re
import sys

import psycopg
import pytest
from postgres import own_schema

from sfumato.errors import TableError
from sfumato.kernel.reading.engines import Column
from sfumato.kernel.reading.engines.postgres.casts import DIALECT, LARGEST_STEP, LONGEST, NEAREST, safe_cast
from sfumato.kernel.reading.expressions import column
from sfumato.kernel.reading.table import open_table
from sfumato.lab.audit.reading.reference import boolean_of, number_of
from sfumato.schema import Schema

INF = math.inf


def cast_all(kind: str, word: str, values: list[str], to: str) -> list[object]:
    """Values of a column of some type, cast on the server, in order."""
    expression = safe_cast(column("x"), Column("x", word, "x"), to).sql(dialect=DIALECT, identify=True)
    with own_schema() as (connection, _, _):
        connection.execute(
            f"CREATE TABLE t (place integer, x {kind}); SET TimeZone = 'UTC'; SET extra_float_digits = 1"
        )
        with connection.cursor() as cursor:
            cursor.executemany(f"INSERT INTO t VALUES (%s, %s::{kind})", list(enumerate(values)))
        return [value for (value,) in connection.execute(f"SELECT {expression} FROM t ORDER BY place").fetchall()]


def test_texts_that_may_be_numbers():
    """4,000 texts of the letters of numbers, and Python's float beside."""
    pick = random.Random(1)
    made = ["".join(pick.choices("0123456789+-._eE naif", k=pick.randint(1, 7))) for _ in range(4_000)]
    made += [
        "1e400",
        "-1e400",
        "1e-400",
        "1" * 290,
        "0" * 290 + "5",
        "1_000.5e1_0",
        "१",
        "1" * 301,
        "1e99999",
        "\u00a01",
    ]
    found = cast_all("text", "TEXT", made, "double")
    assert sum(value is not None for value in found) > 500
    for text, value in zip(made, found, strict=True):
        expected = number_of(text, typed=True)
        if len(text.strip()) > LONGEST or re.search("[eE][+-]?0*[1-9][0-9]{4}", text):
            expected = None  # longer than any number that is written down
        elif "e" in text.lower() and "_" in text.lower().partition("e")[2]:
            continue  # Python's float takes an underscore between digits of an exponent too
        if expected is not None and 0 < abs(expected) < NEAREST:
            expected = math.copysign(NEAREST, expected)
        elif expected == 0 and any(digit in text.lower().partition("e")[0] for digit in "123456789"):
            continue  # below every double: moved away from zero, with its sign
        assert value == expected, text


def test_numerics_beyond_all_doubles():
    values = ["1e400", "-1e400", "1e-400", "-1e-400", "NaN", "Infinity", "-Infinity", "0", "0.1", "9007199254740993"]
    found = cast_all("numeric", "DECIMAL", values, "double")
    assert found == [INF, -INF, NEAREST, -NEAREST, None, INF, -INF, 0.0, 0.1, 9007199254740992.0]


def test_floats_as_text():
    values = ["1e15", "1234567890123456.5", "-Infinity", "Infinity", "0.0001", "1e-05", "5e-324", "1e308", "0.1"]
    found = cast_all("double precision", "DOUBLE PRECISION", values, "text")
    assert found[1:] == ["1234567890123456.5", "-inf", "inf", "0.0001", "1e-05", "5e-324", "1e+308", "0.1"]
    assert cast_all("real", "REAL", ["1234567.5", "0.1"], "text") == ["1234567.5", "0.1"]


@pytest.mark.parametrize("kind", ["text", "char(9)", "varchar(9)"])
def test_words_for_true_and_false(kind):
    words = ["true", "T", "yes", "0", "No", "n", "2", "on", "maybe", "", "tRuE"]
    assert cast_all(kind, "TEXT", words, "boolean") == [boolean_of(word) for word in words]


def test_days_beyond_all_times():
    values = ["5874897-12-31", "4713-01-01 BC", "infinity", "-infinity", "2020-02-29"]
    found = cast_all("date", "DATE", values, "timestamp")
    assert [str(value)[:10] for value in found] == [
        "9999-12-31",
        "0001-01-01",
        "9999-12-31",
        "0001-01-01",
        "2020-02-29",
    ]


def test_without_these_casts_the_server_would_stop():
    for kind, value, to in (("numeric", "1e400", "double precision"), ("date", "5874897-12-31", "timestamp")):
        with own_schema() as (connection, _, _), pytest.raises(psycopg.DataError):
            connection.execute(f"SELECT CAST('{value}'::{kind} AS {to})")


def test_no_value_near_zero_stops_the_steps_of_a_measure():
    """PostgreSQL stops at a quotient that is too small: steps at which there is one are refused before the reading."""

    def schema(bound, step):
        attributes = {"n": {"type": "integer", "lower": 0, "upper": 1}}
        measures = {"m": {"lower": f"-{bound}", "upper": bound, "step": step}}
        described = {"dataset": "t", "privacy_unit": "row", "attributes": attributes, "measures": measures}
        return Schema.from_dict(described)

    with own_schema() as (connection, url, name):
        with pytest.raises(psycopg.errors.NumericValueOutOfRange, match="underflow"):
            connection.execute(f"SELECT '{NEAREST}'::double precision / '1e130'::double precision")
        connection.execute("CREATE TABLE t (n integer, m double precision)")
        values = ["5e-324", "-1e-320", "1e-200", "0", "1e300", "-1e99", "2e100"]
        for value in values:
            connection.execute(f"INSERT INTO t VALUES (0, '{value}')")
        found = open_table(url, name=f"{name}.t")
        found.check(schema("1e109", "1e100"))
        assert found.aggregate(schema("1e109", "1e100"), key=1).sums["m"].tolist() == [10**9 + 2]
        for bound in ("1e102", "1e133", "1e290"):
            with pytest.raises(TableError, match=r"measures\.m has a step of .*, and PostgreSQL stops at quotients"):
                open_table(url, name=f"{name}.t").check(schema(bound, bound))
    assert float(NEAREST) / LARGEST_STEP > sys.float_info.min  # a double of full precision
