"""Four small tables, the options that mechanisms of one purpose need on them, and what is asked of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import product
from typing import Any

import pyarrow as pa

from sfumato.schema import Schema

Asked = tuple[str, Mapping[str, Any]]  # a statement, and how it is asked besides the kind of interval
Options = Mapping[str, str]

FACTS = {"dataset": "t", "budget": {"epsilon": 3, "delta": "1e-5"}}  # of every schema


@dataclass(frozen=True)
class Golden:
    """A table with its schema, the statements, and the options of mechanisms that would do nothing useful without.

    draws: whether synthetic rows are drawn as well, which takes seconds where there are many attributes.
    """

    schema: Schema
    rows: Mapping[str, Sequence[object]]
    asked: tuple[Asked, ...]
    budget: Mapping[str, object] = field(default_factory=lambda: {"epsilon": 1})
    options: Mapping[str, Options] = field(default_factory=dict)
    draws: bool = True

    @property
    def table(self) -> pa.Table:
        return pa.table(dict(self.rows))


def scattered(place: int, salt: int, size: int) -> int:
    """A number below `size` that looks like chance and is the same everywhere; small ones are commoner."""
    mixed = (place * 2654435761 + salt * 40503 + (place * place) % 9973 * 65599) % 2**32
    return size * ((mixed >> 4) % 4096) * ((mixed >> 16) % 4096) // 4096**2


def asked(text: str) -> tuple[Asked, ...]:
    """One statement a line; words before a bar say how it is asked: `simultaneous | SELECT ...`."""
    found = []
    for line in filter(None, map(str.strip, text.splitlines())):
        how, bar, statement = line.rpartition(" | ")
        words = how.split() if bar else []
        kept = {word.removeprefix("not-"): not word.startswith("not-") for word in words if "=" not in word}
        kept |= {name: float(value) for name, value in (word.split("=") for word in words if "=" in word)}
        found.append((statement, kept))
    return tuple(found)


def one() -> Golden:
    """One ordered attribute of 48 values."""
    ages = [scattered(place, 1, 48) for place in range(1500)]
    schema = {
        **FACTS,
        "privacy_unit": "row",
        "expected_rows": 1500,
        "attributes": {"age": {"type": "integer", "lower": 0, "upper": 47}},
    }
    options = {"quantiles": {"of": "age", "quantiles": "0,0.25,0.5,0.9,1"}, "mldp": {"features": "16"}}
    return Golden(Schema.from_dict(schema), {"age": ages}, ASKED_OF_ONE, options=options)


def two() -> Golden:
    """Two ordered attributes, one of them binned, and a category; up to two rows a person."""
    rows = {
        "person": [place // 2 for place in range(2000)],
        "x": [scattered(place, 2, 24) for place in range(2000)],
        "y": [scattered(place, 3, 1000) / 10 for place in range(2000)],
        "g": ["abc"[scattered(place, 4, 3)] for place in range(2000)],
    }
    schema = {
        **FACTS,
        "privacy_unit": {"column": "person", "contributions": 2},
        "expected_rows": 2000,
        "attributes": {
            "x": {"type": "integer", "lower": 0, "upper": 23},
            "y": {"type": "number", "lower": 0, "upper": 100, "bins": 8},
            "g": {"type": "category", "values": ["a", "b", "c"]},
        },
    }
    options = {
        "quantiles": {"of": "x", "by": "g", "quantiles": "0,0.5,0.75,1"},
        "mldp": {"features": "16", "model": "gaussian"},
        "sq": {"target": "g", "learner": "perceptron", "rounds": "3"},
        "pac": {"target": "g", "positive": "a"},
        "halfspace": {"directions": "6", "offsets": "8"},
    }
    return Golden(Schema.from_dict(schema), rows, ASKED_OF_TWO, options=options)


def many() -> Golden:
    """Eight attributes, and a delta, so that mechanisms that can take Gaussian noise do."""
    bits = {f"b{n}": [scattered(place, 10 + n, 3) > 0 for place in range(2500)] for n in range(5)}
    bits["b5"] = [one != other for one, other in zip(bits["b0"], bits["b3"], strict=True)]
    rows: dict[str, Sequence[object]] = {
        "age": [scattered(place, 5, 6) for place in range(2500)],
        "region": ["NES"[scattered(place // 2, 6, 3)] for place in range(2500)],
        **bits,
    }
    schema = {
        **FACTS,
        "privacy_unit": "row",
        "expected_rows": 2500,
        "attributes": {
            "age": {"type": "integer", "lower": 0, "upper": 5},
            "region": {"type": "category", "values": list("NES")},
            **{name: {"type": "boolean"} for name in bits},
        },
    }
    options = {
        "quantiles": {"of": "age", "by": "region", "quantiles": "0.5,0.9"},
        "mldp": {"features": "16", "queries": "predicates"},
        "sq": {"target": "b5", "learner": "id3", "depth": "2"},
        "pac": {"target": "b5", "rules": "conjunctions", "attributes": "b0,b1,b3"},
        "fourier": {"table": "raise"},
    }
    budget = {"epsilon": 2, "delta": "1e-6"}
    return Golden(Schema.from_dict(schema), rows, ASKED_OF_MANY, budget, options, draws=False)


def kept() -> Golden:
    """Measures with missing values, missing categories that are kept, and dates."""
    days = [scattered(place, 8, 140) for place in range(1200)]
    rows: dict[str, Sequence[object]] = {
        "person": list(range(1200)),
        "day": [date(2024, 1, 1) + timedelta(day) for day in days],
        "ward": [(None, "A", "B", "A")[scattered(place, 9, 4)] for place in range(1200)],
        "pay": [None if place % 9 == 0 else scattered(place, 11, 500) for place in range(1200)],
        "stay": [None if place % 7 == 0 else scattered(place, 12, 80) / 4 for place in range(1200)],
    }
    schema = {
        **FACTS,
        "privacy_unit": {"column": "person", "contributions": 1},
        "expected_rows": 1200,
        "attributes": {
            "day": {"type": "date", "lower": "2024-01-01", "upper": "2024-05-19", "by": "week"},
            "ward": {"type": "category", "values": ["A", "B"], "missing": "keep"},
        },
        "measures": {
            "pay": {"lower": 0, "upper": 500, "step": 1, "missing": "drop"},
            "stay": {"lower": 0, "upper": 20, "missing": "keep"},
        },
    }
    options = {"quantiles": {"of": "day", "by": "ward"}, "pac": {"target": "ward", "positive": "A"}}
    return Golden(Schema.from_dict(schema), rows, ASKED_OF_KEPT, options=options)


def own(schema: Schema) -> Golden:
    """The example that a mechanism of one purpose has of itself, with 20 to 42 rows a cell."""
    schema = Schema.from_dict({**schema.to_dict(), **FACTS})
    axes = list(schema.domain)
    cells = list(product(*(axis.labels() for axis in axes)))
    found = [cell for place, cell in enumerate(cells) for _ in range(20 + place * 7 % 23)]
    rows: dict[str, Sequence[object]] = {"person": list(range(len(found)))}
    rows |= {axis.name: [cell[place] for cell in found] for place, axis in enumerate(axes)}
    first = axes[0].name
    statements = f"""
        SELECT COUNT(*) FROM t
        SELECT {first}, COUNT(*) AS n FROM t GROUP BY {first}
        simultaneous | SELECT {first}, COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM t GROUP BY {first}
        unbiased | SELECT COUNT(*) FROM t
        SELECT MEDIAN({first}) FROM t
        SELECT AVG({first}), STDDEV({first}) FROM t
    """
    return Golden(schema, rows, asked(statements))


TABLES = {"one": one, "two": two, "many": many, "kept": kept}

ASKED_OF_ONE = asked("""
    SELECT COUNT(*) FROM t
    confidence=0.5 | SELECT COUNT(*) FROM t
    possible | SELECT COUNT(*) FROM t WHERE age = 47
    SELECT COUNT(*) FROM t WHERE age = 17
    SELECT COUNT(*) FROM t WHERE age BETWEEN 3 AND 12
    SELECT COUNT(*) FROM t WHERE age < 20 OR age > 43
    SELECT COUNT(*) FROM t WHERE NOT age IN (1, 2, 3, 25)
    SELECT COUNT(*) FROM t WHERE age > 200
    SELECT age, COUNT(*) AS n FROM t WHERE age < 8 GROUP BY age
    SELECT FLOOR(age / 12) AS band, COUNT(*) AS n FROM t GROUP BY FLOOR(age / 12)
    simultaneous | SELECT FLOOR(age / 16) AS band, COUNT(*) AS n FROM t GROUP BY FLOOR(age / 16)
    unbiased | SELECT FLOOR(age / 16) AS band, COUNT(*) AS n FROM t GROUP BY FLOOR(age / 16)
    unbiased | SELECT COUNT(*) FROM t WHERE age BETWEEN 3 AND 12
    SELECT CASE WHEN age < 18 THEN 'young' ELSE 'old' END AS who, COUNT(*) AS n FROM t GROUP BY 1
    SELECT COUNT(*) FILTER (WHERE age < 5) / COUNT(*) FROM t
    SELECT FLOOR(age / 16) AS band, COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM t GROUP BY 1
    SELECT COUNT(*) FILTER (WHERE age < 15) - COUNT(*) FILTER (WHERE age >= 15) AS d FROM t
    SELECT SUM(age) FROM t
    SELECT SUM(age) FROM t WHERE age BETWEEN 10 AND 30
    SELECT AVG(age) FROM t
    SELECT AVG(age) FROM t WHERE age > 25
    SELECT AVG(age) FILTER (WHERE age < 15) - AVG(age) FILTER (WHERE age >= 15) AS gap FROM t
    SELECT AVG(age) / 2 + 1 FROM t
    SELECT MEDIAN(age) FROM t
    SELECT QUANTILE(age, 0.9) FROM t
    SELECT QUANTILE_DISC(age, 0.25) FROM t WHERE age < 25
    SELECT PERCENTILE_CONT(0.75) WITHIN GROUP (ORDER BY age) FROM t
    SELECT MIN(age), MAX(age) FROM t
    SELECT STDDEV(age) FROM t
    SELECT VAR_POP(age) FROM t WHERE age < 25
    SELECT age, COUNT(*) AS n FROM t WHERE age < 16 GROUP BY age HAVING COUNT(*) > 60
    SELECT age, COUNT(*) AS n FROM t WHERE age < 20 GROUP BY age ORDER BY n DESC LIMIT 5
    not-selected | SELECT age, COUNT(*) AS n FROM t WHERE age < 20 GROUP BY age ORDER BY n DESC LIMIT 5
    SELECT FLOOR(age / 12) AS band, RANK() OVER (ORDER BY COUNT(*) DESC) AS place FROM t GROUP BY 1
    SELECT FLOOR(age / 12) AS band, COUNT(*) AS n FROM t GROUP BY 1 QUALIFY RANK() OVER (ORDER BY COUNT(*) DESC) < 3
    SELECT ROUND(AVG(age)) AS r, CASE WHEN COUNT(*) > 10 THEN 1 ELSE 0 END AS c FROM t
    SELECT s / n AS mean FROM (SELECT SUM(age) AS s, COUNT(*) AS n FROM t)
    SELECT 'low' AS who, COUNT(*) AS n FROM t WHERE age < 20 UNION ALL SELECT 'high', COUNT(*) FROM t WHERE age >= 20
    SELECT DISTINCT age FROM t WHERE age < 4
    DESCRIBE
    SELECT MODE(age) FROM t
