"""Statements that analysts write, against DuckDB: the same text on the same table, once there and once on a release.

The release spends an epsilon so huge that its noise is nothing, so that values must agree after rounding. Statements
that a release cannot answer must be refused in one line, by names that stand in the statement.
"""

from __future__ import annotations

import math
import re
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pytest
from curators import curator_of
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.answers.results import Estimate
from sfumato.errors import QueryError, SfumatoError, UnsupportedSQL
from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.models import MECHANISMS
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.release import Release
from sfumato.schema import Schema
from sfumato.sql import compile_statement, read_workload
from sfumato.sql.compile import MOST_CHARACTERS, MOST_KNOWN

SCHEMA = Schema.from_dict(
    {
        "dataset": "visits",
        "privacy_unit": "row",
        "attributes": {
            "age": {"type": "integer", "lower": 24, "upper": 35},
            "ward": {"type": "category", "values": ["East", "North", "north-2"]},
            "sex": {"type": "category", "values": ["F", "M"]},
            "urgent": {"type": "boolean"},
            "day": {"type": "date", "lower": "2024-01-30", "upper": "2024-03-02", "by": "day"},
        },
        "measures": {"cost": {"lower": 0, "upper": 20, "step": 1}},
    }
)
EPSILON = 10**6


def table() -> list[tuple[Any, ...]]:
    """Every value in some rows, and no two groups of the same size."""
    days = SCHEMA.domain["day"].labels()
    return [
        (
            24 + n * n % 97 * (n % 13) % 12,
            ["East", "North", "north-2"][n % 7 % 3],
            "FM"[n % 5 % 2],
            n % 11 < 4,
            days[n % len(days)],
            n % 21,
        )
        for n in range(1500)
    ]


@pytest.fixture(scope="module")
def engine() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE visits (age INT, ward TEXT, sex TEXT, urgent BOOLEAN, day DATE, cost INT)")
    connection.executemany("INSERT INTO visits VALUES (?, ?, ?, ?, ?, ?)", table())
    return connection


@pytest.fixture(scope="module")
def release() -> Release:
    counts, sums = np.zeros(SCHEMA.domain.shape, dtype=np.int64), np.zeros(SCHEMA.domain.shape, dtype=np.int64)
    for *values, cost in table():
        cell = tuple(axis.labels().index(value) for axis, value in zip(SCHEMA.domain, values, strict=True))
        counts[cell] += 1
        sums[cell] += cost - 10  # in steps around the middle of the bounds
    curator = curator_of(SCHEMA, counts, sums={"cost": sums}, epsilon=EPSILON, entropy=TestingEntropy(4))
    cube = MECHANISMS["cells"].run(curator, SCHEMA, Budget.pure(EPSILON))
    return Release(cube, "cells", describe_guarantee(Budget.pure(EPSILON), SCHEMA), False)


@pytest.fixture(scope="module")
def noisy() -> Release:
    """Bins, and noise worth an interval."""
    attributes = {
        "age": {"type": "integer", "lower": 20, "upper": 39, "width": 5},
        "sex": {"type": "category", "values": ["F", "M"]},
        "day": {"type": "date", "lower": "2024-01-30", "upper": "2024-02-02", "by": "day"},
    }
    schema = Schema.from_dict({"dataset": "visits", "privacy_unit": "row", "attributes": attributes})
    counts = np.arange(schema.domain.size) * 7 % 60 + 5
    curator = curator_of(schema, counts, epsilon=1, entropy=TestingEntropy(5))
    cube = MECHANISMS["cells"].run(curator, schema, Budget.pure(1))
    return Release(cube, "cells", describe_guarantee(Budget.pure(1), schema), False)


def plain(cell: Any) -> Any:
    """A cell of either answer, as something that can be compared."""
    if isinstance(cell, Estimate) and cell.dates:
        cell = date(1970, 1, 1) + timedelta(days=math.floor(cell.value))
    if isinstance(cell, Estimate):
        cell = None if math.isnan(cell.value) else cell.value
    if isinstance(cell, datetime):
        cell = cell.date()
    if isinstance(cell, date):
        return cell.isoformat()
    if isinstance(cell, bool) or cell is None or isinstance(cell, str):
        return cell
    return round(float(cell) if isinstance(cell, Decimal) else cell, 6) + 0.0


def rows_of(answer: Any, *, ordered: bool) -> list[tuple[Any, ...]]:
    rows = [tuple(map(plain, row)) for row in answer]
    return rows if ordered else sorted(rows, key=lambda row: [(cell is None, str(cell)) for cell in row])


