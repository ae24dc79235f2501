"""Statements that a newcomer writes in an hour, about functions, names and dates, against DuckDB.

The release spends an epsilon so huge that its noise is nothing. What is refused is refused by name, with what to write.
"""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pytest
import yaml
from curators import curator_of

from sfumato.answers.results import Estimate
from sfumato.answers.statement import Chosen, confidence_of_each
from sfumato.errors import QueryError
from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.models import MECHANISMS
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.release import Release
from sfumato.schema import Schema
from sfumato.sql.spellings import asks_clock

SCHEMA = Schema.from_dict(
    {
        "dataset": "events",
        "privacy_unit": "row",
        "attributes": {
            "day": {"type": "date", "lower": "2024-01-30", "upper": "2024-03-02", "by": "day"},
            "kind": {"type": "category", "values": ["click", "view", "never", "buy-now"]},
            "age": {"type": "integer", "lower": 18, "upper": 29},
            "member": {"type": "boolean"},
        },
        "measures": {"amt": {"lower": 0, "upper": 20, "step": 1}},
    }
)
EPSILON = 10**6
DAYS = SCHEMA.domain["day"].labels()
TABLE = [
    (
        DAYS[n * 7 % len(DAYS)],
        ["click", "click", "view", "click", "view", "buy-now"][n % 6],
        18 + n % 12,
        n % 5 < 2,
        n % 21,
    )
    for n in range(900)
]


@pytest.fixture(scope="module")
def engine() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("CREATE SCHEMA public; SET search_path = 'public'")
    connection.execute("CREATE TABLE events (day DATE, kind TEXT, age INT, member BOOLEAN, amt INT)")
    connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?)", TABLE)
    return connection


@pytest.fixture(scope="module")
def release() -> Release:
    counts, sums = (np.zeros(SCHEMA.domain.shape, dtype=np.int64) for _ in range(2))
    for *values, amt in TABLE:
        cell = tuple(axis.labels().index(value) for axis, value in zip(SCHEMA.domain, values, strict=True))
        counts[cell] += 1
        sums[cell] += amt - 10  # in steps around the middle of the bounds
    curator = curator_of(SCHEMA, counts, sums={"amt": sums}, epsilon=EPSILON, entropy=TestingEntropy(7))
    cube = MECHANISMS["cells"].run(curator, SCHEMA, Budget.pure(EPSILON))
    return Release(cube, "cells", describe_guarantee(Budget.pure(EPSILON), SCHEMA), False)


def plain(cell: Any) -> Any:
    """A cell of either answer, as something that can be compared: a midnight is its day."""
    if isinstance(cell, Estimate):
        if cell.dates:
            return (date(1970, 1, 1) + timedelta(days=math.floor(cell.value))).isoformat()
        cell = None if math.isnan(cell.value) else cell.value
    if isinstance(cell, datetime | date):
        cell = cell.isoformat()
    if isinstance(cell, str):
        return cell.removesuffix("T00:00:00")
    if isinstance(cell, bool) or cell is None:
        return cell
    return round(float(cell) if isinstance(cell, Decimal) else cell, 6) + 0.0


def rows_of(answer: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(map(plain, row)) for row in answer), key=str)


MONTH = "SELECT STRFTIME(day, '%Y-%m') AS m, COUNT(*) AS n FROM events GROUP BY m"