""")
ASKED_OF_TWO = asked("""
    SELECT COUNT(*) FROM t
    SELECT COUNT(DISTINCT person) FROM t
    SELECT COUNT(*) FROM t WHERE x BETWEEN 3 AND 12 AND y < 50
    SELECT COUNT(*) FROM t WHERE g = 'a' OR x > 15
    SELECT COUNT(*) FROM t WHERE y < 30
    strict | SELECT COUNT(*) FROM t WHERE y < 30
    SELECT COUNT(*) FROM t WHERE g LIKE 'b%' AND NOT x = 2
    SELECT COUNT(*) FROM t WHERE 2 * x - 1 > 20
    possible | SELECT COUNT(*) FROM t WHERE x = 23 AND g = 'c'
    SELECT g, COUNT(*) AS n FROM t GROUP BY g
    SELECT g, x, COUNT(*) AS n FROM t WHERE x < 3 GROUP BY g, x
    SELECT y, COUNT(*) AS n FROM t GROUP BY y
    SELECT g, COUNT(*) AS n FROM t GROUP BY ROLLUP (g)
    simultaneous | SELECT g, FLOOR(x / 8) AS band, COUNT(*) AS n FROM t GROUP BY g, FLOOR(x / 8)
    unbiased | SELECT g, COUNT(*) AS n FROM t GROUP BY g
    unbiased | SELECT AVG(x) FROM t WHERE g = 'a'
    SELECT g, COUNT(*) FILTER (WHERE x < 5) / COUNT(*) AS share FROM t GROUP BY g
    SELECT g, COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM t GROUP BY g
    SELECT g, FLOOR(x / 12) AS h, COUNT(*) / SUM(COUNT(*)) OVER (PARTITION BY g) AS share FROM t GROUP BY g, 2
    SELECT SUM(x) FROM t WHERE g = 'b'
    SELECT SUM(y) FROM t WHERE x < 10
    SELECT g, AVG(x) AS a FROM t GROUP BY g
    SELECT AVG(y) FROM t
    simultaneous | SELECT g, AVG(x) AS a FROM t GROUP BY g
    SELECT AVG(x) FILTER (WHERE g = 'a') - AVG(x) FILTER (WHERE g = 'b') AS gap FROM t
    SELECT COUNT(*) FILTER (WHERE g = 'a') / COUNT(*) FILTER (WHERE g = 'b') AS odds FROM t
    SELECT MEDIAN(x) FROM t
    SELECT g, MEDIAN(x) AS m FROM t GROUP BY g
    SELECT QUANTILE(y, 0.9) FROM t WHERE g = 'a'
    SELECT MIN(x), MAX(x) FROM t
    SELECT STDDEV(x), VAR_SAMP(y) FROM t
    SELECT g, STDDEV(x) AS s FROM t GROUP BY g
    SELECT x, COUNT(*) AS n FROM t WHERE x < 12 GROUP BY x HAVING COUNT(*) > 60
    SELECT g, x, COUNT(*) AS n FROM t WHERE x < 6 GROUP BY g, x ORDER BY n DESC LIMIT 4
    not-selected | SELECT g, x, COUNT(*) AS n FROM t WHERE x < 6 GROUP BY g, x ORDER BY n DESC LIMIT 4
    SELECT g, RANK() OVER (ORDER BY COUNT(*) DESC) AS place FROM t GROUP BY g
    SELECT x FROM t GROUP BY x ORDER BY x LIMIT 3
    SELECT MEDIAN(x) - 1 AS less, GREATEST(COUNT(*), 0) AS n FROM t
    WITH s AS (SELECT g, COUNT(*) AS n FROM t GROUP BY g) SELECT SUM(n) FROM s WHERE g <> 'c'
    SELECT COUNT(*) FROM t WHERE 3 * x - 2 * y > 10
    SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM t GROUP BY g)