ANSWERED = """
-- CASE
SELECT CASE WHEN age < 30 THEN 'young' ELSE 'old' END AS kind, COUNT(*) FROM visits GROUP BY kind;
SELECT CASE WHEN age < 25 THEN 1 WHEN age < 35 THEN 2 ELSE 3 END AS band, AVG(cost), SUM(cost) FROM visits
    GROUP BY 1 ORDER BY band;
SELECT CASE sex WHEN 'F' THEN 'women' ELSE 'men' END AS who, COUNT(*) AS n FROM visits GROUP BY ALL;
SELECT CASE WHEN sex = 'F' AND age >= 30 THEN 'a' WHEN ward = 'East' THEN 'b' ELSE 'c' END AS k, COUNT(*) FROM
    visits GROUP BY k ORDER BY k;
SELECT sex, CASE WHEN urgent THEN 'yes' ELSE 'no' END AS u, COUNT(*) FROM visits GROUP BY sex, u;
SELECT COUNT(*) FROM visits WHERE CASE WHEN urgent THEN age > 30 ELSE age < 25 END;
SELECT IF(age < 30, 'young', 'old') AS kind, COUNT(*) FROM visits GROUP BY kind;
SELECT CASE WHEN age < 30 THEN 'young' END AS kind, COUNT(*) FROM visits GROUP BY kind;
SELECT SUM(CASE WHEN LOWER(ward) LIKE 'north%' THEN cost ELSE 0 END) FROM visits;
SELECT sex, COUNT(*), CASE WHEN COUNT(*) > 700 THEN 'many' ELSE 'few' END AS size FROM visits GROUP BY sex;
SELECT CASE WHEN sex = 'F' THEN 'women' ELSE 'men' END, AVG(cost) FROM visits GROUP BY sex ORDER BY sex;
-- arithmetic of attributes
SELECT FLOOR(age / 10) AS decade, COUNT(*) FROM visits GROUP BY decade;
SELECT FLOOR(age / 10) * 10 AS decade, COUNT(*) FROM visits GROUP BY FLOOR(age / 10) ORDER BY decade;
SELECT FLOOR(age / 7), sex, AVG(cost) FROM visits GROUP BY FLOOR(age / 7), sex;
SELECT age // 5 AS five, COUNT(*) FROM visits GROUP BY five ORDER BY five DESC;
SELECT age % 3 AS rest, COUNT(*) FROM visits GROUP BY rest;
SELECT age - 20 AS years, COUNT(*) FROM visits GROUP BY years HAVING COUNT(*) > 80;
SELECT ROUND(age, -1) AS about, COUNT(*) FROM visits GROUP BY about;
SELECT CEIL(age / 4) AS c, COUNT(*) FROM visits WHERE age > 22 GROUP BY c;
SELECT CEILING(age / 4.0) AS c, COUNT(*) FROM visits GROUP BY c;
SELECT CAST(age / 10 AS INTEGER) AS d, COUNT(*) FROM visits GROUP BY d;
SELECT age >= 30 AS older, COUNT(*) FROM visits GROUP BY older;
SELECT COUNT(*) FROM visits WHERE FLOOR(age / 10) = 2;
SELECT COUNT(*) FROM visits WHERE age * 2 + 1 > 60 AND (age - 20) % 2 = 0;
SELECT COUNT(*) FROM visits WHERE ABS(age - 30) <= 3;
SELECT sex, COUNT(*) FROM visits WHERE FLOOR(age / 5) IN (4, 6) GROUP BY sex;
SELECT COUNT(*) FROM visits WHERE age BETWEEN 20 + 1 AND 40 - 5;
SELECT age, FLOOR(age / 10) AS decade, COUNT(*) FROM visits GROUP BY age ORDER BY age LIMIT 5;
SELECT GREATEST(age, 30) AS a, COUNT(*) FROM visits GROUP BY a;
SELECT sex, SUM(FLOOR(age / 10)), AVG(ABS(age - 30)), SUM(age * age) FROM visits GROUP BY sex;
SELECT AVG(LENGTH(ward)), SUM(NULLIF(age, 30)), COUNT(NULLIF(age, 30)), AVG(EXTRACT(DAY FROM day)) FROM visits;
-- dates
SELECT EXTRACT(MONTH FROM day) AS m, COUNT(*) FROM visits GROUP BY m;
SELECT EXTRACT(YEAR FROM day) AS y, EXTRACT(MONTH FROM day) AS m, SUM(cost) FROM visits GROUP BY y, m;
SELECT YEAR(day), COUNT(*) FROM visits GROUP BY YEAR(day);
SELECT MONTH(day) AS m, sex, COUNT(*) FROM visits GROUP BY m, sex ORDER BY m, sex;
SELECT DATE_TRUNC('month', day) AS m, COUNT(*) FROM visits GROUP BY m ORDER BY m;
SELECT date_trunc('week', day) AS w, COUNT(*) FROM visits GROUP BY 1 ORDER BY 1;
SELECT DAYOFWEEK(day) AS d, COUNT(*) FROM visits GROUP BY d;
SELECT date_part('month', day) AS m, AVG(cost) FROM visits GROUP BY m;
SELECT QUARTER(day) AS q, COUNT(*) FROM visits GROUP BY q;
SELECT monthname(day) AS m, COUNT(*) FROM visits GROUP BY m;
SELECT COUNT(*) FROM visits WHERE EXTRACT(MONTH FROM day) = 2;
SELECT COUNT(*) FROM visits WHERE YEAR(day) = 2024 AND MONTH(day) IN (1, 3);
SELECT COUNT(*) FROM visits WHERE day BETWEEN '2024-02-01' AND '2024-02-29';
SELECT COUNT(*) FROM visits WHERE day BETWEEN DATE '2024-02-10' AND DATE '2024-02-12';
SELECT COUNT(*) FROM visits WHERE DATE_TRUNC('month', day) = DATE '2024-02-01';
SELECT COUNT(*) FROM visits WHERE day >= '2024-02-10 00:00:00';
SELECT COUNT(*) FROM visits WHERE day < DATE '2024-02-01' + INTERVAL 1 DAY;
SELECT COUNT(*) FROM visits WHERE day >= DATE '2024-03-31' - INTERVAL 1 MONTH;
SELECT COUNT(*) FROM visits WHERE day BETWEEN DATE '2024-02-01' AND DATE '2024-02-01' + INTERVAL '3 weeks';
SELECT day, DAYOFWEEK(day) AS weekday, COUNT(*) FROM visits WHERE day < '2024-02-05' GROUP BY day ORDER BY
    day;
-- lists and text
SELECT COUNT(*) FROM visits WHERE ward IN ('East', 'North') AND sex NOT IN ('M');
SELECT COUNT(*) FROM visits WHERE ward LIKE 'N%';
SELECT COUNT(*) FROM visits WHERE ward ILIKE 'n%';
SELECT COUNT(*) FROM visits WHERE ward NOT LIKE '%o_th%';
SELECT COUNT(*) FROM visits WHERE LOWER(ward) = 'north';
SELECT COUNT(*) FROM visits WHERE UPPER(ward) IN ('NORTH', 'EAST');
SELECT LOWER(ward) AS w, COUNT(*) FROM visits GROUP BY w ORDER BY w;
SELECT LEFT(LOWER(ward), 5) AS w, COUNT(*) FROM visits GROUP BY w;
SELECT UPPER(sex) || '/' || LOWER(ward) AS k, COUNT(*) FROM visits GROUP BY sex, ward;
SELECT COALESCE(ward, 'none') AS w, COUNT(*) FROM visits GROUP BY w;
SELECT COUNT(*) FROM visits WHERE LENGTH(ward) = 5 AND starts_with(ward, 'N');
SELECT CONCAT(sex, '-', ward) AS k, COUNT(*) FROM visits GROUP BY k;
-- HAVING, ORDER BY
SELECT ward, COUNT(*) FROM visits GROUP BY ward HAVING COUNT(*) > 450;
SELECT age, AVG(cost) AS a FROM visits GROUP BY age HAVING a > 10 AND COUNT(*) > 60 ORDER BY a DESC;
SELECT ward, sex, SUM(cost) FROM visits GROUP BY ward, sex HAVING sex = 'F' OR SUM(cost) > 2000;
SELECT age, COUNT(*) AS n FROM visits GROUP BY age HAVING n BETWEEN 60 AND 90 ORDER BY n DESC, age LIMIT 3;
SELECT COUNT(*) FROM visits HAVING COUNT(*) > 10;
SELECT ward FROM visits GROUP BY ward HAVING COUNT(*) > 450;
SELECT age, COUNT(*) AS n FROM visits GROUP BY age ORDER BY ABS(n - 75), age LIMIT 4;
SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY ROUND(n, -2) DESC, ward;
-- constants and rounding
SELECT ward, ROUND(AVG(cost), 1) FROM visits GROUP BY ward;
SELECT ROUND(100.0 * COUNT(*) FILTER (WHERE urgent) / COUNT(*), 2) AS percent FROM visits;
SELECT ward, CAST(AVG(cost) AS INTEGER) AS c FROM visits GROUP BY ward;
SELECT ward, FLOOR(AVG(cost)), CEIL(AVG(cost)) FROM visits GROUP BY ward;
SELECT ward, CAST(AVG(cost) AS DECIMAL(10, 1)) AS c FROM visits GROUP BY ward;
SELECT COUNT(*) + 1, COUNT(*) - 5, 1000 - COUNT(*) FROM visits;
SELECT 'all' AS what, 2024 AS year, COUNT(*) FROM visits;
SELECT ABS(SUM(cost) - 20000), ABS(COUNT(*) - 3000) FROM visits;
SELECT COALESCE(SUM(cost), 0), COALESCE(AVG(cost), -1) FROM visits;
SELECT GREATEST(COUNT(*), 0), LEAST(COUNT(*), 100) FROM visits;
SELECT ward, COUNT(*) / 1000.0 AS thousands, -COUNT(*) AS minus FROM visits GROUP BY ward;
SELECT 5 AS five, NULL AS nothing, COUNT(*) > 3 AS enough FROM visits;
-- WITH and subqueries
SELECT * FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) WHERE n > 450 ORDER BY n DESC;
WITH w AS (SELECT ward, COUNT(*) AS n, SUM(cost) AS c FROM visits GROUP BY ward) SELECT ward, c / n AS mean
    FROM w ORDER BY mean;
WITH young AS (SELECT * FROM visits WHERE age < 30) SELECT sex, COUNT(*), AVG(cost) FROM young GROUP BY sex;
WITH v AS (SELECT FLOOR(age / 10) AS decade, cost FROM visits) SELECT decade, AVG(cost) FROM v GROUP BY
    decade;
SELECT decade, n FROM (SELECT FLOOR(age / 10) AS decade, COUNT(*) AS n FROM visits GROUP BY 1) t WHERE
    t.decade = 2;
SELECT COUNT(*) FROM (SELECT age, sex FROM visits WHERE urgent) AS u WHERE u.sex = 'F';
WITH a AS (SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex), b AS (SELECT * FROM a WHERE n > 700) SELECT
    sex, n * 2 AS twice FROM b;
SELECT sex, n, ROUND(100.0 * n / SUM(n) OVER (), 1) AS percent FROM (SELECT sex, COUNT(*) AS n FROM visits
    GROUP BY sex);
SELECT * FROM (SELECT age, COUNT(*) AS n FROM visits GROUP BY age ORDER BY n DESC LIMIT 3) WHERE n > 80 ORDER
    BY age;
WITH east AS (SELECT * FROM visits WHERE ward = 'East') SELECT COUNT(*) / (SELECT COUNT(*) FROM east) FROM
    visits;
SELECT ward, a - b AS gap FROM (SELECT ward, SUM(cost) AS a, COUNT(*) AS b FROM visits GROUP BY ward);
SELECT UPPER(ward) AS w, n FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) ORDER BY n;
WITH w(place, n) AS (SELECT ward, COUNT(*) FROM visits GROUP BY ward) SELECT place, n FROM w WHERE n > 450;
SELECT a, b FROM (SELECT ward, SUM(cost) FROM visits GROUP BY ward) AS t(a, b) ORDER BY b;
SELECT FLOOR(age / 10) AS d, COUNT(*) FROM visits WHERE 1 = 2 GROUP BY d;
-- values alone
SELECT DISTINCT ward FROM visits;
SELECT DISTINCT sex, urgent FROM visits ORDER BY sex, urgent;
SELECT DISTINCT FLOOR(age / 10) AS decade FROM visits ORDER BY decade;
SELECT DISTINCT UPPER(ward) AS w FROM visits WHERE ward <> 'East';
SELECT ward FROM visits GROUP BY ward;
SELECT DISTINCT MONTH(day) AS m FROM visits;
-- grouping sets
SELECT ward, sex, COUNT(*) FROM visits GROUP BY GROUPING SETS ((ward, sex), (ward), ());
SELECT ward, sex, SUM(cost) FROM visits GROUP BY ROLLUP (ward, sex);
SELECT ward, urgent, AVG(cost) FROM visits GROUP BY CUBE (ward, urgent);
SELECT sex, ward, COUNT(*) FROM visits GROUP BY sex, ROLLUP (ward);
SELECT FLOOR(age / 10) AS decade, COUNT(*) FROM visits GROUP BY ROLLUP (decade) ORDER BY decade;
SELECT ward, GROUPING(ward) AS total, COUNT(*) FROM visits GROUP BY ROLLUP (ward) HAVING COUNT(*) > 450;
SELECT COALESCE(ward, 'all') AS w, COUNT(*) AS n FROM visits GROUP BY ROLLUP (ward) ORDER BY n DESC;
-- totals over groups and ranks
SELECT sex, ward, COUNT(*) / SUM(COUNT(*)) OVER (PARTITION BY sex) AS share FROM visits GROUP BY sex, ward;
SELECT sex, ward, COUNT(*) / SUM(COUNT(*)) OVER (PARTITION BY ward), COUNT(*) / SUM(COUNT(*)) OVER () FROM
    visits GROUP BY sex, ward;
SELECT sex, FLOOR(age / 10) AS d, SUM(cost) / SUM(SUM(cost)) OVER (PARTITION BY FLOOR(age / 10)) AS s FROM
    visits GROUP BY sex, FLOOR(age / 10);
SELECT FLOOR(age / 10) AS d, COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM visits WHERE urgent GROUP BY d;
SELECT sex, ward, ROUND(100 * COUNT(*) / SUM(COUNT(*)) OVER (PARTITION BY sex), 1) AS p FROM visits GROUP BY
    sex, ward ORDER BY sex, p DESC, ward;
SELECT ward, RANK() OVER (ORDER BY COUNT(*) DESC) AS place FROM visits GROUP BY ward ORDER BY place;
SELECT age, ROW_NUMBER() OVER (ORDER BY COUNT(*) DESC, age) AS place, COUNT(*) FROM visits GROUP BY age ORDER
    BY place LIMIT 5;
SELECT ward, sex, RANK() OVER (PARTITION BY sex ORDER BY SUM(cost)) AS place FROM visits GROUP BY ward, sex;
SELECT * FROM (SELECT ward, sex, ROW_NUMBER() OVER (PARTITION BY sex ORDER BY COUNT(*) DESC) AS r FROM visits
    GROUP BY ward, sex) WHERE r = 1;
SELECT ward, COUNT(*) FROM visits GROUP BY ward QUALIFY RANK() OVER (ORDER BY COUNT(*) DESC) <= 2;
SELECT ward, DENSE_RANK() OVER (ORDER BY ROUND(COUNT(*), -2)) AS r FROM visits GROUP BY ward;
-- UNION ALL
SELECT 'F' AS who, COUNT(*) AS n FROM visits WHERE sex = 'F' UNION ALL SELECT 'M', COUNT(*) FROM visits WHERE
    sex = 'M';
SELECT ward AS what, COUNT(*) AS n FROM visits GROUP BY ward UNION ALL SELECT sex, COUNT(*) FROM visits GROUP
    BY sex ORDER BY n DESC LIMIT 4;
SELECT what, n FROM (SELECT ward AS what, COUNT(*) AS n FROM visits GROUP BY ward UNION ALL SELECT 'all',
    COUNT(*) FROM visits) WHERE n > 450 ORDER BY 2;
SELECT FLOOR(age / 10) AS d, MEDIAN(age), MIN(age), MAX(age) FROM visits GROUP BY d;
SELECT MONTH(day) AS m, AVG(cost) - (SELECT AVG(cost) FROM visits) AS gap FROM visits GROUP BY m;
SELECT ward, ROUND(STDDEV(age), 2) AS s FROM visits GROUP BY ward HAVING MAX(age) > 30 ORDER BY s;
SELECT sex, ABS(AVG(cost) FILTER (WHERE urgent) - AVG(cost) FILTER (WHERE NOT urgent)) AS gap FROM visits GROUP BY sex;
SELECT ward, a / b FROM (SELECT ward, AVG(cost) AS a, AVG(age) AS b FROM visits GROUP BY ward);
SELECT MAX(day) FROM visits HAVING MAX(day) > DATE '2024-02-01';
-- sums over the groups of a subquery
SELECT AVG(n), MAX(n), MIN(n), COUNT(*) FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward);
SELECT SUM(n) FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ROLLUP (ward));
SELECT SUM(a) FROM (SELECT ward, AVG(cost) AS a FROM visits GROUP BY ward);
SELECT SUM(n * n) FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward);
SELECT SUM(age) FROM (SELECT age, COUNT(*) AS n FROM visits GROUP BY age);
SELECT ward, SUM(COUNT(*)) OVER () FROM visits GROUP BY ROLLUP (ward);
SELECT ward, LAG(COUNT(*)) OVER (ORDER BY ward) FROM visits GROUP BY ward;
SELECT ward, NTILE(2) OVER (ORDER BY COUNT(*)) FROM visits GROUP BY ward;
SELECT COUNT(*) FROM visits, (SELECT 1);
SELECT SUM(n) FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward);
SELECT SUM(n) AS s FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) WHERE ward <> 'East';
SELECT sex, SUM(n) AS s, SUM(c) AS q FROM (SELECT ward, sex, COUNT(*) AS n, SUM(cost) AS c FROM visits WHERE age > 25
    GROUP BY ward, sex) AS x WHERE LOWER(ward) LIKE '%t%' GROUP BY sex ORDER BY s DESC;
WITH x AS (SELECT FLOOR(age / 10) AS d, sex, COUNT(*) AS n FROM visits GROUP BY ALL)
    SELECT d, SUM(n) AS s FROM x WHERE d < 3 GROUP BY d ORDER BY d;
SELECT SUM(n) FILTER (WHERE sex = 'F') / SUM(n) AS share FROM (SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex);
SELECT SUM(f - m) AS d, SUM(2 * (f + m)) / 2 AS every FROM (SELECT ward, COUNT(*) FILTER (WHERE sex = 'F') AS f,
    COUNT(*) FILTER (WHERE sex = 'M') AS m FROM visits GROUP BY ward);
SELECT SUM(c) / SUM(n) AS mean FROM (SELECT ward, SUM(cost) AS c, COUNT(*) AS n FROM visits GROUP BY ward);
SELECT SUM(CASE WHEN ward = 'East' THEN n ELSE 0 END) AS e FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward);
SELECT sex, SUM(n) AS s FROM (SELECT sex, ward, COUNT(*) AS n FROM visits GROUP BY ALL) GROUP BY sex HAVING SUM(n) > 9;
SELECT SUM(s) FROM (SELECT sex, SUM(n) AS s FROM (SELECT sex, ward, COUNT(*) AS n FROM visits GROUP BY ALL) GROUP BY 1);
-- unions
SELECT COUNT(*) AS n FROM visits UNION ALL SELECT SUM(cost) FROM visits UNION ALL SELECT 7 * COUNT(*) FROM
    visits;
"""
STATEMENTS = read_workload(re.sub("^--.*$", "", ANSWERED, flags=re.MULTILINE))


