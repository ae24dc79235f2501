"""Statements that analysts write, against DuckDB: the same text on the same table, once there and once on a release.

The release spends an epsilon so huge that its noise is nothing, so that values must agree after rounding. Statements
that a release cannot answer must be refused in one line, by names that stand in the statement.
"""

from __future__ import annotations

import math
import re
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pytest
from curators import curator_of

from sfumato.errors import QueryError, UnsupportedSQL
from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.mechanisms import MECHANISMS
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.answers.estimate import Estimate
from sfumato.releases.release import Release
from sfumato.schema import Schema
from sfumato.sql import read_workload

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


def plain(cell: Any) -> Any:
    """A cell of either answer, as something that can be compared."""
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
