"""How long a GROUP BY takes of a release whose cells were fitted, beside the same query of noisy cells.

`python benchmarks/groups.py [--mechanisms hierarchical matrix] [--shapes taxi]`

Groups of the same shape have the same error, so that they are worked out once; fits to what the data showed have no two
groups alike, and look at each cell once for all groups. Targets: at most 3 times what noisy cells take by
`sfumato query`, and 2 seconds for 300 groups of a million cells. CPU seconds, the least of three: of the command as a
process of its own, and, in brackets, from an open release to all answers and their intervals, with nothing remembered.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import warnings
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pyarrow as pa

import sfumato as sf
from measuring import best
from sfumato.answers.noise_sum import distribution_of, two_sided_quantile

PLAIN, TARGET, SECONDS = "cells", 3.0, 2.0
ROWS = 100_000
MOST_CELLS = 2**26  # that a file may lay out; a fit of a million cells takes some thirty numbers for each
SHAPES = {
    "six attributes, as of Adult": {"age": 17, "sex": "2", "race": "5", "education": 16, "marital": "7", "income": "2"},
    "taxi trips": {"zone": "263", "hour": 24, "weekday": 7},
    "a million cells": {"zone": "300", "minute": 3334},
    "a million cells, three attributes": {"zone": "300", "hour": 24, "day": 140},
}
QUESTIONS = {
    "six attributes, as of Adult": (
        "SELECT age, education, COUNT(*) FROM t GROUP BY age, education",
        "SELECT age, education, COUNT(*) FROM t WHERE marital IN ('v1', 'v3') GROUP BY age, education",
        "SELECT education, marital, AVG(age) FROM t GROUP BY education, marital",
    ),
    "taxi trips": (
        "SELECT zone, COUNT(*) FROM t GROUP BY zone",
        "SELECT zone, COUNT(*) FROM t WHERE hour BETWEEN 7 AND 9 AND weekday < 5 GROUP BY zone",
        "SELECT zone, AVG(hour) FROM t GROUP BY zone",
        "SELECT zone, AVG(hour) - AVG(hour) FILTER (WHERE weekday >= 5) FROM t GROUP BY zone",
    ),
    "a million cells": (
        "SELECT zone, COUNT(*) FROM t GROUP BY zone",
        "SELECT zone, COUNT(*) FROM t WHERE minute BETWEEN 500 AND 1999 GROUP BY zone",
        "SELECT zone, AVG(minute) FROM t GROUP BY zone",
    ),
    "a million cells, three attributes": (
        "SELECT zone, COUNT(*) FROM t GROUP BY zone",
        "SELECT zone, AVG(day) FROM t GROUP BY zone",
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description="How long groups take.")
    others = ["hierarchical", "matrix", "sfumato", "dawa", "ispe", "kdtree", "mwem"]
    parser.add_argument("--mechanisms", nargs="+", default=others)
    parser.add_argument("--shapes", nargs="+", default=[""], help="those whose names begin so")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as name:
        for shape, sizes in SHAPES.items():
            if not shape.startswith(tuple(chosen.shapes)):
                continue
            files = {one: released(Path(name), sizes, one) for one in (PLAIN, *chosen.mechanisms)}
            for sql in QUESTIONS[shape]:
                report(shape, sql, files)


def released(folder: Path, sizes: dict[str, int | str], mechanism: str) -> Path:
    """A release of rows that lie anywhere; numbers in quotes are the sizes of categories."""
    stream, attributes, columns = np.random.default_rng(1), {}, {}
    for name, size in sizes.items():
        codes = stream.integers(0, int(size), ROWS)
        values = np.array([f"v{code}" for code in range(int(size))])
        named = isinstance(size, str)
        attributes[name] = (
            {"type": "category", "values": values.tolist()}
            if named
            else {"type": "integer", "lower": 0, "upper": int(size) - 1}
        )
        columns[name] = values[codes] if named else codes
    given = {"dataset": "t", "privacy_unit": "row", "budget": {"epsilon": 100}, "attributes": attributes}
    schema = sf.Schema.from_dict(given)
    made = sf.release(pa.table(columns), schema, 1, mechanism=mechanism, ledger=folder / f"{mechanism}.sqlite")
    return made.save(folder / f"{mechanism}.sfumato")


def report(shape: str, sql: str, files: dict[str, Path]) -> None:
    print(f"{shape}: {sql}")
    plain = 0.0
    for mechanism, path in files.items():
        asking, groups = fastest(path, sql)
        command = "query", str(path), sql, "--format", "json", "--most-cells", str(MOST_CELLS)
        whole = best(3, "-m", "sfumato", *command).cpu
        plain = plain or whole
        kept = whole <= TARGET * plain and (asking <= SECONDS or "million" not in shape)
        said = f"{whole:6.2f} s ({asking:.2f} s) for {groups} groups, {whole / plain:.1f} times {PLAIN}"
        print(f"  {mechanism:14}{said}{'' if kept else ': TOO LONG'}", flush=True)


def fastest(path: Path, sql: str) -> tuple[float, int]:
    taken, rows = [], 0
    for _ in range(3):
        opened = sf.open(path, most_cells=MOST_CELLS)
        two_sided_quantile.cache_clear()
        distribution_of.cache_clear()
        began = time.process_time()
        rows = len(opened.query(sql).rows)
        taken.append(time.process_time() - began)
    return min(taken), rows


if __name__ == "__main__":
    main()