@pytest.mark.parametrize("sql", STATEMENTS)
def test_answers_are_those_of_duckdb(sql, release, engine):
    ours, theirs = release.query(sql), engine.execute(sql)
    ordered = "ORDER BY" in sql.rpartition(")")[2]
    assert len(ours.columns) == len(theirs.description)
    assert rows_of(ours, ordered=ordered) == rows_of(theirs.fetchall(), ordered=ordered)
    for row in ours:
        for cell in row:
            assert not isinstance(cell, Estimate) or cell.low <= cell.value <= cell.high or math.isnan(cell.value)


# What is refused, and what the message must say of it.
REFUSED = {
    "SELECT SQRT(age) AS r, COUNT(*) FROM visits GROUP BY r": "the function SQRT",
    "SELECT COUNT(*) FROM visits WHERE my_function(sex) = 'f'": "the function MY_FUNCTION",
    "SELECT STRFTIME(day, '%Y %H') AS y, COUNT(*) FROM visits GROUP BY y": "known by days; it takes an attribute",
    "SELECT STRFTIME(day, '%Y %M') AS y, COUNT(*) FROM visits GROUP BY y": "%M is not known in a format of dates",
    "SELECT list(ward) FROM visits": "the function LIST",
    "SELECT string_agg(ward, ',') FROM visits GROUP BY sex": "the function STRING_AGG",
    "SELECT arg_max(ward, age) FROM visits": "the function ARG_MAX",
    "SELECT bool_or(urgent) FROM visits": "the function BOOL_OR",
    "SELECT EXTRACT(HOUR FROM day) AS h, COUNT(*) FROM visits GROUP BY h": "known by days; it takes an attribute",
    "SELECT DATE_TRUNC('hour', day) AS h, COUNT(*) FROM visits GROUP BY h": "known by days; it takes an attribute",
    "SELECT COUNT(*) FROM visits WHERE regexp_matches(ward, 'N.*')": "the function REGEXP_MATCHES",
    "SELECT COUNT(*) FROM visits WHERE ward SIMILAR TO 'N.*'": "SIMILAR",
    "SELECT COUNT(*) FROM visits WHERE day + INTERVAL '1 day 2 hours' < DATE '2024-02-01'": "INTERVAL",
    "SELECT COUNT(*) FROM visits WHERE EXISTS (SELECT 1)": "EXISTS",
    "SELECT COUNT(*) FROM visits WHERE cost > 3": "cost is a measure",
    "SELECT FLOOR(cost / 10) AS c, COUNT(*) FROM visits GROUP BY c": "cost is a measure",
    "SELECT cost FROM visits": "cost is a measure",
    "SELECT age, COUNT(*) FROM visits GROUP BY sex": "age is named but not in GROUP BY",
    "SELECT FLOOR(age / 10), COUNT(*) FROM visits GROUP BY sex": "age is named but not in GROUP BY",
    "SELECT ward, COUNT(*) FROM visits GROUP BY ward HAVING age > 3": "age is named but not in GROUP BY",
    "SELECT COUNT(*) FROM visits v JOIN visits w ON v.age = w.age": "JOIN",
    "SELECT COUNT(*) FROM elsewhere": "no table 'elsewhere'",
    "WITH a AS (SELECT 1 FROM elsewhere) SELECT * FROM a": "no table 'elsewhere'",
    "SELECT SUM(n) FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) WHERE n > 9": "SUM(n) over groups that",
    "SELECT n, SUM(n) FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY 1) GROUP BY n": "GROUP BY n, which goes by",
    "SELECT n, SUM(n) FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward)": "n is named but not in GROUP BY",
    "SELECT SUM(n) FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY 1 HAVING n > 9)": "SUM(n) over groups",
    "SELECT MEDIAN(n) FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward)": "MEDIAN(n) of what a subquery",
    "SELECT SUM(ROUND(n)) FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward)": "ROUND(n) in an aggregate",
    "SELECT m FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward)": "no column 'm' in the subquery",
    "SELECT COUNT(*) FROM (SELECT * FROM visits LIMIT 10)": "LIMIT in a subquery",
    "SELECT COUNT(*) FROM (SELECT sex FROM visits UNION ALL SELECT ward FROM visits)": "rows that UNION ALL puts",
    "SELECT a FROM (SELECT ward, sex FROM visits) AS t(a)": "names 1 columns of a subquery that has 2",
    "WITH RECURSIVE a AS (SELECT 1) SELECT * FROM a": "WITH RECURSIVE",
    "SELECT ward FROM visits UNION ALL SELECT sex, age FROM visits": "different numbers of columns",
    "SELECT ward FROM visits EXCEPT SELECT sex FROM visits": "EXCEPT",
    "SELECT ward FROM visits INTERSECT SELECT sex FROM visits": "INTERSECT",
    "SELECT DISTINCT COUNT(*) FROM visits GROUP BY ward": "SELECT DISTINCT of aggregates",
    "SELECT DISTINCT ON (sex) sex, ward FROM visits": "DISTINCT ON",
    "SELECT COUNT(*) / SUM(COUNT(*)) OVER () FROM visits GROUP BY ward HAVING COUNT(*) > 9": "after groups were left",
    "SELECT ward, SUM(COUNT(*)) OVER (PARTITION BY sex) FROM visits GROUP BY ward": "PARTITION BY sex",
    "SELECT ward, RANK() OVER () FROM visits GROUP BY ward": "a rank of this form",
    "SELECT ward, COUNT(*) || ' rows' FROM visits GROUP BY ward": "in the select list is not supported",
    "SELECT CAST(COUNT(*) AS VARCHAR) FROM visits": "in the select list is not supported",
    "SELECT COUNT(*) % 10 FROM visits": "in the select list is not supported",
    "SELECT SUM(age * cost) FROM visits": "the product of two columns",
    "SELECT ward FROM visits GROUP BY COUNT(*)": "an aggregate in GROUP BY",
    "SELECT COUNT(*) FROM visits GROUP BY ward WITH ROLLUP": "WITH ROLLUP",
    "SELECT COUNT(*) FROM visits WHERE ward LIKE 'a!%' ESCAPE '!'": "LIKE with ESCAPE",
    "SELECT COUNT(*) FROM visits TABLESAMPLE 10": "TABLESAMPLE",
    "SELECT COUNT(*) FROM visits WHERE LOWER(ward)": "is not a condition",
    "SELECT COUNT(*) FROM visits WHERE ward = 5 + LOWER(ward)": "cannot be put together",
    "SELECT COUNT(*) FROM visits WHERE age * '2' = '22'": "cannot be put together",  # Python writes a text twice
    "SELECT COUNT(*) FROM visits WHERE ward = ward + 'x'": "cannot be put together",
    "SELECT COUNT(*) FROM visits LIMIT -1": "LIMIT needs a whole number",
    "DELETE FROM visits": "DELETE",
}