# What is asked, and what DuckDB is asked where it spells that in another way.
ANSWERED = {
    MONTH: None,
    "SELECT to_char(day, 'YYYY-MM') AS m, COUNT(*) AS n FROM events GROUP BY 1 ORDER BY 1": MONTH,
    "SELECT to_char(day, 'IYYY\"-W\"IW') AS w, COUNT(*) FROM events GROUP BY 1": (
        "SELECT STRFTIME(day, '%G-W%V') AS w, COUNT(*) FROM events GROUP BY 1"
    ),
    "SELECT COUNT(*) FROM events WHERE day >= to_date('2024-02-10', 'YYYY-MM-DD')": (
        "SELECT COUNT(*) FROM events WHERE day >= '2024-02-10'"
    ),
    "SELECT COUNT(*) FROM events WHERE day >= STRPTIME('10/02/2024', '%d/%m/%Y')": None,
    "SELECT COUNT(*) FROM events WHERE day <= CURRENT_DATE": None,
    "SELECT kind, COUNT(*) FROM events WHERE day >= NOW() - INTERVAL '100 years' GROUP BY kind": None,
    "SELECT COUNT(*) FROM events WHERE day > CURRENT_DATE - 30": None,
    "SELECT EXTRACT(EPOCH FROM day) AS e, COUNT(*) FROM events GROUP BY e": None,
    "SELECT COUNT(*) FROM events WHERE day >= TIMESTAMP '2024-02-01 00:00:00'": None,
    "SELECT COUNT(*) FROM events WHERE day BETWEEN '2024-02-01T00:00:00Z' AND '2024-02-10T00:00:00Z'": None,
    "SELECT CAST(day AS TIMESTAMP) AS t, COUNT(*) FROM events WHERE CAST(day AS TIMESTAMP) < '2024-02-05 00:00:00' "
    "GROUP BY t": None,
    "SELECT date_trunc('week', day::timestamp) AS w, SUM(amt) FROM events GROUP BY w ORDER BY w": None,
    "SELECT DATE_DIFF('day', DATE '2024-01-01', day) AS d, COUNT(*) FROM events GROUP BY d": None,
    "SELECT DATEDIFF('week', day, DATE '2024-03-01') AS w, AVG(amt) FROM events GROUP BY w": None,
    "SELECT AVG(DATE_DIFF('day', day, DATE '2024-03-02')) FROM events": None,
    "SELECT day - DATE '2024-01-30' AS since, COUNT(*) FROM events GROUP BY since": None,
    "SELECT COUNT(*) FROM events WHERE day + INTERVAL 7 DAY >= DATE '2024-03-01'": None,
    "SELECT LAST_DAY(day) AS d, COUNT(*) FROM events GROUP BY d": None,
    "SELECT DAYNAME(day) AS d, COUNT(*) FROM events GROUP BY d": None,
    "SELECT COUNT(*) FROM events WHERE kind IS NOT NULL": None,
    "SELECT COUNT(*) AS all_rows, COUNT(*) FILTER (WHERE age IS NULL) AS without FROM events": None,
    "SELECT kind, SUM(amt) / NULLIF(COUNT(*), 0) AS mean FROM events GROUP BY kind": None,
    "SELECT kind, 100.0 * COUNT(*) / NULLIF(SUM(COUNT(*)) OVER (), 0) AS percent FROM events GROUP BY kind": None,
    "SELECT ROUND(COALESCE(SUM(amt), 0) / NULLIF(COUNT(*), 0), 2) AS mean FROM events WHERE member": None,
    "SELECT SUM(COALESCE(amt, 0)) AS total, AVG(COALESCE(amt, 0)) AS mean FROM events": None,
    "SELECT COALESCE(NULLIF(kind, 'never'), 'other') AS k, COUNT(*) FROM events WHERE kind <> 'never' GROUP BY k": None,
    "SELECT TOP 2 kind, COUNT(*) AS n FROM events GROUP BY kind ORDER BY n DESC": (
        "SELECT kind, COUNT(*) AS n FROM events GROUP BY kind ORDER BY n DESC LIMIT 2"
    ),
    "SELECT kind, COUNT(*) AS n FROM events GROUP BY kind ORDER BY n DESC FETCH FIRST 2 ROWS ONLY": None,
    "SELECT width_bucket(age, 18, 30, 4) AS b, COUNT(*) FROM events GROUP BY b": (
        "SELECT FLOOR((age - 18) * 4 / 12) + 1 AS b, COUNT(*) FROM events GROUP BY b"
    ),
    'SELECT "events"."kind", COUNT(*) AS "n" FROM "public"."events" GROUP BY "events"."kind"': None,
    "SELECT e.member, COUNT(*) AS n FROM public.events AS e WHERE e.age > 20 GROUP BY e.member ORDER BY e.member": None,
    "SELECT e.n FROM (SELECT kind, COUNT(*) AS n FROM public.events GROUP BY kind) AS e WHERE e.n > 1": None,
    "SELECT COUNT(DISTINCT kind) AS kinds, COUNT(DISTINCT day) AS days FROM events": None,
    "SELECT kind, COUNT(DISTINCT MONTH(day)) AS months FROM events WHERE kind <> 'never' GROUP BY kind": None,
    "SELECT SPLIT_PART(kind, '-', 1) AS k, COUNT(*) FROM events WHERE kind <> 'never' GROUP BY k": None,
    "SELECT REPLACE(UPPER(kind), 'BUY-', '') AS k, COUNT(*) FROM events WHERE kind <> 'never' GROUP BY k": None,
    "SELECT COUNT(*) FROM events WHERE kind IS DISTINCT FROM 'view'": None,
    "SELECT CASE WHEN POSITION('-' IN kind) > 0 THEN 'two' ELSE 'one' END AS words, COUNT(*) FROM events "
    "WHERE kind <> 'never' GROUP BY words": None,
}


