"""Sums and averages of a measure under mechanisms that adapt to the count: error and coverage by kind of question.

`python benchmarks/measures.py [--runs 4] [--mechanism NAME ...] [--table NAME ...] [--intervals]`

Twelve made-up tables of about 1,600 cells: 16 regions of 100 others, 40 x 40 ordered, and a census of four attributes,
with 10,000 and 100,000 rows; averages are made of one effect for each attribute and a little for every cell ("effects")
or of as much for every cell as for all attributes ("rough"). At epsilon 1, half of it for the measure.

The same release of the counts stands beside the sums in four ways: as the mechanism has them ("now"), with noise on
every cell ("cells", as it was before), with all of the measure's budget on the very groups that are asked for
("direct"), and exact ("counts"). Errors are root mean squares, in rows times half the measure's range for sums and in
half its range for averages, over groups of ten rows or more. --intervals: how many 95 % intervals hold, too.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

import numpy as np

from sfumato.kernel.budget import Budget
from sfumato.kernel.given_counts import over_counts
from sfumato.kernel.sampling.entropy import SystemEntropy
from sfumato.models import MECHANISMS
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.release import Release
from sfumato.schema import Schema

HALF = 500  # steps: half the range of the measure
EPSILON = Fraction(1)
SHAPES = {
    "16x100": {"region": 16, "other": range(100)},
    "40x40": {"region": range(40), "other": range(40)},
    "census": {"region": 8, "sex": 2, "age": range(20), "school": 5},
}
FEWEST = 10  # rows of a group that is looked at


@dataclass(frozen=True, eq=False)
class Case:
    """A table: counts, and sums in steps around the middle of the range, cell by cell."""

    name: str
    schema: Schema
    counts: np.ndarray
    sums: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        return self.schema.domain.shape

    def by(self, axes: tuple[int, ...], values: np.ndarray) -> np.ndarray:
        """Values of cells summed by the values of some attributes."""
        others = tuple(axis for axis in range(len(self.shape)) if axis not in axes)
        return values.reshape(self.shape).sum(axis=others).reshape(-1)


def cases() -> Iterator[Case]:
    """The twelve tables; none was chosen for its result."""
    for seed, (shape, attributes) in enumerate(SHAPES.items()):
        for rows in (10_000, 100_000):
            for kind in ("effects", "rough"):
                yield _case(f"{shape} {rows} {kind}", attributes, rows, kind, np.random.default_rng([seed, rows]))


def _case(name: str, attributes: dict, rows: int, kind: str, stream: np.random.Generator) -> Case:
    schema = Schema.from_dict(
        {
            "dataset": "t",
            "privacy_unit": "row",
            "attributes": {
                key: {"type": "integer", "lower": 0, "upper": len(values) - 1}
                if isinstance(values, range)
                else {"type": "category", "values": [f"{key}{place}" for place in range(values)]}
                for key, values in attributes.items()
            },
            "measures": {"m": {"lower": 0, "upper": 2 * HALF, "step": 1, "missing": "drop"}},
        }
    )
    shape = schema.domain.shape
    weights, mean = stream.gamma(1.0, 1.0, shape), np.full(shape, -0.3)
    for axis, side in enumerate(shape):
        along = [-1 if place == axis else 1 for place in range(len(shape))]
        weights = weights * stream.gamma(2.0, 1.0, side).reshape(along)
        mean = mean + 0.15 * stream.normal(size=side).reshape(along)
    mean += (0.05 if kind == "effects" else 0.25) * stream.normal(size=shape)
    counts = stream.multinomial(rows, (weights / weights.sum()).reshape(-1))
    share = np.clip((mean.reshape(-1) + 1) / 2, 0.02, 0.98)
    values = [stream.beta(4 * each, 4 * (1 - each), count) * 2 - 1 for each, count in zip(share, counts, strict=True)]
    sums = np.array([np.rint(HALF * one).sum() for one in values]).astype(np.int64)
    return Case(name, schema, counts, sums)


def kinds(case: Case) -> dict[str, tuple[int, ...]]:
    """Groups by each attribute, by the first two, and by all."""
    names = case.schema.domain.names
    found = {f"by {name}": (axis,) for axis, name in enumerate(names)}
    if len(names) > 2:
        found |= {f"by {names[a]}, {names[b]}": (a, b) for a, b in combinations(range(2), 2)}
    return found | {"by all": tuple(range(len(names)))}


def errors(case: Case, counts: np.ndarray, sums: np.ndarray, axes: tuple[int, ...], stream: np.random.Generator):
    """Of sums and of averages, (2, 4): now, cells, direct, counts."""
    true_counts, true_sums = case.by(axes, case.counts), case.by(axes, case.sums) / HALF
    found = case.by(axes, counts)
    scale = 2 / float(EPSILON)
    each = {
        "now": case.by(axes, sums / HALF),
        "cells": case.by(axes, case.sums / HALF + stream.laplace(0, scale, len(counts))),
        "direct": true_sums + stream.laplace(0, scale, len(true_sums)),
        "counts": true_sums,
    }
    seen = true_counts >= FEWEST
    truth = np.divide(true_sums, true_counts, out=np.zeros_like(true_sums), where=seen)
    rows = []
    for one in each.values():
        average = np.clip(np.divide(one, found, out=np.zeros_like(one), where=found > 1), -1, 1)
        rows.append(
            [np.mean((one + found - true_sums - true_counts)[seen] ** 2), np.mean((average - truth)[seen] ** 2)]
        )
    return np.array(rows).T


def held(case: Case, release: Release, axes: tuple[int, ...]) -> np.ndarray:
    """Of 95 % intervals for sums and for averages, the share that hold the truth."""
    names = [case.schema.domain.names[axis] for axis in axes]
    grouped = ", ".join(names)
    rows = release.query(f"SELECT {grouped}, SUM(m), AVG(m) FROM t GROUP BY {grouped}").rows
    counts, sums = case.by(axes, case.counts), case.by(axes, case.sums) + HALF * case.by(axes, case.counts)
    hits = [], []
    for row, count, total in zip(rows, counts, sums, strict=True):
        hits[0].append(row[-2].low <= total <= row[-2].high)
        if count >= FEWEST and np.isfinite(row[-1].value):
            hits[1].append(row[-1].low <= total / count <= row[-1].high)
    return np.array([np.mean(each) for each in hits])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--mechanism", nargs="*", default=["sfumato", "dawa", "kdtree", "ispe"])
    parser.add_argument("--table", nargs="*")
    parser.add_argument("--intervals", action="store_true")
    given = parser.parse_args()
    budget, stream = Budget.pure(EPSILON), np.random.default_rng(0)
    print(f"{'':42}{'sums: now':>10}{'cells':>8}{'direct':>8}{'counts':>8}{'averages: now':>15}{'cells':>8}", end="")
    print(f"{'direct':>8}{'counts':>8}" + ("   held, sums and averages" if given.intervals else ""))
    for name in given.mechanism:
        for case in cases():
            if given.table and not any(case.name.startswith(one) for one in given.table):
                continue
            squares, holding = {}, {}
            for _ in range(given.runs):
                curator = over_counts(case.schema, case.counts, budget, SystemEntropy(), {"m": case.sums})
                cube = MECHANISMS[name].run(curator, case.schema, budget, None)
                counts, sums = (fit.estimate for fit in cube.fits)
                release = Release(cube, name, describe_guarantee(budget, case.schema), private=True)
                for kind, axes in kinds(case).items():
                    squares[kind] = squares.get(kind, 0.0) + errors(case, counts, sums, axes, stream) / given.runs
                    if given.intervals:
                        holding[kind] = holding.get(kind, 0.0) + held(case, release, axes) / given.runs
            for kind, found in squares.items():
                of_sums, of_averages = np.sqrt(found)
                line = f"{name:8} {case.name:22} {kind:17}" + "".join(f"{one:8.1f}" for one in of_sums) + " " * 6
                line += "".join(f"{one:8.4f}" for one in of_averages)
                shown = "".join(f"{100 * one:8.1f}" for one in holding[kind]) if given.intervals else ""
                print(line + shown, flush=True)


if __name__ == "__main__":
    main()