@pytest.mark.parametrize("sql", REFUSED)
def test_refusals_are_one_line_in_the_words_of_the_statement(sql, release):
    with pytest.raises(QueryError) as caught:
        release.query(sql)
    message = str(caught.value)
    assert REFUSED[sql] in message and "\n" not in message
    if isinstance(caught.value, UnsupportedSQL):  # what follows the semicolon says what would work
        refused = message.partition(";")[0]
        known = set(re.findall(r"\w+", sql.upper()))
        assert set(re.findall(r"\b[A-Z][A-Z_]+\b", refused)) <= known, message


def test_a_group_by_expression_is_the_where_that_it_stands_for(noisy):
    grouped = noisy.query("SELECT FLOOR(age / 10) AS d, sex, COUNT(*), AVG(age) FROM visits GROUP BY d, sex")
    assert [row[:2] for row in grouped] == [(2, "F"), (2, "M"), (3, "F"), (3, "M")]
    for decade, sex, *numbers in grouped:
        where = f"sex = '{sex}' AND age BETWEEN {10 * decade} AND {10 * decade + 9}"
        assert noisy.query(f"SELECT COUNT(*), AVG(age) FROM visits WHERE {where}").rows == (tuple(numbers),)


def test_margins_are_asked_along_the_attributes_of_an_expression_alone():
    attributes = {name: {"type": "integer", "lower": 0, "upper": 19} for name in ("age", "hours", "years")}
    schema = Schema.from_dict({"dataset": "visits", "privacy_unit": "row", "attributes": attributes})
    counts = np.arange(schema.domain.size) * 7 % 11
    curator = curator_of(schema, counts, epsilon=1, entropy=TestingEntropy(6))
    margins = MECHANISMS["margins"].run(curator, schema, Budget.pure(1))
    release = Release(margins, "margins", describe_guarantee(Budget.pure(1), schema), False)
    grouped = release.query("SELECT FLOOR(age / 5) AS d, hours >= 10 AS long, COUNT(*) FROM visits GROUP BY d, long")
    assert len(grouped) == 8
    for fives, long, count in grouped:
        where = f"age BETWEEN {5 * fives} AND {5 * fives + 4} AND hours {'>=' if long else '<'} 10"
        ((same,),) = release.query(f"SELECT COUNT(*) FROM visits WHERE {where}").rows
        assert (count.value, count.low, count.high) == pytest.approx((same.value, same.low, same.high), abs=1)