""")
ASKED_OF_MANY = asked("""
    SELECT COUNT(*) FROM t
    SELECT COUNT(*) FROM t WHERE b0
    SELECT COUNT(*) FROM t WHERE b0 AND b3 AND NOT b5
    SELECT COUNT(*) FROM t WHERE region = 'N' OR b1
    SELECT COUNT(*) FROM t WHERE age BETWEEN 2 AND 4 AND b4
    possible | SELECT COUNT(*) FROM t WHERE age = 5 AND b0 AND b1
    SELECT region, COUNT(*) AS n FROM t GROUP BY region
    SELECT region, b2, COUNT(*) AS n FROM t GROUP BY region, b2
    SELECT region, b0, COUNT(*) AS n FROM t WHERE age < 4 GROUP BY region, b0
    simultaneous | SELECT region, COUNT(*) AS n FROM t GROUP BY region
    unbiased | SELECT region, COUNT(*) AS n FROM t GROUP BY region
    unbiased | SELECT region, b0, b1, b2, b3, COUNT(*) AS n FROM t GROUP BY region, b0, b1, b2, b3
    SELECT b0, b3, b5, COUNT(*) AS n FROM t GROUP BY b0, b3, b5
    SELECT age, COUNT(*) AS n FROM t GROUP BY age
    SELECT CASE WHEN age < 4 THEN 'young' ELSE 'old' END AS who, COUNT(*) AS n FROM t GROUP BY 1
    SELECT COUNT(*) FILTER (WHERE b0) / COUNT(*) FROM t
    SELECT region, COUNT(*) FILTER (WHERE b1) / COUNT(*) AS share FROM t GROUP BY region
    SELECT age, COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM t GROUP BY age
    SELECT COUNT(*) FILTER (WHERE b0) - COUNT(*) FILTER (WHERE b1) AS d FROM t
    SELECT SUM(age) FROM t
    SELECT SUM(age) FROM t WHERE region = 'S' AND b2
    SELECT AVG(age) FROM t
    SELECT region, AVG(age) AS a FROM t GROUP BY region
    SELECT AVG(age) FILTER (WHERE b0) - AVG(age) FILTER (WHERE NOT b0) AS gap FROM t
    SELECT AVG(b4) FROM t WHERE b5
    SELECT MEDIAN(age) FROM t
    SELECT region, MEDIAN(age) AS m FROM t GROUP BY region
    SELECT QUANTILE(age, 0.9) FROM t WHERE b2
    SELECT MIN(age), MAX(age) FROM t WHERE b1
    SELECT STDDEV(age) FROM t
    SELECT VAR_POP(age) FROM t WHERE NOT b3
    SELECT region, b2, COUNT(*) AS n FROM t GROUP BY region, b2 HAVING COUNT(*) > 200
    SELECT region, b2, COUNT(*) AS n FROM t GROUP BY region, b2 ORDER BY n DESC LIMIT 4
    SELECT age, RANK() OVER (ORDER BY COUNT(*) DESC) AS place FROM t GROUP BY age
    SELECT region, COUNT(*) AS n FROM t GROUP BY ROLLUP (region)
    SELECT COUNT(*) FROM t WHERE b0 AND b1 AND region = 'N'
    SELECT b0 AND b1 AS both_of_them, COUNT(*) AS n FROM t GROUP BY b0 AND b1
    SELECT COUNT(*) FROM t WHERE b0 <> b3
    SELECT n / 100 AS hundreds FROM (SELECT COUNT(*) AS n FROM t WHERE b4)
    SELECT b5, COUNT(*) AS n FROM t WHERE region = 'E' GROUP BY b5
