"""How often both kinds of interval hold, and how wide they are, on tables made against the mechanisms.

`python benchmarks/guaranteed.py [--runs 20] [--mechanisms sfumato dawa ...] [--survey]`

A checkerboard (neighbours are never alike), one spike, many spikes as small as the noise, and seven answers of which
any six look independent; with --survey also seven dependent attributes of 28,800 cells and 8,000 rows. Printed, for
each mechanism, table and kind of question, and pooled: the part of 95 % intervals that hold, its standard error
(questions of one release err together, so releases are counted, not questions), and the mean width.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations

import numpy as np

from releasing import curator_of_counts
from sfumato.errors import QueryError
from sfumato.kernel.budget import Budget
from sfumato.mechanisms import find_mechanism
from sfumato.releases.answers.intervals.manner import Manner
from sfumato.schema import Schema
from sfumato.sql import compile_statement

MECHANISMS = "sfumato", "dawa", "kdtree", "ispe", "margins", "residual", "hierarchical", "sparse-cells"
SIDE = 12
BUDGET = Budget.pure(1)


def schema_of(sizes: tuple[int, ...], kind: str) -> Schema:
    listed = [
        {"type": "integer", "lower": 0, "upper": size - 1}
        if kind == "integer"
        else {"type": "category", "values": [str(value) for value in range(size)]}
        for size in sizes
    ]
    attributes = {f"a{place}": one for place, one in enumerate(listed)}
    return Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": attributes})


def tables(survey: bool) -> Iterator[tuple[str, Schema, np.ndarray]]:
    grid, answers = schema_of((SIDE, SIDE), "integer"), schema_of((2,) * 7, "category")
    places = np.arange(SIDE**2).reshape(SIDE, SIDE)
    yield "checkerboard", grid, np.indices((SIDE, SIDE)).sum(axis=0) % 2 * 12
    yield "spike", grid, np.where(places == 7 * SIDE + 4, 500, 0)
    yield "small spikes", grid, np.where(places * 7 % 11 == 0, 5, 0)
    yield "dependent", answers, np.where(np.indices((2,) * 7).sum(axis=0) % 2 == 0, 9, 0)
    if survey:
        rng, sizes = np.random.default_rng(5), (5, 4, 6, 4, 5, 3, 4)
        kind, counts = rng.integers(0, 4, 8000), np.zeros(sizes, dtype=np.int64)
        columns = [
            np.where(rng.random(8000) < 0.6, (kind * (place + 1) + place) % size, rng.integers(0, size, 8000))
            for place, size in enumerate(sizes)
        ]
        np.add.at(counts, tuple(columns), 1)
        yield "survey", schema_of(sizes, "category"), counts


def questions(schema: Schema, counts: np.ndarray) -> Iterator[tuple[str, str, np.ndarray]]:
    """Kind, statement, and the truth of every row of its answer."""
    names, axes = schema.domain.names, range(counts.ndim)
    yield "total", "SELECT COUNT(*) FROM t", counts.sum()[None]
    for one in axes:
        margin = counts.sum(axis=tuple(axis for axis in axes if axis != one))
        yield "one-way", f"SELECT COUNT(*) FROM t GROUP BY {names[one]}", margin
        if not one:
            by = f"SELECT COUNT(*) / SUM(COUNT(*)) OVER () FROM t GROUP BY {names[one]}"
            yield "share", by, margin / counts.sum()
    for pair in [*combinations(axes, 2)][:4]:
        margin = counts.sum(axis=tuple(axis for axis in axes if axis not in pair)).reshape(-1)
        yield "two-way", f"SELECT COUNT(*) FROM t GROUP BY {', '.join(names[axis] for axis in pair)}", margin
    if schema.domain[names[0]].ordered:
        box = counts[: SIDE // 2 + 1, SIDE // 3 :].sum()
        yield "box", f"SELECT COUNT(*) FROM t WHERE a0 <= {SIDE // 2} AND a1 >= {SIDE // 3}", box[None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--mechanisms", nargs="+", default=MECHANISMS)
    parser.add_argument("--survey", action="store_true")
    given = parser.parse_args()
    print(f"{'':44}{'typical':>24}{'guaranteed':>24}\n{'':44}" + f"{'held':>14}{'width':>10}" * 2)
    for name in given.mechanisms:
        pooled: dict[str, list[float]] = defaultdict(list)
        for table, schema, counts in tables(given.survey):
            found: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
            asked = [(kind, compile_statement(sql, schema), truth) for kind, sql, truth in questions(schema, counts)]
            for _ in range(given.runs):
                content = find_mechanism(name).run(curator_of_counts(schema, counts, BUDGET), schema, BUDGET)
                of_run: dict[tuple[str, str], list[tuple[bool, float]]] = defaultdict(list)
                for kind, plan, truth in asked:
                    for way in ("typical", "guaranteed"):
                        try:
                            rows = content.select_as(plan, 0.95, Manner(way)).rows
                        except QueryError:
                            continue
                        ends = [(row[-1].low, row[-1].high) for row in rows]
                        of_run[kind, way] += [
                            (low - 1e-9 <= t <= high + 1e-9, high - low)
                            for (low, high), t in zip(ends, truth.tolist(), strict=True)
                        ]
                for key, each in of_run.items():
                    held, width = np.mean(each, axis=0).tolist()
                    found[key].append((held, width))
                    pooled[key[1]].append(held)
            for kind in dict.fromkeys(kind for kind, _ in found):
                shown = "".join(_shown(found.get((kind, way), [])) for way in ("typical", "guaranteed"))
                print(f"{name:14}{table:16}{kind:14}{shown}", flush=True)
        print(f"{name:14}{'all':30}" + "".join(_shown([(h, np.nan) for h in pooled[w]]) for w in sorted(pooled)[::-1]))


def _shown(found: list[tuple[float, float]]) -> str:
    if not found:
        return f"{'none':>24}"
    held, width = np.array(found).T
    error = held.std(ddof=1) / len(held) ** 0.5 if len(held) > 1 else np.nan
    return f"{100 * held.mean():7.1f} +-{100 * error:4.1f}{width.mean():10.1f}"


if __name__ == "__main__":
    main()