def test_a_share_of_a_partition_is_the_ratio_that_it_stands_for(noisy):
    shares = noisy.query("SELECT sex, age, COUNT(*) / SUM(COUNT(*)) OVER (PARTITION BY sex) FROM visits GROUP BY 1, 2")
    assert len(shares) == 8
    for sex, age, share in shares:
        within = f"FILTER (WHERE sex = '{sex}' AND age = '{age}')"
        (expected,) = noisy.query(f"SELECT COUNT(*) {within} / COUNT(*) FROM visits WHERE sex = '{sex}'").rows
        assert (share,) == expected


def test_an_expression_that_cuts_bins_says_so_and_strict_refuses_it(noisy):
    sql = "SELECT FLOOR(age / 7) AS week, COUNT(*) FROM visits GROUP BY week"
    answer = noisy.query(sql)
    assert answer.notes == (
        "FLOOR(age / 7) cuts the bins 20 to 24, 25 to 29: rows are taken as spread evenly inside a bin, "
        "and the interval allows for any spread",
    )
    for week, count in answer:
        where = f"age BETWEEN {7 * week} AND {7 * week + 6}"
        assert noisy.query(f"SELECT COUNT(*) FROM visits WHERE {where}").rows == ((count,),)
    with pytest.raises(QueryError, match=r"FLOOR\(age / 7\) cuts the bin"):
        noisy.query(sql, strict=True)
    with pytest.raises(UnsupportedSQL, match=r"FLOOR\(age / 7\) is not one value inside the bins of age"):
        noisy.query("SELECT age, FLOOR(age / 7), COUNT(*) FROM visits GROUP BY age")