@pytest.mark.parametrize("sql", ANSWERED)
def test_the_answer_is_that_of_duckdb(sql, release, engine):
    answer, theirs = release.query(sql), engine.execute(ANSWERED[sql] or sql)
    ours = [row for row in answer.rows if row[0] != "never"]  # which is listed, and has no rows
    assert rows_of(ours) == rows_of(theirs.fetchall())
    cells = [cell for row in ours for cell in row if isinstance(cell, Estimate) and not math.isnan(cell.value)]
    assert cells and all(cell.low <= cell.value <= cell.high for cell in cells)


# What is refused, and what the message says to write instead.
REFUSED = {
    "SELECT MEDIAN(amt) FROM events": "attributes: {amt: {type: number, lower: 0, upper: 20, bins: 20}}",
    "SELECT STDDEV(amt) FROM events": "attributes: {amt: {type: number, lower: 0, upper: 20, bins: 20}}",
    "SELECT COUNT(DISTINCT amt) FROM events": "a release has only sums of measures",
    "SELECT COUNT(*) FROM events WHERE amt IS NOT NULL": "write COUNT(amt) for the rows that have one",
    "SELECT STRFTIME(day, '%H:00') AS h, COUNT(*) FROM events GROUP BY h": "it takes an attribute that is",
    "SELECT COUNT(*) FROM events WHERE day >= '2024-02-01T00:00:00+02:00'": "write it as '2024-12-31'",
    "SELECT COUNT(*) FROM events WHERE day >= NOW() - INTERVAL '1 year 2 months'": "write INTERVAL 3 MONTH",
    "SELECT TO_CHAR(day, 'XX') AS x, COUNT(*) FROM events GROUP BY x": "known are YYYY",
    "SELECT WIDTH_BUCKET(age, 30, 18, 4) AS b, COUNT(*) FROM events GROUP BY b": "the lower first",
    "SELECT COUNT(*) FROM other.events": "write FROM events",
    "SELECT COUNT(*) FROM events WHERE kind ~ '(c+)+$'": "a regular expression (~) in a condition",
    "SELECT COUNT(*) FROM events WHERE regexp_matches(kind, '^c')": "is not supported; LIKE and ILIKE are",
    "SELECT COUNT(*) FROM events WHERE kind SIMILAR TO '(click|view)'": "or list the values with IN",
    "SELECT kind, COUNT(*) AS n, SUM(n) OVER () AS total FROM events GROUP BY kind": "no column 'n'; there are day",
    "SELECT": "the query selects nothing; write SELECT COUNT(*) FROM",
}


@pytest.mark.parametrize("sql", REFUSED)
def test_a_refusal_says_what_to_write(sql, release):
    with pytest.raises(QueryError) as caught:
        release.query(sql)
    assert REFUSED[sql] in str(caught.value) and "\n" not in str(caught.value)


def test_what_a_refusal_says_to_declare_is_a_schema(release):
    with pytest.raises(QueryError) as caught:
        release.query("SELECT MEDIAN(amt) FROM events")
    declared = yaml.safe_load(str(caught.value).partition("attributes: ")[2])
    measures = {"amt": {"lower": 0, "upper": 20}}
    schema = Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": declared, "measures": measures})
    assert schema.domain["amt"].size == 20