""")
ASKED_OF_KEPT = asked("""
    SELECT COUNT(*) FROM t
    SELECT COUNT(ward), COUNT(stay) FROM t
    SELECT COUNT(*) FROM t WHERE ward IS NULL
    SELECT COUNT(*) FROM t WHERE ward = 'A' AND day < '2024-03-04'
    SELECT COUNT(*) FROM t WHERE day BETWEEN '2024-02-01' AND '2024-02-20'
    SELECT COUNT(*) FROM t WHERE NOT ward = 'B'
    possible | SELECT COUNT(*) FROM t WHERE ward = 'B' AND day > '2024-05-12'
    SELECT ward, COUNT(*) AS n FROM t GROUP BY ward
    SELECT day, COUNT(*) AS n FROM t WHERE day < '2024-02-01' GROUP BY day
    SELECT MONTH(day) AS m, COUNT(*) AS n FROM t GROUP BY MONTH(day)
    SELECT DATE_TRUNC('month', day) AS m, ward, COUNT(*) AS n FROM t GROUP BY 1, 2
    simultaneous | SELECT ward, COUNT(*) AS n FROM t GROUP BY ward
    unbiased | SELECT ward, COUNT(*) AS n FROM t GROUP BY ward
    unbiased | SELECT ward, AVG(pay) AS a FROM t GROUP BY ward
    SELECT COUNT(*) FILTER (WHERE ward = 'A') / COUNT(*) FROM t
    SELECT ward, COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM t GROUP BY ward
    SELECT SUM(pay) FROM t
    SELECT SUM(pay), SUM(stay) FROM t WHERE ward = 'A'
    SELECT AVG(pay) FROM t
    SELECT AVG(stay) FROM t WHERE day >= '2024-03-04'
    SELECT ward, AVG(pay) AS a, AVG(stay) AS b FROM t GROUP BY ward
    possible | SELECT ward, AVG(pay) AS a FROM t GROUP BY ward
    simultaneous | SELECT ward, AVG(stay) AS a FROM t GROUP BY ward
    SELECT AVG(pay) FILTER (WHERE ward = 'A') - AVG(pay) FILTER (WHERE ward = 'B') AS gap FROM t
    SELECT AVG(CASE WHEN ward = 'A' THEN pay END) FROM t
    SELECT SUM(pay) / SUM(stay) AS rate FROM t
    SELECT SUM(CASE WHEN ward = 'B' THEN pay ELSE 0 END) FROM t
    SELECT ward, SUM(pay) AS s FROM t GROUP BY ward ORDER BY s DESC LIMIT 1
    SELECT MEDIAN(day) FROM t
    SELECT ward, MEDIAN(day) AS m FROM t GROUP BY ward
    SELECT QUANTILE(day, 0.9) FROM t WHERE ward = 'A'
    SELECT MIN(day), MAX(day) FROM t
    SELECT MEDIAN(pay) FROM t
    SELECT STDDEV(pay) FROM t
    SELECT day, COUNT(*) AS n FROM t WHERE day < '2024-03-04' GROUP BY day HAVING COUNT(*) > 80
    SELECT ward, day, COUNT(*) AS n FROM t WHERE day < '2024-02-12' GROUP BY ward, day ORDER BY n DESC LIMIT 4
    SELECT ward, RANK() OVER (ORDER BY COUNT(*) DESC) AS place FROM t GROUP BY ward
    SELECT COALESCE(ward, 'none') AS w, COUNT(*) AS n FROM t GROUP BY 1
    SELECT ROUND(AVG(pay), 1) AS r, ABS(COUNT(*) - 1200) AS d FROM t
    DESCRIBE
""")