def test_a_time_of_day_is_answered_as_a_cut_day(noisy):
    def count(where: str) -> Estimate:
        ((found,),) = noisy.query(f"SELECT COUNT(*) FROM visits WHERE {where}").rows
        return found

    cut, without, within = count("day >= '2024-02-01 12:00'"), count("day > '2024-02-01'"), count("day >= '2024-02-01'")
    assert cut.value == pytest.approx((without.value + within.value) / 2)
    assert cut.low < without.value and cut.high > within.value and cut.model > 0
    (note,) = noisy.query("SELECT COUNT(*) FROM visits WHERE day >= '2024-02-01 12:00'").notes
    assert note.startswith("day >= '2024-02-01 12:00' cuts the bin 2024-02-01: ")


@pytest.mark.parametrize(
    ("sql", "note"),
    [
        ("SELECT sex, COUNT(*) FROM visits GROUP BY sex HAVING COUNT(*) > 3", "HAVING goes by the published values"),
        (
            "SELECT * FROM (SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex) WHERE n > 3",
            "WHERE goes by the published",
        ),
        ("SELECT RANK() OVER (ORDER BY COUNT(*)) FROM visits GROUP BY sex", "the rank goes by the published values"),
        ("SELECT CASE WHEN COUNT(*) > 3 THEN 1 END FROM visits", "CASE goes by the published values"),
        ("SELECT DISTINCT sex FROM visits", "a release holds no rows"),
    ],
)
def test_what_goes_by_noisy_values_is_said(sql, note, noisy):
    (found,) = noisy.query(sql).notes
    assert found.startswith(note)


