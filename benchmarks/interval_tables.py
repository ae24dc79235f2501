"""Tables of several shapes for intervals.py, and what is asked of each: statements with the truth of all their rows.

Made by fixed recipes; none is anybody's data, and no constant of the product was chosen on them. A folder adds more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from sfumato.lab.audit.calibration.tables import wide_cases
from sfumato.schema import Schema

KINDS = "total", "one-way", "two-way", "range", "cell", "non-empty cell", "share", "average"
MOST_CELLS = 100_000  # of a table of the folder
FEW = 6  # questions of a kind that are not groups
SEED = 16


@dataclass(frozen=True, eq=False)
class Table:
    """Counts of every cell; the sums of the one measure around its centre, if there is one."""

    name: str
    schema: Schema
    counts: np.ndarray
    sums: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Asked:
    """A statement whose last column is a number, and the true one of each row."""

    kind: str
    sql: str
    truth: np.ndarray


def schema_of(sizes: tuple[int, ...], ordered: int, measure: bool = False) -> Schema:
    """Attributes a0, a1, ...: whole numbers first, then categories."""
    attributes = {
        f"a{place}": {"type": "integer", "lower": 0, "upper": size - 1}
        if place < ordered
        else {"type": "category", "values": [f"v{value}" for value in range(size)]}
        for place, size in enumerate(sizes)
    }
    measures = {"measures": {"m": {"lower": 0, "upper": 100, "step": 1, "missing": "drop"}}} if measure else {}
    return Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": attributes, **measures})


def tables() -> Iterator[Table]:
    """Those of the project."""
    stream = np.random.default_rng(SEED)
    for case in wide_cases():  # seven independent, seven dependent, census
        yield Table(case.name, case.schema, case.counts.reshape(case.schema.domain.shape))
    x, y = np.indices((40, 40))
    near = [np.exp(-((x - a) ** 2 + (y - b) ** 2) / w) for a, b, w in ((8, 9, 6), (30, 12, 20), (20, 33, 3))]
    line, square = np.arange(1024), schema_of((40, 40), 2)
    yield Table("map", square, stream.poisson(90 * near[0] + 25 * near[1] + 300 * near[2]))
    tail = np.minimum(5 / (1 - stream.random(1024)), 1e5)
    yield Table("heavy tails", schema_of((1024,), 1), np.where(stream.random(1024) < 0.05, tail, 0).astype(np.int64))
    yield Table("dense", schema_of((1024,), 1), stream.poisson(250 + 200 * np.sin(line / 90)))
    yield Table("thin", schema_of((1024,), 1), stream.poisson(0.6 * (1 + np.sin(line / 150))))
    counts = stream.poisson(np.multiply.outer(6 * np.exp(-(((np.arange(60) - 25) / 18.0) ** 2)), [1.0, 0.4, 0.05]))
    yield Table("amounts", schema_of((60, 3), 1, measure=True), counts, counts * (np.indices((60, 3))[0] % 40 - 30))
    yield Table("sparse", schema_of((30, 8, 6), 1), np.where(stream.random((30, 8, 6)) < 0.04, 60, 0))
    yield Table("checkerboard", schema_of((12, 12), 2), np.indices((12, 12)).sum(axis=0) % 2 * 12)
    yield Table("one spike", schema_of((12, 12), 2), np.where(np.arange(144).reshape(12, 12) == 88, 500, 0))
    yield Table("parity", schema_of((2,) * 7, 0), np.where(np.indices((2,) * 7).sum(axis=0) % 2 == 0, 9, 0))


def tables_of(folder: Path) -> Iterator[Table]:
    """Those of a folder: NAME.csv with NAME-domain.json (codes), and the data sets of DPBench where they are there."""
    from dpbench_data import GRIDS, LINES, grid, line
    from margins_tables import five_of_adult, six_of_adult, tables_in

    with TemporaryDirectory() as place:
        found = tables_in(folder, ())
        if "adult" in found:
            found["five of adult"] = five_of_adult(found["adult"], Path(place))
            found["six of adult"] = six_of_adult(found["adult"], Path(place))
        for name, one in found.items():
            if prod(one.sizes.values()) <= MOST_CELLS:
                yield Table(name, Schema.from_dict(one.schema()), one.margin(range(len(one.sizes))))
    for data in (folder, folder / "dpbench"):
        if any(data.glob("*.npy")):
            yield from (Table(name, schema_of((4096,), 1), line(data, name)) for name in LINES)
            yield from (Table(name, schema_of((128, 128), 2), grid(data, name)) for name in GRIDS)


def questions(table: Table) -> Iterator[Asked]:
    """Of every kind that the table has."""
    schema, counts, stream = table.schema, table.counts, np.random.default_rng(SEED)
    names, every = schema.domain.names, counts.sum()
    axes, count = range(counts.ndim), "SELECT COUNT(*) FROM t"

    def along(*kept: int) -> np.ndarray:
        return counts.sum(axis=tuple(axis for axis in axes if axis not in kept))

    yield Asked("total", count, np.array([every]))
    if counts.ndim > 1:
        for one in axes:
            yield Asked("one-way", f'{count} GROUP BY "{names[one]}"', along(one))
        pairs = list(combinations(axes, 2))
        for pair in [pairs[place] for place in stream.permutation(len(pairs))[:4]] if counts.ndim > 2 else ():
            yield Asked("two-way", f"{count} GROUP BY {_listed(names, pair)}", along(*pair).reshape(-1))
    for _ in range(2 * FEW):
        picked = sorted(stream.permutation(counts.ndim)[:2].tolist())
        sets = {axis: _some(schema, names[axis], counts.shape[axis], stream) for axis in picked}
        where = " AND ".join(text for text, _ in sets.values())
        yield Asked("range", f"{count} WHERE {where}", np.array([_inside(along(*picked), sets, picked)]))
    held = np.flatnonzero(counts)
    for kind, cells in (("cell", np.arange(counts.size)), ("non-empty cell", held)):
        for cell in stream.choice(cells, min(FEW, len(cells)), replace=False) if len(cells) else ():
            yield Asked(kind, f"{count} WHERE {_cell(schema, counts.shape, int(cell))}", counts.reshape(-1)[[cell]])
    if every:
        yield from _ratios(table, along)


def _ratios(table: Table, along) -> Iterator[Asked]:
    """Shares of the whole and within groups, averages of numbers and of the measure."""
    schema, counts = table.schema, table.counts
    names, small = schema.domain.names, int(np.argmin(table.counts.shape))
    if counts.shape[small] <= 50:
        by = f'SELECT COUNT(*) / SUM(COUNT(*)) OVER () FROM t GROUP BY "{names[small]}"'
        yield Asked("share", by, along(small) / counts.sum())
    for other in [axis for axis in range(counts.ndim) if axis != small][:3]:
        half, whole = counts.shape[other] // 2 + 1, along(small, other)
        by_small = whole if small < other else whole.T
        below = f"({' OR '.join(_is(schema, names[other], code) for code in range(half))})"
        if by_small.sum(axis=1).all():
            sql = f'SELECT COUNT(*) FILTER (WHERE {below}) / COUNT(*) FROM t GROUP BY "{names[small]}"'
            yield Asked("share", sql, by_small[:, :half].sum(axis=1) / by_small.sum(axis=1))
    if counts.ndim == 1:
        cut = counts.shape[0] // 3
        share = f"SELECT COUNT(*) FILTER (WHERE {names[0]} < {cut}) / COUNT(*) FROM t"
        yield Asked("share", share, counts[:cut].sum()[None] / counts.sum())
    for axis in [axis for axis in range(counts.ndim) if not schema.domain[names[axis]].values]:
        numbers, line = np.arange(counts.shape[axis]), along(axis)
        third, half = len(numbers) // 3, len(numbers) // 2
        yield Asked("average", f'SELECT AVG("{names[axis]}") FROM t', np.array([line @ numbers / line.sum()]))
        if line[third : half + 1].sum():
            some, inside = line[third : half + 1], numbers[third : half + 1]
            where = f'"{names[axis]}" BETWEEN {third} AND {half}'
            sql = f'SELECT AVG("{names[axis]}") FROM t WHERE {where}'
            yield Asked("average", sql, np.array([some @ inside / some.sum()]))
    if table.sums is not None:
        top, bottom = (each.sum(axis=0) for each in (table.sums, counts))
        yield Asked("average", f'SELECT AVG(m) FROM t GROUP BY "{names[1]}"', 50 + top / bottom)


def _listed(names: tuple[str, ...], places: tuple[int, ...]) -> str:
    return ", ".join(f'"{names[place]}"' for place in places)


def _some(schema: Schema, name: str, size: int, stream: np.random.Generator) -> tuple[str, np.ndarray]:
    """A range, or a set of values, and the codes in it."""
    if schema.domain[name].values:
        codes = np.sort(stream.permutation(size)[: stream.integers(1, size)])
        return f"({' OR '.join(_is(schema, name, int(code)) for code in codes)})", codes
    low, high = sorted(stream.integers(0, size, 2).tolist())
    return f'"{name}" BETWEEN {low} AND {high}', np.arange(low, high + 1)


def _inside(counts: np.ndarray, sets: dict[int, tuple[str, np.ndarray]], axes: list[int]) -> int:
    return int(counts[np.ix_(*(sets[axis][1] for axis in axes))].sum())


def _is(schema: Schema, name: str, code: int) -> str:
    axis = schema.domain[name]
    return f"\"{name}\" = '{axis.values[code]}'" if axis.values else f'"{name}" = {code}'


def _cell(schema: Schema, shape: tuple[int, ...], cell: int) -> str:
    codes = np.unravel_index(cell, shape)
    return " AND ".join(_is(schema, name, int(code)) for name, code in zip(schema.domain.names, codes, strict=True))