def test_the_clock_is_named_and_its_answers_are_not_kept(release, monkeypatch):
    answer = release.query("SELECT COUNT(*) FROM events WHERE day <= CURRENT_DATE")
    assert f"CURRENT_DATE is {date.today().isoformat()}, by the clock of the computer that answers" in answer.notes[0]

    class Then(datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(2024, 2, 10, 12, 30)

    monkeypatch.setattr("sfumato.sql.spellings.datetime", Then)
    ((then,),) = release.query("SELECT COUNT(*) FROM events WHERE day <= CURRENT_DATE").rows
    assert round(then.value) == sum(row[0] <= "2024-02-10" for row in TABLE)
    assert asks_clock("SELECT now()") and not asks_clock("SELECT 1")


def test_rows_are_synthetic_and_say_so(release):
    answer = release.query("SELECT * FROM events WHERE kind = 'view' AND age > 20 LIMIT 5")
    assert answer.columns == ("day", "kind", "age", "member", "amt", "synthetic_row") and len(answer) == 5
    assert all(row[1] == "view" and row[2] > 20 and 0 <= row[4] <= 20 for row in answer.rows)
    assert [row[-1] for row in answer.rows] == [1, 2, 3, 4, 5] and "5 synthetic rows" in answer.notes[0]
    assert answer.rows == release.query("SELECT * FROM events WHERE kind = 'view' AND age > 20 LIMIT 5").rows
    assert {str(kind) for kind in answer.to_arrow().schema.types} >= {"date32[day]", "int64", "bool", "string"}
    few = release.query("SELECT e.kind AS k, age + 1 AS next, STRFTIME(day, '%m') FROM events e ORDER BY age LIMIT 3")
    assert few.columns[:2] == ("k", "next") and [row[1] for row in few.rows] == sorted(row[1] for row in few.rows)
    assert release.query("SELECT * FROM events LIMIT 2", errors=False).columns[-1] == "amt"
    nobody = release.query("SELECT day FROM events WHERE kind = 'never' LIMIT 3")
    assert len(nobody) == 0 and "no more met the condition" in nobody.notes[0]


def test_no_rows_are_the_columns_and_distinct_values_are_listed(release):
    empty = release.query("SELECT * FROM events LIMIT 0")
    assert empty.headers == ("day", "kind", "age", "member", "amt", "synthetic_row") and empty.moments == {"day": "day"}
    assert [row[0] for row in release.query("SELECT DISTINCT kind FROM events LIMIT 9").rows] == [
        *("click", "view", "never", "buy-now")
    ]
    with pytest.raises(QueryError, match="65,536 is the most; draw more with `sfumato sample`"):
        release.query("SELECT * FROM events LIMIT 1000000")


COUNTS = "(SELECT kind, COUNT(*) AS n, MAX(day) AS last FROM events GROUP BY kind) AS c"


def test_errors_are_columns_of_a_subquery(release):
    alone = release.query(f"SELECT kind, n, n_low, n_high, n_stderr FROM {COUNTS}")
    assert alone.headers == ("kind", "n", "n_low", "n_high", "n_stderr")
    beside = release.query(f"SELECT kind, n FROM {COUNTS}")
    assert [list(row.values()) for row in alone.records()] == [
        [row[name] for name in ("kind", "n", "n_low", "n_high", "n_stderr")] for row in beside.records()
    ]
    sure = release.query(
        f"WITH w AS (SELECT * FROM {COUNTS}) SELECT kind, n_low FROM w WHERE w.n_low > 0 ORDER BY n_low"
    )
    assert sure.headers == ("kind", "n_low") and len(sure) == 3
    dates = release.query(f"SELECT last_high, n_high - n_low AS width FROM {COUNTS} WHERE kind = 'view'")
    assert dates.records() == [{"last_high": "2024-03-02", "width": 0}] and dates.moments == {"last_high": "day"}
    renamed = release.query(f"SELECT a.n, a.n_low AS low FROM {COUNTS.replace('AS c', 'AS a')} ORDER BY a.n_low DESC")
    assert renamed.headers == ("n", "low")


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (f"SELECT kind_low FROM {COUNTS}", "no column 'kind_low' in the subquery"),
        (f"SELECT SUM(n_low) FROM {COUNTS}", "n_low in an aggregate"),
    ],
)
def test_what_has_no_error_is_refused(sql, message, release):
    with pytest.raises(QueryError, match=message):
        release.query(sql)


def test_ends_of_two_kinds_choose_no_rows(release):
    with pytest.raises(QueryError, match="takes one kind of these: typical or guaranteed"):
        release.query(f"SELECT kind FROM {COUNTS} WHERE n_low > 0", interval="both")


def test_rows_chosen_by_ends_of_intervals_have_intervals_that_hold_for_all():
    """The level is that of all rows together: fewer rows are left than ends of single intervals would leave."""
    chosen = Chosen(3, 100, by_errors=True)
    assert confidence_of_each(0.95, [chosen]) == pytest.approx(1 - 0.05 / 100)