def test_functions_of_an_estimate_are_functions_of_its_ends(noisy):
    ((count, rounded, less, size, most, sevenths),) = noisy.query(
        "SELECT COUNT(*), ROUND(COUNT(*), -1), 10 - COUNT(*), ABS(COUNT(*) - 10000), GREATEST(COUNT(*), 1e6), "
        "FLOOR(COUNT(*) / 7) FROM visits"
    ).rows
    assert (rounded.low, rounded.high) == (round(count.low, -1), round(count.high, -1))
    assert (less.low, less.high, less.stderr) == (10 - count.high, 10 - count.low, count.stderr)
    assert (size.low, size.high) == (10000 - count.high, 10000 - count.low)
    assert (most.value, most.low, most.high) == (1e6, 1e6, 1e6)
    assert (sevenths.low, sevenths.high) == (count.low // 7, count.high // 7)


def test_all_values_are_listed_once(release):
    listed = release.query("SELECT * FROM visits WHERE age = 30")
    assert listed.columns == ("age", "ward", "sex", "urgent", "day")
    assert listed.rows[0] == (30, "East", "F", False, "2024-01-30") and len(listed) == 3 * 2 * 2 * 33
    assert len(release.query("SELECT sex, ward FROM visits")) == 6
    with pytest.raises(QueryError, match="228,096 combinations of values would be listed"):
        release.query("SELECT *, FLOOR(age / 10), age + 1, LOWER(sex) FROM visits")


def test_null_is_called_so(release):
    assert repr(release.query("SELECT sex, COUNT(*) FROM visits GROUP BY ROLLUP (sex)")).count("NULL") == 1


def test_a_workload_may_hold_such_statements():
    from sfumato.planner.questions import read_statements, statement_items

    text = "SELECT FLOOR(age / 10) AS d, COUNT(*) FROM visits GROUP BY ROLLUP (d); SELECT COUNT(*) FROM visits"
    statements = read_statements(text, SCHEMA)
    assert [query.rpartition(" ")[2] for query, _ in statements] == ["2)", "2)", "visits"]
    items, workload = statement_items(statements, SCHEMA)
    assert len(items) == 3 and [block.rows for block in workload.blocks] == [2, 1, 1]


WORDS = """
SELECT FROM WHERE GROUP BY ORDER HAVING LIMIT 3 COUNT(*) SUM(cost) AVG( FLOOR( LOWER( ( ) , . ' + - * / % < = AND OR
NOT IN BETWEEN CASE WHEN THEN ELSE END NULL TRUE age ward sex urgent day cost visits 1 2.5 'F' OVER () FILTER IS LIKE
AS n :: INT EXISTS UNION ALL WITH w (SELECT DISTINCT ROLLUP( CUBE( RANK() OVER(ORDER YEAR(day) ROUND( COALESCE(
PARTITION QUALIFY EXTRACT(MONTH DATE_TRUNC('month', MEDIAN(age) GROUPING(sex) ||
"""
FRAMES = (
    "{}",
    "SELECT {} FROM visits",
    "SELECT {} FROM visits GROUP BY sex",
    "SELECT sex, COUNT(*) FROM visits GROUP BY {}",
    "SELECT COUNT(*) FROM visits WHERE {}",
    "SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex HAVING {}",
    "SELECT * FROM (SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex) {}",
    "SELECT {} FROM (SELECT sex, ward, COUNT(*) AS n FROM visits GROUP BY sex, ward) AS w",
)


@settings(deadline=None, max_examples=200)
@given(st.lists(st.sampled_from(WORDS.split()), min_size=1, max_size=9).map(" ".join), st.sampled_from(FRAMES))
def test_any_text_is_answered_or_refused_in_one_line(text, frame):
    try:
        compile_statement(frame.format(text), SCHEMA)
    except SfumatoError as error:
        assert "\n" not in str(error)


def test_a_statement_is_compiled_once_for_a_schema_and_a_long_one_is_kept_alone():
    text = "SELECT COUNT(*) FROM release"
    first = compile_statement(text, SCHEMA)
    assert compile_statement(text, SCHEMA) is first
    assert compile_statement(text, Schema.from_dict(SCHEMA.to_dict())) is not first
    long = text + " " * MOST_CHARACTERS
    assert compile_statement(long, SCHEMA) is compile_statement(long, SCHEMA)
    again = compile_statement(text, SCHEMA)
    assert again is not first
    for number in range(MOST_KNOWN):
        compile_statement(text + " " * (number + 1), SCHEMA)
    assert compile_statement(text, SCHEMA) is not again


ENDS = """
SELECT ROUND(COUNT(*), 400) AS n, ROUND(COUNT(*), -400) AS none, ROUND(AVG(age), 308) AS a FROM visits;
SELECT sex FROM visits GROUP BY sex HAVING ROUND(COUNT(*), 400) > 3;
SELECT sex FROM visits GROUP BY sex HAVING ROUND(COUNT(*), -400) > 3;
SELECT c, n FROM (SELECT sex AS c, COUNT(*) AS n FROM visits GROUP BY sex) WHERE ROUND(n, -400) = 0;
SELECT COUNT(*) AS n FROM visits WHERE ROUND(age, -400) = 0 AND ROUND(age, 400) > 30;
SELECT COUNT(*) / COUNT(*) / COUNT(*) AS n FROM visits;
SELECT GREATEST(MIN(day), DATE '2024-02-29') AS d, LEAST(MIN(day), DATE '2024-01-01') AS e FROM visits;
SELECT MIN(age) AS n, MAX(age) AS m FROM visits WHERE age > 99;
SELECT CASE WHEN age < 30 THEN age END AS k, COUNT(*) AS n FROM visits GROUP BY age ORDER BY k DESC, n LIMIT 8;
"""
RENAMED = """
WITH t AS (SELECT sex AS c, COUNT(*) AS n FROM visits GROUP BY sex) SELECT c, n FROM t;
SELECT C, n, n / 2 AS half FROM (SELECT sex AS c, COUNT(*) AS n FROM visits GROUP BY sex) AS s;
WITH t(a, b) AS (SELECT sex, AVG(cost) FROM visits GROUP BY sex), u AS (SELECT b, a AS z FROM t) SELECT z, b FROM u;
SELECT c FROM (SELECT DISTINCT sex AS c FROM visits);
SELECT n AS sex FROM (SELECT sex AS c, COUNT(*) AS n FROM visits GROUP BY sex) WHERE c = 'F' ORDER BY sex;
SELECT ward, sex FROM (SELECT sex AS ward, ward AS sex, COUNT(*) AS n FROM visits GROUP BY ALL) WHERE sex = 'East';
WITH t AS (SELECT sex AS c, COUNT(*) AS n FROM visits GROUP BY 1) SELECT c, n FROM t UNION ALL SELECT n, c FROM t
    LIMIT 0;
"""


@pytest.mark.parametrize("sql", read_workload(ENDS))
def test_numbers_at_the_ends_are_those_of_duckdb(sql, release, engine):
    expected = rows_of(engine.execute(sql).fetchall(), ordered=False)
    assert rows_of(release.query(sql), ordered=False) == expected


@pytest.mark.parametrize("sql", read_workload(RENAMED))
def test_columns_have_the_names_that_a_subquery_gives_them_in_every_format(sql, release, engine):
    cursor = engine.execute(sql)
    names, expected = tuple(column[0] for column in cursor.description), rows_of(cursor.fetchall(), ordered=False)
    answer = release.query(sql)
    assert answer.columns == names and rows_of(answer, ordered=False) == expected
    assert tuple(name for name in answer.headers if not re.search("_(stderr|low|high)$", name)) == names
    assert answer.to_csv().splitlines()[0].startswith(names[0]) and repr(answer).split()[0] == names[0]
    assert set(names) <= set(answer.to_arrow().column_names)
    assert all(set(names) <= set(record) for record in answer.records())


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT LEAST(sex, age) AS k, COUNT(*) FROM visits GROUP BY k", "'F' is compared with a number"),
        ("SELECT GREATEST(MIN(day), 1e9) FROM visits", "not a date"),
        ("SELECT FLOOR(MIN(day)) FROM visits", "a date can be compared"),
        ("SELECT ROUND(COUNT(*), 'x') FROM visits", "cannot be put together"),
        ("SELECT age * 1e308 FROM visits", "a number that is too large"),  # infinity is no JSON
        ("SELECT ROUND(COUNT(*) * 1e308) * 1e308 FROM visits", "too large"),
        ("SELECT COUNT(*) + 1e400 FROM visits", "too large"),
        ("SELECT COUNT(*) FROM visits WHERE age < 1e400", "too large"),
        ("SELECT sex, CASE WHEN COUNT(*) > 800 THEN 1 ELSE 'few' END AS k FROM visits GROUP BY sex", "several types"),
    ],
)
def test_types_that_do_not_go_together_are_refused_in_one_line(sql, words, release):
    with pytest.raises(QueryError, match=words) as refused:
        release.query(sql)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["dawa", "sfumato", "mwem", "cells"])
