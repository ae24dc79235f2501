"""How often 95 % intervals hold the truth, and how wide they are, for every mechanism.

`python benchmarks/coverage.py [--runs 10] [--mechanism NAME ...] [--kinds] [--tables [NAME ...]]`

The releases are real ones, of made-up tables: fresh noise each time, the whole line from measurement to interval. Asked
are the total and random ranges or boxes. Coverage is over all intervals, then that of the query that does worst, then
the mean width, `cells` being 1. `laplace` and `division` are given the queries as their workload, for that is what
they are for; all others are given none. With --kinds: every kind of SQL aggregate, on `cells` and a census. With
--tables: by table and kind of question, on the tables of the contract tests.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from coverage_kinds import print_kinds
from coverage_tables import print_tables
from releasing import release_counts
from sfumato.mechanisms import MECHANISMS
from sfumato.queries import Weighted, Workload
from sfumato.releases.release import Release
from sfumato.schema import Schema

EPSILONS = Fraction(1, 10), Fraction(1)
QUERIES = 20  # besides the total


@dataclass(frozen=True)
class Case:
    """A schema, tables of several shapes, and queries: masks over the cells, and the same in one line of SQL."""

    name: str
    schema: Schema
    tables: dict[str, np.ndarray]
    masks: np.ndarray
    sql: str

    @property
    def workload(self) -> Workload:
        return Workload(("asked",), (Weighted(self.masks.astype(np.int64)),))


def line() -> Case:
    """256 cells in a row."""
    x = np.arange(256)
    schema = Schema.from_dict(
        {"dataset": "t", "privacy_unit": "row", "attributes": {"x": {"type": "integer", "lower": 0, "upper": 255}}}
    )
    smooth = 60 + 40 * np.sin(x / 40)
    sparse = np.where(x * 7 % 11 == 0, 40 + x % 20, 0)
    spike = np.where(x == 99, 10**5, 0)
    return _case("256 cells", schema, smooth, sparse, spike)


def box() -> Case:
    """Three attributes: 20 x 2 x 5 cells."""
    x, g, v = np.meshgrid(np.arange(20), np.arange(2), np.arange(5), indexing="ij")
    attributes = {
        "x": {"type": "integer", "lower": 0, "upper": 19},
        "g": {"type": "category", "values": ["a", "b"]},
        "v": {"type": "number", "lower": 0, "upper": 10, "bins": 5},
    }
    schema = Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": attributes})
    smooth = 60 + 20 * np.sin(x / 4) + 10 * g + v
    sparse = np.where((x * 7 + g * 3 + v) % 11 == 0, 40 + x, 0)
    spike = np.where((x == 4) & (g == 0) & (v == 2), 10**5, 0)
    return _case("20 x 2 x 5", schema, smooth, sparse, spike)


def _case(name: str, schema: Schema, smooth: np.ndarray, sparse: np.ndarray, spike: np.ndarray) -> Case:
    shapes = {"smooth": smooth, "sparse": sparse, "spike": spike, "empty": 0 * spike}
    stream, texts, masks = np.random.default_rng(8), ["COUNT(*)"], [np.ones(schema.domain.size, dtype=bool)]
    cells = np.arange(schema.domain.size)
    while len(texts) <= QUERIES:
        conditions, mask = [], masks[0].copy()
        for axis in schema.domain:
            low, high = sorted(stream.integers(0, axis.size, 2))
            if len(schema.domain.axes) > 1 and stream.random() < 0.4:
                continue  # all of this attribute
            codes = schema.domain.codes_along(axis.name, cells)
            if axis.values:
                high = low
                conditions.append(f"{axis.name} = '{axis.values[low]}'")
            else:
                # The last cell holds its upper end too, so that a range up to it has none.
                below = f" AND {axis.name} < {axis.edges[high + 1]:g}" if high + 1 < axis.size else ""
                conditions.append(f"{axis.name} >= {axis.edges[low]:g}{below}")
            mask &= (codes >= low) & (codes <= high)
        if conditions:
            texts.append(f"COUNT(*) FILTER (WHERE {' AND '.join(conditions)})")
            masks.append(mask)
    sql = "SELECT " + ", ".join(f"{text} AS q{place}" for place, text in enumerate(texts)) + " FROM t"
    return Case(name, schema, {k: counts.astype(np.int64) for k, counts in shapes.items()}, np.array(masks), sql)


def release(name: str, case: Case, counts: np.ndarray, epsilon: Fraction) -> Release:
    """A release of one of the tables."""
    workload = case.workload if MECHANISMS[name].answers == "its workload" else None
    return release_counts(name, case.schema, counts, epsilon, workload)


def coverage(name: str, case: Case, shape: str, epsilon: Fraction, runs: int) -> tuple[float, float, float]:
    """The share of intervals that hold the truth, that of the worst query, and the mean width."""
    counts = case.tables[shape]
    truth = case.masks @ counts.reshape(-1)
    inside, width = np.zeros(len(truth)), 0.0
    for _ in range(runs):
        (found,) = release(name, case, counts, epsilon).query(case.sql).rows
        low, high = (np.array([getattr(answer, end) for answer in found]) for end in ("low", "high"))
        inside += (low <= truth) & (truth <= high)
        width += float((high - low).mean())
    return float(inside.mean() / runs), float(inside.min() / runs), width / runs


def print_coverage(names: list[str], runs: int, tell: Callable[[str], None]) -> None:
    """A line for each mechanism, epsilon and schema; for each shape: coverage, worst query, width."""
    cases = line(), box()
    tell(f"{runs} releases each, {QUERIES + 1} queries; nominal 95 %; coverage / worst query / width, cells being 1")
    tell(f"{'mechanism':13} {'epsilon':>7}  {'cells':10}" + "".join(f"{shape:>20}" for shape in cases[0].tables))
    plain: dict[object, float] = {}
    plainest = next(iter(MECHANISMS))
    for name in [plainest, *(name for name in names if name != plainest)]:
        for epsilon in EPSILONS:
            for case in cases:
                text = f"{name:13} {epsilon!s:>7}  {case.name:10}"
                for shape in case.tables:
                    overall, worst, width = coverage(name, case, shape, epsilon, runs)
                    one = plain.setdefault((epsilon, case.name, shape), width)
                    text += f"{100 * overall:8.1f} {100 * worst:4.0f} {width / one:6.2f}"
                tell(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--mechanism", nargs="*", default=list(MECHANISMS))
    parser.add_argument("--kinds", action="store_true")
    parser.add_argument("--tables", nargs="*")
    given = parser.parse_args()
    if given.kinds:
        print_kinds(given.runs)
    elif given.tables is not None:
        print_tables(given.mechanism, given.runs, given.tables, lambda text: print(text, flush=True))
    else:
        print_coverage(given.mechanism, given.runs, lambda text: print(text, flush=True))


if __name__ == "__main__":
    main()
