"""How often 95 % intervals of quantiles, variances and arithmetic of averages hold the truth, and how wide they are.

Run: python benchmarks/statistics_coverage.py [--runs N] [--mechanisms cells sfumato ...] [--epsilon 1] [--bins 20]

Rows are made up, three tables of them, and the truth is DuckDB's answer to the same SQL on the same rows. Fresh noise
each time, and the whole line from measurement to interval. A quantile's interval ends at the ends of bins, so where
bins are wider than the noise it holds more often than it says.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from fractions import Fraction
from math import isfinite

import duckdb
import numpy as np
import pyarrow as pa

from sfumato.kernel.sampling.entropy import SystemEntropy
from sfumato.lab.audit.calibration.calibrate import release_of
from sfumato.schema import Schema

MECHANISMS = ["cells", "hierarchical", "sfumato", "margins"]
MEN, WOMEN = "FILTER (WHERE sex = 'M')", "FILTER (WHERE sex = 'F')"
QUESTIONS = {
    "median": ["MEDIAN(age)", f"MEDIAN(age) {WOMEN}"],
    "quantile": ["QUANTILE_CONT(age, 0.9)", "QUANTILE_CONT(age, 0.25)"],
    "quantile of bins": ["MEDIAN(band)", "QUANTILE_CONT(band, 0.75)"],
    "least, greatest": ["MIN(age)", "MAX(age)"],
    "deviation": ["STDDEV(age)", f"VAR_POP(age) {MEN}"],
    "deviation of bins": ["STDDEV(band)"],
    "pay gap": [f"AVG(pay) {MEN} - AVG(pay) {WOMEN}", f"AVG(age) {MEN} - AVG(age) {WOMEN}"],
    "relative gap": [f"AVG(pay) {MEN} / AVG(pay) {WOMEN} - 1", f"(AVG(age) {MEN} - AVG(age) {WOMEN}) / AVG(age) {MEN}"],
    "gap of few rows": [
        "AVG(pay) FILTER (WHERE age > 75 AND sex = 'M') - AVG(pay) FILTER (WHERE age > 75 AND sex = 'F')"
    ],
    "gap of shares": [
        f"COUNT(*) FILTER (WHERE age < 40 AND sex = 'M') / COUNT(*) {MEN} "
        f"- COUNT(*) FILTER (WHERE age < 40 AND sex = 'F') / COUNT(*) {WOMEN}"
    ],
    "gap of medians": [f"MEDIAN(age) {MEN} - MEDIAN(age) {WOMEN}"],
}


def schema_of(bins: int) -> Schema:
    return Schema.from_dict(
        {
            "dataset": "staff",
            "privacy_unit": "row",
            "attributes": {
                "age": {"type": "integer", "lower": 0, "upper": 99},
                "band": {"type": "number", "lower": 0, "upper": 100, "bins": bins},
                "sex": {"type": "category", "values": ["F", "M"]},
            },
            "measures": {"pay": {"lower": 0, "upper": 1000, "step": 1}},
        }
    )


def tables(rng: np.random.Generator) -> dict[str, dict[str, np.ndarray]]:
    """Columns of three tables: many rows in a smooth shape, fewer with a long tail, few in two heaps."""
    found = {}
    for name, rows in (("smooth", 20_000), ("tail", 5_000), ("heaps", 1_500)):
        sex = rng.random(rows) < (0.5 if name == "smooth" else 0.3)
        if name == "smooth":
            age, band = rng.normal(45 + 3 * sex, 15), rng.normal(50, 18, rows)
        elif name == "tail":
            age, band = 18 + rng.gamma(2.0, 9 + 2 * sex), rng.lognormal(3.0, 0.6, rows)
        else:
            heap = rng.random(rows) < 0.5
            age, band = np.where(heap, 24, 61) + rng.integers(0, 5, rows), np.where(heap, 12.0, 71.5)
        age = np.clip(np.rint(age), 0, 99).astype(np.int64)
        pay = np.clip(np.rint(200 + 3 * age + 40 * sex + rng.normal(0, 60, rows)), 0, 1000).astype(np.int64)
        found[name] = {"age": age, "band": np.clip(band, 0, 100), "sex": np.where(sex, "M", "F"), "pay": pay}
    return found


def counted(table: dict[str, np.ndarray], schema: Schema) -> tuple[np.ndarray, np.ndarray]:
    """Rows and steps of pay by cell."""
    shape, size, measure = schema.domain.shape, schema.domain.size, schema.measures["pay"]
    band = np.minimum(table["band"] * shape[1] // 100, shape[1] - 1).astype(np.int64)
    place = np.ravel_multi_index((table["age"], band, (table["sex"] == "M").astype(np.int64)), shape)
    steps = (table["pay"] - float(measure.centre)) / float(measure.step)
    counts = np.bincount(place, minlength=size)
    sums = np.rint(np.bincount(place, weights=steps, minlength=size))
    return counts.astype(np.int64).reshape(shape), sums.astype(np.int64).reshape(shape)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--runs", type=int, default=40)
    asked.add_argument("--epsilon", default="1")
    asked.add_argument("--mechanisms", nargs="+", default=MECHANISMS)
    asked.add_argument("--tables", nargs="+", default=["smooth", "tail", "heaps"])
    asked.add_argument("--bins", type=int, default=20, help="of one attribute; 1 leaves the two others")
    given = asked.parse_args()
    schema = schema_of(given.bins)
    held: dict[tuple[str, str], list[bool]] = defaultdict(list)
    unknown: dict[tuple[str, str], int] = defaultdict(int)
    for name, table in tables(np.random.default_rng(11)).items():
        if name not in given.tables:
            continue
        staff, whole = pa.table(table), counted(table, schema)
        every = [(kind, sql) for kind, each in QUESTIONS.items() for sql in each]
        select = "SELECT " + ", ".join(sql for _, sql in every) + " FROM staff"
        truths = duckdb.connect().register("staff", staff).execute(select).fetchone()
        for mechanism in given.mechanisms:
            for _ in range(given.runs):
                release = release_of(mechanism, whole, Fraction(given.epsilon), SystemEntropy(), schema)
                for (kind, _), truth, found in zip(every, truths, release.query(select).rows[0], strict=True):
                    if truth is None:  # no such rows
                        continue
                    unknown[kind, mechanism] += not isfinite(found.value)
                    held[kind, mechanism].append(bool(found.low - 1e-6 <= float(truth) <= found.high + 1e-6))
    print(f"epsilon {given.epsilon}, {schema.domain.size} cells, nominal 95 %")
    print(f"{given.runs} releases of each of {', '.join(given.tables)}")
    print(f"{'':20}" + "".join(f"{mechanism:>14}" for mechanism in given.mechanisms))
    for kind in QUESTIONS:
        print(f"{kind:20}" + "".join(f"{100 * np.mean(held[kind, each]):12.1f} %" for each in given.mechanisms))
    print(
        "unknown values: "
        + ", ".join(f"{each} {sum(unknown[k, each] for k in QUESTIONS)}" for each in given.mechanisms)
    )


if __name__ == "__main__":
    main()