def test_a_total_over_groups_alone_is_answered_whoever_fitted_the_cells(name):
    """Groups of which no cell is weighed for themselves; and a quotient that noise does not move."""
    schema = Schema.from_dict(
        {
            "dataset": "visits",
            "privacy_unit": "row",
            "attributes": {"x": {"type": "integer", "lower": 0, "upper": 15}, "s": {"type": "boolean"}},
        }
    )
    curator = curator_of(schema, np.arange(32) * 7 % 60 + 5, epsilon=1, entropy=TestingEntropy(7))
    made = Release(
        MECHANISMS[name].run(curator, schema, Budget.pure(1), None),
        name,
        describe_guarantee(Budget.pure(1), schema),
        False,
    )
    both = made.query("SELECT s, COUNT(*) AS n, SUM(COUNT(*)) OVER () AS t FROM visits GROUP BY s").rows
    totals = {row[2].value for row in both}
    assert len(totals) == 1 and totals.pop() == pytest.approx(sum(row[1].value for row in both))
    ((ratio,),) = made.query("SELECT COUNT(*) / COUNT(*) / COUNT(*) FROM visits").rows
    assert ratio.low <= ratio.value <= ratio.high and 0.0 < ratio.value < 0.01


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT COUNT(*) FROM visits WHERE day < DATE '9999-12-31' + INTERVAL 99999999 YEAR", "beyond the years"),
        ("SELECT COUNT(*) FROM visits WHERE day < DATE '0001-01-01' - INTERVAL 1 DAY", "beyond the years"),
        ("SELECT AVG(age) + 1e308 FROM visits", "1e\\+20 is the largest"),
        ("SELECT MEDIAN(age) * 1e300 FROM visits", "1e\\+20 is the largest"),
        (
            "SELECT sex, COUNT(*) FROM visits GROUP BY sex ORDER BY CASE WHEN COUNT(*) > 800 THEN 1 ELSE 'a' END",
            "several types",
        ),
    ],
)
def test_what_is_beyond_all_numbers_and_dates_is_refused(sql, words, release):
    with pytest.raises(QueryError, match=words):
        release.query(sql)


def test_null_stands_last_in_grouped_tables_and_unknown_numbers_are_passed_over():
    attributes = {"urgent": {"type": "boolean", "missing": "keep"}, "age": {"type": "integer", "lower": 0, "upper": 3}}
    schema = Schema.from_dict({"dataset": "visits", "privacy_unit": "row", "attributes": attributes})
    curator = curator_of(schema, np.arange(12).reshape(3, 4), epsilon=EPSILON, entropy=TestingEntropy(8))
    cube = MECHANISMS["cells"].run(curator, schema, Budget.pure(EPSILON))
    made = Release(cube, "cells", describe_guarantee(Budget.pure(EPSILON), schema), False)
    for order, keys in {"DESC": [True, False, None], "NULLS FIRST": [None, False, True]}.items():
        found = made.query(f"SELECT urgent, ROUND(COUNT(*)) FROM visits GROUP BY urgent ORDER BY urgent {order}")
        assert [row[0] for row in found] == keys
    nobody = "FROM visits WHERE age > 9"
    ((least, most),) = made.query(f"SELECT MIN(age), MAX(age) {nobody}").rows
    assert all(math.isnan(one.value) and (one.low, one.high) == (0, 3) for one in (least, most))
    ((instead, greatest),) = made.query(f"SELECT COALESCE(MAX(age), 7), GREATEST(AVG(age), 2) {nobody}").rows
    assert (instead.value, greatest.value) == (7, 2)
    assert all(one.low <= one.value <= one.high and one.stderr >= 0 for one in (instead, greatest))


def test_values_of_1e300_are_counted_and_not_summed():
    attributes = {"x": {"type": "number", "lower": -1e300, "upper": 1e300, "cuts": [0, 1]}}
    schema = Schema.from_dict({"dataset": "visits", "privacy_unit": "row", "attributes": attributes})
    curator = curator_of(schema, [3, 4, 5], epsilon=1, entropy=TestingEntropy(9))
    made = Release(
        MECHANISMS["cells"].run(curator, schema, Budget.pure(1)),
        "cells",
        describe_guarantee(Budget.pure(1), schema),
        False,
    )
    ((least,),) = made.query("SELECT MIN(x) FROM visits").rows
    assert least.low <= least.value <= least.high and math.isfinite(least.noise)
    assert len(made.query("SELECT x, COUNT(*) FROM visits WHERE ROUND(x, -300) > 0 GROUP BY x"))
    for aggregate in ("SUM", "AVG", "VARIANCE"):
        with pytest.raises(QueryError, match="beyond 1e"):
            made.query(f"SELECT {aggregate}(x) FROM visits")
