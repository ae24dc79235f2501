"""How often 95 % intervals of every kind of aggregate hold the truth. `python benchmarks/coverage.py --kinds`

The releases are real ones, of a made-up census: fresh noise each time, the whole line from measurement to interval.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from sfumato.audit.calibration.calibrate import release_of
from sfumato.kernel.sampling.entropy import SystemEntropy
from sfumato.schema import Schema

SCHEMA = Schema.from_dict(
    {
        "dataset": "census",
        "privacy_unit": "row",
        "attributes": {
            "age": {"type": "integer", "lower": 0, "upper": 99},
            "sex": {"type": "category", "values": ["F", "M"]},
            "region": {"type": "category", "values": list("abcd")},
        },
        "measures": {"income": {"lower": 0, "upper": 1000, "step": 1}},
    }
)
QUERIES = {
    "COUNT, 1 cell": "SELECT COUNT(*) FROM census WHERE age = 30 AND sex = 'F' AND region = 'a'",
    "COUNT, 8 cells": "SELECT COUNT(*) FROM census WHERE age = 30",
    "COUNT, 160 cells": "SELECT COUNT(*) FROM census WHERE age BETWEEN 20 AND 59 AND sex = 'F'",
    "COUNT, all cells": "SELECT COUNT(*) FROM census",
    "SUM of a measure": "SELECT SUM(income) FROM census WHERE age < 40",
    "SUM of an attribute": "SELECT SUM(age) FROM census WHERE region = 'b'",
    "AVG of a measure": "SELECT AVG(income) FROM census WHERE age < 40",
    "AVG over few rows": "SELECT AVG(income) FROM census WHERE age BETWEEN 90 AND 93",
    "AVG of an attribute": "SELECT AVG(age) FROM census WHERE sex = 'M'",
    "share of the group": "SELECT COUNT(*) FILTER (WHERE age > 65) / COUNT(*) FROM census WHERE region = 'c'",
    "share of the total": "SELECT COUNT(*) / (SELECT COUNT(*) FROM census) FROM census WHERE age < 10 AND region = 'd'",
}


def table() -> tuple[np.ndarray, np.ndarray]:
    """Made-up counts and sums of centred incomes, smooth in some places and sparse in others."""
    stream = np.random.default_rng(3)
    age = np.arange(100)
    level = 12 * np.exp(-((age / 75.0) ** 6))[:, None, None] * np.ones((1, 2, 4)) * np.array([3.0, 1.0, 0.4, 0.02])
    counts = stream.poisson(level)
    incomes = np.round(counts * (300 * np.exp(-(((age - 45) / 30.0) ** 2))[:, None, None] - 500)).astype(np.int64)
    return counts, incomes


def print_kinds(runs: int) -> None:
    """A line for each kind of query, a column for each epsilon."""
    counts, incomes = table()
    truths = {name: truth(sql, counts, incomes) for name, sql in QUERIES.items()}
    print(f"{runs:,} releases each; nominal 95 %")
    print(f"{'query':22}" + "".join(f"  epsilon {epsilon!s:>4}" for epsilon in ("1/10", "1")))
    rates = {epsilon: coverage(counts, incomes, truths, Fraction(epsilon), runs) for epsilon in ("1/10", "1")}
    for name in QUERIES:
        print(f"{name:22}" + "".join(f"  {100 * rates[epsilon][name]:10.1f} %" for epsilon in rates))


def coverage(counts: np.ndarray, incomes: np.ndarray, truths: dict, epsilon: Fraction, runs: int) -> dict[str, float]:
    inside = dict.fromkeys(QUERIES, 0)
    for _ in range(runs):
        released = release_of("cells", (counts, incomes), epsilon, SystemEntropy(), SCHEMA)
        for name, sql in QUERIES.items():
            (found,) = released.query(sql).rows[0]
            inside[name] += found.low <= truths[name] <= found.high
    return {name: number / runs for name, number in inside.items()}


def truth(sql: str, counts: np.ndarray, incomes: np.ndarray) -> float:
    """The true answer: that of a release with next to no noise."""
    nearly_exact = release_of("cells", (counts, incomes), Fraction(10**5), SystemEntropy(), SCHEMA)
    (found,) = nearly_exact.query(sql).rows[0]
    return found.value
