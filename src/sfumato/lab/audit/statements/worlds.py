"""Releases for the SQL fuzzer: every mechanism, every kind of attribute and measure, budgets at both ends.

Nothing here is private: the tables are made up. An *exact* release spends an epsilon so large that its noise is zero,
of a table in which every cell holds a row, so that a plain engine gives the same rows and the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from functools import cached_property
from itertools import product
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.counts import Aggregate
from sfumato.kernel.opening import curator_of
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.models import every_name, find_mechanism
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.release import Release
from sfumato.schema import Schema
from sfumato.schema.schema import missing_of

if TYPE_CHECKING:
    import duckdb

HUGE = 10**6  # an epsilon without noise: of a step it is left with a chance of exp(-10^6)
BUDGETS = ("1", "1/400", "1000000")  # epsilons of noisy releases, in turn; noise stays below 2**50 steps of a measure

Row = tuple[Any, ...]  # labels of attributes in their order, then values of measures

FULL = {
    "dataset": "visits",
    "privacy_unit": "row",
    "attributes": {
        "age": {"type": "integer", "lower": -1, "upper": 3},
        "ward": {"type": "category", "values": ["", "East", "NaN", "it's 100%", "Ünï☃"]},
        "urgent": {"type": "boolean", "missing": "keep"},
        "day": {"type": "date", "lower": "2024-02-28", "upper": "2024-03-01", "by": "day"},
        "load": {"type": "number", "lower": 0, "upper": 30, "bins": 3},
    },
    "measures": {
        "cost": {"lower": -5, "upper": 20, "step": 0.5},
        "fee": {"lower": 0, "upper": 8, "step": 0.25, "missing": "drop"},
    },
}
MIXED = {
    "dataset": "people",
    "privacy_unit": {"column": "person", "contributions": 2},
    "attributes": {
        "age": {"type": "integer", "lower": 0, "upper": 29, "width": 10},
        "status": {
            "type": "category",
            "values": ["1", "2", "x y"],
            "labels": {"1": "single", "2": "\u202eodd"},
            "other": True,
            "missing": "keep",
            "groups": {"kind": {"known": ["1", "2"], "not": ["x y"]}},
        },
        "weight": {"type": "number", "lower": -1e3, "upper": 1e3, "cuts": [-0.5, 0.25]},
        "seen": {"type": "date", "lower": "2023-12-01", "upper": "2024-02-29", "by": "month", "missing": "keep"},
    },
    "measures": {
        "pay": {"lower": -1e9, "upper": 1e9, "step": 1000},
        "fee": {"lower": 0, "upper": 1, "missing": "drop"},
    },
}
HOURS = {
    "dataset": "trips",
    "privacy_unit": "row",
    "attributes": {
        "at": {"type": "date", "lower": "2024-12-31", "upper": "2025-01-01", "by": "hour"},
        "weekday": {"type": "date", "by": "weekday"},
        "paid": {"type": "boolean", "map": {"1": True, "2": False}},
    },
    "measures": {"fare": {"lower": 0, "upper": 1e-3, "step": 1e-6}},
}
ENDS = {
    "dataset": "ends",
    "privacy_unit": "row",
    "attributes": {
        "x": {"type": "number", "lower": -1e300, "upper": 1e300, "cuts": [-1, -1e-300, 0, 1e-300, 1e299]},
        "n": {"type": "integer", "lower": 9007199254740000, "upper": 9007199254740991, "bins": 3},
        "old": {"type": "date", "lower": "9996-01-01", "upper": "9999-12-31", "by": "year", "missing": "keep"},
    },
    "measures": {"m": {"lower": -1e100, "upper": 1e100, "step": 1e95}},
}
MANY = {
    "dataset": "flights",
    "privacy_unit": "row",
    "attributes": {
        name: {"type": "integer", "lower": 0, "upper": 2 + place} for place, name in enumerate("abcdefghij")
    },
}


@dataclass(frozen=True, eq=False)
class World:
    """Release to be asked, and the rows behind it where its answers must be exact."""

    name: str
    release: Release
    rows: Sequence[Row] = field(default=())
    exact: bool = False

    @property
    def schema(self) -> Schema:
        return self.release.schema

    @cached_property
    def engine(self) -> duckdb.DuckDBPyConnection:
        """The rows in DuckDB, under the name of the dataset: bins at their middle, as SUM and AVG take them."""
        import duckdb
        import pyarrow as pa

        kinds = {"integer": "BIGINT", "number": "DOUBLE", "category": "VARCHAR", "boolean": "BOOLEAN", "date": "DATE"}
        columns = [list(column) for column in zip(*self.rows, strict=True)]
        for place, axis in enumerate(self.schema.domain):
            if axis.kind == "number":
                middles = dict(zip(axis.labels(), ((axis.edges[1:] + axis.edges[:-1]) / 2).tolist(), strict=False))
                columns[place] = [middles[label] for label in columns[place]]
        types = {axis.name: kinds[axis.kind] for axis in self.schema.domain} | dict.fromkeys(
            self.schema.measures, "DOUBLE"
        )
        connection = duckdb.connect()
        for setting in ("ieee_floating_point_ops", "error_on_division_by_zero"):
            connection.execute(f"SET {setting} = false")  # what is divided by zero is unknown, as docs/sql.md says
        connection.register("made_up", pa.table(dict(zip(types, columns, strict=True))))
        cast = ", ".join(f'CAST("{name}" AS {kind}) AS "{name}"' for name, kind in types.items())
        connection.execute(f'CREATE TABLE "{self.schema.dataset}" AS SELECT {cast} FROM made_up')
        return connection


def released(mechanism: str, schema: Schema, rows: Sequence[Row], epsilon: str, seed: int) -> Release:
    """A release of made-up rows, with a testing generator and the options that audits try a mechanism with."""
    recipe, budget = find_mechanism(mechanism), Budget.pure(epsilon)
    recipe = recipe.with_options(recipe.lab.tried_with)
    curator = curator_of(schema, _aggregate(schema, rows), budget, TestingEntropy(seed % 2**32))
    content = recipe.run(curator, schema, budget, None)
    return Release(content, mechanism, describe_guarantee(budget, schema), False)


def _aggregate(schema: Schema, rows: Sequence[Row]) -> Aggregate:
    """The rows counted by cell, and their measures in steps around the centre."""
    axes = list(schema.domain)
    numbers = [{label: cell for cell, label in enumerate(axis.labels())} for axis in axes]
    names = list(schema.units)[1:]
    found: dict[int, list[int]] = {}
    for row in rows:
        cell = 0
        for axis, known, label in zip(axes, numbers, row, strict=False):
            cell = cell * axis.size + known[label]
        sums = dict.fromkeys(names, 0)
        for (name, measure), value in zip(schema.measures.items(), row[len(axes) :], strict=True):
            if value is None:
                sums[missing_of(name)] += 1
            else:
                sums[name] += round((value - float(measure.centre)) / float(measure.step))
        held = found.setdefault(cell, [0] * (1 + len(names)))
        held[:] = [held[0] + 1, *(old + sums[name] for old, name in zip(held[1:], names, strict=True))]
    cells = sorted(found)
    columns = np.array([found[cell] for cell in cells], dtype=np.int64).reshape(len(cells), 1 + len(names)).T
    return Aggregate(np.array(cells, dtype=np.int64), columns[0], dict(zip(names, columns[1:], strict=True)))


def _measured(schema: Schema, random: Random) -> list[float | None]:
    """Values of the measures of one row, each on its grid, at a bound, or missing where that is kept."""
    found: list[float | None] = []
    for measure in schema.measures.values():
        half = measure.half_units
        steps = random.choice([-half, half, 0, random.randint(-half, half)])
        gone = measure.missing == "keep" and random.random() < 0.2
        found.append(None if gone else float(measure.centre) + steps * float(measure.step))
    return found


def full_table(schema: Schema, random: Random) -> list[Row]:
    """Random table with one to four rows in every cell."""
    cells = product(*(axis.labels() for axis in schema.domain))
    return [(*cell, *_measured(schema, random)) for cell in cells for _ in range(random.choice([1, 1, 1, 2, 4]))]


def thin_table(schema: Schema, random: Random, rows: int | None = None) -> list[Row]:
    """Sparse table of 0, 3 or 400 rows by default, most of them near the first values."""
    rows = random.choice([0, 3, 400]) if rows is None else rows
    axes = [axis.labels() for axis in schema.domain]

    def label(labels: list[Any]) -> Any:
        return labels[min(int(random.expovariate(1.2)), len(labels) - 1)]

    return [(*map(label, axes), *_measured(schema, random)) for _ in range(rows)]


def makers(seed: int) -> list[tuple[str, Callable[[], World]]]:
    """Names and constructors of all releases: every mechanism on tables that suit it, and exact releases."""
    random = Random(f"worlds {seed}")  # noqa: S311 (tables, not noise)
    made: list[tuple[str, Callable[[], World]]] = []

    def add(mechanism: str, schema: Schema, epsilon: str, rows: list[Row], *, exact: bool = False) -> None:
        name = f"{mechanism}, {schema.dataset}, epsilon {epsilon}, {len(rows)} rows"
        made.append((name, lambda: World(name, released(mechanism, schema, rows, epsilon, seed), rows, exact)))

    full, many, *others = (Schema.from_dict(keys) for keys in (FULL, MANY, MIXED, HOURS, ENDS))
    for place, mechanism in enumerate(every_name()):
        example, epsilon = find_mechanism(mechanism).lab.example, BUDGETS[(seed + place) % len(BUDGETS)]
        schema = others[(seed // 2 + place) % len(others)] if example is None else example(1)
        table = thin_table if example is None else random.choice([full_table, thin_table])
        add(mechanism, schema, epsilon, table(schema, random))
    add(
        next(name for name in every_name() if find_mechanism(name).holds.by_margins),
        many,
        "1",
        thin_table(many, random, 400),
    )
    add(next(iter(every_name())), full, str(HUGE), full_table(full, random), exact=True)  # the plainest: noisy cells
    return made
